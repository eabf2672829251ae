package breaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

func ok() gateway.Outcome { return gateway.Outcome{Kind: gateway.Success, Status: 200} }
func fail() gateway.Outcome {
	return gateway.Outcome{Kind: gateway.ServiceError, Status: 500, Reason: gateway.UpstreamStatus}
}

// try makes one attempt and reports whether it was allowed.
func try(h *Handle, o gateway.Outcome, now time.Time) bool {
	p, out := h.Allow(context.Background(), &resilience.Ask{}, now)
	if !out.OK() {
		return false
	}
	p.Record(o, now)
	return true
}

// quick is the recommended configuration without the count gap.
func quick() Config {
	c := Recommended()
	c.CountGap = 0
	return c
}

func times(n int, f func()) {
	for range n {
		f()
	}
}

// TestO1ProbeNeverReturns: a breaker sat half-open for six days because a probe that never settled kept the permit.
func TestO1ProbeNeverReturns(t *testing.T) {
	for _, name := range Presets() {
		cfg, _ := Preset(name)
		r := New(Options{AttemptMax: time.Minute})
		h := r.Bind(candidate("p", "a", "m"), cfg)
		now := t0
		for h.State(now) != Open {
			try(h, fail(), now)
			now = now.Add(time.Second)
		}
		now = h.Peek(nil, now).Until
		lost := 0
		for h.State(now) != Open && lost < cfg.ProbePermits { // every permit goes to a worker that dies
			if _, out := h.Allow(context.Background(), nil, now); out.OK() {
				lost++
			} else {
				now = out.Until
			}
		}
		limit := now.Add(2*time.Minute + time.Duration(cfg.SuccessThreshold)*cfg.ProbeInterval)
		for h.State(now) != Closed {
			if now.After(limit) {
				t.Fatalf("%s: still %v after the leases have run out", name, h.State(now))
			}
			try(h, ok(), now)
			now = now.Add(time.Second)
		}
		if name != PresetAutoRouter && r.Counters().Leaked == 0 {
			t.Errorf("%s: the lost probe was not counted", name)
		}
	}
}

// TestO2OneWayIn: failures were recorded on a path that never reached the breaker, successes beside it. The permit is
// the only way in, and what Status shows is what was recorded.
func TestO2OneWayIn(t *testing.T) {
	r := New(Options{})
	h := r.Bind(candidate("p", "a", "m"), quick())
	times(5, func() { try(h, fail(), t0) })
	st := r.Status(t0)
	if len(st) != 1 || st[0].State != "open" || st[0].Detail["fails"] != "5" || st[0].Reason != gateway.CircuitOpen {
		t.Errorf("%+v", st)
	}
	if r.Counters().Trips["consecutive"] != 1 {
		t.Errorf("%+v", r.Counters())
	}
}

// TestO3ExpiryMerelyAllowsATry: the open time must go on growing although every open spell ran out.
func TestO3ExpiryMerelyAllowsATry(t *testing.T) {
	h := New(Options{}).Bind(candidate("p", "a", "m"), quick())
	now, last, probes := t0, time.Duration(0), 0
	times(5, func() { try(h, fail(), now) })
	for now.Before(t0.Add(time.Hour)) {
		until := h.Peek(nil, now).Until
		if d := until.Sub(now); d < last {
			t.Fatalf("open time fell from %v to %v", last, d)
		} else {
			last = d
		}
		now = until
		try(h, fail(), now)
		probes++
	}
	if last != 5*time.Minute || probes > 22 {
		t.Errorf("an hour of outage cost %d probes, the last open time is %v", probes, last)
	}
}

// TestO4RateLimitOpensNothing: one plain 429 opened the breaker of a whole provider.
func TestO4RateLimitOpensNothing(t *testing.T) {
	for _, name := range Presets() {
		if name == PresetAutoRouter {
			continue // counts every answer but a 2xx, by design
		}
		cfg, _ := Preset(name)
		r := New(Options{})
		h, other := r.Bind(candidate("p", "a", "m"), cfg), r.Bind(candidate("p", "b", "m"), cfg)
		for _, k := range []gateway.Kind{gateway.RateLimited, gateway.QuotaExhausted} {
			times(500, func() { try(h, gateway.Outcome{Kind: k, Status: 429}, t0) })
		}
		if h.State(t0) != Closed || other.State(t0) != Closed {
			t.Errorf("%s: 429 opened it", name)
		}
	}
}

