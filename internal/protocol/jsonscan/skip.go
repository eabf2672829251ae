package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Skip consumes the next value, whatever it is.
func (c *Cursor) Skip() {
	c.fresh = false
	switch c.Kind() {
	case String:
		c.text()
	case Number:
		c.number()
	case Bool:
		if c.b[c.i] == 't' {
			c.literal("true")
		} else {
			c.literal("false")
		}
	case Null:
		c.literal("null")
	case Object:
		if c.enter('{') {
			for _, ok := c.Member(); ok; _, ok = c.Member() {
				c.Skip()
			}
		}
	case Array:
		if c.enter('[') {
			for c.Element() {
				c.Skip()
			}
		}
	default:
		c.fail()
	}
}

func (c *Cursor) literal(word string) {
	if len(c.b)-c.i < len(word) || string(c.b[c.i:c.i+len(word)]) != word {
		c.fail()
		return
	}
	c.i += len(word)
}

func (c *Cursor) number() {
	if c.b[c.i] == '-' {
		c.i++
	}
	first := c.i
	if !c.digits() || c.b[first] == '0' && c.i > first+1 {
		c.fail()
		return
	}
	if c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		if !c.digits() {
			c.fail()
			return
		}
	}
	if c.i < len(c.b) && c.b[c.i]|0x20 == 'e' {
		c.i++
		if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		if !c.digits() {
			c.fail()
		}
	}
}

func (c *Cursor) digits() bool {
	from := c.i
	for c.i < len(c.b) && c.b[c.i]-'0' <= 9 {
		c.i++
	}
	return c.i > from
}

// text consumes the string whose opening quote stands at the cursor.
func (c *Cursor) text() ([]byte, bool) {
	from := c.i + 1
	i := from
	for {
		if i = special(c.b, i); i >= len(c.b) {
			break
		}
		switch c.b[i] {
		case '"':
			c.i = i + 1
			return c.b[from:i], true
		case '\\':
			n := escape(c.b[i:])
			if n == 0 {
				c.fail()
				return nil, false
			}
			i += n
		default: // a control character
			c.fail()
			return nil, false
		}
	}
	c.fail()
	return nil, false
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns the offset of the first quote, backslash or control character at or behind i, len(b) when there is
// none. It looks at eight bytes at once: x-1 &^ x has its high bit set first at a zero byte of x, and x-0x20 &^ x first
// at a byte below 0x20. A borrow can only spoil bytes behind the first hit, so the lowest hit is right.
func special(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote := w ^ ('"' * ones)
		slash := w ^ ('\\' * ones)
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-0x20*ones)&^w) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(b); i++ {
		if ch := b[i]; ch == '"' || ch == '\\' || ch < 0x20 {
			return i
		}
	}
	return len(b)
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
