package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

const chatBody = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// bodies are a good request per protocol, with its path.
var calls = map[gateway.Protocol]struct{ path, body string }{
	gateway.OpenAI:    {"/v1/chat/completions", chatBody},
	gateway.Responses: {"/v1/responses", `{"model":"m","input":"hello"}`},
	gateway.Anthropic: {"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`},
	gateway.Gemini:    {"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`},
}

func TestEveryProtocolUnderBothRoots(t *testing.T) {
	u := newUpstream(t, nil)
	h, _ := serve(t, provider(u))
	for p, c := range calls {
		for _, root := range []string{"", "/api"} {
			r := ask(h, "POST", root+c.path, c.body)
			if body := bodyOf(t, r); r.StatusCode != 200 || body != sound(c.path) {
				t.Errorf("%s under %q: %d %s", p, root, r.StatusCode, body)
			}
			if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Spillway-Source") != "upstream" {
				t.Errorf("%s: %v", p, r.Header)
			}
		}
	}
}

func TestMethods(t *testing.T) {
	h, _ := serve(t, provider(newUpstream(t, nil)))
	for _, row := range []struct{ method, path, allow, protocol string }{
		{"GET", "/v1/chat/completions", "POST", "openai"},
		{"DELETE", "/api/v1/chat/completions", "POST", "openai"},
		{"GET", "/v1/responses", "POST", "responses"},
		{"PUT", "/v1/messages", "POST", "anthropic"},
		{"PATCH", "/v1/models", "GET, HEAD", "openai"},
		{"DELETE", "/v1/models/m", "GET, HEAD, POST", "openai"},
		{"GET", "/v1beta/models/m:generateContent", "POST", "gemini"},
	} {
		r := ask(h, row.method, row.path, "")
		f := failureOf(t, r, row.protocol)
		if r.StatusCode != 405 || r.Header.Get("Allow") != row.allow || f.code != "method_not_allowed" {
			t.Errorf("%s %s: %d, Allow %q, %s", row.method, row.path, r.StatusCode, r.Header.Get("Allow"), f.body)
		}
	}
}

func TestUnknownPathsSpeakTheCallersProtocol(t *testing.T) {
	h, _ := serve(t, provider(newUpstream(t, nil)))
	for _, row := range []struct {
		method, path, protocol string
		header                 []string
	}{
		{"POST", "/v1/nothing", "openai", nil},
		{"GET", "/v1/", "openai", nil},
		{"POST", "/api/v1/nothing", "openai", nil},
		{"POST", "/v1/nothing", "anthropic", []string{"anthropic-version", "2023-06-01"}},
		{"POST", "/v1beta/nothing", "gemini", nil},
		{"POST", "/v1/nothing", "gemini", []string{"x-goog-api-key", "k"}},
		{"POST", "/v1beta/models/m:countSheep", "gemini", nil},
		{"POST", "/v1beta/models/m", "gemini", nil},
	} {
		f := failureOf(t, ask(h, row.method, row.path, "{}", row.header...), row.protocol)
		if f.status != 404 || f.code != "not_found" {
			t.Errorf("%s %s: %s", row.method, row.path, f.body)
		}
	}
}

// endless is a body of which only the beginning ever comes.
type endless struct {
	head io.Reader
	err  error
}

func (e endless) Read(p []byte) (int, error) {
	if n, err := e.head.Read(p); err == nil {
		return n, nil
	}
	return 0, e.err
}

// TestP78BodyLimit: announced or not, a body over the limit is a 413 in the caller's protocol, and nothing is forwarded.
func TestP78BodyLimit(t *testing.T) {
	u := newUpstream(t, nil)
	h, a := serve(t, provider(u)+"limits: {body: 64KiB}\n")
	big := `{"model":"m","pad":"` + strings.Repeat("x", 64<<10) + `"}`
	for p, c := range calls {
		for name, body := range map[string]io.Reader{"announced": strings.NewReader(big), "chunked": io.MultiReader(strings.NewReader(big))} {
			f := failureOf(t, do(h, request("POST", c.path, body)), p.String())
			if f.status != 413 || f.code != "request_too_large" {
				t.Errorf("%s, %s: %s", p, name, f.body)
			}
		}
	}
	fits := big[:len(big)-(len(big)-(64<<10))-2] + `"}`
	if r := ask(h, "POST", "/v1/chat/completions", fits); r.StatusCode != 200 || len(fits) != 64<<10 {
		t.Errorf("a body of exactly the limit (%d): %d", len(fits), r.StatusCode)
	}
	if u.calls() != 1 || a.Buffered() != 0 || a.InFlight() != 0 {
		t.Errorf("%d calls, %d bytes, %d in flight", u.calls(), a.Buffered(), a.InFlight())
	}
}

func TestBrokenBody(t *testing.T) {
	u := newUpstream(t, nil)
	h, a := serve(t, provider(u))
	r := request("POST", "/v1/messages", endless{strings.NewReader(`{"model":"m","mess`), errors.New("connection reset")})
	f := failureOf(t, do(h, r), "anthropic")
	if f.status != 400 || f.code != "invalid_request" || u.calls() != 0 || a.Buffered() != 0 {
		t.Errorf("%s; %d calls, %d bytes", f.body, u.calls(), a.Buffered())
	}
}

// trickle gives one byte at a time.
type trickle struct{ io.Reader }

func (r trickle) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }

