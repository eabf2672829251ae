package client

import (
	"encoding/json"
	"unicode/utf8"
)

// decode reads JSON by encoding/json.
func decode[T any](b []byte) (v T, err error) {
	err = json.Unmarshal(b, &v)
	return v, err
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

// plain reads a string of which there is one. A null leaves what is there.
func (s *scan) plain(to *string) {
	if !s.null() {
		*to = s.text(nil)
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

// maybeCount reads a whole number without a sign; a null means that there is none.
func (s *scan) maybeCount(to **int) {
	if s.null() {
		*to = nil
		return
	}
	n := 0
	s.count(&n)
	*to = &n
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
