// Package upstream carries bytes to providers and back. It knows transports, proxies and time-outs of dialling; it does
// not know protocols, and it never retries: how often something is sent is decided in attempt, and nowhere else.
package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"spillway/internal/gateway"
)

// Options tune the transports.
type Options struct {
	// Dial replaces the network, for tests in virtual time; nil dials TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the base of the TLS configuration; nil means the system's roots.
	TLS *tls.Config
}

// Transports hands out one http.Transport per way to the network (proxy and connect time-out), so that connections of
// one provider share their idle sockets. It is safe for concurrent use.
type Transports struct {
	options Options
	mu      sync.Mutex
	byWay   map[way]*http.Transport
}

type way struct {
	proxy   string
	connect time.Duration
}

// New returns an empty set.
func New(o Options) *Transports { return &Transports{options: o, byWay: map[way]*http.Transport{}} }

// For returns the transport of a connection. The error names the proxy that cannot be read.
func (t *Transports) For(c *gateway.Connection) (http.RoundTripper, error) {
	w := way{c.Proxy, c.Timeouts.Connect}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.byWay[w]; have != nil {
		return have, nil
	}
	tr, err := t.build(w)
	if err != nil {
		return nil, err
	}
	t.byWay[w] = tr
	return tr, nil
}

func (t *Transports) build(w way) (*http.Transport, error) {
	dial := t.options.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: w.connect, KeepAlive: 30 * time.Second}).DialContext
	}
	tr := &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     t.options.TLS.Clone(),
		TLSHandshakeTimeout: w.connect,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // streams are asked for uncompressed; what comes anyway is decoded by attempt
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: 512,
		IdleConnTimeout:     90 * time.Second,
		WriteBufferSize:     16 << 10,
		ReadBufferSize:      4 << 10,
	}
	if w.proxy != "" {
		u, err := url.Parse(w.proxy)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("proxy is not a URL like http://host:port or socks5://host:port")
		}
		tr.Proxy = http.ProxyURL(u)
	}
	return tr, nil
}

// Close drops idle sockets. Requests in flight are not touched.
func (t *Transports) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.byWay {
		tr.CloseIdleConnections()
	}
}