// TestChunkedBody: a body without an announced length arrives whole, byte for byte, however it is cut.
func TestChunkedBody(t *testing.T) {
	u := newUpstream(t, nil)
	h, a := serve(t, provider(u))
	long := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("täxt ", 60_000) + `"}],"n":9007199254740993,"x":1e400}`
	for name, body := range map[string]io.Reader{
		"whole": io.MultiReader(strings.NewReader(long)), "bytes": trickle{strings.NewReader(long)},
	} {
		if r := do(h, request("POST", "/v1/chat/completions", body)); r.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, r.StatusCode, bodyOf(t, r))
			continue
		}
		if got := u.bodies[len(u.bodies)-1]; got != long {
			t.Errorf("%s: the upstream got %d bytes of %d, or others", name, len(got), len(long))
		}
	}
	if a.Buffered() != 0 {
		t.Errorf("%d bytes are still counted", a.Buffered())
	}
}

// TestBufferedBytes: over the limit new requests are refused before their body is read; the bytes come back.
func TestBufferedBytes(t *testing.T) {
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-hold
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, sound(r.URL.Path))
	})
	h, a := serve(t, provider(u)+"limits: {body: 1MiB, buffered_bytes: 1MiB}\n")
	big := `{"model":"m","pad":"` + strings.Repeat("x", 600<<10) + `"}`
	first := make(chan *http.Response)
	go func() { first <- ask(h, "POST", "/v1/chat/completions", big) }()
	<-began
	for name, body := range map[string]io.Reader{"announced": strings.NewReader(big), "chunked": io.MultiReader(strings.NewReader(big))} {
		r := do(h, request("POST", "/v1/messages", body))
		f := failureOf(t, r, "anthropic")
		if f.status != 503 || f.code != "overloaded" || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, Retry-After %q", name, f.body, r.Header.Get("Retry-After"))
		}
	}
	close(hold)
	if r := <-first; r.StatusCode != 200 {
		t.Errorf("the first request: %d", r.StatusCode)
	}
	if a.Buffered() != 0 {
		t.Errorf("%d bytes are still counted", a.Buffered())
	}
}

