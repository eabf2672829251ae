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
}

func newFrames(r io.Reader) *frames { return &frames{r: bufio.NewReaderSize(r, 64<<10)} }

// maxEvent bounds one event, in bytes.
const maxEvent = 32 << 20

func (f *frames) next() (frame, error) {
	var ev frame
	has := false
	for {
		line, err := f.line()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if has {
				return ev, nil
			}
			ev = frame{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.name = string(value)
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

func (f *frames) line() ([]byte, error) {
	if !f.begun {
		f.begun = true
		if b, _ := f.r.Peek(3); string(b) == "\xef\xbb\xbf" {
			f.r.Discard(3)
		}
	}
	var out []byte
	for {
		c, err := f.r.ReadByte()
		if err != nil {
			return nil, err // what has no line end is not an event
		}
		skip := f.afterCR && c == '\n'
		f.afterCR = false
		if skip {
			continue
		}
		switch c {
		case '\n':
			return out, nil
		case '\r':
			// The LF of a CRLF may not have come yet; waiting for it would hold up a finished event.
			f.afterCR = true
			return out, nil
		}
		if len(out) > maxEvent {
			return nil, errors.New("a line above 32 MiB")
		}
		out = append(out, c)
	}
}
