package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// request builds the bytes of a call to addr whose body has about size bytes.
func request(addr, model string, size int, stream bool) []byte {
	head := `{"model":"` + model + `","stream":` + strconv.FormatBool(stream) + `,"messages":[{"role":"user","content":"`
	tail := `"}]}`
	fill := max(size-len(head)-len(tail), 1)
	body := head + string(bytes.Repeat([]byte("All work and no play makes a dull benchmark. "), fill/45+1)[:fill]) + tail
	return []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// result is what a load saw.
type result struct {
	calls   int64
	failed  int64
	chunks  int64
	wall    time.Duration
	firsts  []time.Duration // time to the first chunk
	example atomic.Value
}

// calls sends n calls over workers connections, each as fast as its answers come.
func calls(addr string, req []byte, workers, n int) *result {
	r := &result{}
	var left atomic.Int64
	left.Store(int64(n))
	began := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			var c *conn
			for left.Add(-1) >= 0 {
				var err error
				if c == nil {
					if c, err = dial(addr); err != nil {
						r.fail(err)
						continue
					}
				}
				if err = c.call(req); err != nil {
					r.fail(err)
					c.Close()
					c = nil
					continue
				}
				atomic.AddInt64(&r.calls, 1)
			}
			if c != nil {
				c.Close()
			}
		})
	}
	wg.Wait()
	r.wall = time.Since(began)
	return r
}

func (r *result) fail(err error) {
	atomic.AddInt64(&r.failed, 1)
	r.example.CompareAndSwap(nil, err.Error())
}

// streams runs n streams, at most parallel at once, each over a connection that is kept.
func streams(addr string, req []byte, parallel, n int) *result {
	r := &result{}
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	began := time.Now()
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			var firsts []time.Duration
			var c *conn
			for left.Add(-1) >= 0 {
				var err error
				if c == nil {
					if c, err = dial(addr); err != nil {
						r.fail(err)
						continue
					}
				}
				first, chunks, err := c.stream(req)
				if err != nil {
					r.fail(err)
					c.Close()
					c = nil
					continue
				}
				firsts = append(firsts, first)
				atomic.AddInt64(&r.calls, 1)
				atomic.AddInt64(&r.chunks, int64(chunks))
			}
			if c != nil {
				c.Close()
			}
			mu.Lock()
			r.firsts = append(r.firsts, firsts...)
			mu.Unlock()
		})
	}
	wg.Wait()
	r.wall = time.Since(began)
	slices.Sort(r.firsts)
	return r
}

// conn is the cheapest client that still checks what it gets.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 8<<10)}, nil
}

// head reads a status line and headers.
func (c *conn) head() (length int, chunked bool, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, false, err
	}
	if !bytes.Contains(line, []byte(" 200 ")) {
		rest, _ := c.r.Peek(c.r.Buffered())
		return 0, false, fmt.Errorf("%s%s", line, rest)
	}
	length = -1
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, false, err
		}
		if len(line) <= 2 {
			return length, chunked, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil {
				return 0, false, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
}

func (c *conn) call(req []byte) error {
	if _, err := c.Write(req); err != nil {
		return err
	}
	length, chunked, err := c.head()
	if err != nil {
		return err
	}
	if chunked {
		_, _, err := c.body(time.Now(), nil)
		return err
	}
	if length < 100 {
		return errors.New("an answer without its completion")
	}
	_, err = c.r.Discard(length)
	return err
}

func (c *conn) stream(req []byte) (first time.Duration, events int, err error) {
	began := time.Now()
	if _, err := c.Write(req); err != nil {
		return 0, 0, err
	}
	if _, _, err := c.head(); err != nil {
		return 0, 0, err
	}
	var tail []byte
	first, events, err = c.body(began, &tail)
	if err != nil {
		return 0, 0, err
	}
	if !bytes.HasSuffix(bytes.TrimSpace(tail), []byte("data: [DONE]")) {
		return 0, 0, fmt.Errorf("a stream that ends in %q", tail)
	}
	return first, events, nil
}

// body reads a chunked body; tail, when asked for, is its last chunk.
func (c *conn) body(began time.Time, tail *[]byte) (first time.Duration, events int, err error) {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return 0, 0, err
		}
		if first == 0 {
			first = time.Since(began)
		}
		if n == 0 {
			_, err = c.r.Discard(2)
			return first, events, err
		}
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, buf); err != nil {
			return 0, 0, err
		}
		events += bytes.Count(buf, []byte("\ndata:")) + 1
		if tail != nil {
			*tail = buf
		}
	}
}
