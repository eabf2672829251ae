package gate

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

func candidate(id, model string, change ...func(*gateway.Connection)) gateway.Candidate {
	c := &gateway.Connection{ID: gateway.ConnectionID(id), Identity: id, Account: gateway.AccountID(id),
		Provider: &gateway.Provider{ID: "p"}}
	for _, f := range change {
		f(c)
	}
	return gateway.Candidate{Connection: c, Model: gateway.ModelID(model)}
}

func allow(t testing.TB, h *Handle, ask *resilience.Ask) resilience.Permit {
	t.Helper()
	p, ruling := h.Allow(t.Context(), ask, t0)
	if p == nil {
		t.Fatalf("refused: %v", ruling.Reason)
	}
	return p
}

func refuse(t testing.TB, h *Handle, ask *resilience.Ask, why gateway.Reason) resilience.Ruling {
	t.Helper()
	peeked := h.Peek(ask, t0)
	p, ruling := h.Allow(t.Context(), ask, t0)
	if p != nil || ruling.Reason != why || ruling.Verdict != resilience.Delayed || ruling.Layer != gateway.LayerPacing {
		t.Fatalf("ruling %+v, want delayed by %v", ruling, why)
	}
	if peeked != ruling {
		t.Fatalf("Peek said %+v, Allow %+v", peeked, ruling)
	}
	return ruling
}

var ask = &resilience.Ask{PoolSize: 1}

func end(p resilience.Permit, k gateway.Kind) { p.Record(gateway.Outcome{Kind: k}, t0) }

func TestCaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		conf  func(*Config)
		conn  func(*gateway.Connection)
		other gateway.Candidate // shares the cap
		free  gateway.Candidate // does not
	}{
		{"global", func(c *Config) { c.GlobalConcurrency = 1 }, nil, candidate("b", "x"), gateway.Candidate{}},
		{"provider", func(c *Config) { c.ProviderConcurrency = 1 }, nil, candidate("b", "x"),
			candidate("b", "x", func(c *gateway.Connection) { c.Provider = &gateway.Provider{ID: "q"} })},
		{"connection", nil, func(c *gateway.Connection) { c.MaxConcurrent = 1 }, candidate("a", "x"), candidate("b", "m")},
		{"model", nil, func(c *gateway.Connection) { c.ModelConcurrency = map[gateway.ModelID]int{"m": 1} },
			candidate("a", "m"), candidate("a", "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Default()
			if c.conf != nil {
				c.conf(&cfg)
			}
			set := func(x gateway.Candidate) gateway.Candidate {
				if c.conn != nil {
					c.conn(x.Connection)
				}
				return x
			}
			r := New(Options{})
			h := r.Bind(set(candidate("a", "m")), cfg, nil)
			p := allow(t, h, ask)
			refuse(t, h, ask, gateway.ConcurrencyFull)
			refuse(t, r.Bind(set(c.other), cfg, nil), ask, gateway.ConcurrencyFull)
			if c.free.Connection != nil {
				end(allow(t, r.Bind(set(c.free), cfg, nil), ask), gateway.Success)
			}
			end(p, gateway.Canceled)
			end(p, gateway.Success) // only the first counts
			end(allow(t, h, ask), gateway.Success)
			if lines := r.Status(t0); len(lines) != 0 {
				t.Errorf("not all came back: %+v", lines)
			}
		})
	}
}

// A half-taken set does not exist: what refuses takes nothing.
func TestAllOrNothing(t *testing.T) {
	cfg := Default()
	cfg.GlobalConcurrency, cfg.ProviderConcurrency = 10, 10
	r := New(Options{})
	h := r.Bind(candidate("a", "m", func(c *gateway.Connection) {
		c.MaxConcurrent, c.ModelConcurrency = 10, map[gateway.ModelID]int{"m": 1}
	}), cfg, nil)
	p := allow(t, h, ask)
	for range 50 {
		refuse(t, h, ask, gateway.ConcurrencyFull)
	}
	for _, n := range []int64{r.global.n.Load(), h.provider.n.Load(), h.conn.n.Load(), h.model.n.Load(), h.account.n.Load()} {
		if n != 1 {
			t.Errorf("counter at %d", n)
		}
	}
	end(p, gateway.Success)
}

