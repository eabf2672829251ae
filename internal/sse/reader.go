package sse

import (
	"bytes"
	"errors"
	"io"
)

// Sizes of a reader's buffer, in bytes.
const (
	MaxEvent    = 16 << 20 // default limit of one event
	firstBuffer = 8 << 10
	minRead     = 2 << 10  // a Fill offers the source at least this much room
	keepBuffer  = 64 << 10 // larger buffers are not kept for the next event or the next stream
)

// ErrTooLong is returned by Next once an event is longer than the reader's limit. It is final.
var ErrTooLong = errors.New("sse: event exceeds the size limit")

var errNegativeRead = errors.New("sse: source returned an impossible count")

// Event is one block of the stream up to and including the blank line that ends it. All slices point into the reader
// and are valid until the next call of any of its methods.
type Event struct {
	// Raw is every byte of the block, its terminating blank line included. The Raw of all events, put together, are
	// the bytes that were read. When a block ended in two bare CR and an LF follows, that LF begins the next Raw.
	Raw []byte
	// Name is the value of the last event field, nil when there is none.
	Name []byte
	// Data is the joined value of the data fields. It is nil when there is none, and points into Raw when there is
	// exactly one.
	Data []byte
	// Comment is set when the block has no data field, so that a conforming client dispatches nothing: comments, stray
	// blank lines, an event name or an id alone.
	Comment bool
	// Stray is set when a line of the block is no field at all but looks like JSON or HTML: some servers write a bare
	// error body into an event stream.
	Stray bool
}

// Reader splits a byte stream into events. It is made for one goroutine. Fill reads, Next never does, so a caller can
// take every complete event that one read brought before it waits for the next.
type Reader struct {
	buf []byte
	max int

	// Offsets into buf, all of them moved together when the buffer is compacted.
	start int // first byte of the current block
	line  int // first byte of the current line
	end   int // first free byte

	begun    bool // the first line of the stream, and with it a byte order mark, is behind us
	afterCR  bool // the line before ended in CR: an LF at line belongs to it
	prevBare bool // the line before ended in a CR without LF
	failed   bool // with ErrTooLong, for good
	eof      bool

	src    io.Reader
	lfFrom int    // no LF in buf[line:lfFrom]
	crFrom int    // no CR in buf[line:crFrom]
	join   []byte // data of events with more than one data line

	block block
}

// block is what the lines of the current block said; offsets count from Reader.start.
type block struct {
	nameAt, nameEnd int
	dataAt, dataEnd int
	lines           int // data lines
	named           bool
	stray           bool
}

// NewReader returns a reader over r that refuses events longer than max bytes; max <= 0 means MaxEvent.
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = MaxEvent
	}
	rd := &Reader{max: max}
	rd.Reset(r)
	return rd
}

// Reset begins a new stream, so that a reader can live in a sync.Pool. Buffers above 64 KiB are dropped.
func (r *Reader) Reset(src io.Reader) {
	buf, join := r.buf, r.join[:0]
	if len(buf) > keepBuffer {
		buf = nil
	}
	if cap(join) > keepBuffer {
		join = nil
	}
	*r = Reader{src: src, max: r.max, buf: buf, join: join}
}

// Fill reads once from the source into the buffer. Its error is the source's; on io.EOF (with or without n > 0) Next
// may still have events, and Rest the unterminated tail. A source that returns 0, nil makes Fill return 0, nil.
func (r *Reader) Fill() (n int, err error) {
	if r.failed {
		return 0, ErrTooLong
	}
	r.makeRoom()
	n, err = r.src.Read(r.buf[r.end:])
	if n < 0 || n > len(r.buf)-r.end {
		return 0, errNegativeRead
	}
	r.end += n
	if err == io.EOF {
		r.eof = true
	}
	return n, err
}

// makeRoom gives Fill a worthwhile window: it forgets consumed bytes, moves the current block to the front, or doubles
// the buffer. The buffer of one giant event is given back as soon as the event is gone.
func (r *Reader) makeRoom() {
	if r.start == r.end {
		r.shift(0)
		if len(r.buf) > keepBuffer {
			r.buf = nil
		}
		if cap(r.join) > keepBuffer && r.block.lines < 2 {
			r.join = nil
		}
	}
	if r.buf == nil {
		r.buf = make([]byte, firstBuffer)
	}
	if len(r.buf)-r.end >= minRead {
		return
	}
	if pending := r.end - r.start; r.start > 0 && pending <= len(r.buf)/2 {
		copy(r.buf, r.buf[r.start:r.end])
		r.shift(0)
		return
	}
	bigger := make([]byte, 2*len(r.buf))
	copy(bigger, r.buf[r.start:r.end])
	r.buf = bigger
	r.shift(0)
}

// shift moves all offsets so that the block begins at to.
func (r *Reader) shift(to int) {
	d := r.start - to
	r.start, r.line, r.end = to, r.line-d, r.end-d
	r.lfFrom, r.crFrom = r.lfFrom-d, r.crFrom-d
}

// Next returns the next complete event that is already in the buffer; ok is false when there is none. It never reads.
func (r *Reader) Next() (ev Event, ok bool, err error) {
	if r.failed {
		return Event{}, false, ErrTooLong
	}
	for {
		line, term, found := r.nextLine()
		if !found {
			break
		}
		if len(line) > 0 {
			r.field(line)
			r.line += len(line) + term
			continue
		}
		r.line += term
		ev = r.finish()
		if len(ev.Raw) > r.max {
			r.failed = true
			return Event{}, false, ErrTooLong
		}
		return ev, true, nil
	}
	if r.end-r.start > r.max {
		r.failed = true
		return Event{}, false, ErrTooLong
	}
	return Event{}, false, nil
}