// TestP33CallerFaults: a client's wrong path must never hurt.
func TestP33CallerFaults(t *testing.T) {
	r := New(Options{})
	h := r.Bind(candidate("p", "a", "m"), quick())
	for _, k := range []gateway.Kind{gateway.Alive, gateway.ContentRefused, gateway.InvalidResult,
		gateway.ModelUnavailable, gateway.Canceled, gateway.LocalError, gateway.Stall, gateway.AuthError,
		gateway.RequestRejected} {
		times(100, func() { try(h, gateway.Outcome{Kind: k, Status: 404}, t0) })
	}
	if h.State(t0) != Closed || len(r.Status(t0)) != 0 {
		t.Errorf("%v %+v", h.State(t0), r.Status(t0))
	}
}

// TestP34EndpointFault: 5xx belong to the endpoint. The same key at another base URL is another identity, untouched;
// and a fault that many keys share counts as one failure, whatever its kind.
func TestP34EndpointFault(t *testing.T) {
	r := New(Options{})
	bad := r.Bind(candidate("p", "a", "m"), quick())
	c := candidate("p", "a", "m")
	c.Connection.Identity = "a#2"
	good := r.Bind(c, quick())
	times(9, func() { try(bad, fail(), t0) })
	if bad.State(t0) != Open || good.State(t0) != Closed {
		t.Errorf("bad endpoint %v, good endpoint %v", bad.State(t0), good.State(t0))
	}
	h := r.Bind(candidate("q", "b", "m"), quick())
	times(4, func() { try(h, gateway.Outcome{Kind: gateway.AuthError, Status: 401, Endpoint: true}, t0) })
	if h.State(t0) != Degraded {
		t.Errorf("four endpoint faults: %v", h.State(t0))
	}
}

func TestDegradedIsWeakAndEmitted(t *testing.T) { // P16
	var got []Transition
	saves := 0
	r := New(Options{OnTransition: func(x Transition) { got = append(got, x) }, Keep: func(resilience.Record) { saves++ }})
	h := r.Bind(candidate("p", "a", "m"), quick())
	try(h, fail(), t0)
	before := saves
	times(3, func() { try(h, fail(), t0.Add(time.Second)) })
	if out := h.Peek(nil, t0); !out.OK() || !out.Weak || saves != before {
		t.Errorf("%+v, %d writes", out, saves-before)
	}
	try(h, ok(), t0.Add(time.Second))
	if len(got) != 2 || got[0].To != Degraded || got[0].Fails != 3 || got[1].From != Degraded || got[1].To != Closed {
		t.Errorf("%+v", got)
	}
}

// TestKeysAreIsolated is P17, TestOpenPeers is P25: an open peer consumes no attempt, one healthy candidate suffices.
func TestKeysAreIsolated(t *testing.T) {
	cfg := quick()
	cfg.Scope = ScopeConnection
	r := New(Options{})
	var pool []*Handle
	for _, id := range []string{"a", "b", "c"} {
		pool = append(pool, r.Bind(candidate("p", id, "m"), cfg))
	}
	served, attempts := 0, map[int]int{}
	for i := range 1000 {
		now := t0.Add(time.Duration(i) * 10 * time.Millisecond)
		for j, h := range pool {
			o := fail()
			if j == 2 {
				o = ok()
			}
			if try(h, o, now) {
				attempts[j]++
				if j == 2 {
					served++
				}
			}
		}
	}
	if served != 1000 || attempts[0] != 5 || attempts[1] != 5 {
		t.Errorf("served %d, attempts %v", served, attempts)
	}
}

// TestSettledOnce is P19.
func TestSettledOnce(t *testing.T) {
	r := New(Options{})
	h := r.Bind(candidate("p", "a", "m"), quick())
	p, _ := h.Allow(context.Background(), nil, t0)
	times(9, func() { p.Record(fail(), t0) })
	p.Alive(t0)
	if st, _ := h.own.sums2(h.rules); h.own.s.fails != 1 || st != 1 {
		t.Errorf("one permit, %d failures, %d attempts", h.own.s.fails, st)
	}
}

