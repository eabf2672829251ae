//go:build agents

package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"sync"
)

// proxy lets through what goes to loopback, since some agents ignore NO_PROXY. Every other host is noted and refused.
type proxy struct {
	server *httptest.Server
	mu     sync.Mutex
	hosts  []string
}

func newProxy() (*proxy, error) {
	p := &proxy{}
	p.server = httptest.NewServer(p)
	return p, nil
}

func (p *proxy) url() string { return p.server.URL }

func (p *proxy) close() { p.server.Close() }

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts = nil
}

func (p *proxy) log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hosts)
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		p.mu.Lock()
		if !slices.Contains(p.hosts, host) {
			p.hosts = append(p.hosts, host)
		}
		p.mu.Unlock()
		http.Error(w, "only loopback can be reached", http.StatusForbidden)
		return
	}
	if r.Method == http.MethodConnect {
		tunnel(w, r.Host)
		return
	}
	(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, FlushInterval: -1}).ServeHTTP(w, r)
}

func tunnel(w http.ResponseWriter, to string) {
	up, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer up.Close()
	down, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer down.Close()
	if _, err := io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(up, buf) // until one side closes
		up.Close()
	}()
	_, _ = io.Copy(down, up)
}
