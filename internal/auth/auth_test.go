package auth

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
)

const (
	devKey   = "sk-spw-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	adminKey = "sk-spw-BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
)

func snapshot(t testing.TB, doc string) *catalog.Snapshot {
	t.Helper()
	cfg, err := config.Load(config.Source{Bytes: []byte(doc), Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := catalog.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keyed(t testing.TB) *catalog.Snapshot {
	return snapshot(t, fmt.Sprintf("keys:\n- {name: dev, hash: %q, allowed_models: [smart]}\n- {name: admin, hash: %q, scopes: [diagnostics, management]}\n",
		Hash(devKey), Hash(adminKey)))
}

func TestIdentify(t *testing.T) {
	s := keyed(t)
	for _, c := range []struct {
		name   string
		header http.Header
		query  url.Values
		want   gateway.ClientKeyID
	}{
		{"bearer", http.Header{"Authorization": {"Bearer " + devKey}}, nil, "dev"},
		{"bearer in any case", http.Header{"Authorization": {"bEARER  " + devKey + " "}}, nil, "dev"},
		{"x-api-key", http.Header{"X-Api-Key": {adminKey}}, nil, "admin"},
		{"x-goog-api-key", http.Header{"X-Goog-Api-Key": {devKey}}, nil, "dev"},
		{"query", nil, url.Values{"key": {devKey}}, "dev"},
		{"a dummy bearer beside the key", http.Header{"Authorization": {"Bearer dummy"}, "X-Api-Key": {devKey}}, nil, "dev"},
		{"the first that is known", http.Header{"Authorization": {"Bearer " + devKey}, "X-Api-Key": {adminKey}}, nil, "dev"},
		{"nothing", http.Header{}, nil, ""},
		{"basic", http.Header{"Authorization": {"Basic " + devKey}}, nil, ""},
		{"no scheme", http.Header{"Authorization": {devKey}}, nil, ""},
		{"empty bearer", http.Header{"Authorization": {"Bearer "}}, nil, ""},
		{"wrong", http.Header{"Authorization": {"Bearer " + devKey[:len(devKey)-1] + "B"}}, nil, ""},
		{"prefix of a key", http.Header{"Authorization": {"Bearer " + devKey[:20]}}, nil, ""},
		{"the hash itself", http.Header{"Authorization": {"Bearer " + Hash(devKey)}}, nil, ""},
		{"huge", http.Header{"X-Api-Key": {strings.Repeat("x", 1<<20)}}, nil, ""},
		{"another query parameter", nil, url.Values{"k": {devKey}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Identify(s, c.header, c.query)
			if p.Key != c.want || (err == nil) != (c.want != "") || p.Anonymous {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	dev, _ := Identify(s, http.Header{"X-Api-Key": {devKey}}, nil)
	admin, _ := Identify(s, http.Header{"X-Api-Key": {adminKey}}, nil)
	if dev.Diagnostics || dev.Management || dev.Models[0] != "smart" || !admin.Diagnostics || !admin.Management {
		t.Errorf("%+v %+v", dev, admin)
	}
	anon, err := Identify(snapshot(t, ""), http.Header{"Authorization": {"Bearer anything"}}, nil)
	if err != nil || !anon.Anonymous || !anon.Diagnostics || anon.Management {
		t.Errorf("without keys: %+v %v", anon, err)
	}
}

// P103: a 401 that tells which part was wrong, the product, a table name, or the hash.
func TestP103OneWordingForEveryCause(t *testing.T) {
	s := keyed(t)
	var first string
	for _, h := range []http.Header{{}, {"Authorization": {"Bearer wrong"}}, {"Authorization": {"Basic x"}}, {"X-Api-Key": {devKey + "x"}},
		{"Authorization": {"Bearer " + Hash(devKey)}}, {"X-Goog-Api-Key": {strings.Repeat("x", 1<<20)}}} {
		_, err := Identify(s, h, nil)
		if err == nil || err.HTTPStatus() != 401 || err.Code != gateway.InvalidAPIKey {
			t.Fatalf("%v", err)
		}
		all := fmt.Sprintf("%+v", *err)
		if first == "" {
			first = all
		}
		if all != first {
			t.Errorf("%s differs from %s", all, first)
		}
		for _, leak := range []string{"sha256", "wrong", "hash", "table", "revoked", "expired", devKey[:10]} {
			if strings.Contains(strings.ToLower(all), strings.ToLower(leak)) {
				t.Errorf("tells %q: %s", leak, all)
			}
		}
	}
}

func TestScopes(t *testing.T) {
	dev := gateway.Principal{Key: "dev", Scopes: []string{Inference}}
	anon := gateway.Principal{Anonymous: true}
	for _, c := range []struct {
		p     gateway.Principal
		scope string
		ok    bool
	}{{dev, Inference, true}, {dev, Management, false}, {dev, LeaseExclusive, false}, {anon, Inference, true},
		{anon, LeaseExclusive, true}, {anon, Management, false}, {gateway.Principal{Key: "none"}, Inference, false}} {
		err := Require(&c.p, c.scope)
		if (err == nil) != c.ok || err != nil && (err.HTTPStatus() != 403 || err.Code != gateway.ScopeRequired) {
			t.Errorf("%+v %s: %v", c.p, c.scope, err)
		}
	}
}

func TestAllowModel(t *testing.T) {
	combo := &gateway.Combo{Name: "smart", Targets: []gateway.Target{{Provider: "openai", Model: "gpt-5.1"}, {Provider: "lab", Model: "m1"}}}
	for _, c := range []struct {
		list  string
		asked string
		combo *gateway.Combo
		ok    bool
	}{
		{"", "anything", nil, true},
		{"smart", "smart", combo, true},
		{"smart", "alias-of-smart", combo, true},
		{"alias-*", "alias-of-smart", combo, true},
		{"openai/*,lab/m1", "other", combo, true},
		{"gpt-5.1,m1", "other", combo, true},
		{"openai/*", "other", combo, false},
		{"lab/*", "gpt", nil, false},
		{"gpt", "gpt-5", nil, false},
		{"x", "other", &gateway.Combo{Name: "empty"}, false},
	} {
		p := gateway.Principal{}
		if c.list != "" {
			p.Models = strings.Split(c.list, ",")
		}
		err := AllowModel(&p, c.asked, c.combo)
		if (err == nil) != c.ok || err != nil && err.HTTPStatus() != 403 {
			t.Errorf("[%s] %s: %v", c.list, c.asked, err)
		}
	}
	err := AllowModel(&gateway.Principal{Models: []string{"x"}}, "a\r\nset-cookie: "+strings.Repeat("y", 500), nil)
	if strings.ContainsAny(err.Message, "\r\n") || len(err.Message) > 200 {
		t.Errorf("%q", err.Message)
	}
}

func TestGuard(t *testing.T) {
	plain := snapshot(t, "allowed_origins: ['https://app.example']")
	for _, c := range []struct {
		name   string
		method string
		host   string
		header map[string]string
		body   string
		status int
	}{
		{name: "a program", method: "POST", host: "127.0.0.1:4000", header: map[string]string{"Content-Type": "application/json"}, body: "{}"},
		{name: "by name", method: "POST", host: "LocalHost:4000", header: map[string]string{"Content-Type": "application/json; charset=utf-8"}, body: "{}"},
		{name: "by IPv6", method: "GET", host: "[::1]:4000"},
		{name: "another loopback address", method: "GET", host: "127.9.8.7:4000"},
		{name: "a POST without a body", method: "POST", host: "127.0.0.1:4000"},
		{name: "another port", method: "GET", host: "127.0.0.1:4001", status: 403},
		{name: "no port", method: "GET", host: "127.0.0.1", status: 403},
		{name: "rebound name", method: "GET", host: "evil.example:4000", status: 403},
		{name: "name that looks local", method: "GET", host: "localhost.evil.example:4000", status: 403},
		{name: "address that looks local", method: "GET", host: "127.0.0.1.evil.example:4000", status: 403},
		{name: "private address", method: "GET", host: "192.168.1.2:4000", status: 403},
		{name: "no host", method: "GET", host: "", status: 403},
		{name: "form", method: "POST", host: "127.0.0.1:4000", header: map[string]string{"Content-Type": "text/plain"}, body: "{}", status: 415},
		{name: "urlencoded", method: "POST", host: "127.0.0.1:4000", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, body: "{}", status: 415},
		{name: "no type", method: "POST", host: "127.0.0.1:4000", body: "{}", status: 415},
		{name: "merge patch", method: "PATCH", host: "127.0.0.1:4000", header: map[string]string{"Content-Type": "application/merge-patch+json"}, body: "{}"},
		{name: "page", method: "GET", host: "127.0.0.1:4000", header: map[string]string{"Origin": "https://evil.example"}, status: 403},
		{name: "sandboxed page", method: "GET", host: "127.0.0.1:4000", header: map[string]string{"Origin": "null"}, status: 403},
		{name: "page of another local port", method: "GET", host: "127.0.0.1:4000", header: map[string]string{"Origin": "http://127.0.0.1:3000"}, status: 403},
		{name: "our own page", method: "POST", host: "127.0.0.1:4000", header: map[string]string{"Origin": "http://127.0.0.1:4000", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}, body: "{}"},
		{name: "our own page with another scheme", method: "GET", host: "127.0.0.1:4000", header: map[string]string{"Origin": "https://127.0.0.1:4000"}, status: 403},
		{name: "listed page", method: "POST", host: "127.0.0.1:4000", header: map[string]string{"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, body: "{}"},
		{name: "image of another site", method: "GET", host: "127.0.0.1:4000", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, status: 403},
		{name: "image of another local port", method: "GET", host: "127.0.0.1:4000", header: map[string]string{"Sec-Fetch-Site": "same-site"}, status: 403},
		{name: "typed by the user", method: "GET", host: "127.0.0.1:4000", header: map[string]string{"Sec-Fetch-Site": "none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/v1/chat/completions", strings.NewReader(c.body))
			r.Host = c.host
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			err := Guard(plain, r)
			status := 0
			if err != nil {
				status = err.HTTPStatus()
			}
			if status != c.status {
				t.Errorf("%d, want %d (%v)", status, c.status, err)
			}
			if err := Guard(keyed(t), r); err != nil {
				t.Errorf("with client keys: %v", err)
			}
		})
	}
}

// The port that counts is the one that the request came in on: with listen :0 nobody else knows it.
func TestGuardUsesTheRealPort(t *testing.T) {
	s := snapshot(t, "listen: 127.0.0.1:0")
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "localhost:5123"
	if err := Guard(s, r); err != nil {
		t.Errorf("port not known: %v", err)
	}
	at := func(port int) *http.Request {
		return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}))
	}
	if err := Guard(s, at(5123)); err != nil {
		t.Errorf("our port: %v", err)
	}
	if err := Guard(s, at(5124)); err == nil {
		t.Error("another port is allowed")
	}
	secure := at(443)
	secure.Host, secure.TLS = "localhost", &tls.ConnectionState{}
	if err := Guard(s, secure); err != nil {
		t.Errorf("the default port: %v", err)
	}
}

func TestNewKey(t *testing.T) {
	seen := map[gateway.Secret]bool{}
	for range 5 {
		plain, hash := NewKey()
		if !regexp.MustCompile(`^sk-spw-[A-Za-z0-9_-]{43}$`).MatchString(plain.Reveal()) || seen[plain] {
			t.Fatalf("%q", plain.Reveal())
		}
		seen[plain] = true
		if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(hash) || !Matches(hash, plain) || Matches(hash, plain+"x") || Matches(hash, "") {
			t.Fatal(hash)
		}
		s := snapshot(t, fmt.Sprintf("keys: [{name: k, hash: %q}]", hash))
		if p, err := Identify(s, http.Header{"Authorization": {"Bearer " + plain.Reveal()}}, nil); err != nil || p.Key != "k" {
			t.Fatalf("%v %v", p, err)
		}
	}
	token, hash := NewManagementToken()
	if !regexp.MustCompile(`^spw_[A-Za-z0-9_-]{43}$`).MatchString(token.Reveal()) || !Matches(hash, token) {
		t.Errorf("%q", token.Reveal())
	}
	for _, bad := range []string{"", "sha256:", "sha256:zz", "md5:" + strings.Repeat("a", 64), strings.Repeat("a", 64)} {
		if Matches(bad, token) {
			t.Errorf("%q matches", bad)
		}
	}
	if long := gateway.Secret(strings.Repeat("k", 1000)); !Matches(Hash(long), long) {
		t.Error("a long token")
	}
}

func BenchmarkIdentify(b *testing.B) {
	s := keyed(b)
	h := http.Header{"Authorization": {"Bearer " + devKey}, "Content-Type": {"application/json"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Identify(s, h, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestGuardForm: a form with files may come, but not from a web page.
func TestGuardForm(t *testing.T) {
	s := snapshot(t, "")
	for _, c := range []struct {
		kind, origin, site string
		status             int
	}{
		{kind: "multipart/form-data; boundary=x"},
		{kind: "Multipart/Form-Data;boundary=x"},
		{kind: "application/json"},
		{kind: "multipart/form-data; boundary=x", origin: "https://evil.example", status: 403},
		{kind: "multipart/form-data; boundary=x", origin: "null", status: 403},
		{kind: "multipart/form-data; boundary=x", site: "cross-site", status: 403},
		{kind: "text/plain", status: 415},
		{kind: "application/x-www-form-urlencoded", status: 415},
	} {
		r := httptest.NewRequest("POST", "http://127.0.0.1:4000/v1/audio/transcriptions", strings.NewReader("--x--"))
		for name, v := range map[string]string{"Content-Type": c.kind, "Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if v != "" {
				r.Header.Set(name, v)
			}
		}
		err := GuardForm(s, r)
		if (err == nil) != (c.status == 0) || err != nil && err.HTTPStatus() != c.status {
			t.Errorf("%+v: %v", c, err)
		}
		if strings.HasPrefix(strings.ToLower(c.kind), "multipart") && Guard(s, r) == nil {
			t.Errorf("%+v: taken where no form belongs", c)
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	s := snapshot(b, "")
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader("{}"))
	r.Host = "127.0.0.1:4000"
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4000}))
	b.ReportAllocs()
	for b.Loop() {
		if err := Guard(s, r); err != nil {
			b.Fatal(err)
		}
	}
}
