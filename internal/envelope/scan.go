package envelope

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth bounds nesting, so that a body of brackets cannot exhaust the stack.
const maxDepth = 512

// syntaxError is where and why a body is not JSON.
type syntaxError struct {
	at   int
	what string
}

func (e *syntaxError) Error() string { return e.what }

// scanner validates JSON by RFC 8259 while skipping over it. It builds nothing: a value is a range of bytes. Strings,
// which are nearly all of a large body, are passed eight bytes at a time.
type scanner struct {
	b    []byte
	high bool // a byte >= 0x80 was seen: the body must be checked as UTF-8
}

func (s *scanner) fail(at int, format string, args ...any) error {
	if at >= len(s.b) {
		return &syntaxError{len(s.b), "the body ends in the middle of a value (truncated?)"}
	}
	return &syntaxError{at, fmt.Sprintf(format, args...)}
}

func (s *scanner) space(i int) int {
	for i < len(s.b) {
		switch s.b[i] {
		case ' ', '\n', '\t', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// value skips one value that begins at i and returns the offset behind it.
func (s *scanner) value(i, depth int) (int, error) {
	if depth > maxDepth {
		return i, s.fail(i, "nested deeper than %d levels", maxDepth)
	}
	if i >= len(s.b) {
		return i, s.fail(i, "")
	}
	switch c := s.b[i]; c {
	case '"':
		return s.str(i)
	case '{':
		return s.object(i, depth)
	case '[':
		return s.array(i, depth)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		if c == '-' || (c >= '0' && c <= '9') {
			return s.number(i)
		}
		return i, s.fail(i, "a value cannot begin with %q", c)
	}
}

func (s *scanner) object(i, depth int) (int, error) {
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(s.b) || s.b[i] != '"' {
			return i, s.fail(i, "expected a member name in double quotes")
		}
		end, err := s.str(i)
		if err != nil {
			return end, err
		}
		i = s.space(end)
		if i >= len(s.b) || s.b[i] != ':' {
			return i, s.fail(i, "expected ':' after a member name")
		}
		if i, err = s.value(s.space(i+1), depth+1); err != nil {
			return i, err
		}
		var more bool
		if i, more, err = s.separator(i, '}'); err != nil || !more {
			return i, err
		}
	}
}

func (s *scanner) array(i, depth int) (int, error) {
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = s.value(i, depth+1); err != nil {
			return i, err
		}
		var more bool
		if i, more, err = s.separator(i, ']'); err != nil || !more {
			return i, err
		}
	}
}

// separator reads a comma (more follows, the offset is at the next item) or the closing bracket.
func (s *scanner) separator(i int, closing byte) (int, bool, error) {
	i = s.space(i)
	if i < len(s.b) {
		switch s.b[i] {
		case ',':
			return s.space(i + 1), true, nil
		case closing:
			return i + 1, false, nil
		}
	}
	return i, false, s.fail(i, "expected ',' or %q", closing)
}

func (s *scanner) literal(i int, word string) (int, error) {
	if len(s.b)-i < len(word) {
		return i, s.fail(len(s.b), "")
	}
	if string(s.b[i:i+len(word)]) != word {
		return i, s.fail(i, "unknown word; expected %s", word)
	}
	return i + len(word), nil
}

func (s *scanner) number(i int) (int, error) {
	start := i
	if s.b[i] == '-' {
		i++
	}
	first := i
	i = s.digits(i)
	if i == first {
		return i, s.fail(i, "a number needs digits")
	}
	if s.b[first] == '0' && i > first+1 {
		return start, s.fail(start, "a number must not begin with 0")
	}
	if i < len(s.b) && s.b[i] == '.' {
		frac := i + 1
		if i = s.digits(frac); i == frac {
			return i, s.fail(i, "a number needs digits after the point")
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		i++
		if i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		exp := i
		if i = s.digits(exp); i == exp {
			return i, s.fail(i, "a number needs digits in its exponent")
		}
	}
	return i, nil
}

func (s *scanner) digits(i int) int {
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	return i
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, in the top bit of each byte of w, the bytes that end a plain run inside a string: a quote, a
// backslash or a control character. Bytes >= 0x80 are never marked.
func special(w uint64) uint64 {
	quote := w ^ (lows * '"')
	slash := w ^ (lows * '\\')
	// x - 1 borrows into the top bit exactly for x = 0 (and w - 0x20 for w < 0x20); &^ w removes bytes >= 0x80. A
	// borrow can also mark the byte above a real hit, never one below it, so the lowest mark is always true.
	return ((quote - lows) &^ quote & highs) | ((slash - lows) &^ slash & highs) | ((w - lows*0x20) &^ w & highs)
}

// str skips the string that begins with the quote at i.
func (s *scanner) str(i int) (int, error) {
	b := s.b
	i++
	var high uint64
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			if m := special(w); m != 0 {
				n := bits.TrailingZeros64(m) / 8
				high |= w & (1<<(8*n) - 1)
				i += n
				break
			}
			high |= w
			i += 8
		}
		if i >= len(b) {
			return i, s.fail(i, "")
		}
		switch c := b[i]; {
		case c == '"':
			if high&highs != 0 {
				s.high = true
			}
			return i + 1, nil
		case c == '\\':
			n, err := s.escape(i)
			if err != nil {
				return i, err
			}
			i = n
		case c < 0x20:
			return i, s.fail(i, "a control character (0x%02x) inside a string must be escaped", c)
		default:
			high |= uint64(c)
			i++
		}
	}
}

// escape skips the escape that begins with the backslash at i.
func (s *scanner) escape(i int) (int, error) {
	if i+1 >= len(s.b) {
		return i, s.fail(len(s.b), "")
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		if i+6 > len(s.b) {
			return i, s.fail(len(s.b), "")
		}
		for _, c := range s.b[i+2 : i+6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return i, s.fail(i, `\u must be followed by four hexadecimal digits`)
			}
		}
		return i + 6, nil
	}
	return i, s.fail(i, "unknown escape \\%c in a string", s.b[i+1])
}
