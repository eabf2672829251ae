package app

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// each asks n times, one question per gap, every second one streamed, and fails the test for every wrong end.
func (b *bubble) each(n int, gap time.Duration) {
	b.t.Helper()
	for i := range n {
		if why := wrong(b.Ask(chat(i%2 == 0)), "", 60); why != "" {
			b.t.Errorf("request %d: %s\n%s", i, why, b.Story())
		}
		time.Sleep(gap)
	}
}

// atOnce asks n questions at the same time.
func (b *bubble) atOnce(n int, q client.Request) []client.Result {
	out := make([]client.Result, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i] = b.Ask(q) })
	}
	wg.Wait()
	return out
}

// mostOn is the highest number of attempts that one request made on a provider.
func (b *bubble) mostOn(provider gateway.ProviderID) int {
	most := 0
	for _, j := range b.Journeys() {
		n := 0
		for _, a := range j.Attempts {
			if a.Target.Provider == provider {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// a: a provider whose every key answers 503 costs a request at most three attempts, and no client notices.
func TestManyDeadKeysBeforeAHealthyProvider(t *testing.T) {
	for _, keys := range []int{10, 30} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("dead", lab.Fault{Kind: fault.Status, Status: 503})
				b.Source("good")
				b.Open(keyed("dead", keys, "good") + combo("dead", "good"))
				for _, r := range b.atOnce(40, chat(true)) {
					b.Right(r, "")
				}
				b.each(60, time.Second)
				if n := b.mostOn("dead"); n > 3 {
					t.Errorf("one request made %d attempts on the dead provider", n)
				}
				// Three for each of those that came at once; afterwards each key's breaker opens after its run of five.
				if n := len(b.Calls("dead")); n > 3*40+5*keys {
					t.Errorf("%d attempts on the dead provider for 100 requests", n)
				}
			})
		})
	}
}

// b: keys that are refused are asked once per cooldown each, and no client notices.
func TestManyRefusedKeysBeforeAHealthyProvider(t *testing.T) {
	for _, keys := range []int{10, 30} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("dead", always(fault.Unauthorized))
				b.Source("good")
				b.Open(keyed("dead", keys, "good") + combo("dead", "good"))
				b.each(90, time.Second)
				last := map[string]time.Time{}
				count := map[string]int{}
				for _, c := range b.Calls("dead") {
					if at, ok := last[c.key]; ok && c.at.Sub(at) < 3*time.Second {
						t.Errorf("%s was asked again after %s", c.key, c.at.Sub(at))
					}
					last[c.key] = c.at
					count[c.key]++
				}
				// Many keys refused alike are one fault of the endpoint: levels do not rise, so a key may be asked once per base
				// cooldown of 3 s, and never more.
				for k, n := range count {
					if n > 90/3 {
						t.Errorf("%s was asked %d times in 90 s", k, n)
					}
				}
			})
		})
	}
}

// c: one dead model of an aggregator never touches the other nineteen.
func TestOneDeadModelOfAnAggregator(t *testing.T) {
	for _, f := range []lab.Fault{{Kind: fault.Status, Status: 503}, {Kind: fault.ModelMissing}, {Kind: fault.Empty},
		{Kind: fault.ErrorFirst}, {Kind: fault.Cut}, {Kind: fault.ResetMidStream}, {Kind: fault.HTML}} {
		for _, keys := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d keys", f.Kind, keys), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					f.Models = []string{"m7"}
					b.SourceOf(scenario.Source{Name: "agg", Tokens: 4, Faults: []lab.Fault{f}})
					b.Open(keyed("agg", keys))
					for round := range 10 {
						for m := range 20 {
							q := client.Request{Protocol: gateway.OpenAI, Model: fmt.Sprintf("agg/m%d", m), Stream: m%2 == 0}
							if m == 7 {
								b.running.Go(func() { b.Ask(q) }) // fails, and may wait before it does
								continue
							}
							r := b.Ask(q)
							if why := wrong(r, "", 4); why != "" || r.Header.Get("X-Spillway-Attempts") != "1" {
								t.Fatalf("round %d, model m%d: %q in %s attempts\n%s", round, m, why, r.Header.Get("X-Spillway-Attempts"), b.Story())
							}
						}
						time.Sleep(time.Second)
					}
					b.running.Wait()
					for _, line := range b.Out() {
						if !strings.Contains(line, "m7") {
							t.Errorf("isolated, though only m7 is dead: %s", line)
						}
					}
				})
			})
		}
	}
}

