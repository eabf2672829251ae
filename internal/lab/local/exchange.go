package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// exchange is one request and its answer: the handler's http.ResponseWriter and the client's body.
type exchange struct {
	ctx     context.Context // the client's
	cancel  context.CancelFunc
	net     *Network
	host    *Host
	payload payload // of the request

	mu      sync.Mutex
	header  http.Header // as the handler builds it
	status  int
	sent    http.Header
	room    *[]byte // what buf lies in; nil = nothing was written, or all is over
	buf     []byte
	read    int   // of buf
	ended   error // io.EOF = properly
	left    bool  // the client closed the body before the end
	closed  bool  // the client closed the body
	linger  bool  // a close resets
	stopped bool  // hijacked
	wake    chan struct{}
}

// payload is the body of a request.
type payload struct{ bytes.Reader }

// Close implements io.Closer.
func (*payload) Close() error { return nil }

// request is req as a server sees it. Header and URL are the client's own: a handler only reads them, and a client that has
// sent a request leaves them as they are.
func (x *exchange) request(req *http.Request, ctx context.Context) *http.Request {
	in := req.WithContext(ctx)
	in.RequestURI, in.RemoteAddr, in.Proto, in.ProtoMajor, in.ProtoMinor = req.URL.RequestURI(), "127.0.0.1:50000", "HTTP/1.1", 1, 1
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	in.Body, in.GetBody, in.ContentLength = &x.payload, nil, x.payload.Size()
	return in
}

var errLeft = errors.New("local: the client has left")

// signal wakes the client. It is called without the lock or with it.
func (x *exchange) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Header implements http.ResponseWriter. What a handler sets behind WriteHeader goes nowhere, as in net/http; but it has
// to ask for the header again: the one that it has built is the client's from then on.
func (x *exchange) Header() http.Header {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.header == nil {
		x.header = x.sent.Clone()
	}
	return x.header
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.head(status)
}

func (x *exchange) head(status int) {
	if x.status != 0 || status < 200 {
		return
	}
	x.status, x.sent, x.header = status, x.header, nil
	x.signal()
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stopped:
		return 0, http.ErrHijacked
	case x.left || x.ctx.Err() != nil:
		return 0, errLeft
	}
	x.head(http.StatusOK)
	if x.room == nil {
		if x.room, _ = x.net.bodies.Get().(*[]byte); x.room == nil {
			x.room = new([]byte)
		}
		x.buf = (*x.room)[:0]
	}
	if x.read == len(x.buf) {
		x.buf, x.read = x.buf[:0], 0
	}
	x.buf = append(x.buf, b...)
	x.signal()
	return len(b), nil
}

// FlushError implements what http.ResponseController asks for: everything is under way already.
func (x *exchange) FlushError() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.head(http.StatusOK)
	if x.left || x.ctx.Err() != nil {
		return errLeft
	}
	return nil
}

// SetWriteDeadline implements what http.ResponseController asks for. Writes never block here.
func (x *exchange) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline implements what http.ResponseController asks for. The request is there already.
func (x *exchange) SetReadDeadline(time.Time) error { return nil }

// Hijack implements http.Hijacker: the connection can be closed under the answer, nothing else.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = true
	return &wire{x: x}, nil, nil
}

// end is the end of the handler. It reports whether the connection can carry another request.
func (x *exchange) end(panicked any, note func(error)) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case panicked != nil:
		if panicked != http.ErrAbortHandler {
			note(fmt.Errorf("a handler panicked: %v\n%s", panicked, debug.Stack()))
		}
		x.finish(errCut)
	case x.stopped:
		x.finish(errCut)
	default:
		x.head(http.StatusOK)
		x.finish(io.EOF)
	}
	return x.ended == io.EOF && !x.left
}

// finish is called with the lock held.
func (x *exchange) finish(err error) {
	if x.ended == nil {
		x.ended = err
	}
	x.clear()
	x.signal()
}

// mostKept bounds the memory of an answer that is kept for another one, in bytes.
const mostKept = 64 << 10

// clear gives the memory of the answer back when neither side needs it. It is called with the lock held.
func (x *exchange) clear() {
	if x.room == nil || x.ended == nil || !x.closed {
		return
	}
	if cap(x.buf) <= mostKept {
		*x.room = x.buf[:0]
		x.net.bodies.Put(x.room)
	}
	x.room, x.buf, x.read = nil, nil, 0
}

// awaitHead waits for the status.
func (x *exchange) awaitHead() error {
	for {
		x.mu.Lock()
		status, ended := x.status, x.ended
		x.mu.Unlock()
		switch {
		case x.ctx.Err() != nil:
			return context.Cause(x.ctx)
		case status != 0:
			x.signal() // the body may have something, too
			return nil
		case ended == errCut:
			return io.EOF // as net/http says it when no byte came
		case ended != nil:
			return ended
		}
		select {
		case <-x.wake:
		case <-x.ctx.Done():
		}
	}
}

// Read implements io.Reader for the client.
func (x *exchange) Read(p []byte) (int, error) {
	for {
		x.mu.Lock()
		n := copy(p, x.buf[x.read:])
		x.read += n
		ended := x.ended
		x.mu.Unlock()
		switch {
		case x.ctx.Err() != nil:
			x.leave()
			return n, context.Cause(x.ctx)
		case n > 0 || len(p) == 0:
			return n, nil
		case ended != nil:
			return 0, ended
		}
		select {
		case <-x.wake:
		case <-x.ctx.Done():
		}
	}
}

// Close implements io.Closer for the client: what was not read is not waited for.
func (x *exchange) Close() error {
	x.leave()
	return nil
}

func (x *exchange) leave() {
	x.mu.Lock()
	x.left, x.closed = x.left || x.ended == nil, true
	x.clear()
	x.mu.Unlock()
	x.cancel()
}

// wire is the hijacked connection.
type wire struct {
	net.Conn // nil: nothing reads or writes it
	x        *exchange
}

// SetLinger makes Close send a reset.
func (w *wire) SetLinger(int) error {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	w.x.linger = true
	return nil
}

// Close cuts the answer off.
func (w *wire) Close() error {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	if w.x.linger {
		w.x.finish(errReset)
	} else {
		w.x.finish(errCut)
	}
	return nil
}