// TestHeadersUpstream: what goes upstream is on the allow-list; the client's credentials and our own headers never are.
func TestHeadersUpstream(t *testing.T) {
	u := newUpstream(t, nil)
	h, _ := serve(t, withKeys(provider(u)))
	kept := map[string]string{"Anthropic-Beta": "b1", "Openai-Beta": "b2", "Openai-Organization": "org", "X-Title": "t", "Idempotency-Key": "i"}
	dropped := []string{"Cookie", "Proxy-Authorization", "X-Spillway-Session", "X-Spillway-Lease-Owner", "X-Spillway-Lease-Generation",
		"X-Spillway-Debug", "X-Omniroute-Session", "X-Session-Id", "X-Forwarded-For", "X-Real-Ip", "Origin", "Referer", "Te", "Traceparent", "X-Custom"}
	for p, c := range calls {
		header := []string{"Authorization", "Bearer " + dev, "X-Api-Key", dev, "X-Goog-Api-Key", dev}
		for name, v := range kept {
			header = append(header, name, v)
		}
		for _, name := range dropped {
			header = append(header, name, "from-the-client")
		}
		if r := ask(h, "POST", c.path+"?key="+dev, c.body, header...); r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", p, r.StatusCode, bodyOf(t, r))
		}
		got := u.last(t)
		for name, v := range kept {
			if got.Header.Get(name) != v {
				t.Errorf("%s: %s did not go upstream", p, name)
			}
		}
		for name, values := range got.Header {
			for _, v := range values {
				if v == "from-the-client" || strings.Contains(v, dev) || strings.HasPrefix(name, "X-Spillway") {
					t.Errorf("%s: %s: %s went upstream", p, name, v)
				}
			}
		}
		if strings.Contains(got.URL.String(), dev) {
			t.Errorf("%s: the client's key is in the URL %s", p, got.URL)
		}
		if all := got.Header.Get("Authorization") + got.Header.Get("X-Api-Key") + got.Header.Get("X-Goog-Api-Key"); !strings.Contains(all, "key-of-the-owner") {
			t.Errorf("%s: the owner's key is missing: %v", p, got.Header)
		}
	}
}

// TestHeadersToTheClient: the upstream's cookies, encodings and connection headers stay behind; request ids go through,
// rate limits only to those who may see them.
func TestHeadersToTheClient(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Set-Cookie", "Keep-Alive", "Server", "Via", "Alt-Svc", "Strict-Transport-Security", "Cf-Ray",
			"X-Spillway-Source", "Access-Control-Allow-Origin", "Www-Authenticate", "Trailer"} {
			w.Header().Set(name, "from-the-upstream")
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-Request-Id", "up-1")
		w.Header().Set("X-Ratelimit-Remaining-Requests", "7")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, sound(r.URL.Path))
		_ = z.Close()
	})
	h, _ := serve(t, withKeys(provider(u)))
	for key, sees := range map[string]bool{dev: true, plain: false} {
		r := ask(h, "POST", "/v1/chat/completions", chatBody, "Authorization", "Bearer "+key)
		body := bodyOf(t, r)
		if r.StatusCode != 200 || body != sound("") || r.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("%d, %v, %q", r.StatusCode, r.Header, body)
		}
		for name, values := range r.Header {
			if values[0] == "from-the-upstream" || name == "Content-Encoding" {
				t.Errorf("%s: %s reached the client", name, values[0])
			}
		}
		if r.Header.Get("X-Request-Id") != "up-1" || r.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("missing: %v", r.Header)
		}
		if got := r.Header.Get("X-Ratelimit-Remaining-Requests") != ""; got != sees {
			t.Errorf("%s sees rate limits: %t", key, got)
		}
		if got := r.Header.Get("X-Spillway-Connection") != ""; got != sees {
			t.Errorf("%s sees the connection: %t", key, got)
		}
	}
}

