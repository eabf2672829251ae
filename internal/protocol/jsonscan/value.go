package jsonscan

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// Int consumes a number, also one written as 12.0 or 1.2e1 or inside a string, and returns it rounded towards zero;
// ok is false for every other value and for numbers beyond 2^53.
func (c *Cursor) Int() (n int, ok bool) {
	raw := c.Raw()
	if len(raw) > 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	return ParseInt(raw)
}

// ParseInt reads a decimal number as Int does.
func ParseInt(raw []byte) (n int, ok bool) {
	digits := raw
	if len(raw) > 0 && raw[0] == '-' {
		digits = raw[1:]
	}
	if len(digits) == 0 || digits[0]-'0' > 9 || len(digits) > 40 {
		return 0, false
	}
	for i, ch := range digits {
		if ch-'0' > 9 || i > 14 {
			f, err := strconv.ParseFloat(string(raw), 64)
			if err != nil || math.Abs(f) > 1<<53 {
				return 0, false
			}
			return int(f), true
		}
		n = n*10 + int(ch-'0')
	}
	if len(digits) < len(raw) {
		n = -n
	}
	return n, true
}

// Unquote decodes what stood between the quotes of a string. Invalid UTF-8 becomes U+FFFD.
func Unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	}
	return s
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string, quotes included. Only what must be escaped is; invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		ch := s[i]
		if ch >= 0x20 && ch != '"' && ch != '\\' && ch < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if ch >= utf8.RuneSelf && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		dst = append(dst, s[from:i]...)
		switch {
		case ch == '"' || ch == '\\':
			dst = append(dst, '\\', ch)
		case ch == '\n':
			dst = append(dst, '\\', 'n')
		case ch == '\r':
			dst = append(dst, '\\', 'r')
		case ch == '\t':
			dst = append(dst, '\\', 't')
		case ch < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[ch>>4], hex[ch&15])
		default:
			dst = append(dst, "\uFFFD"...)
		}
		i += size
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
