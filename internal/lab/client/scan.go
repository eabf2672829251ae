package client

import (
	"strings"
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
	raw := s.mixed()
	for _, c := range raw {
		if c >= 'A' && c <= 'Z' {
			s.odd = true
		}
	}
	return raw
}

// mixed is name where capital letters are usual. Then what is none of the names is skipped by other.
func (s *scan) mixed() []byte {
	raw, escaped := s.quoted()
	for _, c := range raw {
		if c >= utf8.RuneSelf {
			s.odd = true
		}
	}
	s.must(!escaped)
	s.take(':')
	return raw
}

// other skips a member, unless its name is one of those known in other cases.
func (s *scan) other(name []byte, known ...string) {
	for _, k := range known {
		s.must(!strings.EqualFold(string(name), k))
	}
	s.skip()
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
