package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// oneConn is a listener for connections of the test's own.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l oneConn) Close() error { close(l.done); return nil }

func (l oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "test"} }

// TestSlowBodies: a client that is silent for a minute is told so, whether it has sent nothing or a part; one that is
// slow is waited for.
func TestSlowBodies(t *testing.T) {
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
	for _, row := range []struct {
		name   string
		pieces []string // one every 50 s
		status int
		after  time.Duration
	}{
		{"silent from the start", []string{""}, 408, 60 * time.Second},
		{"silent inside the body", []string{`{"model":`, `"nothing"`}, 408, 110 * time.Second},
		{"slow", []string{`{"model":`, `"nothing"`, `,"messages":`, `[]       `, "}"}, 404, 200 * time.Second}, // it ends: nothing serves that model
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, a := serve(t, "providers: {up: {protocols: [openai], base_url: 'http://up.test', models: [m]}}\nconnections: [{id: u1, provider: up, key: k, models: [m]}]\n")
				l := oneConn{make(chan net.Conn), make(chan struct{})}
				server := &http.Server{Handler: h}
				done := make(chan struct{})
				go func() { _ = server.Serve(l); close(done) }()
				near, far := net.Pipe()
				l.conns <- far
				began := time.Now()
				go func() {
					_, _ = io.WriteString(near, head)
					for _, p := range row.pieces {
						_, _ = io.WriteString(near, p)
						time.Sleep(50 * time.Second)
					}
				}()
				r, err := http.ReadResponse(bufio.NewReader(near), nil)
				if err != nil {
					t.Fatal(err)
				}
				body := bodyOf(t, r)
				if took := time.Since(began); r.StatusCode != row.status || took != row.after || !strings.Contains(body, `"error"`) {
					t.Errorf("%d after %s: %s", r.StatusCode, took, body)
				}
				if a.Buffered() != 0 {
					t.Errorf("%d bytes are still counted", a.Buffered())
				}
				_ = near.Close()
				_ = server.Close()
				<-done
				if err := a.Close(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Minute) // what slept in the client ends
			})
		})
	}
}
