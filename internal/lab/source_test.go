package lab

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spillway/internal/lab/local"
)

// discard is a client that reads nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             { clear(d.header) }
func (d discard) Flush()                      {}

// attached is a source as it stands in a simulation.
func attached(cfg SourceConfig) *Source {
	s, err := NewServer(Config{Sources: []SourceConfig{cfg}})
	if err != nil {
		panic(err)
	}
	s.Attach(local.New())
	return s.Source(cfg.Name)
}

// request is one that a simulation's gateway sends.
func request(more string) func() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://lab/v1/chat/completions", nil)
	r.Header.Set("Authorization", "Bearer key")
	body := strings.NewReader("")
	return func() *http.Request {
		body.Reset(`{"model":"lab","messages":[{"role":"user","content":"p6 6 question 4711 word word word word"}]` + more + `}`)
		r.Body = readCloser{body}
		return r
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// BenchmarkSource is what one answer of 60 tokens costs a source of a simulation.
func BenchmarkSource(b *testing.B) {
	for name, more := range map[string]string{"whole": "", "stream": `,"stream":true,"stream_options":{"include_usage":true}`} {
		b.Run(name, func(b *testing.B) {
			s, next, w := attached(SourceConfig{Name: "s"}), request(more), discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				s.ServeHTTP(w, next())
			}
		})
	}
}