func (c *cell) sums2(r *rules) (int64, int64) { return c.s.sums(r, t0.UnixNano()) }

// TestRestartIsNeverMorePermissive is P20: whatever state is restored, nothing is admitted earlier than without it.
func TestRestartIsNeverMorePermissive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, _ := Preset(rapid.SampledFrom(Presets()).Draw(t, "preset"))
		cfg.OpenJitter = 0
		kept := map[string]resilience.Record{}
		r := New(Options{Keep: func(rec resilience.Record) {
			if old, ok := kept[rec.Key]; ok && !rec.At.After(old.At) {
				t.Fatalf("record of %v after one of %v", rec.At, old.At)
			}
			kept[rec.Key] = rec
		}})
		c := candidate("p", "a", "m")
		h := r.Bind(c, cfg)
		now := t0
		for range rapid.IntRange(1, 80).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			p, out := h.Allow(context.Background(), nil, now)
			if !out.OK() {
				now = out.Until.Add(-time.Second)
				continue
			}
			switch rapid.IntRange(0, 5).Draw(t, "end") {
			case 0:
				p.Alive(now)
				p.Record(ok(), now)
			case 1: // lost
			default:
				p.Record(fail(), now)
			}
		}
		r2 := New(Options{})
		if rapid.Bool().Draw(t, "bind first") {
			r2.Bind(c, cfg)
		}
		var recs []resilience.Record
		for _, rec := range kept {
			recs = append(recs, rec)
		}
		r2.Restore(recs, now)
		h2 := r2.Bind(c, cfg)
		a, b := h.Peek(nil, now), h2.Peek(nil, now)
		if !a.OK() && a.Reason != gateway.ProbeBusy && (b.OK() || b.Until.Before(a.Until)) {
			t.Fatalf("before %+v, after %+v", a, b)
		}
		if a.Probe && !b.Probe {
			t.Fatalf("a probe became an ordinary attempt: %+v", b)
		}
		if s, s2 := h.own.s, h2.own.s; s.st != closed && (s2.st != open || s2.ep != s.ep || s2.streak != s.streak) {
			t.Fatalf("before %+v\nafter %+v", s, s2)
		}
	})
}

func TestRestoreSkipsWhatItCannotRead(t *testing.T) {
	r := New(Options{})
	r.Restore([]resilience.Record{{Room: "cooldown", Key: "x", Value: []byte(`{"st":1}`)}, {Room: RoomName, Key: "y"},
		{Room: RoomName, Key: "z", Value: []byte(`{`)}, {Room: RoomName, Key: "w", Value: []byte(`{"st":9}`)}}, t0)
	if len(r.cells) != 0 {
		t.Errorf("%v", r.cells)
	}
}

// TestP21RoomIsTheMachine: the room with its short cuts decides and keeps exactly what the pure step does on the same
// trace and clock.
func TestP21RoomIsTheMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, _ := Preset(rapid.SampledFrom(Presets()).Draw(t, "preset"))
		cfg.EvidencePerModel, cfg.Scope, cfg.OpenJitter = false, ScopeConnection, 0
		room := New(Options{AttemptMax: attemptMax})
		h := room.Bind(candidate("p", "a", "m"), cfg)
		var s state
		now := t0
		type pair struct {
			p     resilience.Permit
			g     grant
			tried bool
		}
		var pairs []*pair
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 100, 3000, 40_000}).Draw(t, "ms")) * time.Millisecond)
			ns := room.ns(now)
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				p, out := h.Allow(context.Background(), nil, now)
				peeked := s.peek(h.rules, true, ns)
				tok := room.tokens.Load()
				if peeked.admit != out.OK() {
					t.Fatalf("room %+v, machine %+v", out, peeked)
				}
				if !peeked.admit {
					continue
				}
				s, peeked, _ = step(h.rules, s, event{kind: evAcquire, token: tok, mayProbe: true}, ns)
				g := grant{ep: s.ep}
				if peeked.probe {
					g.token = tok
				}
				pairs = append(pairs, &pair{p: p, g: g})
			case 2:
				if len(pairs) == 0 {
					continue
				}
				x := pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "i")]
				x.p.Alive(now)
				if !x.tried {
					var out ruling
					s, out, _ = step(h.rules, s, event{kind: evAlive, ep: x.g.ep, token: x.g.token}, ns)
					x.g.alive, x.tried = !out.stale, true
				}
			case 3:
				if len(pairs) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(pairs)-1).Draw(t, "i")
				x := pairs[i]
				o := rapid.SampledFrom([]gateway.Outcome{ok(), ok(), fail(), fail(), {Kind: gateway.Timeout},
					{Kind: gateway.Slow}, {Kind: gateway.Alive, Status: 400}}).Draw(t, "o")
				x.p.Record(o, now)
				s, _, _ = step(h.rules, s, x.g.report(h.rules.classify(&o), o.Kind), ns)
				pairs = append(pairs[:i], pairs[i+1:]...)
			}
			h.own.mu.Lock()
			h.own.absorb()
			got := h.own.s
			h.own.mu.Unlock()
			if got != s {
				t.Fatalf("room    %+v\nmachine %+v", got, s)
			}
		}
	})
}

