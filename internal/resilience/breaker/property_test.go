package breaker

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

const attemptMax = 20 * time.Second

// world is one key driven at random, with the model that the properties of spec breaker.md section 7 are checked
// against.
type world struct {
	t      *rapid.T
	r      *rules
	s      state
	now    int64
	token  uint64
	out    []grant // permits that are out
	backed int64   // how far the clock went back in all

	seen  []seen // window reports accepted since the window was last void
	lastD int64  // open time of the last failed probe of this spell
}

type seen struct {
	bucket int64
	failed bool
}

// anyRules draws a preset and bends the parts that presets do not exercise.
func anyRules(t *rapid.T) *rules {
	cfg, _ := Preset(rapid.SampledFrom(Presets()).Draw(t, "preset"))
	cfg.OpenJitter, cfg.HonourRetryAfter = 0, false
	if rapid.Bool().Draw(t, "outer") && cfg.WcountThreshold > 0 {
		cfg.ProviderCooldown.Enabled = true
	}
	if rapid.Bool().Draw(t, "small") && cfg.RateMinCalls > 0 {
		cfg.RateMinCalls = rapid.IntRange(2, 8).Draw(t, "min")
	}
	cfg.ProbePermits = rapid.SampledFrom([]int{cfg.ProbePermits, 1, 2, 3}).Draw(t, "permits")
	cfg.SuccessThreshold = rapid.IntRange(1, 3).Draw(t, "need")
	return compile(cfg, rapid.IntRange(0, 4).Draw(t, "conc"), attemptMax)
}

// apply steps the machine and checks every property that speaks about single steps.
func (w *world) apply(ev event) ruling {
	before, t := w.s, w.t
	n0, _ := before.sums(w.r, w.now)
	s, out, _ := step(w.r, before, ev, w.now)
	w.s = s
	tripped := s.ep != before.ep && ev.kind < evForceOpen
	forced := before.forcedAt(w.now)

	if out.stale && s != before {
		t.Fatalf("P4: a stale report changed the state")
	}
	if live, _ := s.probes(w.now); live > w.r.permits || s.nl > maxLeases {
		t.Fatalf("P2: %d live leases", live)
	}
	if s.ep < before.ep || (ev.kind >= evForceOpen) != (s.ep > before.ep) && !(tripped && s.st == open) {
		t.Fatalf("P3: epoch %d -> %d by event %d", before.ep, s.ep, ev.kind)
	}
	if ev.kind == evAcquire && before.st == open && out.admit &&
		(forced == forcedOpen || forced == unforced && before.forced == unforced && w.now < min(before.ot, w.now+w.r.cap)) {
		t.Fatalf("P1: admitted while open")
	}
	if ev.kind == evReport && ev.pol.class <= throttled && before.st == closed && forced == before.forced {
		if c := before; !out.stale && func() bool { c.clamp(w.r, w.now); return s != c }() {
			t.Fatalf("P5: a neutral outcome moved a closed breaker")
		}
	}
	if tripped {
		w.checkTrip(before, ev, n0)
	}
	if before.streak > 0 && s.streak == 0 && ev.kind < evForceClose {
		stable := w.r.reset == StreakResetStable && before.st == closed && before.cs != 0
		if !stable && !(w.r.reset == StreakResetOnClose && (s.st == closed)) {
			t.Fatalf("P10: the streak was lost")
		}
	}
	if s.degraded(w.r, w.now) && !s.peek(w.r, false, w.now).admit {
		t.Fatalf("P16: degraded refuses")
	}
	w.follow(before, ev, out)
	w.checkWindow()
	return out
}

func (w *world) checkTrip(before state, ev event, n0 int64) {
	s, t := &w.s, w.t
	d := s.ot - w.now
	if d <= 0 || d > w.r.cap {
		t.Fatalf("P7: open for %d", d)
	}
	switch s.oc {
	case causeRate:
		if n0+1 < w.r.minCalls {
			t.Fatalf("P6: rate tripped on %d attempts", n0+1)
		}
		if n0+1 < 2 {
			t.Fatalf("P14: the first failure after a close tripped by rate")
		}
	case causeWcount:
		if int64(before.wn)+1 < w.r.wcount {
			t.Fatalf("P6: outer gate tripped on %d", before.wn+1)
		}
	case causeConsecutive:
		if d != w.r.base {
			t.Fatalf("P9: a consecutive trip lasts %d", d)
		}
	case causeProbe:
		if d < w.lastD && w.backed == 0 {
			t.Fatalf("P8: open time fell from %d to %d", w.lastD, d)
		}
		w.lastD = d
	}
}

