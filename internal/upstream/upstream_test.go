package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spillway/internal/gateway"
)

func connection(base, proxy string, connect time.Duration) *gateway.Connection {
	return &gateway.Connection{ID: "c", Provider: &gateway.Provider{ID: "p", BaseURL: base}, Proxy: proxy,
		Timeouts: gateway.Timeouts{Connect: connect}}
}

func send(t *testing.T, rt http.RoundTripper, url, body string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := rt.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

// TestOneTransportPerWay: connections share idle sockets when they leave by the same way, and only then.
func TestOneTransportPerWay(t *testing.T) {
	set := New(Options{})
	defer set.Close()
	get := func(c *gateway.Connection) http.RoundTripper {
		t.Helper()
		rt, err := set.For(c)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	first := get(connection("https://a.test/v1", "", time.Second))
	if get(connection("https://b.test/v1", "", time.Second)) != first {
		t.Error("two providers without a proxy do not share")
	}
	for name, other := range map[string]*gateway.Connection{
		"another proxy":            connection("https://a.test/v1", "http://proxy.test:1", time.Second),
		"another connect time-out": connection("https://a.test/v1", "", 2*time.Second),
	} {
		if get(other) == first {
			t.Errorf("%s shares", name)
		}
	}
}

// TestBadProxy: the error helps and does not tell the password.
func TestBadProxy(t *testing.T) {
	set := New(Options{})
	for _, proxy := range []string{"user:hunter2@host", "http://user:hunter2@ho st", "://x", "nonsense"} {
		_, err := set.For(connection("http://a.test", proxy, time.Second))
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "proxy") {
			t.Errorf("%q: %v", proxy, err)
		}
	}
}

// TestProxy: a connection's proxy is used for plain upstreams as well.
func TestProxy(t *testing.T) {
	var asked atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.String())
		_, _ = io.WriteString(w, "through the proxy")
	}))
	defer proxy.Close()
	set := New(Options{})
	defer set.Close()
	rt, err := set.For(connection("http://a.test/v1", proxy.URL, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := send(t, rt, "http://a.test/v1/x", "{}"); err != nil || body != "through the proxy" || asked.Load() != "http://a.test/v1/x" {
		t.Errorf("%q %v, the proxy was asked for %v", body, err, asked.Load())
	}
}

// TestP48NeverRetriesNorRedirects: how often something is sent is decided elsewhere: one call is one request, whatever
// the upstream answers.
func TestP48NeverRetriesNorRedirects(t *testing.T) {
	for _, status := range []int{301, 307, 308, 401, 408, 425, 429, 500, 503} {
		var calls atomic.Int32
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
		}))
		set := New(Options{})
		rt, err := set.For(connection(up.URL, "", time.Second))
		if err != nil {
			t.Fatal(err)
		}
		res, _, err := send(t, rt, up.URL, "{}")
		if err != nil || res.StatusCode != status || calls.Load() != 1 {
			t.Errorf("%d: %v, %d calls", status, err, calls.Load())
		}
		set.Close()
		up.Close()
	}
}

// TestCompressionIsLeftAlone: what comes encoded stays so, and nothing is asked for that the request does not name.
func TestCompressionIsLeftAlone(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := r.Header.Get("Accept-Encoding"); e != "" {
			t.Errorf("asks for %q", e)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "these bytes")
	}))
	defer up.Close()
	set := New(Options{})
	defer set.Close()
	rt, err := set.For(connection(up.URL, "", time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if res, body, err := send(t, rt, up.URL, "{}"); err != nil || body != "these bytes" || res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%q %v", body, err)
	}
}

// TestDialHook replaces the network.
func TestDialHook(t *testing.T) {
	dialed := ""
	set := New(Options{Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
		dialed = addr
		return nil, net.ErrClosed
	}})
	for base, want := range map[string]string{"http://a.test/v1": "a.test:80", "https://b.test/v1": "b.test:443", "http://c.test:99": "c.test:99"} {
		rt, err := set.For(connection(base, "", time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := send(t, rt, base, "{}"); err == nil || dialed != want {
			t.Errorf("%s dialled %q: %v", base, dialed, err)
		}
	}
}
