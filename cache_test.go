package spillway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"spillway"
)

// A program that embeds the engine has the cache and shares what is in flight, also when one of its requests is given up.
func TestCacheInProcess(t *testing.T) {
	g, err := spillway.New(spillway.Config{YAML: []byte("cache: {enabled: true, deduplicate: true}"), Env: nothing})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	client := &http.Client{Transport: g.RoundTripper()}
	ask := func(ctx context.Context) (source, text string, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://spillway/v1/chat/completions",
			strings.NewReader(`{"model":"auto","stream":true,"messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			return "", "", err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return "", "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res.Header.Get("x-spillway-source"), string(body), err
	}
	var all sync.WaitGroup
	texts := make([]string, 8)
	for i := range texts {
		all.Go(func() {
			_, text, err := ask(t.Context())
			if err != nil {
				t.Error(err)
			}
			texts[i] = text
		})
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := ask(gone); err == nil {
		t.Error("a request that was given up has an answer")
	}
	all.Wait()
	source, text, err := ask(t.Context())
	if err != nil || source != "cache" || !strings.Contains(text, "[DONE]") {
		t.Errorf("from %q, %v: %s", source, err, text)
	}
	for i := range texts {
		if texts[i] != text {
			t.Errorf("request %d got another answer", i)
		}
	}
}