// TestP26AutoScope drives members at random and compares the verdict with the rule, written down plainly.
func TestP26AutoScope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := quick()
		cfg.OpenJitter, cfg.EvidencePerModel = 0, rapid.Bool().Draw(t, "per model")
		n := rapid.IntRange(1, 5).Draw(t, "members")
		room := New(Options{})
		var pool []*Handle
		for i := range n {
			pool = append(pool, room.Bind(candidate("p", fmt.Sprint("c", i), "m"), cfg))
		}
		tripped := map[int]time.Time{}
		var content time.Time
		now := t0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 12_000).Draw(t, "ms")) * time.Millisecond)
			i := rapid.IntRange(0, n-1).Draw(t, "who")
			good := rapid.IntRange(0, 4).Draw(t, "good") == 0
			for range 5 {
				p, out := pool[i].Allow(context.Background(), nil, now)
				if !out.OK() {
					break
				}
				if good {
					p.Alive(now)
					content = now
					p.Record(ok(), now)
				} else {
					p.Record(fail(), now)
				}
			}
			for j, h := range pool {
				if h.own.s.st == closed {
					delete(tripped, j)
				} else if _, known := tripped[j]; !known {
					tripped[j] = now
				}
			}
			var at []time.Time
			for _, x := range tripped {
				at = append(at, x)
			}
			slices.SortFunc(at, time.Time.Compare)
			need := max(2, (n+1)/2)
			out := false
			for last := need - 1; last < len(at); last++ {
				out = out || (at[last].Sub(at[last-need+1]) <= cfg.AutoWindow && at[last].After(content))
			}
			if got := !pool[0].group.quiet(); got != out {
				t.Fatalf("verdict %v, by the rule %v: tripped %v, content %v", got, out, at, content)
			}
		}
	})
}

// TestP11LiveInTheRoom: after any mess, with every permit lost, whoever is asked for alone comes back in time: the other
// model, the connection, the provider's group cannot hold it back for longer than an open time and a lease.
func TestP11LiveInTheRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := New(Options{AttemptMax: attemptMax})
		var all []*Handle
		for i := range 6 {
			all = append(all, room.Bind(candidate("p", fmt.Sprint("c", i%3), fmt.Sprint("m", i/3)), Recommended()))
		}
		now := t0
		for range rapid.IntRange(1, 150).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			p, out := all[rapid.IntRange(0, 5).Draw(t, "who")].Allow(context.Background(), nil, now)
			if !out.OK() {
				continue
			}
			switch rapid.IntRange(0, 8).Draw(t, "end") {
			case 0:
				p.Alive(now)
			case 1: // lost
			case 2:
				p.Record(ok(), now)
			case 3, 4:
				p.Record(gateway.Outcome{Kind: gateway.ServiceError, BelowHTTP: true}, now)
			default:
				p.Record(fail(), now)
			}
		}
		h := all[rapid.IntRange(0, 5).Draw(t, "alone")]
		for end := now.Add(5*time.Minute + attemptMax + 10*time.Second); h.State(now) != Closed; now = now.Add(time.Second) {
			if now.After(end) {
				t.Fatalf("%v, %+v", h.State(now), h.Peek(nil, now))
			}
			try(h, ok(), now)
		}
	})
}

