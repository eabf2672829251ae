package client

import (
	"bytes"
	"unicode/utf8"
)

// pattern is the last event that was nothing but one piece of text, without that text: the next one that differs from it
// in a plain text alone says the same and need not be read as JSON again. Most of what a simulation costs at the client
// would be that.
type pattern struct{ before, after []byte }

// learn takes an event that was read as text. member is what stands before the text, quote included.
func (p *pattern) learn(data []byte, member, text string) {
	at := bytes.Index(data, []byte(member)) + len(member)
	end := at + len(text)
	if at < len(member) || end > len(data) || string(data[at:end]) != text || !plain(data[at:end]) ||
		bytes.Count(data, []byte(member)) != 1 {
		return
	}
	p.before, p.after = append(p.before[:0], data[:at]...), append(p.after[:0], data[end:]...)
}

// forget makes p like no event.
func (p *pattern) forget() { p.before, p.after = p.before[:0], p.after[:0] }

// match is the text of an event like the last one.
func (p *pattern) match(data []byte) (text []byte, ok bool) {
	n := len(data) - len(p.after)
	if len(p.after) == 0 || n <= len(p.before) || !bytes.HasPrefix(data, p.before) || !bytes.HasSuffix(data, p.after) {
		return nil, false
	}
	text = data[len(p.before):n]
	return text, plain(text)
}

// plain reports that a piece of JSON is the inside of a string that means itself.
func plain(b []byte) bool {
	for _, c := range b {
		if c < 0x20 || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(b)
}