// TestCallersFaultVerbatim: what a provider says about a bad request reaches the client byte for byte, also when it was
// compressed (P97: no stale content-encoding on errors).
func TestCallersFaultVerbatim(t *testing.T) {
	said := `{"error":{"message":"temperature must be at most 2","type":"invalid_request_error","param":"temperature","code":"bad_temperature"},"extra":[1,2]}`
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Title") == "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, said)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusUnprocessableEntity)
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, said)
		_ = z.Close()
	})
	h, _ := serve(t, provider(u))
	for _, header := range [][]string{nil, {"X-Title", "gzip"}} {
		r := ask(h, "POST", "/v1/chat/completions", chatBody, header...)
		if body := bodyOf(t, r); r.StatusCode != 422 || body != said || r.Header.Get("Content-Encoding") != "" {
			t.Errorf("%d %v %q", r.StatusCode, r.Header, body)
		}
		if r.Header.Get("X-Spillway-Source") != "upstream" || r.Header.Get("X-Spillway-Attempts") != "1" {
			t.Errorf("%v", r.Header)
		}
	}
	if u.calls() != 2 {
		t.Errorf("%d calls for two requests that cannot succeed", u.calls())
	}
}

// TestP43RetryAfter: a 429 says when to come back, in the bare header, in whole seconds.
func TestP43RetryAfter(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1800")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	h, _ := serve(t, provider(u))
	for i, want := range []string{"upstream", "gateway"} { // the second finds the account cooling
		r := ask(h, "POST", "/v1/chat/completions", chatBody)
		seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
		if r.StatusCode != 429 || err != nil || seconds < 800 || seconds > 2000 {
			t.Errorf("request %d: %d, Retry-After %q: %s", i, r.StatusCode, r.Header.Get("Retry-After"), bodyOf(t, r))
		}
		if r.Header.Get("X-Spillway-Source") != want {
			t.Errorf("request %d comes from %s", i, r.Header.Get("X-Spillway-Source"))
		}
	}
	if u.calls() != 1 {
		t.Errorf("%d calls", u.calls())
	}
}

func TestDraining(t *testing.T) {
	h, a := serve(t, provider(newUpstream(t, nil)))
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := ask(h, "POST", "/v1/messages", calls[gateway.Anthropic].body)
	f := failureOf(t, r, "anthropic")
	if f.status != 503 || f.code != "draining" || r.Header.Get("Retry-After") == "" || r.Header.Get("Connection") != "close" {
		t.Errorf("%s %v", f.body, r.Header)
	}
}

// TestDiagnosticsAreScoped: who may not see connections sees counts and the next step, and no name anywhere.
func TestDiagnosticsAreScoped(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	h, _ := serve(t, withKeys(strings.Replace(provider(u), "id: u1", "id: connection-of-the-owner", 1)+"waits: {enabled: false}\nlimits: {attempts: 2}\n"))
	for key, sees := range map[string]bool{dev: true, plain: false} {
		r := ask(h, "POST", "/v1/chat/completions", chatBody, "Authorization", "Bearer "+key)
		f := failureOf(t, r, "openai")
		var shown bytes.Buffer
		_ = r.Header.Write(&shown)
		if got := strings.Contains(f.body+shown.String(), "connection-of-the-owner"); got != sees {
			t.Errorf("%s sees the connection %t: %s", key, got, f.body)
		}
		var body struct {
			Error struct {
				Next        string
				Diagnostics map[string]any
			}
		}
		if err := json.Unmarshal([]byte(f.body), &body); err != nil || body.Error.Diagnostics["attempted"] == nil || body.Error.Next == "" {
			t.Errorf("%s: no diagnostics: %s", key, f.body)
		}
	}
}