// Ahead is what is buffered from the beginning of the next event on, for callers that know an event when they see its
// bytes; nil while a part of it has been read as lines already.
func (r *Reader) Ahead() []byte {
	if r.line != r.start || r.afterCR || !r.begun || r.failed {
		return nil
	}
	return r.buf[r.start:min(r.end, r.start+r.max)]
}

// Pass takes the first n bytes of Ahead, which are one whole event that ends in LF, and returns them as Event.Raw.
func (r *Reader) Pass(n int) []byte {
	raw := r.buf[r.start : r.start+n]
	r.start += n
	r.line, r.prevBare = r.start, false
	return raw
}

// nextLine finds the line at r.line: its bytes without terminator, and the length of the terminator. A CR ends a line
// at once; an LF behind it is taken when it comes. The blank line is the exception: its LF should travel with the
// event, so a CR that may be half of a CRLF waits for the next byte, unless the line before showed that this stream
// uses bare CR.
func (r *Reader) nextLine() (line []byte, term int, found bool) {
	if r.afterCR {
		if r.line == r.end {
			return nil, 0, false
		}
		r.afterCR, r.prevBare = false, true
		if r.buf[r.line] == '\n' {
			r.line++
			r.prevBare = false
		}
	}
	at := r.terminator()
	if at < 0 {
		return nil, 0, false
	}
	line = r.buf[r.line:at]
	if r.buf[at] == '\n' {
		r.prevBare = false
		return line, 1, true
	}
	switch {
	case at > r.line || r.prevBare:
		r.afterCR = true
		return line, 1, true
	case at+1 < r.end && r.buf[at+1] == '\n':
		r.prevBare = false
		return line, 2, true
	case at+1 < r.end || r.eof:
		r.prevBare = true
		return line, 1, true
	}
	return nil, 0, false
}

// terminator returns the offset of the first CR or LF at or behind r.line, -1 when there is none yet. Both searches
// remember how far they came, so that no byte is looked at twice however small the reads are.
func (r *Reader) terminator() int {
	lf := max(r.lfFrom, r.line)
	if i := bytes.IndexByte(r.buf[lf:r.end], '\n'); i >= 0 {
		lf += i
	} else {
		lf = r.end
	}
	r.lfFrom = lf
	cr := max(r.crFrom, r.line)
	if cr < lf {
		if i := bytes.IndexByte(r.buf[cr:lf], '\r'); i >= 0 {
			cr += i
		} else {
			cr = lf
		}
		r.crFrom = cr
	}
	if at := min(lf, cr); at < r.end {
		return at
	}
	return -1
}

var bom = []byte{0xEF, 0xBB, 0xBF}

// field reads one non-empty line, which begins at r.line.
func (r *Reader) field(line []byte) {
	at := r.line - r.start
	if !r.begun {
		r.begun = true
		if bytes.HasPrefix(line, bom) {
			line, at = line[len(bom):], at+len(bom)
		}
	}
	switch {
	case len(line) >= 4 && string(line[:4]) == "data" && (len(line) == 4 || line[4] == ':'):
		value := fieldValue(line, 4)
		r.data(line[value:], at+value)
	case len(line) >= 5 && string(line[:5]) == "event" && (len(line) == 5 || line[5] == ':'):
		value := fieldValue(line, 5)
		r.block.named = true
		r.block.nameAt, r.block.nameEnd = at+value, at+len(line)
	case len(line) > 0 && (line[0] == '{' || line[0] == '[' || line[0] == '<'):
		r.block.stray = true
	}
}

// fieldValue is the offset of the value in a line whose field name is n bytes long.
func fieldValue(line []byte, n int) int {
	switch {
	case len(line) == n:
		return n
	case len(line) > n+1 && line[n+1] == ' ':
		return n + 2
	}
	return n + 1
}

func (r *Reader) data(value []byte, at int) {
	b := &r.block
	b.lines++
	switch b.lines {
	case 1:
		b.dataAt, b.dataEnd = at, at+len(value)
		return
	case 2:
		r.join = append(r.join[:0], r.buf[r.start+b.dataAt:r.start+b.dataEnd]...)
	}
	r.join = append(append(r.join, '\n'), value...)
}

// finish makes the event of the block that ends at r.line and begins the next block there.
func (r *Reader) finish() Event {
	raw := r.buf[r.start:r.line] // its capacity reaches into the next events: neighbours can be joined without a copy
	b := r.block
	ev := Event{Raw: raw, Comment: b.lines == 0, Stray: b.stray}
	if b.named {
		ev.Name = raw[b.nameAt:b.nameEnd]
	}
	switch {
	case b.lines == 1:
		ev.Data = raw[b.dataAt:b.dataEnd]
	case b.lines > 1:
		ev.Data = r.join
	}
	r.begun = true
	r.start = r.line
	r.block = block{}
	return ev
}

// Rest returns the bytes behind the last complete event. At the end of a stream that is what a missing blank line left
// over; the caller decides what it is worth.
func (r *Reader) Rest() []byte { return r.buf[r.start:r.end] }
