package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// frame is one server-sent event.
type frame struct {
	name string
	data []byte
}

// frames reads events by the rules of the HTML standard: lines end with LF, CR or CRLF, data lines join with LF, an
// event that the end of the stream cuts off is dropped.
type frames struct {
	r       *bufio.Reader
	begun   bool
	afterCR bool // the last line ended with CR
	names   words
	text    []byte // of the line last read
	data    []byte // of the event last read
}

func newFrames(r io.Reader) frames { return frames{r: bufio.NewReaderSize(r, 4<<10)} }

// begin reads from r next.
func (f *frames) begin(r io.Reader) {
	f.r.Reset(r)
	f.begun, f.afterCR = false, false
}

// maxEvent bounds one event, in bytes.
const maxEvent = 32 << 20

// next returns the next event; its data is good until the following call.
func (f *frames) next() (frame, error) {
	ev := frame{data: f.data[:0]}
	has := false
	for {
		line, err := f.line()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if has {
				f.data = ev.data
				return ev, nil
			}
			ev.name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.name = f.names.word(value)
		case "data":
			if has {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
			has = true
		}
		if len(ev.data) > maxEvent {
			return frame{}, errors.New("an event above 32 MiB")
		}
	}
}

// line returns the next line without its end; it is good until the following call.
func (f *frames) line() ([]byte, error) {
	if !f.begun {
		f.begun = true
		if b, _ := f.r.Peek(3); string(b) == "\xef\xbb\xbf" {
			f.r.Discard(3)
		}
	}
	f.text = f.text[:0]
	for {
		if _, err := f.r.Peek(1); err != nil {
			return nil, err // what has no line end is not an event
		}
		b, _ := f.r.Peek(f.r.Buffered())
		if f.afterCR {
			f.afterCR = false
			if b[0] == '\n' {
				f.r.Discard(1)
				continue
			}
		}
		if n := lineEnd(b); n >= 0 {
			line := b[:n]
			if len(f.text) > 0 {
				f.text = append(f.text, line...)
				line = f.text
			}
			// The LF of a CRLF may not have come yet; waiting for it would hold up a finished event.
			f.afterCR = b[n] == '\r'
			f.r.Discard(n + 1)
			return line, nil
		}
		f.text = append(f.text, b...)
		f.r.Discard(len(b))
		if len(f.text) > maxEvent {
			return nil, errors.New("a line above 32 MiB")
		}
	}
}

// lineEnd is where a line ends; -1 = nowhere.
func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n >= 0 {
		b = b[:n]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return n
}
