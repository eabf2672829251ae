package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/lab/client"
)

// freeTier is an upstream that lets n requests per minute and key through and says nothing about it: sliding windows, and
// a bare 429.
type freeTier struct {
	n int

	mu      sync.Mutex
	served  map[string][]time.Time
	refused map[string][]time.Time
}

func (f *freeTier) take(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.served == nil {
		f.served, f.refused = map[string][]time.Time{}, map[string][]time.Time{}
	}
	in := 0
	for _, at := range f.served[key] {
		if now.Sub(at) < time.Minute {
			in++
		}
	}
	if in >= f.n {
		f.refused[key] = append(f.refused[key], now)
		return false
	}
	f.served[key] = append(f.served[key], now)
	return true
}

func (f *freeTier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	time.Sleep(20 * time.Millisecond) // the way there
	if !f.take(bearer(r)) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"message":"Rate limit reached","type":"rate_limit_error","code":"rate_limit_exceeded"}}`)
		return
	}
	time.Sleep(200 * time.Millisecond)
	fmt.Fprint(w, shortAnswer)
}

const shortAnswer = `{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},` +
	`"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`

// flood asks n times at once and returns how the calls ended.
func (b *bubble) flood(n int) []client.Result {
	out := make([]client.Result, n)
	var done sync.WaitGroup
	for i := range out {
		done.Go(func() { out[i] = b.Ask(chat(false)) })
	}
	done.Wait()
	return out
}

func lost(results []client.Result) (n int, first string) {
	for _, r := range results {
		if r.End != client.Complete {
			if n == 0 {
				first = describe(r)
			}
			n++
		}
	}
	return n, first
}

// A free tier of 5 requests per minute and key that says nothing about it: what it bears is found out, and no call is lost.
func TestFreeTierWithoutHints(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		f := &freeTier{n: 5}
		b.Handle("a", f.ServeHTTP)
		b.Open(keyed("a", 3) + combo("a") + "timeouts: {request: 30m}\n")
		began := time.Now()
		n, first := lost(b.flood(200))
		took := time.Since(began)
		if n > 0 {
			t.Errorf("%d of 200 calls were lost: %s", n, first)
		}
		t.Logf("200 calls took %s", took)
		for key, at := range f.refused {
			late := 0
			for _, r := range at {
				if r.Sub(began) > 2*time.Minute {
					late++
				}
			}
			t.Logf("%s: %d served, %d refused, %d after the second window: %v", key, len(f.served[key]), len(at), late, offsets(began, at))
			if most := int(took/(5*time.Minute)) + 1; late > most {
				t.Errorf("%s: %d refusals after the second window in %s, want at most one per 5 minutes", key, late, took)
			}
		}
	})
}

// The same with the rates declared: nothing is ever refused.
func TestDeclaredRatesAreNeverExceeded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		f := &freeTier{n: 5}
		b.Handle("a", f.ServeHTTP)
		b.Open(strings.ReplaceAll(keyed("a", 3), "provider: a,", "provider: a, rate_limits: {rpm: 5},") + combo("a") + "timeouts: {request: 30m}\n")
		if n, first := lost(b.flood(200)); n > 0 {
			t.Errorf("%d of 200 calls were lost: %s", n, first)
		}
		for key, at := range f.refused {
			t.Errorf("%s was refused %d times", key, len(at))
		}
	})
}

func offsets(began time.Time, at []time.Time) (out []time.Duration) {
	for _, t := range at {
		out = append(out, t.Sub(began).Round(time.Second))
	}
	return out
}