func TestModels(t *testing.T) {
	u := newUpstream(t, nil)
	h, _ := serve(t, withKeys(provider(u)+"combos:\n  - {name: smart, targets: [up/m]}\naliases: {fast: smart}\n"))
	list := func(key, root string) []string {
		r := ask(h, "GET", root+"/v1/models", "", "Authorization", "Bearer "+key)
		var body struct {
			Object string
			Data   []struct{ ID, Object string }
		}
		if err := json.Unmarshal([]byte(bodyOf(t, r)), &body); err != nil || r.StatusCode != 200 || body.Object != "list" {
			t.Fatalf("%d %v", r.StatusCode, err)
		}
		var ids []string
		for _, m := range body.Data {
			if m.Object != "model" {
				t.Errorf("%+v", m)
			}
			ids = append(ids, m.ID)
		}
		return ids
	}
	for _, root := range []string{"", "/api"} {
		all := " " + strings.Join(list(dev, root), " ") + " "
		for _, want := range []string{"m", "other", "smart", "fast"} {
			if !strings.Contains(all, " "+want+" ") {
				t.Errorf("%s is not listed in%s", want, all)
			}
		}
		for _, id := range list(narrow, root) {
			if id != "other" {
				t.Errorf("a key for one model is shown %s", id)
			}
		}
	}
	for _, row := range []struct {
		key, id string
		status  int
	}{{dev, "smart", 200}, {dev, "up/m", 200}, {dev, "nothing", 404}, {narrow, "smart", 404}, {narrow, "other", 200}, {"bogus", "m", 401}} {
		if r := ask(h, "GET", "/v1/models/"+row.id, "", "Authorization", "Bearer "+row.key); r.StatusCode != row.status {
			t.Errorf("%s asks for %s: %d %s", row.key, row.id, r.StatusCode, bodyOf(t, r))
		}
	}
}

func TestGeminiPaths(t *testing.T) {
	u := newUpstream(t, nil)
	h, _ := serve(t, provider(u))
	body := calls[gateway.Gemini].body
	for _, path := range []string{"/v1beta/models/m:generateContent", "/v1/models/m:generateContent", "/api/v1beta/models/up/m:generateContent",
		"/v1beta/models/m:generateContent?key=ignored"} {
		if r := ask(h, "POST", path, body); r.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, r.StatusCode, bodyOf(t, r))
		}
		if got := u.last(t).URL.Path; got != "/v1beta/models/m:generateContent" {
			t.Errorf("%s went to %s", path, got)
		}
	}
	f := failureOf(t, ask(h, "POST", "/v1beta/models/m:streamGenerateContent", body), "gemini")
	if f.status != 400 || f.field != "alt" {
		t.Errorf("a stream that is none: %s", f.body)
	}
}

// TestPagesOfAllowedOrigins: a browser's question before the request is answered, and its page may read the answer; pages
// of other origins get neither.
func TestPagesOfAllowedOrigins(t *testing.T) {
	u := newUpstream(t, nil)
	h, _ := serve(t, provider(u)+"allowed_origins: [https://app.example]\n")
	for _, path := range []string{"/v1/chat/completions", "/v1/models", "/v1beta/models/m:generateContent", "/api/v1/messages"} {
		for origin, allowed := range map[string]bool{"https://app.example": true, "https://evil.example": false} {
			r := ask(h, "OPTIONS", path, "", "Origin", origin, "Content-Type", "", "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "content-type,authorization", "Access-Control-Request-Private-Network", "true")
			granted := r.StatusCode == 204 && r.Header.Get("Access-Control-Allow-Origin") == origin &&
				r.Header.Get("Access-Control-Allow-Headers") == "content-type,authorization" && r.Header.Get("Vary") == "Origin"
			if granted != allowed || !allowed && r.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s asks for %s: %d %v", origin, path, r.StatusCode, r.Header)
			}
		}
	}
	r := ask(h, "POST", "/v1/chat/completions", chatBody, "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site")
	if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("the page's request: %d %v", r.StatusCode, r.Header)
	}
	if r := ask(h, "OPTIONS", "/v1/chat/completions", "", "Origin", "https://app.example"); r.StatusCode != 405 {
		t.Errorf("OPTIONS that asks for nothing: %d", r.StatusCode)
	}
	if u.calls() != 1 {
		t.Errorf("%d calls", u.calls())
	}
}