// A reload with another cap counts what already runs.
func TestReloadKeepsCounting(t *testing.T) {
	r := New(Options{})
	old := r.Bind(candidate("a", "m", func(c *gateway.Connection) { c.MaxConcurrent = 3 }), Default(), nil)
	permits := []resilience.Permit{allow(t, old, ask), allow(t, old, ask), allow(t, old, ask)}
	fresh := r.Bind(candidate("a", "m", func(c *gateway.Connection) { c.MaxConcurrent = 2 }), Default(), nil)
	if fresh.Key() != old.Key() {
		t.Error("one candidate, one key")
	}
	refuse(t, fresh, ask, gateway.ConcurrencyFull)
	end(permits[0], gateway.Success)
	refuse(t, fresh, ask, gateway.ConcurrencyFull)
	end(permits[1], gateway.Success)
	permits[1] = allow(t, fresh, ask)
	end(permits[1], gateway.Success)
	end(permits[2], gateway.Success)
	if fresh.InFlight() != 0 {
		t.Error(fresh.InFlight())
	}
}

func TestUnprovenCap(t *testing.T) {
	proven := false
	r := New(Options{})
	h := r.Bind(candidate("a", "m"), Default(), func(time.Time) bool { return proven })
	pool := func(others bool, waited time.Duration) *resilience.Ask {
		return &resilience.Ask{PoolSize: 3, PoolProven: others, Waited: waited}
	}
	allow(t, h, pool(true, 0))
	allow(t, h, pool(true, 0))
	if r := refuse(t, h, pool(true, time.Hour), gateway.Unproven); !r.Until.IsZero() {
		t.Error("only an event can change it:", r.Until)
	}
	if r := refuse(t, h, pool(false, 1500*time.Millisecond), gateway.Unproven); !r.Until.Equal(t0.Add(500 * time.Millisecond)) {
		t.Error("after 2 s of waiting the cap grows:", r.Until)
	}
	allow(t, h, pool(false, 2*sec))
	allow(t, h, pool(false, 2*sec))
	if r := refuse(t, h, pool(false, 2*sec), gateway.Unproven); !r.Until.Equal(t0.Add(2 * sec)) {
		t.Error(r.Until)
	}
	allow(t, h, pool(false, 4*sec))
	if !h.Peek(&resilience.Ask{PoolSize: 1}, t0).OK() {
		t.Error("a pool of one has no such cap")
	}
	proven = true
	allow(t, h, pool(true, 0))
	if h.InFlight() != 6 {
		t.Error(h.InFlight())
	}
}

func TestPacedAndLimit(t *testing.T) {
	r := New(Options{})
	h := r.Bind(candidate("a", "m"), Default(), nil)
	if h.Limit(t0) != 64 {
		t.Error(h.Limit(t0))
	}
	var permits []resilience.Permit
	for range 8 {
		permits = append(permits, allow(t, h, ask))
	}
	end(permits[0], gateway.Success)
	end(permits[1], gateway.RateLimited) // 7 in flight, so 3
	refuse(t, h, ask, gateway.Paced)
	if h.Limit(t0) != 3 {
		t.Error(h.Limit(t0))
	}
	sibling := r.Bind(candidate("b", "m", func(c *gateway.Connection) { c.Account = "a" }), Default(), nil)
	refuse(t, sibling, ask, gateway.Paced)
	end(allow(t, r.Bind(candidate("a", "x"), Default(), nil), ask), gateway.Success) // another model is not paced
	for _, p := range permits[2:5] {
		end(p, gateway.RateLimited) // the same congestion: no further cut
	}
	if h.Limit(t0) != 3 {
		t.Error(h.Limit(t0))
	}
	if lines := r.Status(t0); !strings.Contains(fmt.Sprint(lines), "paced") {
		t.Errorf("%+v", lines)
	}
	end(permits[5], gateway.Canceled)
	allow(t, h, ask)
	r.Reset(candidate("a", "m"))
	if h.Limit(t0) != 64 {
		t.Error("reset")
	}
	capped := r.Bind(candidate("c", "m", func(c *gateway.Connection) {
		c.MaxConcurrent, c.ModelConcurrency = 9, map[gateway.ModelID]int{"m": 4}
	}), Default(), nil)
	if capped.Limit(t0) != 4 {
		t.Error(capped.Limit(t0))
	}
}

// An account that falls idle under an engaged limit is free again after 5 min; one that uses it is not.
func TestPacedEndsWhenCalm(t *testing.T) {
	for _, busy := range []bool{false, true} {
		h := New(Options{}).Bind(candidate("a", "m"), Default(), nil)
		var permits []resilience.Permit
		for range 8 {
			permits = append(permits, allow(t, h, ask))
		}
		end(permits[0], gateway.Success)
		end(permits[1], gateway.RateLimited) // limit 3.5
		keep := 0
		if busy {
			keep = 2
		}
		for _, p := range permits[2 : 8-keep] {
			end(p, gateway.Canceled)
		}
		if n := h.Limit(at(299)); n != 3 {
			t.Errorf("too early: %d", n)
		}
		if n := h.Limit(at(300)); (n == 64) == busy {
			t.Errorf("busy %v: %d", busy, n)
		}
	}
}

