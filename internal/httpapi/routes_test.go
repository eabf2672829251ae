package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// methods of HTTP that a client may try.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"}

// served is the whole client API: what each path allows, and in which protocol it refuses the rest.
var served = []struct{ path, allow, protocol string }{
	{"/v1/chat/completions", "POST", "openai"},
	{"/v1/completions", "POST", "openai"},
	{"/v1/embeddings", "POST", "openai"},
	{"/v1/moderations", "POST", "openai"},
	{"/v1/rerank", "POST", "openai"},
	{"/v1/images/generations", "POST", "openai"},
	{"/v1/images/edits", "POST", "openai"},
	{"/v1/images/variations", "POST", "openai"},
	{"/v1/audio/speech", "POST", "openai"},
	{"/v1/audio/transcriptions", "POST", "openai"},
	{"/v1/audio/translations", "POST", "openai"},
	{"/v1/responses", "POST", "responses"},
	{"/v1/responses/compact", "POST", "responses"},
	{"/v1/responses/resp_1", "GET, HEAD, DELETE", "openai"},
	{"/v1/responses/resp_1/cancel", "POST", "openai"},
	{"/v1/responses/resp_1/input_items", "GET, HEAD", "openai"},
	{"/v1/messages", "POST", "anthropic"},
	{"/v1/messages/count_tokens", "POST", "anthropic"},
	{"/v1/models", "GET, HEAD", "openai"},
	{"/v1beta/models", "GET, HEAD", "gemini"},
	{"/v1/models/m", "GET, HEAD, POST", "openai"},
	{"/v1beta/models/m", "GET, HEAD, POST", "gemini"},
	{"/v1/models/m:generateContent", "POST", "gemini"},
	{"/v1beta/models/m:generateContent", "POST", "gemini"},
	{"/v1beta/models/m:streamGenerateContent", "POST", "gemini"},
	{"/v1beta/models/m:countTokens", "POST", "gemini"},
	{"/v1beta/models/m:embedContent", "POST", "gemini"},
	{"/v1beta/models/m:batchEmbedContents", "POST", "gemini"},
}

// TestRoutes: every path has its methods under both roots, and names them when it is asked with another one.
func TestRoutes(t *testing.T) {
	u := newUpstream(t, answers)
	h, _ := serve(t, provider(u))
	for _, root := range []string{"", "/api"} {
		for _, row := range served {
			for _, method := range methods {
				r := ask(h, method, root+row.path, "{}")
				name := method + " " + root + row.path
				if slices.Contains(strings.Split(row.allow, ", "), method) {
					if body := bodyOf(t, r); r.StatusCode == 405 || strings.Contains(body, "nothing is served at") && !strings.HasSuffix(row.path, "/m") {
						t.Errorf("%s: %d %s", name, r.StatusCode, body)
					}
					continue
				}
				if r.StatusCode != 405 || r.Header.Get("Allow") != row.allow {
					t.Errorf("%s: %d, Allow %q, want %q", name, r.StatusCode, r.Header.Get("Allow"), row.allow)
				}
				if f := failureOf(t, r, row.protocol); f.code != "method_not_allowed" {
					t.Errorf("%s: %s", name, f.body)
				}
			}
		}
	}
}

// TestHeadOfTheRoot: some agents look whether anybody is there before they send, without a key.
func TestHeadOfTheRoot(t *testing.T) {
	u := newUpstream(t, answers)
	for _, yaml := range []string{provider(u), withKeys(provider(u))} {
		h, _ := serve(t, yaml)
		if r := ask(h, http.MethodHead, "/", ""); r.StatusCode >= 400 {
			t.Errorf("HEAD /: %d", r.StatusCode)
		}
	}
}