// watchOpen samples the breakers until stop is closed and returns the longest time for which anything was out at a stretch.
func (b *bubble) watchOpen(stop <-chan struct{}) (longest time.Duration) {
	var since time.Time
	for {
		select {
		case <-stop:
			return longest
		case <-time.After(100 * time.Millisecond):
		}
		open := false
		for _, s := range b.app.rooms.breaker.Status(time.Now()) {
			open = open || s.State == "open"
		}
		switch {
		case !open:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		default:
			longest = max(longest, time.Since(since))
		}
	}
}

// underWatch runs a load while the breakers are sampled.
func (b *bubble) underWatch(load func()) time.Duration {
	stop := make(chan struct{})
	var longest time.Duration
	var wg sync.WaitGroup
	wg.Go(func() { longest = b.watchOpen(stop) })
	load()
	close(stop)
	wg.Wait()
	return longest
}

// oneOpenTime is the base open time of the profile recommended, and the sampling on top.
const oneOpenTime = 10*time.Second + 200*time.Millisecond

// d: a healthy source with 14.5 % empty answers is never out for longer than one base open time, and clients get answers.
func TestHealthySourceWithEmptyAnswers(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, pool := range []int{1, 3} {
			t.Run(fmt.Sprintf("stream=%t/pool of %d", stream, pool), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					var names, targets []string
					for i := range pool {
						names = append(names, fmt.Sprintf("s%d", i))
						targets = append(targets, names[i]+"/m")
						b.SourceOf(scenario.Source{Name: names[i], Seed: 0, Latency: scenario.Between(time.Second, 3*time.Second),
							Tokens: 3, Faults: []lab.Fault{{Kind: fault.Empty, Prob: 0.145}}})
					}
					b.Open(providers(names...) + "combos:\n  - {name: smart, strategy: health-aware, targets: [" + strings.Join(targets, ", ") + "]}\n")
					failed := 0
					const workers, calls = 8, 1200
					longest := b.underWatch(func() {
						var wg sync.WaitGroup
						var mu sync.Mutex
						for range workers {
							wg.Go(func() {
								for range calls / workers {
									if wrong(b.Ask(chat(stream)), "", 3) != "" {
										mu.Lock()
										failed++
										mu.Unlock()
									}
								}
							})
						}
						wg.Wait()
					})
					if longest > oneOpenTime {
						t.Errorf("out for %s at a stretch", longest)
					}
					if failed > 0 {
						t.Errorf("%d of %d clients got no right answer", failed, calls)
					}
				})
			})
		}
	}
}

// d: thirty five-minute streams with 10 % instant 529: the source's instant failures alone do not condemn it.
func TestLongStreamsWithInstantFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "busy", Tokens: 60, Interval: scenario.Between(5*time.Second, 5*time.Second),
			Faults: []lab.Fault{{Kind: fault.Status, Status: 529, Prob: 0.1}}})
		b.Open(providers("busy") + combo("busy"))
		failed := 0
		longest := b.underWatch(func() {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for w := range 30 {
				wg.Go(func() {
					time.Sleep(time.Duration(w) * 10 * time.Second)
					for range 6 {
						if why := wrong(b.Ask(chat(true)), "", 60); why != "" {
							mu.Lock()
							failed++
							mu.Unlock()
						}
					}
				})
			}
			wg.Wait()
		})
		if longest > oneOpenTime || failed > 0 {
			t.Errorf("out for %s at a stretch, %d of 180 streams failed", longest, failed)
		}
	})
}

