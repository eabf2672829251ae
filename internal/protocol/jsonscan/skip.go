package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// The functions of this file take a text and a place in it and return the place behind what they consumed, -1 when it
// is malformed. Local variables instead of a cursor's fields make them twice as fast.

func spaces(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skip consumes one value, white space in front of it included.
func skip(b []byte, i, depth int) int {
	if i < len(b) && b[i] <= ' ' {
		i = spaces(b, i)
	}
	if i >= len(b) || i < 0 {
		return -1
	}
	switch ch := b[i]; ch {
	case '"':
		return str(b, i)
	case '{':
		return object(b, i+1, depth+1)
	case '[':
		return array(b, i+1, depth+1)
	case 't':
		return literal(b, i, "true")
	case 'f':
		return literal(b, i, "false")
	case 'n':
		return literal(b, i, "null")
	default:
		return number(b, i)
	}
}

// object consumes the rest of an object, behind its opening brace.
func object(b []byte, i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	if i = spaces(b, i); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i = str(b, i); i < 0 {
			return -1
		}
		if i < len(b) && b[i] <= ' ' {
			i = spaces(b, i)
		}
		if i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = skip(b, i+1, depth); i < 0 {
			return -1
		}
		if i < len(b) && b[i] <= ' ' {
			i = spaces(b, i)
		}
		switch {
		case i >= len(b):
			return -1
		case b[i] == '}':
			return i + 1
		case b[i] != ',':
			return -1
		}
		if i++; i < len(b) && b[i] <= ' ' {
			i = spaces(b, i)
		}
	}
}

// array consumes the rest of an array, behind its opening bracket.
func array(b []byte, i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	if i = spaces(b, i); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = skip(b, i, depth); i < 0 {
			return -1
		}
		if i < len(b) && b[i] <= ' ' {
			i = spaces(b, i)
		}
		switch {
		case i >= len(b):
			return -1
		case b[i] == ']':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i++
	}
}

func literal(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func number(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	from := i
	if i = digits(b, i); i == from || b[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = digits(b, from); i == from {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from = i
		if i = digits(b, from); i == from {
			return -1
		}
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str consumes a string, whose opening quote must stand at i. It looks at eight bytes at once. (x - n) &^ x has its high
// bit set first at a byte of x below n, so n = 1 finds a backslash after xor with it; and since xor with 2 maps the quote
// to 0x20, everything below 0x20 to itself or a neighbour, and 0x20 and 0x21 above it, n = 0x21 then finds quotes and
// control characters together. A borrow can only spoil bytes behind the first hit, so the lowest hit is right.
func str(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	rest := b[i+1:]
	for len(rest) >= 8 {
		w := binary.LittleEndian.Uint64(rest)
		quote := w ^ 2*ones
		slash := w ^ '\\'*ones
		hit := ((quote-0x21*ones)&^quote | (slash-ones)&^slash) & highs
		if hit == 0 {
			rest = rest[8:]
			continue
		}
		n := bits.TrailingZeros64(hit) >> 3
		if rest[n] == '"' {
			return len(b) - len(rest) + n + 1
		}
		if n = escaped(rest, n); n < 0 {
			return -1
		}
		rest = rest[n:]
	}
	for n := 0; n < len(rest); {
		switch ch := rest[n]; {
		case ch == '"':
			return len(b) - len(rest) + n + 1
		case ch == '\\' || ch < 0x20:
			if n = escaped(rest, n); n < 0 {
				return -1
			}
		default:
			n++
		}
	}
	return -1
}

// escaped is the place behind the escape sequence at i, -1 when there is none.
func escaped(b []byte, i int) int {
	n := 0
	if b[i] == '\\' {
		n = escape(b[i:])
	}
	if n == 0 {
		return -1
	}
	return i + n
}

// escape is the length of the escape sequence that b begins with, 0 when it is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, ch := range b[2:6] {
			if ch-'0' > 9 && (ch|0x20)-'a' > 5 {
				return 0
			}
		}
		return 6
	}
	return 0
}