// TestP26MemberSuccessLifts: with two of three out, the third waits for the first that is due, and first content
// anywhere lets it go at once.
func TestP26MemberSuccessLifts(t *testing.T) {
	room := New(Options{})
	a, b, c := room.Bind(candidate("p", "a", "m"), quick()), room.Bind(candidate("p", "b", "m"), quick()),
		room.Bind(candidate("p", "c", "m"), quick())
	late, _ := c.Allow(context.Background(), nil, t0)
	times(5, func() { try(a, fail(), t0); try(b, fail(), t0.Add(time.Second)) })
	now := t0.Add(2 * time.Second)
	if out := c.Peek(nil, now); out.OK() || out.Layer != gateway.LayerBreaker || !out.Until.Equal(t0.Add(10*time.Second)) {
		t.Fatalf("%+v", out)
	}
	if c.State(now) != Open {
		t.Errorf("shown %v", c.State(now))
	}
	late.Alive(now)
	if out := c.Peek(nil, now); !out.OK() || c.State(now) != Closed {
		t.Errorf("first content did not lift it: %+v", out)
	}
	// What is no longer configured cannot keep the provider out.
	d, e := room.Bind(candidate("q", "d", "m"), quick()), room.Bind(candidate("q", "e", "m"), quick())
	f := room.Bind(candidate("q", "f", "m"), quick())
	times(5, func() { try(d, fail(), now); try(e, fail(), now) })
	if f.Peek(nil, now).OK() {
		t.Fatal("not out")
	}
	room.Retain(map[string]bool{"d#1": true, "f#1": true})
	if !f.Peek(nil, now).OK() {
		t.Error("a connection that is gone keeps the provider out")
	}
	if d.State(now) != Open || e.State(now) != Open {
		t.Error("the state of what is gone was not kept")
	}
}

// TestP27OneDeadModel: a model that always fails, and another that mostly answers, in any interleaving.
func TestP27OneDeadModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Recommended()
		cfg.CountGap = time.Duration(rapid.SampledFrom([]int{0, 200}).Draw(t, "gap")) * time.Millisecond
		room := New(Options{})
		dead, good := room.Bind(candidate("p", "a", "dead"), cfg), room.Bind(candidate("p", "a", "good"), cfg)
		now, answered := t0, t0.Add(-time.Hour)
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 2).Draw(t, "which") > 0 && now.Sub(answered) < 50*time.Second {
				try(dead, fail(), now)
				continue
			}
			o := ok()
			if now.Sub(answered) < 40*time.Second && rapid.IntRange(0, 3).Draw(t, "flaky") == 0 {
				o = fail()
			}
			if try(good, o, now) && o.Kind == gateway.Success {
				answered = now
			}
			if good.own.s.st != closed {
				return // its own evidence, which is another matter
			}
			if good.conn.s.st != closed {
				t.Fatalf("the connection opened although a model on it succeeded %v ago", now.Sub(answered))
			}
		}
	})
}

func TestBelowHTTPOpensTheConnection(t *testing.T) {
	room := New(Options{})
	a, b := room.Bind(candidate("p", "a", "m1"), quick()), room.Bind(candidate("p", "a", "m2"), quick())
	try(b, ok(), t0)
	low := gateway.Outcome{Kind: gateway.ServiceError, Reason: gateway.ConnectFailed, BelowHTTP: true}
	times(5, func() { try(a, low, t0.Add(time.Second)) })
	if b.State(t0.Add(time.Second)) != Open {
		t.Error("connect failures of one model say nothing about the other")
	}
	c, d := room.Bind(candidate("q", "c", "m1"), quick()), room.Bind(candidate("q", "c", "m2"), quick())
	try(d, ok(), t0)
	times(5, func() { try(c, fail(), t0.Add(time.Second)) })
	if d.State(t0.Add(time.Second)) != Closed {
		t.Error("a status of one model opened the connection")
	}
}

