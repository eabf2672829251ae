package app

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/state"
)

// busyUpstream answers after 200 ms and counts how many it serves at once.
type busyUpstream struct {
	now, most, all atomic.Int64
}

func (u *busyUpstream) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := u.now.Add(1)
	defer u.now.Add(-1)
	u.all.Add(1)
	for m := u.most.Load(); n > m && !u.most.CompareAndSwap(m, n); m = u.most.Load() {
	}
	time.Sleep(200 * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, shortAnswer)
}

const capped8 = "connections:\n  - {id: a, provider: a, key: k, max_concurrent: 8}\n"

// 10 000 calls of 0.2 s at a cap of 8 with no bound on the line: none is lost, and the line costs what its requests do.
func TestTenThousandQueuedCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var u busyUpstream
		b.Handle("a", u.ServeHTTP)
		b.Open("providers:\n" + provider("a") + capped8 + combo("a") + "resilience: {pacing: {queue: {max_queue_depth: 0}}}\nlog: {decisions: off}\n")
		b.lenient = true // the decision log is off: it would keep ten thousand rows
		const calls = 10_000
		var ok, bad atomic.Int64
		var why sync.Map
		var done sync.WaitGroup
		for range calls {
			done.Go(func() {
				if r := b.Ask(chat(false)); r.End == client.Complete {
					ok.Add(1)
				} else {
					bad.Add(1)
					why.Store(describe(r), true)
				}
			})
		}
		time.Sleep(time.Minute)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if per := int(m.HeapInuse) / max(b.app.rooms.queues.Len(), 1); b.app.rooms.queues.Len() < 7000 || per > 256<<10 {
			t.Errorf("%d in line, %d bytes of heap for each", b.app.rooms.queues.Len(), per)
		}
		done.Wait()
		if ok.Load() != calls {
			why.Range(func(k, _ any) bool { t.Log(k); return true })
			t.Errorf("%d answered, %d lost", ok.Load(), bad.Load())
		}
		if u.most.Load() > 8 {
			t.Errorf("%d at once", u.most.Load())
		}
	})
}

// With the defaults the line takes 1000 per connection; the surplus is refused at once, and the time that it is told is
// about the time that the line takes.
func TestSurplusIsRefusedWithATrueTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var u busyUpstream
		b.Handle("a", u.ServeHTTP)
		b.Open("providers:\n" + provider("a") + capped8 + combo("a"))
		b.Ask(chat(false)) // it has proven itself
		var mu sync.Mutex
		answered, refused := 0, 0
		var shortest, longest time.Duration
		for range 2500 { // 500 per second meet 40 per second
			b.running.Go(func() {
				r := b.Ask(chat(false))
				mu.Lock()
				defer mu.Unlock()
				if r.End == client.Complete {
					answered++
					return
				}
				refused++
				after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
				if d := time.Duration(after) * time.Second; shortest == 0 || d < shortest {
					shortest = d
				}
				longest = max(longest, time.Duration(after)*time.Second)
				if r.Status != 429 || r.ErrorCode != string(gateway.RateLimitQueueFull) || r.EndedAfter > 100*time.Millisecond {
					t.Errorf("refused by %s", describe(r))
				}
			})
			time.Sleep(2 * time.Millisecond)
		}
		b.running.Wait()
		if refused < 1000 || answered+refused != 2500 || answered < 1000 {
			t.Errorf("%d answered, %d refused", answered, refused)
		}
		if shortest < 15*time.Second || longest > 50*time.Second { // 1000 in line at 40 per second take 25 s
			t.Errorf("told to come back after %s to %s", shortest, longest)
		}
		if n := int(u.all.Load()); n != answered+1 {
			t.Errorf("the upstream saw %d, %d were answered", n, answered)
		}
	})
}

// Few sources, all silent, and little time: what is wrong is that nobody answers, and that is what is said. Nobody is told
// that a queue is full.
func TestSilentSourcesAreNoFullQueue(t *testing.T) {
	for _, deadline := range []string{"3s", "8s", "20s"} {
		t.Run(deadline, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.lenient = true // some attempts end before their upstream has read them
				for _, n := range []string{"a", "b"} {
					b.Source(n, lab.Fault{Kind: fault.Silence})
				}
				b.Open(providers("a", "b") + combo("a", "b") + "timeouts: {request: " + deadline + "}\n")
				for range 3 { // waves: what was learned from the first must not refuse the next for a wrong reason
					for range 30 {
						b.running.Go(func() {
							r := b.Ask(chat(false))
							if r.Status == 429 || strings.Contains(r.ErrorCode, "FULL") || strings.Contains(r.ErrorMessage, "already wait") {
								t.Errorf("a silent source is no full queue: %s", describe(r))
							}
						})
					}
					b.running.Wait()
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A request that cannot be served before it has to give up is refused at once, and told when.
func TestRatesUsedUpBeyondTheDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a, provider: a, key: k, rate_limits: {rpm: 2}}\n" + combo("a") + "timeouts: {request: 20s}\n")
		b.Right(b.Ask(chat(false)), "")
		b.Right(b.Ask(chat(true)), "")
		r := b.Ask(chat(false))
		after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		if r.Status != 429 || r.ErrorCode != string(gateway.RateLimitQueueFull) || r.EndedAfter > time.Second || after < 50 || after > 61 {
			t.Errorf("%s, Retry-After %d", describe(r), after)
		}
		time.Sleep(time.Duration(after) * time.Second)
		b.Right(b.Ask(chat(false)), "")
	})
}

