package lab

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/local"
	"spillway/internal/lab/scenario"
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

// clock notes when a client is written to.
type clock struct {
	discard
	began time.Time
	at    []time.Duration
	body  []byte
}

func (c *clock) Write(b []byte) (int, error) {
	c.at, c.body = append(c.at, time.Since(c.began)), append(c.body, b...)
	return len(b), nil
}

// TestASourceInVirtualTimeWritesOncePerInstant: headers, lifecycle and the first token go out together, then the bundle with
// what ends the answer; each when it is due. Nothing of one answer is left in the memory of the next.
func TestASourceInVirtualTimeWritesOncePerInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attached(SourceConfig{Name: "s", Latency: scenario.Between(time.Second, time.Second), Interval: scenario.Between(10*ms, 10*ms),
			Faults: []Fault{{Kind: fault.CRLF, Turn: 1, Of: 4}, {Kind: fault.EndEarly, Tokens: 20, Turn: 2, Of: 4}}})
		var bodies []string
		for i, want := range [][]time.Duration{{1000, 1590}, {1000, 1590}, {1000, 1190}, {1000, 1590}} {
			c := &clock{discard: discard{http.Header{}}, began: time.Now()}
			s.ServeHTTP(c, request(`,"stream":true`)())
			for j := range want {
				want[j] *= ms
			}
			if !slices.Equal(c.at, want) {
				t.Errorf("answer %d is written at %v, want %v", i, c.at, want)
			}
			bodies = append(bodies, string(regexp.MustCompile(`"(id|created)":[^,]*`).ReplaceAll(c.body, nil)))
		}
		if bodies[0] != bodies[3] || strings.ReplaceAll(bodies[1], "\r", "") != bodies[0] || bodies[1] == bodies[0] || len(bodies[2]) >= len(bodies[0]) {
			t.Errorf("%q", bodies)
		}
	})
}

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
