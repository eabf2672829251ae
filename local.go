package spillway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// local is an http.RoundTripper that calls a handler in this process.
type local struct{ handler http.Handler }

// loopback is how a request of this process looks to the rules for a gateway without client keys: no web page can make
// one.
const loopbackPort = 80

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: loopbackPort}

var errClosed = errors.New("spillway: the response body was closed")

// RoundTrip implements http.RoundTripper. It returns when the handler has sent its headers; the body streams.
func (l *local) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Err() != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, context.Cause(req.Context())
	}
	ctx, cancel := context.WithCancel(context.WithValue(req.Context(), http.LocalAddrContextKey, loopback))
	in := req.Clone(ctx)
	in.Host, in.RequestURI, in.RemoteAddr = "localhost", req.URL.RequestURI(), loopback.String()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &answer{header: http.Header{}, pipe: pw, began: make(chan struct{})}
	go func() { // ends with the request: the handler returns when ctx ends or the reader is gone
		defer cancel()
		defer in.Body.Close()
		l.handler.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
		pw.Close()
	}()
	select {
	case <-w.began:
	case <-ctx.Done():
		pr.CloseWithError(ctx.Err())
		return nil, context.Cause(ctx)
	}
	res := &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Request: req, ContentLength: -1,
		Body: &stream{PipeReader: pr, cancel: cancel},
	}
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		res.ContentLength = n
	}
	return res, nil
}

// answer is an http.ResponseWriter whose body is read by the caller as it is written.
type answer struct {
	header http.Header
	sent   http.Header // as it was when the headers went out
	status int
	pipe   *io.PipeWriter
	once   sync.Once
	began  chan struct{}
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.began)
	})
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.pipe.Write(p)
}

// Flush implements http.Flusher: a pipe holds nothing back.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// stream is the body of an answer; closing it early ends the request.
type stream struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (s *stream) Close() error {
	s.cancel()
	return s.CloseWithError(errClosed)
}
