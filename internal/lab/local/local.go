// Package local answers one question: how does a request reach a handler of this process without a socket? It is a
// network of handlers, keyed by host name, that is spoken to through http.RoundTripper and behaves as HTTP/1.1 over TCP
// does where a gateway can tell: headers and bytes come when they are written, a client that leaves cancels the handler's
// context, a hijacked connection that is closed cuts the answer or resets it. It encodes nothing, so a call costs
// microseconds, and it blocks on channels of its own only, so it works in a testing/synctest bubble.
package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Network is the set of hosts. It is safe for concurrent use.
type Network struct {
	// Travel is how long a request takes to reach its handler in the mean; each takes between half and one and a half of
	// it. Without it a refusal would come at the same instant of virtual time as the request, and nobody could make a
	// mistake meanwhile; and what happens at equal distances would stay so to the nanosecond. It is set before the first
	// request.
	Travel time.Duration

	mu     sync.Mutex
	hosts  map[string]*Host
	idle   []worker // the last one rested last
	broken error    // the first panic of a handler

	served  sync.WaitGroup // exchanges
	workers sync.WaitGroup
	bodies  sync.Pool // of *[]byte: answers under way
}

// Host is one host of a network.
type Host struct {
	Handler http.Handler
	// Dial is asked before each request that no idle connection can carry; an error is the connection's. open is how many
	// connections there would be then. nil lets everybody in.
	Dial func(ctx context.Context, open int) error

	addr       *net.TCPAddr
	idle, busy int
}

// New returns a network without hosts.
func New() *Network { return &Network{hosts: map[string]*Host{}} }

// Add puts a host on the network under name:port, as URLs have it.
func (n *Network) Add(name string, h Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h.addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	if _, port, err := net.SplitHostPort(name); err == nil {
		h.addr.Port, _ = strconv.Atoi(port)
	}
	n.hosts[name] = &h
}

// CloseIdleConnections implements what http.Client.CloseIdleConnections asks for.
func (n *Network) CloseIdleConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		h.idle = 0
	}
}

// RoundTrip implements http.RoundTripper. When the request's context ends, what is returned is its cause.
func (n *Network) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	h, err := n.connect(ctx, req.URL.Host)
	if err != nil {
		return nil, err
	}
	x := &exchange{ctx: ctx, net: n, host: h, header: make(http.Header, 8), wake: make(chan struct{}, 1)}
	inner, cancel := context.WithCancel(context.WithValue(ctx, http.LocalAddrContextKey, h.addr))
	x.cancel = cancel
	x.payload.Reset(body)
	n.run(x, x.request(req, inner))
	if err := x.awaitHead(); err != nil {
		x.leave()
		return nil, err
	}
	return &http.Response{Status: statusLine(x.status), StatusCode: x.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.sent, Body: x, ContentLength: -1, Request: req}, nil
}

// statusLine is a status in words.
func statusLine(status int) string {
	if status == http.StatusOK {
		return "200 OK"
	}
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}

// readBody takes the whole body before anything else happens, as a socket's buffer would a small one: who sent it may
// use its memory again as soon as RoundTrip returns.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	if req.ContentLength <= 0 {
		return io.ReadAll(req.Body)
	}
	b := make([]byte, req.ContentLength)
	_, err := io.ReadFull(req.Body, b)
	return b, err
}

// connect takes an idle connection or makes one.
func (n *Network) connect(ctx context.Context, host string) (*Host, error) {
	n.mu.Lock()
	h := n.hosts[host]
	if h == nil {
		n.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	h.busy++
	fresh := h.idle == 0
	if !fresh {
		h.idle--
	}
	open := h.busy + h.idle
	n.mu.Unlock()
	if fresh && h.Dial != nil {
		if err := h.Dial(ctx, open); err != nil {
			n.mu.Lock()
			h.close(false)
			n.mu.Unlock()
			return nil, err
		}
	}
	return h, nil
}

// close ends the use of a connection. The network's lock is held.
func (h *Host) close(reuse bool) {
	h.busy--
	if reuse {
		h.idle++
	}
}

// note keeps the first panic of a handler.
func (n *Network) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken == nil {
		n.broken = err
	}
}

var (
	errCut   error = io.ErrUnexpectedEOF
	errReset error = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
)