// follow keeps the model of the window: it is void after a trip, a close, an order.
func (w *world) follow(before state, ev event, out ruling) {
	s := &w.s
	if s.st == closed && before.st != closed || ev.kind >= evForceOpen {
		w.lastD, w.seen = 0, nil
	}
	if s.ep != before.ep {
		w.seen = nil
		return
	}
	if ev.kind != evReport || out.stale || before.st != closed || w.r.window == 0 {
		return
	}
	if ev.pol.class == succeeded || out.counted && ev.pol.class != dead {
		w.seen = append(w.seen, seen{w.now / (w.r.window / 2), out.counted})
	}
}

func (w *world) checkWindow() {
	n, f := w.s.sums(w.r, w.now)
	if f < 0 || f > n {
		w.t.Fatalf("P13: %d failures of %d", f, n)
	}
	if w.backed > 0 || w.r.window == 0 {
		return
	}
	var wantN, wantF int64
	for _, x := range w.seen {
		if id := w.now / (w.r.window / 2); x.bucket == id || x.bucket == id-1 {
			wantN++
			if x.failed {
				wantF++
			}
		}
	}
	if n != wantN || f != wantF {
		w.t.Fatalf("P13: window says %d/%d, accepted were %d/%d", f, n, wantF, wantN)
	}
}

func (w *world) acquire(may bool) {
	w.token++
	out := w.apply(event{kind: evAcquire, token: w.token, mayProbe: may})
	if !out.admit {
		if may && out.until != 0 {
			w.checkHint(out.until)
		}
		return
	}
	g := grant{ep: w.s.ep}
	if out.probe {
		g.token = w.token
	}
	if len(w.out) < 40 {
		w.out = append(w.out, g)
	}
}

// checkHint is P15: a lone caller who waits as long as it was told, and sees nothing else happen, is admitted.
func (w *world) checkHint(until int64) {
	if until <= w.now {
		w.t.Fatalf("P15: told to wait until %d before now", w.now-until)
	}
	if _, out, _ := step(w.r, w.s, event{kind: evAcquire, token: 1 << 60, mayProbe: true}, until); !out.admit {
		w.t.Fatalf("P15: waited as told, refused until %d later", out.until-until)
	}
}

// checkLive is P11: whatever was lost, a caller who asks every second and always succeeds sees it closed in time.
func (w *world) checkLive() {
	s, now := w.s, w.now
	if s.forced != unforced {
		return
	}
	// A throttled probe may hold the next one back for as long as it was told to, which is at most open_max.
	limit := max(s.ot, s.nb, now) + int64(w.r.need)*(w.r.interval+int64(attemptMax)) + w.r.ttl + w.backed + 2*sec
	for tok := uint64(1 << 40); s.st != closed; tok++ {
		if now > limit {
			w.t.Fatalf("P11: not closed in time: %+v", s)
		}
		var out ruling
		if s, out, _ = step(w.r, s, event{kind: evAcquire, token: tok, mayProbe: true}, now); out.admit {
			s, _, _ = step(w.r, s, event{kind: evReport, ep: s.ep, token: tok, pol: policy{class: succeeded}}, now+sec/2)
		}
		now += sec
	}
}

// checkPure is P12: peeking is a function of (state, now).
func (w *world) checkPure() {
	before := w.s
	a, b := w.s.peek(w.r, true, w.now), w.s.peek(w.r, true, w.now)
	if a != b || w.s != before {
		w.t.Fatalf("P12: peek changed something")
	}
}

var anyClass = rapid.SampledFrom([]class{neutral, throttled, succeeded, succeeded, alive, slow, failure, failure, failure, dead})

func (w *world) report(t *rapid.T) {
	if len(w.out) == 0 {
		t.Skip("no permit is out")
	}
	i := rapid.IntRange(0, len(w.out)-1).Draw(t, "which")
	g := w.out[i]
	ev := g.report(policy{class: anyClass.Draw(t, "class"), weight: 1}, gateway.ServiceError)
	ev.retryAfter = int64(rapid.IntRange(0, 400).Draw(t, "hint")) * sec
	w.apply(ev)
	w.out = append(w.out[:i], w.out[i+1:]...)
}

func (w *world) firstContent(t *rapid.T) {
	if len(w.out) == 0 {
		t.Skip("no permit is out")
	}
	g := &w.out[rapid.IntRange(0, len(w.out)-1).Draw(t, "which")]
	if g.alive {
		t.Skip("already")
	}
	g.alive = !w.apply(event{kind: evAlive, ep: g.ep, token: g.token}).stale
}

