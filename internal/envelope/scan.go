package envelope

import (
	"bytes"
	"encoding/binary"
	"fmt"
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
// which are nearly all of a large body, are passed with vector instructions.
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

const highs = 0x8080808080808080

// plain checks a run inside a string that holds neither quote nor backslash: it returns the offset of the first control
// character in b, or -1, and whether any byte is >= 0x80. Thirty-two bytes go through at once.
func plain(b []byte) (control int, high bool) {
	const spaces = 0x2020202020202020
	var all uint64
	i := 0
	for ; len(b)-i >= 32; i += 32 {
		p := (*[32]byte)(b[i:])
		w0, w1 := binary.LittleEndian.Uint64(p[0:8]), binary.LittleEndian.Uint64(p[8:16])
		w2, w3 := binary.LittleEndian.Uint64(p[16:24]), binary.LittleEndian.Uint64(p[24:32])
		// For x < 0x20 the subtraction borrows into the top bit; &^ x keeps bytes >= 0x80 out. A borrow may mark the byte
		// above a control character as well, so a mark says only that there is one.
		if ((w0-spaces)&^w0|(w1-spaces)&^w1|(w2-spaces)&^w2|(w3-spaces)&^w3)&highs != 0 {
			break
		}
		all |= w0 | w1 | w2 | w3
	}
	for ; i < len(b); i++ {
		if b[i] < 0x20 {
			return i, all&highs != 0
		}
		all |= uint64(b[i])
	}
	return -1, all&highs != 0
}

// str skips the string that begins with the quote at i. Quotes and backslashes are found by the library's vector code.
func (s *scanner) str(i int) (int, error) {
	i++
	for {
		quote := bytes.IndexByte(s.b[i:], '"')
		run := s.b[i:]
		if quote >= 0 {
			run = run[:quote]
		}
		slash := bytes.IndexByte(run, '\\')
		if slash >= 0 {
			run = run[:slash]
		}
		control, high := plain(run)
		s.high = s.high || high
		switch {
		case control >= 0:
			return i + control, s.fail(i+control, "a control character (0x%02x) inside a string must be escaped", run[control])
		case slash >= 0:
			n, err := s.escapes(i + slash)
			if err != nil {
				return n, err
			}
			i = n
		case quote >= 0:
			return i + quote + 1, nil
		default:
			return len(s.b), s.fail(len(s.b), "")
		}
	}
}

// escapes skips the run of escapes and short stretches between them that begins at i: text that is full of escapes would
// otherwise pay for two searches per escape.
func (s *scanner) escapes(i int) (int, error) {
	for i < len(s.b) {
		switch c := s.b[i]; {
		case c == '\\':
			n, err := s.escape(i)
			if err != nil {
				return n, err
			}
			i = n
		default:
			for n := 0; n < 24 && i < len(s.b); n++ {
				c := s.b[i]
				if c == '"' || c == '\\' || c < 0x20 {
					break
				}
				s.high = s.high || c >= 0x80
				i++
			}
			if i >= len(s.b) || s.b[i] != '\\' {
				return i, nil
			}
		}
	}
	return i, nil
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