// The line's settings of a connection count for the pools that it is in.
func TestQueueSettingsPerConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var u busyUpstream
		b.Handle("a", u.ServeHTTP)
		b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a, provider: a, key: k, max_concurrent: 1, resilience: {pacing: {queue: {max_wait: 500ms, max_queue_depth: 5}}}}\n" +
			combo("a") + "resilience: {pacing: {queue: {max_wait: 1h, max_queue_depth: 100}}}\n")
		codes := map[string]int{}
		for _, r := range b.flood(10) {
			codes[r.ErrorCode]++
			if r.End != client.Complete && r.EndedAfter > 600*time.Millisecond {
				t.Errorf("waited too long: %s", describe(r))
			}
		}
		full := codes["RATE_LIMIT_QUEUE_FULL"] + codes["SEMAPHORE_QUEUE_FULL"] // at the door, or a moment later
		if full != 4 || codes["SEMAPHORE_TIMEOUT"] != 3 || codes[""] != 3 {
			t.Errorf("%v", codes)
		}
	})
}

// A client key's own limit: 429 with a time, before other work, in the caller's protocol; a reload forgets nothing.
func TestKeyRPM(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		yaml := providers("a") + combo("a") + "keys:\n  - {name: slow, hash: 'sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae', rpm: 3}\n" +
			"  - {name: fast, hash: 'sha256:fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9'}\n" // foo, bar
		b.Open(yaml)
		ask := func(key string, p gateway.Protocol) client.Result {
			q := chat(false)
			q.Key, q.Protocol = key, p
			return b.Ask(q)
		}
		for range 3 {
			b.Right(ask("foo", gateway.OpenAI), "")
		}
		b.Reload(strings.Replace(yaml, "name: slow", "name: renamed", 1))
		for _, p := range []gateway.Protocol{gateway.OpenAI, gateway.Responses, gateway.Anthropic, gateway.Gemini} {
			r := ask("foo", p)
			after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
			if r.Status != 429 || after < 55 || after > 61 {
				t.Errorf("%s: %s, Retry-After %d", p, describe(r), after)
			}
			b.Right(ask("bar", p), "")
		}
		time.Sleep(61 * time.Second)
		b.Right(ask("foo", gateway.Anthropic), "")
	})
}

// Tokens are reserved when a request goes and settled with what it used, through failovers; what is abandoned keeps no
// reservation beyond what the upstream may have used.
func TestTokensAreReservedAndSettled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Status, Status: 500, Times: 3})
		b.Source("b")
		y := providers("a", "b") + combo("a", "b") + "waits: {prefer_wait: 0s}\n"
		y = strings.ReplaceAll(y, "provider: a, key: key-a}", "provider: a, key: key-a, rate_limits: {tpm: 1000}}")
		b.Open(strings.ReplaceAll(y, "provider: b, key: key-b}", "provider: b, key: key-b, rate_limits: {tpm: 1000}}"))
		b.Right(b.Ask(chat(false)), "")
		if got := b.tokens("a"); got != 0 {
			t.Errorf("%d tokens are held for attempts that failed", got)
		}
		j := b.Journeys()[0]
		used := j.Usage.Input + j.Usage.Output
		if got := b.tokens("b"); got != used || used == 0 {
			t.Errorf("%d tokens are counted, %d were used", got, used)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		b.AskCtx(ctx, chat(true))
		time.Sleep(2 * time.Minute)
		for _, s := range b.app.rooms.rate.Status(time.Now()) {
			t.Errorf("still counted after two minutes: %+v", s)
		}
	})
}

// tokens is what the last minute of a connection's account counts.
func (b *bubble) tokens(connection string) int {
	b.t.Helper()
	for _, c := range b.app.live.Load().Board.Snapshot.AllConnections() {
		if string(c.ID) != connection {
			continue
		}
		for _, s := range b.app.rooms.rate.Status(time.Now()) {
			if s.Key == state.Account(c) {
				n, _ := strconv.Atoi(s.Detail["tokens_last_minute"])
				return n
			}
		}
	}
	return 0
}

// limitHeaders is an upstream with a fixed window of n requests per minute that tells about it.
type limitHeaders struct {
	n int

	mu      sync.Mutex
	began   time.Time
	used    int
	refused int
}