// e: slow is not dead: with default settings a slow answer comes, alone and with a fallback beside it, and nothing opens.
func TestSlowIsNotDead(t *testing.T) {
	long := strings.Repeat("word ", 80_000) // 400 kB, 100k tokens
	cases := []struct {
		name   string
		class  string
		source scenario.Source
		ask    client.Request
		body   string
	}{
		{name: "three minutes of silent reasoning", class: "apikey",
			source: scenario.Source{Latency: scenario.Between(3*time.Minute, 3*time.Minute)}, ask: chat(true),
			body: `{"model":"smart","stream":true,"reasoning_effort":"high","messages":[{"role":"user","content":"why is the sky blue"}]}`},
		{name: "three minutes of silent reasoning, not streamed", class: "apikey",
			source: scenario.Source{Latency: scenario.Between(3*time.Minute, 3*time.Minute)}, ask: chat(false),
			body: `{"model":"smart","reasoning_effort":"high","messages":[{"role":"user","content":"why is the sky blue"}]}`},
		{name: "100k tokens on a slow local model", class: "local",
			source: scenario.Source{Latency: scenario.Between(100*time.Second, 100*time.Second)}, ask: client.Request{Protocol: gateway.OpenAI, Model: "smart", Stream: true, Prompt: long}},
		{name: "an answer of 90 s, not streamed", class: "apikey",
			source: scenario.Source{Interval: scenario.Between(1500*time.Millisecond, 1500*time.Millisecond)}, ask: chat(false)},
	}
	for _, c := range cases {
		for _, pool := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/pool of %d", c.name, pool), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					names := []string{"slow", "other"}[:pool]
					for _, n := range names {
						c.source.Name = n
						b.SourceOf(c.source)
					}
					b.Open(strings.ReplaceAll(providers(names...), "class: apikey", "class: "+c.class) + combo(names...))
					for range 3 {
						var r client.Result
						if c.body != "" {
							c.ask.URL, c.ask.Patience = gatewayURL, time.Hour
							r = b.client.Replay(t.Context(), c.ask, []byte(c.body))
						} else {
							r = b.Ask(c.ask)
						}
						if why := wrong(r, c.ask.Prompt, 60); why != "" {
							t.Errorf("%s\n%s", why, b.Story())
						}
						b.NothingOut()
					}
				})
			})
		}
	}
}

// f: after an outage of 60 s the primary is in use again within 30 s and was asked at most eight times meanwhile.
func TestOutageOfThePrimary(t *testing.T) {
	// More traffic brings a few failures more before the run is counted out: those that come at one moment count once.
	for gap, most := range map[time.Duration]int{4 * time.Second: 8, 500 * time.Millisecond: 12} {
		t.Run(gap.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", lab.Fault{Kind: fault.Status, Status: 503, For: time.Minute})
				b.Source("b")
				b.Open(providers("a", "b") + combo("a", "b"))
				began := time.Now()
				for time.Since(began) < 2*time.Minute {
					b.running.Go(func() { b.Right(b.Ask(chat(true)), "") })
					time.Sleep(gap)
				}
				b.running.Wait()
				var dead int
				var back time.Duration
				for _, c := range b.Calls("a") {
					if d := c.at.Sub(began); d < time.Minute {
						dead++
					} else if back == 0 {
						back = d - time.Minute
					}
				}
				if dead > most || back == 0 || back > 30*time.Second {
					t.Errorf("%d attempts while it was dead, back %s after its recovery", dead, back)
				}
			})
		})
	}
}

// f: the same with an outage that answers nothing at all.
func TestSilentOutageOfThePrimary(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Silence, For: time.Minute})
		b.Source("b")
		b.Open(providers("a", "b") + combo("a", "b"))
		began := time.Now()
		for time.Since(began) < 2*time.Minute {
			b.running.Go(func() {
				r := b.Ask(chat(true))
				b.Right(r, "")
				if r.EndedAfter > 40*time.Second { // a cut attempt raises the next limit by half: 10, 15, 22.5 s ...
					t.Errorf("a client waited %s", r.EndedAfter)
				}
			})
			time.Sleep(4 * time.Second)
		}
		b.running.Wait()
		dead, back := 0, false
		for _, a := range b.ups["a"].source.Attempts(time.Now()) {
			if d := a.At.Sub(began); d < time.Minute {
				dead++
			} else if a.Whole && d < 90*time.Second {
				back = true
			}
		}
		if dead > 10 || !back {
			t.Errorf("%d attempts while it was silent, back within 30 s: %t", dead, back)
		}
	})
}

// g: when several hosts cannot be reached at once it is our own network; nothing learns from it.
func TestOwnNetworkIsNobodysFault(t *testing.T) {
	for name, fail := range map[string]func(*bubble){
		"dns":     func(b *bubble) { b.net.Break("a.test", unknownHost); b.net.Break("b.test", unknownHost) },
		"connect": func(b *bubble) { b.net.Break("a.test", refusedDial); b.net.Break("b.test", refusedDial) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a")
				b.Source("b")
				b.Open(providers("a", "b") + combo("a", "b"))
				b.each(2, 0)
				time.Sleep(time.Minute)
				fail(b)
				for range 10 {
					b.running.Go(func() {
						if r := b.Ask(chat(false)); r.End != client.Failed && r.End != client.Complete {
							t.Errorf("while offline: %s", describe(r))
						}
					})
					time.Sleep(300 * time.Millisecond)
				}
				b.NothingOut()
				b.net.Break("a.test", nil)
				b.net.Break("b.test", nil)
				r := b.Ask(chat(true))
				b.Right(r, "")
				if got := r.Header.Get("X-Spillway-Provider"); got != "a" {
					t.Errorf("after the network came back %s answered", got)
				}
				b.running.Wait()
			})
		})
	}
}

