package protocol

import "bytes"

// Repeat recognises the next plain text delta of a stream without reading it as JSON. The deltas of one stream are equal
// but for their text, so once one was read, an event with the same name, the same bytes before and behind the text, and
// a plain string between says the same. Anything else (escapes, usage, another choice) does not match and is read.
//
// A Repeat belongs to one stream. The zero value knows nothing and matches nothing.
type Repeat struct {
	name, prefix, suffix []byte
	known                bool
}

// longestRepeat bounds what is remembered of one event.
const longestRepeat = 4 << 10

// Learn remembers an event that Family.Event read as s. member is the quoted name of the member that holds the text in
// a plain delta of the family, as in `"content"`. Only events that are nothing but a text delta, and in which the member
// stands once, are remembered.
func (r *Repeat) Learn(name, data []byte, member string, s *Signal) {
	if s.Flags != Content|Text || len(data) > longestRepeat {
		return
	}
	at := bytes.Index(data, []byte(member))
	if at < 0 || bytes.Contains(data[at+1:], []byte(member)) {
		return
	}
	at += len(member)
	for at < len(data) && (data[at] == ':' || data[at] == ' ') {
		at++
	}
	if at == len(data) || data[at] != '"' {
		return
	}
	at++
	end := at
	for end < len(data) && data[end] != '"' {
		if data[end] == '\\' {
			return // the next one will do
		}
		end++
	}
	if end == len(data) || end == at {
		return
	}
	r.name = append(r.name[:0], name...)
	r.prefix = append(r.prefix[:0], data[:at]...)
	r.suffix = append(r.suffix[:0], data[end:]...)
	r.known = true
}

// TextBytes is how many bytes of text an event holds that matched.
func (r *Repeat) TextBytes(data []byte) int { return len(data) - len(r.prefix) - len(r.suffix) }

// TextBytes counts the bytes of the strings that an event has as values of a member, escapes as they are written. member
// is quoted, as Family.TextMember says it.
func TextBytes(data []byte, member string) (n int) {
	for {
		at := bytes.Index(data, []byte(member))
		if at < 0 {
			return n
		}
		data = bytes.TrimLeft(data[at+len(member):], ": \t\r\n")
		if len(data) == 0 || data[0] != '"' {
			continue
		}
		end := 1
		for end < len(data) && data[end] != '"' {
			if data[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(data))
		n += end - 1
		data = data[end:]
	}
}

// Match reports whether an event is a plain text delta like the one learned.
func (r *Repeat) Match(name, data []byte) bool {
	if !r.known || len(data) <= len(r.prefix)+len(r.suffix) || !bytes.HasPrefix(data, r.prefix) ||
		!bytes.HasSuffix(data, r.suffix) || !bytes.Equal(name, r.name) {
		return false
	}
	for _, c := range data[len(r.prefix) : len(data)-len(r.suffix)] {
		if c < 0x20 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