func TestNothingIsLearnedFromOthers(t *testing.T) {
	for k := range gateway.NumKinds {
		r := New(Options{})
		h := r.Bind(candidate("a", "m"), Default(), nil)
		end(allow(t, h, ask), gateway.Success)
		p, q := allow(t, h, ask), allow(t, h, ask)
		p.Record(gateway.Outcome{Kind: gateway.RateLimited, Uncounted: true}, t0)
		end(q, k)
		if _, engaged := h.account.limit(h.cfg.AIMD, t0); engaged != (k == gateway.RateLimited) {
			t.Errorf("%v: engaged %v", k, engaged)
		}
	}
}

func TestOnFree(t *testing.T) {
	var calls atomic.Int32
	var r *Room
	r = New(Options{OnFree: func() {
		calls.Add(1)
		if !r.mu.TryLock() { // nobody else is here, so it is the caller that holds it
			t.Error("called with the room's lock held")
			return
		}
		defer r.mu.Unlock()
	}})
	h := r.Bind(candidate("a", "m"), Default(), nil)
	p := allow(t, h, ask)
	p.Alive(t0)
	end(p, gateway.Canceled)
	end(p, gateway.Canceled)
	p.Alive(t0)
	if calls.Load() != 2 {
		t.Errorf("%d calls", calls.Load())
	}
}

// Spec resilience.md 12: in flight never above a cap; all returns to zero.
func TestGateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) int { return rapid.IntRange(0, 5).Draw(t, name) }
		cfg := Default()
		cfg.GlobalConcurrency, cfg.ProviderConcurrency = draw("global"), draw("provider")
		cfg.UnprovenCap = draw("unproven")
		cfg.AIMD.Mode = rapid.SampledFrom([]string{AIMDOff, AIMDOnDemand, AIMDAlways}).Draw(t, "mode")
		r := New(Options{})
		conns, models, limit := []string{"a", "b"}, []string{"m", "n"}, draw("connection")
		perModel := draw("model")
		var handles []*Handle
		for _, c := range conns {
			for _, m := range models {
				handles = append(handles, r.Bind(candidate(c, m, func(c *gateway.Connection) {
					c.MaxConcurrent, c.ModelConcurrency = limit, map[gateway.ModelID]int{"m": perModel}
				}), cfg, func(time.Time) bool { return false }))
			}
		}
		type held struct {
			resilience.Permit
			h *Handle
		}
		var out []held
		now := t0
		over := func(n int64, limit int) bool { return n < 0 || (limit > 0 && n > int64(limit)) }
		t.Repeat(map[string]func(*rapid.T){
			"allow": func(t *rapid.T) {
				h := rapid.SampledFrom(handles).Draw(t, "handle")
				a := &resilience.Ask{PoolSize: 4, PoolProven: rapid.Bool().Draw(t, "proven"), Waited: time.Duration(draw("waited")) * sec}
				ok := h.Peek(a, now).OK()
				if h.Free(false) && !ok {
					t.Fatal("Free, but Peek says no")
				}
				p, _ := h.Allow(t.Context(), a, now)
				if (p != nil) != ok {
					t.Fatalf("Peek %v, Allow %v", ok, p != nil)
				}
				if p != nil {
					out = append(out, held{p, h})
				}
			},
			"record": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("none")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				o := gateway.Outcome{Kind: gateway.Kind(rapid.IntRange(0, int(gateway.NumKinds)-1).Draw(t, "kind"))}
				out[i].Record(o, now)
				out[i].Record(gateway.Outcome{Kind: gateway.Canceled}, now)
				out = append(out[:i], out[i+1:]...)
			},
			"time": func(t *rapid.T) { now = now.Add(time.Duration(draw("minutes")) * time.Minute) },
			"": func(t *rapid.T) {
				if n := r.global.n.Load(); n != int64(len(out)) || over(n, cfg.GlobalConcurrency) || over(n, cfg.ProviderConcurrency) {
					t.Fatalf("global %d of %d held", n, len(out))
				}
				for _, h := range handles {
					if over(h.conn.n.Load(), limit) || over(h.model.n.Load(), h.modelCap) {
						t.Fatalf("connection %d, model %d", h.conn.n.Load(), h.model.n.Load())
					}
					if h.Limit(now) < 1 {
						t.Fatalf("limit %d", h.Limit(now))
					}
				}
			},
		})
		for _, p := range out {
			p.Record(gateway.Outcome{Kind: gateway.Canceled}, now)
		}
		for _, h := range handles {
			if h.conn.n.Load()+h.model.n.Load()+h.account.n.Load()+h.provider.n.Load() != 0 {
				t.Fatal("not all came back")
			}
		}
	})
}