// h: whatever was isolated stays so over a restart, never for a shorter time.
func TestRestartForgetsNothing(t *testing.T) {
	cases := map[string]struct {
		f     lab.Fault
		spoil int // requests that bring the state about
		gap   time.Duration
	}{
		"open breaker": {lab.Fault{Kind: fault.Status, Status: 503}, 8, 10 * time.Millisecond},
		"cooldown":     {lab.Fault{Kind: fault.RateLimit, RetryAfter: 10 * time.Minute}, 1, 0},
		"quota":        {lab.Fault{Kind: fault.Quota, RetryAfter: 5 * time.Hour}, 1, 0},
		"refused key":  {always(fault.Unauthorized), 1, 0},
		"terminal":     {lab.Fault{Kind: fault.Status, Status: 402, Code: "insufficient_credits", Type: "billing", Message: "Your account has no credits left."}, 6, 15 * time.Minute},
		"lockout":      {always(fault.ModelMissing), 1, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", c.f)
				b.Source("b")
				b.Open(providers("a", "b") + combo("a", "b"))
				b.each(c.spoil, c.gap)
				before := b.rulings("a")
				if len(before) == 0 {
					t.Fatalf("nothing is isolated after %s: %s", name, b.Story())
				}
				b.Restart(time.Second)
				b.notEarlier(before, b.rulings("a"))
				b.Restart(0)
				b.notEarlier(before, b.rulings("a"))
				n := len(b.Calls("a"))
				b.each(3, 0)
				if got := len(b.Calls("a")); got != n && before[0].Until.After(time.Now()) {
					t.Errorf("%d attempts right after the restart: %s", got-n, b.Story())
				}
			})
		})
	}
}

type isolated struct {
	Layer, Key, State string
	Until             time.Time
}

func (b *bubble) rulings(part string) (out []isolated) {
	for _, s := range b.app.Status() {
		switch s.State {
		case "in_flight", "adaptive", "paced", "degraded", "active":
			continue
		}
		if strings.Contains(s.Key, part) {
			out = append(out, isolated{s.Layer.String(), s.Key, s.State, s.Until})
		}
	}
	return out
}

func (b *bubble) notEarlier(before, after []isolated) {
	b.t.Helper()
	for _, x := range before {
		i := slices.IndexFunc(after, func(y isolated) bool { return y.Layer == x.Layer && y.Key == x.Key })
		if i < 0 {
			b.t.Errorf("forgotten: %v; now %v", x, after)
			continue
		}
		if after[i].Until.Before(x.Until.Add(-time.Second)) {
			b.t.Errorf("%v became shorter: %v", x, after[i])
		}
	}
}

// i: a reload swaps the snapshot under requests in flight; they finish on the one that they began with.
func TestReloadDuringRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "old", Interval: scenario.Between(time.Second, time.Second)})
		b.Source("new")
		b.Source("cold", lab.Fault{Kind: fault.RateLimit, RetryAfter: 10 * time.Minute})
		b.Open(providers("cold", "old") + combo("cold", "old"))
		for i := range 20 {
			b.running.Go(func() {
				r := b.Ask(chat(i%2 == 0))
				b.Right(r, "")
				if got := r.Header.Get("X-Spillway-Provider"); got != "old" {
					t.Errorf("served by %s", got)
				}
			})
		}
		time.Sleep(10 * time.Second)
		cold := len(b.Calls("cold"))
		b.Reload(providers("cold", "new") + combo("cold", "new"))
		r := b.Ask(chat(true))
		b.Right(r, "")
		if got := r.Header.Get("X-Spillway-Provider"); got != "new" {
			t.Errorf("after the reload %s served", got)
		}
		if n := len(b.Calls("cold")); n != cold {
			t.Errorf("the cooldown was forgotten by the reload")
		}
		b.running.Wait()
		bad := b.app.options.Source
		b.app.options.Source.Bytes = []byte("providers: [")
		if err := b.app.Reload(t.Context()); err == nil {
			t.Error("a broken file was taken")
		}
		b.app.options.Source = bad
		b.Right(b.Ask(chat(true)), "")
	})
}

