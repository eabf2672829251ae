package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// chunked reads a body in chunked transfer coding (RFC 9112 section 7.1). It does what net/http's reader does without
// its layers and its lock, which on a stream of small events are most of what reading costs beside the system call. A
// Read returns what is there: all chunks that are buffered, and only blocks when there is none. Extensions and trailers
// are read over.
type chunked struct {
	r    *bufio.Reader
	left uint64 // bytes of the present chunk that are still to come
	tail bool   // the line break behind the present chunk is still to come
	err  error
}

var (
	errChunkLine = errors.New("malformed chunked encoding")
	errChunkLong = errors.New("chunked encoding: line too long")
)

// Read implements io.Reader.
func (c *chunked) Read(p []byte) (n int, err error) {
	for c.err == nil && len(p) > 0 {
		if c.left == 0 {
			if n > 0 && !c.lineBuffered() {
				return n, nil
			}
			c.err = c.next()
			continue
		}
		if n > 0 && c.r.Buffered() == 0 {
			return n, nil
		}
		m, err := c.r.Read(p[:min(uint64(len(p)), c.left)])
		n, p = n+m, p[m:]
		c.left -= uint64(m)
		c.tail = c.left == 0
		c.err = cutOff(err)
	}
	return n, c.err
}

// lineBuffered reports whether the line that begins the next chunk, and the break before it, can be read without blocking.
func (c *chunked) lineBuffered() bool {
	seen, _ := c.r.Peek(c.r.Buffered()) // never short: it asks for what is there
	if c.tail {
		seen = seen[min(2, len(seen)):]
	}
	return bytes.IndexByte(seen, '\n') >= 0
}

// next reads the line before a chunk. At the last chunk it reads the trailers over and returns io.EOF.
func (c *chunked) next() error {
	if c.tail {
		line, err := c.line()
		if err != nil {
			return err
		}
		if len(line) != 0 {
			return errChunkLine
		}
		c.tail = false
	}
	line, err := c.line()
	if err != nil {
		return err
	}
	size, ok := chunkSize(line)
	if !ok {
		return errChunkLine
	}
	if c.left = size; size > 0 {
		return nil
	}
	for {
		if line, err = c.line(); err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
	}
}

// line reads one line; it is good until the next read.
func (c *chunked) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return nil, errChunkLong
	}
	if err != nil {
		return nil, cutOff(err)
	}
	if n := len(line); n < 2 || line[n-2] != '\r' {
		return nil, errChunkLine // a bare LF means different things to different readers
	}
	return line[:len(line)-2], nil
}

// cutOff makes the end of the connection what it is inside a body.
func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// chunkSize reads the hexadecimal size at the beginning of a chunk's line.
func chunkSize(line []byte) (size uint64, ok bool) {
	digits := 0
	for _, b := range line {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b >= 'a' && b <= 'f':
			b -= 'a' - 10
		case b >= 'A' && b <= 'F':
			b -= 'A' - 10
		case b == ';' || b == ' ' || b == '\t':
			return size, digits > 0
		default:
			return 0, false
		}
		if digits++; digits > 15 {
			return 0, false
		}
		size = size<<4 | uint64(b)
	}
	return size, digits > 0
}
