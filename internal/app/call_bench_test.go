package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"spillway/internal/config"
	"spillway/internal/store"
)

// answers is an upstream without a network: every request gets the same answer.
type answers struct{ kind, body string }

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: r,
		Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// sink is a client that takes everything.
type sink struct {
	header http.Header
	status int
	bytes  int
}

func (s *sink) Header() http.Header              { return s.header }
func (s *sink) WriteHeader(status int)           { s.status = status }
func (s *sink) Write(p []byte) (int, error)      { s.bytes += len(p); return len(p), nil }
func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) FlushError() error                { return nil }
func (s *sink) reset()                           { clear(s.header); s.status, s.bytes = 0, 0 }

// BenchmarkCall is one call through the whole gateway but for sockets, journal and disk: what it costs and allocates.
func BenchmarkCall(b *testing.B) {
	const usage = `"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}`
	whole := answers{"application/json", `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"` + strings.Repeat("All is well. ", 30) + `"},"finish_reason":"stop"}],` + usage + `}`}
	chunk := func(delta, finish string) string {
		return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta +
			`,"finish_reason":` + finish + "}]}\n\n"
	}
	stream := answers{"text/event-stream", chunk(`{"role":"assistant","content":""}`, "null") +
		strings.Repeat(chunk(`{"content":"All is well. "}`, "null"), 30) + chunk(`{}`, `"stop"`) +
		`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],` + usage + "}\n\ndata: [DONE]\n\n"}
	for name, c := range map[string]struct {
		up     answers
		stream string
		cache  string
	}{
		"whole": {whole, "false", "false"}, "stream": {stream, "true", "false"},
		"whole and kept": {whole, "false", "true"}, "stream and kept": {stream, "true", "true"},
	} {
		b.Run(name, func(b *testing.B) {
			a, err := Open(b.Context(), Options{
				Source: config.Source{Bytes: []byte(providers("one", "two") + combo("one", "two") + "cache: {enabled: " + c.cache + "}\n"),
					Path: "bench.yaml", Env: func(string) (string, bool) { return "", false }},
				Store: store.Memory(), Transport: c.up, NoListener: true})
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close(context.Background())
			handler := a.Handler()
			body := `{"model":"smart","stream":` + c.stream + `,"stream_options":{"include_usage":true},` +
				`"messages":[{"role":"user","content":"How are you?"}]}`
			out := &sink{header: http.Header{}}
			r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, gatewayURL+"/v1/chat/completions", nil)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Cache-Control", "no-cache") // kept, and yet asked for each time
			r.ContentLength = int64(len(body))
			b.ReportAllocs()
			for b.Loop() {
				out.reset()
				r.Body = io.NopCloser(strings.NewReader(body))
				handler.ServeHTTP(out, r)
				if out.status != http.StatusOK || out.bytes < 400 {
					b.Fatalf("status %d, %d bytes", out.status, out.bytes)
				}
			}
		})
	}
}