// j: 200 requests meet a cap of 4: all are answered, in the order in which they came, never more than 4 at once.
func TestQueueAtACap(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		s := b.Source("a")
		b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a, provider: a, key: k, max_concurrent: 4}\n" + combo("a"))
		for i := range 200 {
			q := chat(i%2 == 0)
			q.Prompt = fmt.Sprintf("question %d", i)
			b.running.Go(func() { b.Right(b.Ask(q), q.Prompt) })
			time.Sleep(time.Millisecond)
		}
		b.running.Wait()
		if s.PeakInFlight() > 4 {
			t.Errorf("%d in flight at once", s.PeakInFlight())
		}
		var order []time.Time
		list := b.Journeys()
		slices.SortFunc(list, func(x, y *gateway.Journey) int { return x.At.Compare(y.At) })
		for _, j := range list {
			order = append(order, j.Attempts[0].BeganAt)
		}
		if !slices.IsSortedFunc(order, time.Time.Compare) {
			t.Errorf("not in the order of arrival")
		}
	})
}

// j: beyond its depth the queue refuses at once, with a time.
func TestQueueFull(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "a", Latency: scenario.Between(10*time.Second, 10*time.Second)})
		b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a, provider: a, key: k, rate_limits: {}, max_concurrent: 1}\n" + combo("a") +
			"resilience: {pacing: {queue: {max_queue_depth: 5}}}\n")
		var results [10]client.Result
		for i := range results {
			b.running.Go(func() { results[i] = b.Ask(chat(false)) })
			time.Sleep(time.Millisecond)
		}
		b.running.Wait()
		full := 0
		for _, r := range results {
			if r.End == client.Complete {
				continue
			}
			full++
			if r.Status != 429 || !strings.HasSuffix(r.ErrorCode, "_QUEUE_FULL") || r.Header.Get("Retry-After") == "" || r.EndedAfter > time.Second {
				t.Errorf("want 429 ..._QUEUE_FULL with Retry-After at once, got %s, Retry-After %q", describe(r), r.Header.Get("Retry-After"))
			}
		}
		if full != 4 {
			t.Errorf("%d of 10 were refused with one running and room for 5", full)
		}
	})
}

// k: a 429 with a time and nowhere else to go: the request waits and is answered, not before that time.
func TestWaitsForRetryAfter(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", lab.Fault{Kind: fault.RateLimit, RetryAfter: 2 * time.Second, Times: 1})
				b.Open(providers("a") + combo("a"))
				b.Right(b.Ask(chat(stream)), "")
				calls := b.Calls("a")
				if len(calls) != 2 || calls[1].at.Sub(calls[0].at) < 2*time.Second || calls[1].at.Sub(calls[0].at) > 3*time.Second {
					t.Errorf("calls %v: %s", calls, b.Story())
				}
			})
		})
	}
}

// k: 429 for ever ends after the stall window.
func TestEndless429EndsAfterTheStallWindow(t *testing.T) {
	for _, hint := range []time.Duration{0, 2 * time.Second, 10 * time.Second} {
		t.Run(hint.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", lab.Fault{Kind: fault.RateLimit, RetryAfter: hint})
				b.Open(providers("a") + combo("a"))
				r := b.Ask(chat(false))
				if r.End != client.Failed || r.Status != 429 || r.Header.Get("Retry-After") == "" || r.EndedAfter > 140*time.Second {
					t.Errorf("%s, Retry-After %q\n%s", describe(r), r.Header.Get("Retry-After"), b.Story())
				}
				if n := len(b.Calls("a")); n > 20 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

// l and P42: everything cools down for 20 s: the request waits and is answered, also one that attempted nothing itself.
func TestP42WaitsWhileEverythingCools(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		for _, n := range []string{"a", "b"} {
			b.Source(n, lab.Fault{Kind: fault.RateLimit, RetryAfter: 20 * time.Second, Times: 1})
		}
		b.Open(providers("a", "b") + combo("a", "b"))
		b.running.Go(func() { b.Right(b.Ask(chat(true)), "") })
		time.Sleep(time.Second)
		for i := range 10 {
			b.running.Go(func() {
				r := b.Ask(chat(i%2 == 0))
				if why := wrong(r, "", 60); why != "" || r.EndedAfter < 15*time.Second || r.EndedAfter > 30*time.Second {
					t.Errorf("%s after %s", why, r.EndedAfter)
				}
			})
		}
		b.running.Wait()
	})
}
