package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// writer writes JSON at the end of a buffer, member by member, as the protocols name them. Whatever encoding/json would
// make of the same values it makes too, as long as the members of an object are written in the order of their names,
// but without a map and without reflection: a load is answered thousands of times per second. A name is empty for what
// stands in a list.
type writer struct{ b []byte }

// name begins a value. A comma is due behind everything but an opening bracket.
func (w *writer) name(name string) {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' {
		w.b = append(w.b, ',')
	}
	if name != "" {
		w.b = append(append(append(w.b, '"'), name...), `":`...)
	}
}

// object writes an object whose members f writes.
func (w *writer) object(name string, f func()) {
	w.name(name)
	w.b = append(w.b, '{')
	f()
	w.b = append(w.b, '}')
}

// list writes a list whose elements f writes; nil = none.
func (w *writer) list(name string, f func()) {
	w.name(name)
	w.b = append(w.b, '[')
	if f != nil {
		f()
	}
	w.b = append(w.b, ']')
}

func (w *writer) text(name, v string) {
	w.name(name)
	w.b = quoted(w.b, v)
}

// joined writes a text of two parts that need no escapes: an id behind its prefix.
func (w *writer) joined(name, prefix, v string) {
	w.name(name)
	w.b = append(append(append(append(w.b, '"'), prefix...), v...), '"')
}

// textOrNull writes a text, the empty one as null.
func (w *writer) textOrNull(name, v string) {
	if v == "" {
		w.null(name)
		return
	}
	w.text(name, v)
}

func (w *writer) number(name string, v int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *writer) null(name string) { w.literal(name, "null") }

// literal writes a value that is JSON in its shortest form.
func (w *writer) literal(name, v string) {
	w.name(name)
	w.b = append(w.b, v...)
}

// raw writes a value that somebody else wrote, without the spaces between its parts; an empty one as null.
func (w *writer) raw(name string, v json.RawMessage) {
	if len(v) == 0 {
		w.null(name)
		return
	}
	w.name(name)
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		panic(err) // it was decoded from a request, or encoded here
	}
	w.b = append(w.b, b.Bytes()...)
}

// quoted appends a text as a JSON string. Texts that need escapes are rare here and left to encoding/json.
func quoted(b []byte, text string) []byte {
	if !plain(text) {
		return append(b, encode(text)...)
	}
	return append(append(append(b, '"'), text...), '"')
}

// plain reports whether a text stands in JSON as it is: whether it is ASCII without control characters, quotes and
// backslashes. Eight bytes are looked at together.
func plain(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		quote, slash := x^(each*'"'), x^(each*'\\')
		// In a byte without its top bit, subtracting borrows into that bit when the byte is less than what is taken away. A
		// borrow may mark the byte above, too: a mark says no more than that there is one.
		if (x|(x-each*' ')|(quote-each)|(slash-each))&(each<<7) != 0 {
			return false
		}
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// each is a one in each of eight bytes.
const each = 0x0101010101010101
