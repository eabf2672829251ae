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
	"strings"
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
	// Transport carries everything instead of the network, for the simulator; nil = the network.
	Transport http.RoundTripper
}

// Transports hands out one transport per way to the network (proxy, connect time-out, with or without TLS), so that
// connections of one provider share their idle sockets. It is safe for concurrent use.
type Transports struct {
	options Options
	mu      sync.RWMutex
	byWay   map[way]transport
}

type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

type way struct {
	proxy   string
	connect time.Duration
	plain   bool // http://, straight to the upstream
}

// New returns an empty set.
func New(o Options) *Transports { return &Transports{options: o, byWay: map[way]transport{}} }

// For returns the transport of a connection. The error names the proxy that cannot be read.
func (t *Transports) For(c *gateway.Connection) (http.RoundTripper, error) {
	if t.options.Transport != nil {
		return t.options.Transport, nil
	}
	w := way{c.Proxy, c.Timeouts.Connect, straight(c)}
	t.mu.RLock()
	have := t.byWay[w]
	t.mu.RUnlock()
	if have != nil {
		return have, nil
	}
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

// straight reports whether a connection needs neither TLS nor a proxy.
func straight(c *gateway.Connection) bool {
	if c.Proxy != "" || !strings.HasPrefix(c.Provider.BaseURL, "http://") {
		return false
	}
	u, err := url.Parse(c.Provider.BaseURL)
	if err != nil {
		return false
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return err == nil && proxy == nil
}

func (t *Transports) build(w way) (transport, error) {
	dial := t.options.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: w.connect, KeepAlive: 30 * time.Second}).DialContext
	}
	if w.plain {
		return newDirect(dial), nil
	}
	tr := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
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