// TestContentReachesBothCells: first content ends the connection's run as well as the model's, and is the success of a
// connection's probe.
func TestContentReachesBothCells(t *testing.T) {
	h := New(Options{}).Bind(candidate("p", "a", "m"), quick())
	times(2, func() { try(h, fail(), t0) })
	p, _ := h.Allow(context.Background(), nil, t0)
	p.Alive(t0)
	if h.own.s.fails != 0 || h.conn.s.fails != 0 {
		t.Errorf("model %d, connection %d", h.own.s.fails, h.conn.s.fails)
	}
	if err := h.room.Force("a#1", true, t0.Add(time.Minute), "op", t0); err != nil {
		t.Fatal(err)
	}
	now := t0.Add(time.Minute)
	times(2, func() {
		p, _ := h.Allow(context.Background(), nil, now)
		p.Alive(now)
	})
	if h.State(now) != Closed {
		t.Errorf("two probes had content, yet %v", h.State(now))
	}
}

// TestFreedSlotsAreTold: who waits for a probe is woken when its slot comes back, though the state stays half-open.
func TestFreedSlotsAreTold(t *testing.T) {
	freed := 0
	var room *Room
	room = New(Options{OnFree: func() { freed++; room.Status(t0) }})
	h := room.Bind(candidate("p", "a", "m"), quick())
	times(5, func() { try(h, fail(), t0) })
	now := t0.Add(10 * time.Second)
	for i, end := range []func(resilience.Permit){
		func(p resilience.Permit) { p.Record(gateway.Outcome{Kind: gateway.Canceled}, now) },
		func(p resilience.Permit) { p.Record(gateway.Outcome{Kind: gateway.RateLimited}, now) },
		func(p resilience.Permit) { p.Alive(now) },
	} {
		p, out := h.Allow(context.Background(), nil, now)
		if !out.Probe || freed != i {
			t.Fatalf("%d: %+v, told %d times", i, out, freed)
		}
		end(p)
		if freed != i+1 || h.State(now) != HalfOpen {
			t.Fatalf("%d: told %d times, %v", i, freed, h.State(now))
		}
		now = now.Add(time.Second)
	}
	a, b := room.Bind(candidate("q", "b", "m"), quick()), room.Bind(candidate("q", "c", "m"), quick())
	c, _ := room.Bind(candidate("q", "d", "m"), quick()).Allow(context.Background(), nil, now)
	times(5, func() { try(a, fail(), now); try(b, fail(), now) })
	if c.Alive(now); freed != 4 {
		t.Error("a lifted outage was not told")
	}
}

// TestHalfTakenIsGivenBack: the connection's probe is returned when the model's is lost to somebody faster.
func TestHalfTakenIsGivenBack(t *testing.T) {
	h := New(Options{}).Bind(candidate("p", "a", "m"), quick())
	now := h.room.ns(t0)
	h.conn.s = state{st: open, ep: 1, ot: now - 1}
	h.own.s = state{st: half, ep: 1, nl: 1}
	h.own.s.leases[0] = lease{token: 99, until: now + sec}
	if p, out := h.take(true, now); p != nil || out.reason != gateway.ProbeBusy {
		t.Fatalf("%+v", out)
	}
	if live, _ := h.conn.s.probes(now); live != 0 || !h.conn.s.peek(h.rules, true, now).probe {
		t.Errorf("%d probes of the connection are still out", live)
	}
}

// TestSlowIsJudgedOnce: whether leaving early counts is the model's question; the connection follows.
func TestSlowIsJudgedOnce(t *testing.T) {
	room := New(Options{})
	a, b := room.Bind(candidate("p", "a", "m1"), quick()), room.Bind(candidate("p", "a", "m2"), quick())
	try(b, ok(), t0)
	try(a, gateway.Outcome{Kind: gateway.Slow}, t0)
	if a.own.s.fails != 1 || a.conn.s.fails != 1 {
		t.Errorf("nothing of this model succeeded: model %d, connection %d", a.own.s.fails, a.conn.s.fails)
	}
	try(a, ok(), t0)
	try(a, gateway.Outcome{Kind: gateway.Slow}, t0)
	if a.own.s.fails != 0 || a.conn.s.fails != 0 {
		t.Errorf("another attempt had succeeded: model %d, connection %d", a.own.s.fails, a.conn.s.fails)
	}
}

