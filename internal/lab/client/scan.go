package client

import (
	"encoding/json"
	"unicode/utf8"
)

// scan reads JSON member by member, in one pass and without reflection. Most answers of a simulation say nothing but
// text, and those it reads to the last byte, whatever of them is asked for: what it accepts is JSON, and means what
// encoding/json makes of it. At anything else (another kind of value than is asked for, a name that is written in an
// unusual way, a syntax error) it turns odd, and encoding/json reads the whole anew: an odd answer is not a bad one, and
// only encoding/json says what is.
//
// An object is read by
//
//	for s.open('{'); s.more('}'); {
//		switch string(s.name()) { ... default: s.skip() }
//	}
//
// and a list likewise, without names. Once s is odd, nothing reads anything and no loop goes on.
type scan struct {
	b     []byte
	words *words
	at    int
	fresh bool // an object or list was opened and nothing of it was read yet
	odd   bool
	deep  int // objects and lists that skip is in
}

// deepest bounds the objects and lists inside one another that are skipped.
const deepest = 64

// whole reports whether all of b was read and nothing was odd.
func (s *scan) whole() bool {
	return s.peek() == 0 && s.at == len(s.b) && !s.odd
}

// decode reads JSON by encoding/json.
func decode[T any](b []byte) (v T, err error) {
	err = json.Unmarshal(b, &v)
	return v, err
}

// peek skips white space and returns the byte behind it; 0 = none.
func (s *scan) peek() byte {
	for ; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take reads one byte that must come next.
func (s *scan) take(c byte) bool {
	if s.odd || s.peek() != c {
		s.odd = true
		return false
	}
	s.at++
	return true
}

// must turns s odd unless ok.
func (s *scan) must(ok bool) { s.odd = s.odd || !ok }

// open reads the beginning of an object or list.
func (s *scan) open(c byte) { s.fresh = s.take(c) }

// more reports whether another member or element follows, and reads what divides it from the one before. Else it has
// read the end.
func (s *scan) more(end byte) bool {
	if s.odd {
		return false
	}
	fresh := s.fresh
	s.fresh = false
	if s.peek() == end {
		s.at++
		return false
	}
	return fresh || s.take(',')
}

// name reads the name of a member. encoding/json takes a name in other cases for the same; here that is odd.
func (s *scan) name() []byte {
	raw, escaped := s.quoted()
	for _, c := range raw {
		if c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			s.odd = true
		}
	}
	s.must(!escaped)
	s.take(':')
	return raw
}

// quoted reads a string and returns what stands between the quotes.
func (s *scan) quoted() (raw []byte, escaped bool) {
	if !s.take('"') {
		return nil, false
	}
	from := s.at
	for i := from; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.at = i + 1
			return s.b[from:i], escaped
		case c == '\\':
			n := escape(s.b[i:])
			if n == 0 {
				s.odd = true
				return nil, true
			}
			i, escaped = i+n-1, true
		case c < ' ':
			s.odd = true
			return nil, false
		}
	}
	s.odd = true
	return nil, false
}

// escape is the length of the escape sequence that b begins with; 0 = there is none of that kind.
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
		for _, c := range b[2:6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// null reads a null, if one comes.
func (s *scan) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.exactly("null")
	return !s.odd
}

func (s *scan) exactly(w string) {
	end := s.at + len(w)
	if s.odd || end > len(s.b) || string(s.b[s.at:end]) != w {
		s.odd = true
		return
	}
	s.at = end
}

// word reads a string of which there are many. A null leaves what is there.
func (s *scan) word(to *string) {
	if !s.null() {
		*to = s.text(s.words)
	}
}

// text reads a string.
func (s *scan) text(known *words) string {
	raw, escaped := s.quoted()
	switch {
	case s.odd:
		return ""
	case escaped || !utf8.Valid(raw):
		t, err := decode[string](s.b[s.at-len(raw)-2 : s.at])
		s.must(err == nil)
		return t
	case known != nil:
		return known.word(raw)
	}
	return string(raw)
}

// maybe reads a string; a null means that there is none.
func (s *scan) maybe(to **string) {
	if s.null() {
		*to = nil
		return
	}
	t := s.text(nil)
	*to = &t
}

// count reads a whole number without a sign. A null leaves what is there.
func (s *scan) count(to *int) {
	if s.null() {
		return
	}
	s.peek()
	from, n := s.at, 0
	for s.at < len(s.b) && digit(s.b[s.at]) && s.at-from < 15 {
		n = n*10 + int(s.b[s.at]-'0')
		s.at++
	}
	s.must(s.at > from && (s.b[from] != '0' || s.at == from+1) && (s.at == len(s.b) || !inNumber(s.b[s.at])))
	*to = n
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// inNumber reports whether a byte can stand inside a number.
func inNumber(c byte) bool {
	return digit(c) || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

// skip reads any value.
func (s *scan) skip() {
	if s.odd {
		return
	}
	switch c := s.peek(); c {
	case '{', '[':
		s.deep++
		s.must(s.deep <= deepest)
		s.open(c)
		for end := c + 2; s.more(end); { // in ASCII, both ends stand two behind their beginnings
			if c == '{' {
				s.quoted()
				s.take(':')
			}
			s.skip()
		}
		s.deep--
	case '"':
		s.quoted()
	case 't':
		s.exactly("true")
	case 'f':
		s.exactly("false")
	case 'n':
		s.exactly("null")
	default:
		s.number()
	}
}

// number reads a number of any kind.
func (s *scan) number() {
	if s.at < len(s.b) && s.b[s.at] == '-' {
		s.at++
	}
	from := s.at
	s.must(s.digits() && (s.b[from] != '0' || s.at == from+1))
	if s.at < len(s.b) && s.b[s.at] == '.' {
		s.at++
		s.must(s.digits())
	}
	if s.at < len(s.b) && s.b[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.b) && (s.b[s.at] == '+' || s.b[s.at] == '-') {
			s.at++
		}
		s.must(s.digits())
	}
}

// digits reads digits and reports whether there was one.
func (s *scan) digits() bool {
	from := s.at
	for s.at < len(s.b) && digit(s.b[s.at]) {
		s.at++
	}
	return s.at > from
}

// words are strings that were read lately: the events of a stream repeat a few.
type words struct {
	list [8]string
	next int
}

// word is b as a string.
func (w *words) word(b []byte) string {
	if len(b) > 64 {
		return string(b)
	}
	for _, known := range w.list {
		if known == string(b) {
			return known
		}
	}
	s := string(b)
	w.list[w.next] = s
	w.next = (w.next + 1) % len(w.list)
	return s
}
