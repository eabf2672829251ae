package local

import (
	"bufio"
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
	ctx    context.Context // the client's
	cancel context.CancelFunc
	header http.Header // as the handler builds it

	mu      sync.Mutex
	status  int
	sent    http.Header
	buf     []byte
	read    int   // of buf
	ended   error // io.EOF = properly
	left    bool  // the client closed the body
	linger  bool  // a close resets
	stopped bool  // hijacked
	wake    chan struct{}
}

var errLeft = errors.New("local: the client has left")

// signal wakes the client. It is called without the lock or with it.
func (x *exchange) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

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
	x.status, x.sent = status, x.header.Clone()
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
	x.signal()
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
	if x.ended == nil {
		x.left = true
	}
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