func TestForceByProviderAndErrors(t *testing.T) {
	room := New(Options{})
	a, b := room.Bind(candidate("p", "a", "m"), quick()), room.Bind(candidate("p", "b", "m"), quick())
	x := room.Bind(candidate("q", "x", "m"), quick())
	if err := room.Force("nobody", true, time.Time{}, "op", t0); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("%v", err)
	}
	if err := room.Force("a#1", true, t0, "op", t0); err == nil {
		t.Error("a time that has passed was accepted")
	}
	if err := room.Force(ProviderKey("p"), true, t0.Add(time.Hour), "op", t0); err != nil {
		t.Fatal(err)
	}
	if a.Peek(nil, t0).OK() || b.Peek(nil, t0).OK() || !x.Peek(nil, t0).OK() {
		t.Error("a provider's order holds for its connections and for no other")
	}
	if err := room.Reset(ProviderKey("p"), "op", t0); err != nil || !a.Peek(nil, t0).OK() || !b.Peek(nil, t0).OK() {
		t.Errorf("reset: %v", err)
	}
	hist := room.History("a#1")
	if len(hist) != 2 || hist[0].Actor != "op" || hist[0].Cause != "forced_open" || hist[1].Cause != "reset" {
		t.Errorf("%+v", hist)
	}
	times(40, func() { _ = room.Force("a#1", true, time.Time{}, "op", t0) })
	if len(room.History("a#1")) != maxHistory || room.History("nobody") != nil {
		t.Error("history is not the last 20")
	}
	if b, err := json.Marshal(room.History("a#1")[0]); err != nil || !strings.Contains(string(b), `"to":"open"`) {
		t.Errorf("%s %v", b, err)
	}
}

// TestKeptBeforeGranted: the record of open -> half_open is stored before the probe's permit exists.
func TestKeptBeforeGranted(t *testing.T) {
	var log []string
	room := New(Options{Keep: func(r resilience.Record) { log = append(log, "keep "+r.Key) },
		OnTransition: func(x Transition) { log = append(log, x.To.String()) }})
	cfg := quick()
	cfg.Scope, cfg.EvidencePerModel, cfg.DegradeThreshold, cfg.DegradeRate = ScopeConnection, false, 0, 0
	h := room.Bind(candidate("p", "a", "m"), cfg)
	times(5, func() { try(h, fail(), t0) })
	_, out := h.Allow(context.Background(), nil, t0.Add(10*time.Second))
	log = append(log, "granted")
	// The first failure is kept as a counter, the next ones fall within the 5 s.
	want := "keep a#1, keep a#1, open, keep a#1, half_open, granted"
	if got := strings.Join(log, ", "); got != want || !out.Probe {
		t.Errorf("%s", got)
	}
}

func TestCallbacksHoldNoLock(t *testing.T) {
	var room *Room
	var h *Handle
	calls := 0
	again := func() {
		calls++
		h.Peek(nil, t0)
		room.Status(t0)
		room.History("a#1")
	}
	room = New(Options{Keep: func(resilience.Record) { again() }, OnTransition: func(Transition) { again() }})
	h = room.Bind(candidate("p", "a", "m"), quick())
	times(6, func() { try(h, fail(), t0) })
	if calls < 3 {
		t.Errorf("%d calls", calls)
	}
}

func TestSnapshotsShareCells(t *testing.T) {
	room := New(Options{})
	old := room.Bind(candidate("p", "a", "m"), quick())
	times(3, func() { try(old, fail(), t0) })
	strict := quick()
	strict.ConsecThreshold, strict.DegradeThreshold = 4, 2
	fresh := room.Bind(candidate("p", "a", "m"), strict)
	try(fresh, fail(), t0)
	if old.State(t0) != Open {
		t.Error("the new snapshot began from nothing")
	}
}

func TestJitterOnlyShortens(t *testing.T) {
	for _, u := range []float64{0, 0.5, 0.999999} {
		room := New(Options{Rand: func() float64 { return u }})
		h := room.Bind(candidate("p", "a", "m"), quick())
		times(5, func() { try(h, fail(), t0) })
		d := h.Peek(nil, t0).Until.Sub(t0)
		want := 10*time.Second - time.Duration(u*float64(time.Second))
		if d > 10*time.Second || d < 9*time.Second || (d-want).Abs() > time.Millisecond {
			t.Errorf("u=%v: %v, want %v", u, d, want)
		}
	}
}

