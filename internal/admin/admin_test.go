package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spillway/internal/auth"
	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/store"
)

type ledger map[gateway.RequestID]*gateway.Journey

func (l ledger) Get(_ context.Context, id gateway.RequestID) (*gateway.Journey, error) {
	switch j := l[id]; {
	case id == "broken":
		return nil, errors.New("disk on fire at /secret/place")
	case j == nil:
		return nil, store.ErrNotFound
	default:
		return j, nil
	}
}

func api(t *testing.T, yaml string) (http.Handler, gateway.Secret) {
	t.Helper()
	cfg, err := config.Load(config.Source{Path: "t.yaml", Bytes: []byte(yaml), Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := catalog.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	token, hash := auth.NewManagementToken()
	mux := http.NewServeMux()
	New(Options{Live: func() *catalog.Snapshot { return snap }, Token: hash, Log: slog.New(slog.DiscardHandler),
		Ledger: ledger{"req_1": {ID: "req_1", Model: "m", Status: 200, Served: gateway.Target{Provider: "a", Model: "m"}}}}).Routes(mux)
	return mux, token
}

func get(h http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4000"+path, nil)
	r.RemoteAddr = "127.0.0.1:5555"
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const keyed = `keys:
  - {name: dev, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
`

func TestAnybodyOnThisMachineMayReadWhileThereAreNoKeys(t *testing.T) {
	h, _ := api(t, "{}")
	w := get(h, "/api/requests/req_1")
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); w.Code != 200 || err != nil || body["id"] != "req_1" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for name, change := range map[string]func(*http.Request){
		"another machine": func(r *http.Request) { r.RemoteAddr = "192.0.2.7:1" },
		"a web page":      func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"a rebound name":  func(r *http.Request) { r.Host = "evil.example:4000" },
	} {
		if w := get(h, "/api/requests/req_1", change); w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized {
			t.Errorf("%s got %d %s", name, w.Code, w.Body)
		}
	}
}

func TestWithKeysTheManagementTokenIsNeeded(t *testing.T) {
	h, token := api(t, keyed)
	if w := get(h, "/api/requests/req_1"); w.Code != http.StatusUnauthorized {
		t.Fatalf("without a token: %d %s", w.Code, w.Body)
	}
	wrong := func(r *http.Request) { r.Header.Set("Authorization", "Bearer spw_wrong") }
	if w := get(h, "/api/requests/req_1", wrong); w.Code != http.StatusUnauthorized {
		t.Fatalf("with a wrong token: %d", w.Code)
	}
	right := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token.Reveal()) }
	if w := get(h, "/api/requests/req_1", right); w.Code != 200 {
		t.Fatalf("with the token: %d %s", w.Code, w.Body)
	}
}

func TestProblemsAreExplained(t *testing.T) {
	h, _ := api(t, "{}")
	w := get(h, "/api/requests/req_2")
	if w.Code != 404 || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), "x-spillway-request-id") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w = get(h, "/api/requests/broken")
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Fatalf("%d %s: what is inside stays inside", w.Code, w.Body)
	}
}

func TestTheTimelineIsText(t *testing.T) {
	h, _ := api(t, "{}")
	w := get(h, "/api/requests/req_1", func(r *http.Request) { r.Header.Set("Accept", "text/plain") })
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || !strings.Contains(w.Body.String(), "req_1") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
}
