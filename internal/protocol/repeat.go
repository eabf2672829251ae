package protocol

import "bytes"

// Repeat recognises the next plain text delta of a stream without splitting it into lines or reading it as JSON. The
// deltas of one stream are equal but for their text, so once one was read, a block with the same bytes before and behind
// the text, and a plain string between, says the same. Anything else (escapes, usage, another choice) does not match and
// is read.
//
// A Repeat belongs to one stream. The zero value knows nothing and matches nothing.
type Repeat struct {
	head, tail []byte // of the whole block: lines before the text, quote and blank line behind it
	data       int    // offset of the data in the block
	behind     int    // bytes of the block behind the data
}

// longestRepeat bounds what is remembered of one event.
const longestRepeat = 4 << 10

// Learn remembers a block, raw with its one line of data, that Family.Event read as s. member is the quoted name of the
// member that holds the text in a plain delta of the family, as in `"content"`. Only blocks that are nothing but a text
// delta, and in which the member stands once, are remembered.
func (r *Repeat) Learn(raw, data []byte, member string, s *Signal) {
	if s.Flags != Content|Text || len(raw) > longestRepeat {
		return
	}
	start := bytes.Index(raw, data)
	if start < 0 || !endsBlock(raw[start+len(data):]) {
		return // written in several lines, or with line breaks that need a closer look
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
	r.head = append(r.head[:0], raw[:start+at]...)
	r.tail = append(r.tail[:0], raw[start+end:]...)
	r.data, r.behind = start, len(raw)-start-len(data)
}

// endsBlock reports whether what follows the data ends the block beyond doubt.
func endsBlock(rest []byte) bool { return string(rest) == "\n\n" || string(rest) == "\r\n\r\n" }

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

// Match reports whether buf, which begins where a block begins, begins with a plain text delta like the one learned: its
// length in bytes, and how many of them are text. 0 = it does not, or not all of it is there.
func (r *Repeat) Match(buf []byte) (n, text int) {
	from := len(r.head)
	if from == 0 || !bytes.HasPrefix(buf, r.head) {
		return 0, 0
	}
	at := from
	for at < len(buf) && buf[at] >= 0x20 && buf[at] != '"' && buf[at] != '\\' {
		at++
	}
	if at == from || !bytes.HasPrefix(buf[at:], r.tail) { // the tail begins with the quote
		return 0, 0
	}
	return at + len(r.tail), at - from
}

// Data is the data of a block that matched.
func (r *Repeat) Data(raw []byte) []byte { return raw[r.data : len(raw)-r.behind] }
