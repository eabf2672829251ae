package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"spillway/internal/app"
	"spillway/internal/config"
	"spillway/internal/store"
)

// upstream is a provider of the test's own. It answers every protocol with a short text unless answer says otherwise.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []*http.Request
	bodies []string
	answer http.HandlerFunc
}

func newUpstream(t testing.TB, answer http.HandlerFunc) *upstream {
	u := &upstream{answer: answer}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.seen = append(u.seen, r)
	u.bodies = append(u.bodies, string(body))
	u.mu.Unlock()
	if u.answer != nil {
		u.answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, sound(r.URL.Path))
}

// sound is a good answer in the protocol of a path.
func sound(path string) string {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":1,"output_tokens":1}}`
	case strings.HasSuffix(path, "/messages"):
		return `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	case strings.Contains(path, ":generateContent"):
		return `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`
	}
	return `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
}

// last is the newest request as the upstream saw it.
func (u *upstream) last(t testing.TB) *http.Request {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.seen) == 0 {
		t.Fatal("nothing came to the upstream")
	}
	return u.seen[len(u.seen)-1]
}

func (u *upstream) calls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

// dev is a client key with scope diagnostics, plain one without, narrow one for a single model, watcher
// one that may not send requests.
const (
	dev     = "sk-spw-dev"
	plain   = "sk-spw-plain"
	narrow  = "sk-spw-narrow"
	watcher = "sk-spw-watcher"
)

// provider is the YAML of the provider up, which speaks all protocols, with its connection u1.
func provider(u *upstream) string {
	return "providers:\n  up:\n    protocols: [openai, responses, anthropic, gemini]\n    base_url: " + u.URL +
		"\nconnections:\n  - {id: u1, provider: up, key: key-of-the-owner, models: [m, other]}\n"
}

const clientKeys = `keys:
  - {name: dev, hash: "sha256:%s", scopes: [inference, diagnostics]}
  - {name: plain, hash: "sha256:%s", scopes: [inference]}
  - {name: narrow, hash: "sha256:%s", scopes: [inference], allowed_models: [other]}
  - {name: watcher, hash: "sha256:%s", scopes: [diagnostics]}
`

func withKeys(yaml string) string {
	return yaml + fmt.Sprintf(clientKeys, sum(dev), sum(plain), sum(narrow), sum(watcher))
}

// serve opens a gateway and returns its handler.
func serve(t testing.TB, yaml string) (http.Handler, *app.App) {
	t.Helper()
	a, err := app.Open(t.Context(), app.Options{NoListener: true, Store: store.Memory(),
		Source: config.Source{Path: "spillway.yaml", Bytes: []byte(yaml), Env: func(string) (string, bool) { return "", false }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(t.Context()) })
	return a.Handler(), a
}

// ask is one request; header pairs follow.
func ask(h http.Handler, method, path, body string, header ...string) *http.Response {
	return do(h, request(method, path, strings.NewReader(body), header...))
}

func request(method, path string, body io.Reader, header ...string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:4000"+path, body)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	return r
}

func do(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// failure is an error as a client of some protocol sees it.
type failure struct {
	status               int
	code, message, field string
	body                 string
}

// failureOf reads an error body of any of the four protocols; the form is checked by want, the protocol's name.
func failureOf(t testing.TB, r *http.Response, want string) failure {
	t.Helper()
	body := bodyOf(t, r)
	var raw struct {
		Type  string                     `json:"type"`
		Error map[string]json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &raw); err != nil || raw.Error == nil {
		t.Fatalf("no error object: %s", body)
	}
	text := func(name string) string {
		var s string
		_ = json.Unmarshal(raw.Error[name], &s)
		return s
	}
	f := failure{status: r.StatusCode, code: text("code"), message: text("message"), field: text("param"), body: body}
	has := func(name string) bool { _, ok := raw.Error[name]; return ok }
	ok := false
	switch want {
	case "openai", "responses":
		ok = has("type") && has("param") && f.code != "" && raw.Type == ""
	case "anthropic":
		ok = raw.Type == "error" && has("type")
	case "gemini":
		ok = has("status") && string(raw.Error["code"]) == fmt.Sprint(r.StatusCode)
	}
	if !ok || f.message == "" {
		t.Errorf("not an error of protocol %s: %s", want, body)
	}
	if f.code == "" {
		f.code = deep(raw.Error, "code", "reason", "error_code")
	}
	if f.field == "" {
		f.field = deep(raw.Error, "param", "field")
	}
	return f
}

// deep finds a string by one of several names anywhere below.
func deep(m map[string]json.RawMessage, names ...string) string {
	for _, name := range names {
		for _, raw := range m {
			if s := find(raw, name); s != "" {
				return s
			}
		}
	}
	return ""
}

func find(raw json.RawMessage, name string) string {
	var obj map[string]json.RawMessage
	if json.Unmarshal(raw, &obj) == nil {
		var s string
		if json.Unmarshal(obj[name], &s) == nil && s != "" {
			return s
		}
		for _, v := range obj {
			if s := find(v, name); s != "" {
				return s
			}
		}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, v := range list {
			if s := find(v, name); s != "" {
				return s
			}
		}
	}
	return ""
}