func TestNeverAboveACapUnderConcurrency(t *testing.T) {
	r := New(Options{})
	cfg := Default()
	var wg sync.WaitGroup
	var inside, most atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			h := r.Bind(candidate("a", fmt.Sprint(i%2), func(c *gateway.Connection) { c.MaxConcurrent = 3 }), cfg, nil)
			for range 500 {
				func() {
					p, _ := h.Allow(t.Context(), ask, time.Now())
					if p == nil {
						return
					}
					defer func() { _ = recover() }()
					defer p.Record(gateway.Outcome{Kind: gateway.Canceled}, time.Now())
					defer inside.Add(-1)
					if n := inside.Add(1); n > most.Load() {
						most.Store(n)
					}
					panic("an attempt that fails badly")
				}()
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 || r.global.n.Load() != 0 {
		t.Errorf("%d at once, %d left", most.Load(), r.global.n.Load())
	}
}

func TestBoundedMemory(t *testing.T) {
	r := New(Options{Keep: 16})
	held := r.Bind(candidate("a", "held", func(c *gateway.Connection) { c.ModelConcurrency = map[gateway.ModelID]int{"held": 1} }), Default(), nil)
	p := allow(t, held, ask)
	key := held.Key()
	held = nil // only the permit is left
	for i := range 2000 {
		r.Bind(candidate("a", fmt.Sprint(i)), Default(), nil)
		if i%200 == 0 {
			runtime.GC()
		}
	}
	again := r.Bind(candidate("a", "held", func(c *gateway.Connection) { c.ModelConcurrency = map[gateway.ModelID]int{"held": 1} }), Default(), nil)
	if again.Key() != key {
		t.Error("the counter of a running attempt was lost")
	}
	refuse(t, again, ask, gateway.ConcurrencyFull)
	end(p, gateway.Success)
	if n := r.models.Len(); n > 600 {
		t.Errorf("%d counters", n)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, name := range []string{"recommended", "polygateway", "omniroute-oauth", "omniroute-apikey", "omniroute-local", "autorouter"} {
		c, ok := Preset(name)
		if err := c.Validate(); !ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	if _, ok := Preset("none"); ok {
		t.Error("unknown preset")
	}
	err := Config{GlobalConcurrency: -1, ProviderConcurrency: -1, UnprovenCap: -1, UnprovenStep: -1,
		AIMD: AIMD{Mode: "x", Cut: math.NaN(), Start: math.NaN(), Max: -1}}.Validate()
	for _, field := range []string{"global_concurrency: ", "provider_concurrency: ", "default_limit: ", "unproven_cap: ",
		"unproven_step: ", "unproven_every: ", "aimd.mode: ", "aimd.start: ", "aimd.cut: ", "aimd.max: ", "aimd.calm: ",
		"aimd.success_within: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s missing in %v", field, err)
		}
	}
}

func TestPeekAllocatesNothing(t *testing.T) {
	r := New(Options{})
	h := r.Bind(candidate("a", "m"), Default(), func(time.Time) bool { return false })
	a := &resilience.Ask{PoolSize: 2}
	allow(t, h, a)
	allow(t, h, a)
	if n := testing.AllocsPerRun(100, func() { h.Peek(a, t0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPeek(b *testing.B) {
	h := New(Options{}).Bind(candidate("a", "m"), Default(), func(time.Time) bool { return true })
	a := &resilience.Ask{PoolSize: 2}
	b.ReportAllocs()
	for b.Loop() {
		h.Peek(a, t0)
	}
}

func BenchmarkAllowRecord(b *testing.B) {
	h := New(Options{}).Bind(candidate("a", "m"), Default(), func(time.Time) bool { return true })
	a := &resilience.Ask{PoolSize: 2}
	b.ReportAllocs()
	for b.Loop() {
		p, _ := h.Allow(b.Context(), a, t0)
		p.Record(gateway.Outcome{Kind: gateway.Success}, t0)
	}
}
