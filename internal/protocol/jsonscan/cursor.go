// Package jsonscan walks JSON without decoding it. It answers one question: what stands at this place of this text,
// and is the text well formed. It allocates nothing, keeps every byte as it was (numbers, escapes), and looks at each
// byte about once.
//
// A [Cursor] stands in front of a value. The caller consumes it with Object, Array, Text, Int, Bool, Raw or Skip, and
// must consume the value of every Member and Element that it is given. A consuming method that meets another kind of
// value skips that value. Syntax errors are sticky: after one, nothing is found any more, and Done reports it.
//
// It builds no tree and knows no protocol. Keys are compared as they are written: an escaped spelling of a key is
// another key.
package jsonscan

// maxDepth is where nesting is called malformed; it bounds the recursion of Skip.
const maxDepth = 1000

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds. None means that no value stands there.
const (
	None Kind = iota
	Object
	Array
	String
	Number
	Bool
	Null
)

// Cursor is a place in a JSON text. The zero value stands in front of an empty text.
type Cursor struct {
	b     []byte
	i     int
	depth int
	fresh bool // directly behind an opening bracket: no comma is due
	bad   bool
}

// New returns a cursor in front of the value in b.
func New(b []byte) Cursor { return Cursor{b: b} }

// Bad reports whether a syntax error was met so far.
func (c *Cursor) Bad() bool { return c.bad }

// Done reports whether the text was one well-formed value with nothing but white space behind it. It is to be asked
// once the value is consumed.
func (c *Cursor) Done() bool {
	c.space()
	return !c.bad && c.i == len(c.b)
}

// Offset is the place of the next value in the text given to New, white space skipped.
func (c *Cursor) Offset() int {
	c.space()
	return c.i
}

// Behind is the place behind what was consumed last.
func (c *Cursor) Behind() int { return c.i }

func (c *Cursor) fail() { c.bad, c.i = true, len(c.b) }

func (c *Cursor) space() {
	if c.i < len(c.b) && c.b[c.i] <= ' ' {
		c.i = spaces(c.b, c.i)
	}
}

// Kind tells what the next value is, by its first byte.
func (c *Cursor) Kind() Kind {
	c.space()
	if c.i >= len(c.b) {
		return None
	}
	switch ch := c.b[c.i]; ch {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		if ch == '-' || ch-'0' <= 9 {
			return Number
		}
	}
	return None
}

// Object enters the object in front of the cursor. Another value is skipped, and false returned.
func (c *Cursor) Object() bool { return c.enter('{') }

// Array enters the array in front of the cursor. Another value is skipped, and false returned.
func (c *Cursor) Array() bool { return c.enter('[') }

func (c *Cursor) enter(open byte) bool {
	c.space()
	if c.i >= len(c.b) || c.b[c.i] != open {
		c.Skip()
		return false
	}
	if c.depth++; c.depth > maxDepth {
		c.fail()
		return false
	}
	c.i++
	c.fresh = true
	return true
}

// Member moves to the next member of the object entered last and returns its key as written; ok is false when the
// object is closed. The cursor then stands in front of the member's value.
func (c *Cursor) Member() (key []byte, ok bool) {
	if !c.more('}') {
		return nil, false
	}
	b, from := c.b, c.i
	end := str(b, from)
	if end < 0 {
		c.fail()
		return nil, false
	}
	i := end
	if i < len(b) && b[i] <= ' ' {
		i = spaces(b, i)
	}
	if i >= len(b) || b[i] != ':' {
		c.fail()
		return nil, false
	}
	c.i = i + 1
	return b[from+1 : end-1], true
}

// Element moves in front of the next element of the array entered last; false when the array is closed.
func (c *Cursor) Element() bool { return c.more(']') }

// more takes the comma that is due, or the closing bracket.
func (c *Cursor) more(closing byte) bool {
	b, i, fresh := c.b, c.i, c.fresh
	c.fresh = false
	if i < len(b) && b[i] <= ' ' {
		i = spaces(b, i)
	}
	if i >= len(b) {
		c.fail()
		return false
	}
	switch ch := b[i]; {
	case ch == ',' && !fresh:
		if i++; i < len(b) && b[i] <= ' ' {
			i = spaces(b, i)
		}
		c.i = i
		return true
	case ch == closing:
		c.i = i + 1
		c.depth--
		return false
	case fresh:
		c.i = i
		return true
	}
	c.fail()
	return false
}

// Text consumes a string and returns what stands between its quotes, escapes as written. Another kind of value is
// skipped, and nil returned; an empty string is not nil.
func (c *Cursor) Text() []byte {
	if c.Kind() != String {
		c.Skip()
		return nil
	}
	from := c.i + 1
	c.Skip()
	if c.bad {
		return nil
	}
	return c.b[from : c.i-1]
}

// Skip consumes the next value, whatever it is.
func (c *Cursor) Skip() {
	c.fresh = false
	if end := skip(c.b, c.i, c.depth); end >= 0 {
		c.i = end
		return
	}
	c.fail()
}

// Bool consumes a value and reports whether it is true.
func (c *Cursor) Bool() bool {
	raw := c.Raw()
	return len(raw) == 4 && raw[0] == 't'
}

// Raw consumes a value and returns its bytes; nil after a syntax error.
func (c *Cursor) Raw() []byte {
	c.space()
	from := c.i
	c.Skip()
	if c.bad {
		return nil
	}
	return c.b[from:c.i]
}

// Filled consumes a value and reports whether it holds anything: a non-empty string, array or object, any number, or
// true.
func (c *Cursor) Filled() bool {
	switch c.Kind() {
	case String:
		return len(c.Text()) > 0
	case Number:
		c.Skip()
		return !c.bad
	case Bool:
		return c.Bool()
	case Object:
		from := c.i
		c.Skip()
		inner := New(c.b[from:c.i])
		return !c.bad && inner.Object() && inner.peekMore('}')
	case Array:
		from := c.i
		c.Skip()
		inner := New(c.b[from:c.i])
		return !c.bad && inner.Array() && inner.peekMore(']')
	}
	c.Skip()
	return false
}

func (c *Cursor) peekMore(closing byte) bool {
	c.space()
	return c.i < len(c.b) && c.b[c.i] != closing
}