func TestEvictsOnlyIdlePlainRetired(t *testing.T) {
	var gone []string
	room := New(Options{Keep: func(r resilience.Record) {
		if len(r.Value) == 0 {
			gone = append(gone, r.Key)
		}
	}})
	cfg := quick()
	cfg.Scope, cfg.EvidencePerModel = ScopeConnection, false
	bad, live := room.Bind(candidate("p", "bad", "m"), cfg), room.Bind(candidate("p", "live", "m"), cfg)
	times(5, func() { try(bad, fail(), t0) })
	try(live, ok(), t0)
	for i := range maxCells + 50 {
		room.Bind(candidate("p", fmt.Sprint("c", i), "m"), cfg)
	}
	recent := room.Bind(candidate("p", "recent", "m"), cfg)
	try(recent, ok(), t0.Add(time.Hour))
	room.Retain(map[string]bool{"live#1": true})
	if len(room.cells) != maxCells || len(gone) != 53 {
		t.Errorf("%d cells, %d gone", len(room.cells), len(gone))
	}
	for _, k := range []string{"bad#1", "live#1", "recent#1"} {
		if room.cells[k] == nil {
			t.Errorf("%s was evicted", k)
		}
	}
}

func TestHotPathAllocations(t *testing.T) {
	h := New(Options{}).Bind(candidate("p", "a", "m"), Recommended())
	ask := &resilience.Ask{Fallbacks: 1}
	if n := testing.AllocsPerRun(100, func() { h.Peek(ask, t0) }); n != 0 {
		t.Errorf("Peek: %v allocations", n)
	}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		p, _ := h.Allow(ctx, ask, t0)
		p.Alive(t0)
		p.Record(ok(), t0)
	}); n > 1 {
		t.Errorf("Allow, Alive, Record: %v allocations", n)
	}
}

// TestConcurrent hammers one room from many goroutines: never more probes than permits, every permit settles, and
// after the storm a quiet recovery works.
func TestConcurrent(t *testing.T) {
	cfg := quick()
	cfg.OpenBase, cfg.OpenMax, cfg.SuccessThreshold = time.Millisecond, 4*time.Millisecond, 1
	room := New(Options{Rand: rand.Float64, Keep: func(resilience.Record) {}, OnTransition: func(Transition) {}})
	var handles []*Handle
	for i := range 6 {
		handles = append(handles, room.Bind(candidate("p", fmt.Sprint("c", i%3), fmt.Sprint("m", i/3)), cfg))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			now := t0
			for i := range 3000 {
				now = now.Add(time.Duration(rng.IntN(400)) * time.Microsecond)
				h := handles[rng.IntN(len(handles))]
				p, out := h.Allow(context.Background(), &resilience.Ask{Fallbacks: 1}, now)
				if !out.OK() {
					if i%500 == 0 {
						room.Status(now)
						room.Retain(map[string]bool{"c0#1": true, "c1#1": true, "c2#1": true})
						room.Bind(candidate("p", "c0", "m0"), cfg)
					}
					continue
				}
				switch rng.IntN(4) {
				case 0:
					p.Alive(now)
					p.Record(ok(), now)
				case 1:
					p.Record(gateway.Outcome{Kind: gateway.Canceled}, now)
				default:
					p.Record(fail(), now)
				}
				h.own.mu.Lock()
				if live, _ := h.own.s.probes(room.ns(now)); live > 1 {
					t.Errorf("%d live probes", live)
				}
				h.own.mu.Unlock()
			}
		})
	}
	wg.Wait()
	now := t0.Add(time.Hour)
	for _, h := range handles {
		for i := 0; h.State(now) != Closed && i < 20; i++ {
			try(h, ok(), now)
			now = now.Add(time.Second)
		}
		h.own.mu.Lock()
		if h.own.s.st != closed || h.own.s.nl != 0 {
			t.Errorf("%s: %+v", h.own.id.key, h.own.s)
		}
		h.own.mu.Unlock()
	}
}