func (l *limitHeaders) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.began) >= time.Minute {
		l.began, l.used = now, 0
	}
	l.used++
	left, reset, over := max(l.n-l.used, 0), l.began.Add(time.Minute).Sub(now), l.used > l.n
	if over {
		l.refused++
	}
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Ratelimit-Limit-Requests", strconv.Itoa(l.n))
	w.Header().Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(left))
	w.Header().Set("X-Ratelimit-Reset-Requests", reset.String())
	if over {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(50 * time.Millisecond)
	fmt.Fprint(w, shortAnswer)
}

// What headers say is left is obeyed: an account is left alone before it has to refuse, shown with the reason, and comes
// back at its reset by one request that finds out.
func TestQuotaPreflight(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := limitHeaders{n: 10}
		b.Handle("a", l.ServeHTTP)
		b.Open(providers("a") + combo("a"))
		for range 25 {
			if r := b.Ask(chat(false)); r.End != client.Complete {
				t.Fatal(describe(r))
			}
		}
		if l.refused != 0 {
			t.Errorf("%d requests were refused by the upstream", l.refused)
		}
		for range 5 {
			b.Ask(chat(false))
		}
		shown := false
		for _, s := range b.app.Status() {
			if s.Reason == gateway.QuotaPreflight && s.Until.After(time.Now()) && s.Detail["learned_requests"] != "" {
				shown = true
			}
		}
		if !shown {
			t.Errorf("the reason is not shown: %+v", b.app.Status())
		}
		b.Restart(time.Second) // never more permissive afterwards
		if r := b.Ask(chat(false)); r.End != client.Complete || l.refused != 0 {
			t.Errorf("after a restart: %s, %d refused", describe(r), l.refused)
		}
	})
}

// timeouts.total is the longest that a call may run; what it ended is told as such.
func TestExecutionTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		b.Open(providers("a") + combo("a") + "timeouts: {total: 2s}\nlimits: {attempts: 2}\n")
		r := b.Ask(chat(false))
		if r.Status != 504 || r.ErrorCode != string(gateway.ExecutionTimeout) {
			t.Errorf("%s\n%s", describe(r), b.Story())
		}
	})
}

// Calls that are abandoned, before and while they are served, leave nothing behind that they had reserved.
func TestAbandonedCallsReserveNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.lenient = true
		var u busyUpstream
		b.Handle("a", u.ServeHTTP)
		b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a, provider: a, key: k, max_concurrent: 2, rate_limits: {rpm: 20, tpm: 5000}}\n" + combo("a"))
		for i := range 60 {
			b.running.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*7)*time.Millisecond)
				defer cancel()
				b.AskCtx(ctx, chat(i%2 == 0))
			})
		}
		b.running.Wait()
		if n := int(u.all.Load()); n > 20 {
			t.Errorf("%d were sent in a minute", n)
		}
		time.Sleep(61 * time.Second)
		for _, s := range b.app.rooms.rate.Status(time.Now()) {
			t.Errorf("still counted: %+v", s)
		}
		if r := b.Ask(chat(false)); r.End != client.Complete || r.EndedAfter > time.Second {
			t.Errorf("afterwards: %s", describe(r))
		}
	})
}

// Caps over everything, per provider, per connection and per model are taken together: whichever is the smallest holds,
// and none of the others is taken by who could not run.
func TestCapsTogether(t *testing.T) {
	for name, c := range map[string]struct {
		pacing, conn string
		most         int64
	}{
		"global":     {"global_concurrency: 3, provider_concurrency: 9", "max_concurrent: 9, model_concurrency: {m: 9}", 3},
		"provider":   {"global_concurrency: 9, provider_concurrency: 3", "max_concurrent: 9, model_concurrency: {m: 9}", 3},
		"connection": {"global_concurrency: 9, provider_concurrency: 9", "max_concurrent: 2, model_concurrency: {m: 9}", 4},
		"model":      {"global_concurrency: 9, provider_concurrency: 9", "max_concurrent: 9, model_concurrency: {m: 1}", 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				var u busyUpstream
				b.Handle("a", u.ServeHTTP)
				b.lenient = true
				b.Open(strings.ReplaceAll(keyed("a", 2), "provider: a,", "provider: a, "+c.conn+",") + combo("a") + "resilience: {pacing: {" + c.pacing + "}}\n")
				b.Ask(chat(false))
				for i := range 60 {
					b.running.Go(func() {
						ctx, cancel := t.Context(), context.CancelFunc(func() {})
						if i >= 40 { // they leave while they stand in line: an upstream takes a moment to see that one left
							ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
						}
						defer cancel()
						b.AskCtx(ctx, chat(i%2 == 0))
					})
					time.Sleep(time.Millisecond)
				}
				b.running.Wait()
				if got := u.most.Load(); got != c.most {
					t.Errorf("%d at once, want %d", got, c.most)
				}
			})
		})
	}
}