func (w *world) burst(t *rapid.T) {
	pol := policy{class: anyClass.Draw(t, "class"), weight: 1}
	for range rapid.IntRange(1, 30).Draw(t, "n") {
		if out := w.apply(event{kind: evAcquire, token: w.token + 1, mayProbe: true}); out.admit {
			w.token++
			g := grant{ep: w.s.ep}
			if out.probe {
				g.token = w.token
			}
			w.now += int64(rapid.IntRange(0, 500).Draw(t, "took")) * 1e6
			w.apply(g.report(pol, gateway.Timeout))
		}
	}
}

func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"acquire":  func(t *rapid.T) { w.acquire(rapid.IntRange(0, 3).Draw(t, "may") > 0) },
		"acquire2": func(t *rapid.T) { w.acquire(true) },
		"report":   w.report,
		"content":  w.firstContent,
		"burst":    w.burst,
		"lose": func(t *rapid.T) {
			if len(w.out) > 0 {
				w.out = w.out[1:]
			}
		},
		"renew": func(t *rapid.T) {
			for _, g := range w.out {
				w.apply(event{kind: evRenew, ep: g.ep, token: g.token})
			}
		},
		"tick": func(t *rapid.T) { w.now += int64(rapid.IntRange(0, 5000).Draw(t, "ms")) * 1e6 },
		"wait": func(t *rapid.T) { w.now += int64(rapid.IntRange(0, 900).Draw(t, "s")) * sec },
		"due":  func(t *rapid.T) { w.now = max(w.now, w.s.ot) },
		"": func(t *rapid.T) {
			w.t = t
			w.checkPure()
			w.checkLive()
		},
	}
}

func newWorld(t *rapid.T) *world { return &world{t: t, r: anyRules(t), now: tnow} }

// TestProperties drives the machine as section 10 of spec breaker.md did: lost workers, late and stale reports, bursts
// and long gaps, no orders and a clock that only goes forward.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { t.Repeat(newWorld(t).actions()) })
}

// TestPropertiesUnderOrders adds operators.
func TestPropertiesUnderOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		acts := w.actions()
		order := func(k eventKind) func(*rapid.T) {
			return func(t *rapid.T) {
				ev := event{kind: k, actor: "op"}
				if s := rapid.IntRange(0, 300).Draw(t, "for"); s > 0 {
					ev.until = w.now + int64(s)*sec
				}
				w.apply(ev)
				if k == evForceOpen && w.s.peek(w.r, true, w.now).admit {
					t.Fatalf("forced open, yet admitted")
				}
				if k == evForceClose && !w.s.peek(w.r, true, w.now).admit {
					t.Fatalf("forced closed, yet refused")
				}
			}
		}
		acts["force-open"], acts["force-close"], acts["reset"] = order(evForceOpen), order(evForceClose), order(evReset)
		t.Repeat(acts)
	})
}

// TestPropertiesClockBack is P22: the wall clock steps back now and then.
func TestPropertiesClockBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		acts := w.actions()
		acts["back"] = func(t *rapid.T) {
			by := int64(rapid.IntRange(1, 7200).Draw(t, "s")) * sec
			w.now -= by
			w.backed += by
			if out := w.s.peek(w.r, true, w.now); !out.admit && out.until > w.now+max(w.r.cap, w.r.interval, w.r.ttl)+w.backed {
				t.Fatalf("P22: refused for %d", out.until-w.now)
			}
			s, out, _ := step(w.r, w.s, event{kind: evAcquire, token: 1 << 60, mayProbe: true}, w.now)
			if !out.admit && (s.st == open && s.ot > w.now+w.r.cap) {
				t.Fatalf("P22: open_until was not clamped")
			}
		}
		t.Repeat(acts)
	})
}

// TestForceAndRateUnderEvidence is P18.
func TestForceAndRateUnderEvidence(t *testing.T) {
	for _, mode := range []string{EvidenceSuppress, EvidenceRunTest} {
		r := plainRules(func(c *Config) { c.EvidenceMode = mode })
		s, _, _ := step(r, state{}, event{kind: evForceOpen}, tnow)
		if s.peek(r, true, tnow+1e15).admit {
			t.Errorf("%s: a forced-open breaker admits", mode)
		}
		s = state{}
		for i := 0; s.st == closed && i < 40; i++ {
			pol := generic
			if i%2 == 0 {
				pol = policy{class: succeeded}
			}
			s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: pol}, tnow)
		}
		if s.oc != causeRate {
			t.Errorf("%s: half of the calls fail, yet %v", mode, s.oc)
		}
	}
}
