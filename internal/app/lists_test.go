package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"spillway/internal/config"
	"spillway/internal/store"
)

// TestAModelNobodyListsGoesToTheProviderThatHasIt: two providers without configured models; the upstreams' own lists say
// who has the model, are fetched once, and show in /v1/models.
func TestAModelNobodyListsGoesToTheProviderThatHasIt(t *testing.T) {
	var lists, wrong atomic.Int32
	upstream := func(models ...string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/v1/models" {
				lists.Add(1)
				var data []map[string]string
				for _, m := range models {
					data = append(data, map[string]string{"id": m})
				}
				json.NewEncoder(w).Encode(map[string]any{"data": data})
				return
			}
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), models[0]) {
				wrong.Add(1)
			}
			io.WriteString(w, `{"id":"x","object":"chat.completion","model":"`+models[0]+`","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"from `+models[0]+`"}}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
		}))
	}
	a, b := upstream("alpha"), upstream("beta")
	defer a.Close()
	defer b.Close()
	g, err := Open(t.Context(), Options{NoListener: true, Store: store.Memory(), Source: config.Source{
		Path: "test.yaml", Env: func(string) (string, bool) { return "", false },
		Bytes: []byte("providers:\n  a: {protocols: [openai], base_url: " + a.URL + "/v1}\n  b: {protocols: [openai], base_url: " + b.URL +
			"/v1}\nconnections:\n  - {id: a1, provider: a, key: k1}\n  - {id: b1, provider: b, key: k2}\n"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context())
	for range 3 {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:4000/v1/chat/completions", strings.NewReader(`{"model":"beta","messages":[]}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "from beta") || w.Header().Get("X-Spillway-Provider") != "b" {
			t.Fatalf("%d %s %v", w.Code, w.Body, w.Header())
		}
	}
	if n := wrong.Load(); n != 0 {
		t.Errorf("%d requests went to a provider that does not have the model", n)
	}
	if n := lists.Load(); n != 2 {
		t.Errorf("lists were fetched %d times, want once per provider", n)
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost:4000/v1/models", nil)
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	for _, want := range []string{`"alpha"`, `"beta"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("/v1/models lacks %s: %s", want, w.Body)
		}
	}
}

func TestReadList(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":[{"id":"a"},{"id":""},{"id":"b"}]}`: "a b",
		`{"models":[{"name":"models/g"}]}`:           "g",
		`{}`:                                         "",
	} {
		got, err := readList([]byte(body))
		var names []string
		for _, m := range got {
			names = append(names, string(m))
		}
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("%s: %v %v", body, got, err)
		}
	}
	if _, err := readList([]byte("<html>")); err == nil {
		t.Error("a page was taken for a list")
	}
}
