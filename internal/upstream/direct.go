package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// direct is an HTTP/1.1 client for upstreams without TLS: local models, sidecars, the lab. It does in the caller's own
// goroutine what http.Transport does in two goroutines per connection, with net/http's own parser for answers; that
// saves about a third of the processor time of a small call. One connection carries one request at a time, so a broken
// one takes one stream with it.
//
// It keeps to the contract of http.RoundTripper, with one addition: when the request's context ends, what is returned
// is its cause.
type direct struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex
	idle map[string][]*conn // by address, the one used last at the end
}

// Bounds of the idle connections of one address.
const (
	idleMost = 512
	idleFor  = 90 * time.Second
	readBuf  = 8 << 10 // a burst of small events comes with one read
	writeBuf = 4 << 10
)

// conn is one connection with its buffers.
type conn struct {
	net.Conn
	r      *bufio.Reader
	w      *bufio.Writer
	owner  *direct
	addr   string
	idleAt time.Time
	used   bool // has carried a request before
}

func newDirect(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *direct {
	return &direct{dial: dial, idle: map[string][]*conn{}}
}

// RoundTrip implements http.RoundTripper. A request that meets an idle connection which the other side has closed
// meanwhile is sent once more, on a fresh one: no byte of an answer came, so it is still the same attempt.
func (d *direct) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	body := req.Body
	for {
		c, err := d.get(ctx, address(req))
		if err != nil {
			closeBody(body)
			return nil, cause(ctx, err)
		}
		res, err := c.exchange(ctx, req, body)
		if err == nil {
			return res, nil
		}
		reused, untouched := c.used, c.r.Buffered() == 0
		c.Close()
		if !reused || !untouched || ctx.Err() != nil || req.GetBody == nil || !gone(err) {
			return nil, cause(ctx, err)
		}
		if body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
}

func closeBody(b io.ReadCloser) {
	if b != nil {
		b.Close()
	}
}

func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func address(req *http.Request) string {
	if req.URL.Port() == "" {
		return net.JoinHostPort(req.URL.Hostname(), "80")
	}
	return req.URL.Host
}

// get takes the idle connection that was used last, or dials.
func (d *direct) get(ctx context.Context, addr string) (*conn, error) {
	for {
		c := d.pop(addr)
		if c == nil {
			break
		}
		if time.Since(c.idleAt) < idleFor && alive(c.Conn) {
			c.used = true
			return c, nil
		}
		c.Close()
	}
	raw, err := d.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: raw, r: bufio.NewReaderSize(raw, readBuf), w: bufio.NewWriterSize(raw, writeBuf), owner: d, addr: addr}, nil
}

func (d *direct) pop(addr string) *conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.idle[addr]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	if list = list[:len(list)-1]; len(list) == 0 {
		delete(d.idle, addr)
	} else {
		d.idle[addr] = list
	}
	return c
}

// put keeps a connection for the next request and drops those that have been idle too long.
func (d *direct) put(c *conn) {
	c.idleAt = time.Now()
	d.mu.Lock()
	list := d.idle[c.addr]
	old := 0
	for old < len(list) && c.idleAt.Sub(list[old].idleAt) >= idleFor {
		old++
	}
	drop := slices.Clone(list[:old])
	list = slices.Delete(list, 0, old)
	if len(list) >= idleMost {
		drop = append(drop, c)
	} else {
		list = append(list, c)
	}
	d.idle[c.addr] = list
	d.mu.Unlock()
	for _, c := range drop {
		c.Close()
	}
}

// CloseIdleConnections closes what nobody uses.
func (d *direct) CloseIdleConnections() {
	d.mu.Lock()
	idle := d.idle
	d.idle = map[string][]*conn{}
	d.mu.Unlock()
	for _, list := range idle {
		for _, c := range list {
			c.Close()
		}
	}
}

var past = time.Unix(1, 0)

// exchange sends the request and reads the head of the answer. Until the answer's body is closed or at its end, the end
// of ctx breaks the connection off.
func (c *conn) exchange(ctx context.Context, req *http.Request, body io.ReadCloser) (*http.Response, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(past) }) // a closed connection needs no deadline
	sent := c.send(req, body)
	res, err := http.ReadResponse(c.r, req)
	for err == nil && res.StatusCode >= 100 && res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols {
		res, err = http.ReadResponse(c.r, req) // informational answers announce the real one
	}
	if err != nil {
		stop()
		if sent != nil {
			err = sent
		}
		return nil, err
	}
	// An upstream may answer before it has read the whole request; its answer counts, the connection is spent.
	answer := &answerBody{under: res.Body, conn: c, stop: stop, ctx: ctx, spent: sent != nil || res.Close || !res.ProtoAtLeast(1, 1)}
	if len(res.TransferEncoding) == 1 && res.TransferEncoding[0] == "chunked" && res.Body != http.NoBody {
		answer.chunks.r = c.r // nothing of the body has been read yet
	}
	res.Body = answer
	return res, nil
}

// send writes the request and always closes its body.
func (c *conn) send(req *http.Request, body io.ReadCloser) error {
	defer closeBody(body)
	w := c.w
	w.WriteString(req.Method)
	w.WriteByte(' ')
	w.WriteString(req.URL.RequestURI())
	w.WriteString(" HTTP/1.1\r\nHost: ")
	w.WriteString(req.Host)
	w.WriteString("\r\n")
	for name, values := range req.Header {
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n") {
				return fmt.Errorf("the header %s holds a line break", name)
			}
			w.WriteString(name)
			w.WriteString(": ")
			w.WriteString(v)
			w.WriteString("\r\n")
		}
	}
	var length [20]byte
	w.WriteString("Content-Length: ")
	w.Write(strconv.AppendInt(length[:0], req.ContentLength, 10))
	w.WriteString("\r\n\r\n")
	if body != nil {
		if _, err := io.Copy(w, body); err != nil {
			return err
		}
	}
	return w.Flush() // the writer keeps the first error
}

// answerBody gives the connection back when the answer was read to its end.
type answerBody struct {
	chunks chunked // in use when it has a reader
	under  io.Reader
	conn   *conn
	stop   func() bool
	ctx    context.Context
	spent  bool
	done   bool
	err    error
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	if b.done {
		return 0, b.err
	}
	n, err := b.read(p)
	if err == nil {
		return n, nil
	}
	if err != io.EOF {
		err = cause(b.ctx, err)
	}
	b.finish(err)
	return n, err
}

func (b *answerBody) read(p []byte) (int, error) {
	if b.chunks.r != nil {
		return b.chunks.Read(p)
	}
	return b.under.Read(p)
}

func (b *answerBody) finish(err error) {
	b.done, b.err = true, err
	if err == io.EOF && b.stop() && !b.spent && b.conn.r.Buffered() == 0 {
		b.conn.owner.put(b.conn)
		return
	}
	b.stop()
	b.conn.Close()
}

// Close implements io.Closer. What was not read is not waited for: the connection goes.
func (b *answerBody) Close() error {
	if !b.done {
		b.finish(net.ErrClosed)
	}
	return nil
}
