package cooldown

import (
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// released is how many are let through at one instant.
func (g *rig) released(h *Handle) []resilience.Permit {
	var out []resilience.Permit
	for range 500 {
		p, r := h.Allow(g.t.Context(), ask(), g.now)
		if p == nil {
			if r.Verdict != resilience.Delayed || r.Reason != gateway.Returning || !r.Until.After(g.now) {
				g.t.Fatalf("the ramp refuses with %+v", r)
			}
			return out
		}
		out = append(out, p)
	}
	return out
}

func TestRampDoublesWithTime(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, limited)
	g.back(h)
	if r := h.Peek(ask(), g.now); !r.Probe || r.Reason != gateway.Returning {
		t.Fatalf("the first is no canary: %+v", r)
	}
	for i, want := range []int{1, 2, 4, 8, 16, 32, 500} {
		if got := len(g.released(h)); got != want {
			t.Fatalf("step %d released %d, want %d", i, got, want)
		}
		g.wait(250 * time.Millisecond)
	}
}

func TestRampDoublesWithSuccesses(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, limited)
	g.back(h)
	for i, want := range []int{1, 2, 4, 8, 16, 32, 500} {
		all := g.released(h)
		if len(all) != want {
			t.Fatalf("step %d released %d, want %d", i, len(all), want)
		}
		g.wait(time.Millisecond)
		if i%2 == 0 {
			all[0].Alive(g.now) // first content is the success ...
		}
		o := g.stamp(success, 0)
		o.BeganAt = g.now.Add(-time.Millisecond)
		all[0].Record(o, g.now) // ... and counts once
	}
}

func TestRampStartsAgainWithTheNextCooldown(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, limited)
	g.back(h)
	first := g.released(h)[0]
	began := g.now
	g.wait(300 * time.Millisecond)
	g.released(h)
	late := g.stamp(success, 0)
	late.BeganAt = began
	g.try2(h, first, limited, began)
	g.back(h)
	if got := len(g.released(h)); got != 1 {
		t.Fatalf("released %d, want 1", got)
	}
	h.Learn(late, g.now) // a success of the old days
	if got := len(g.released(h)); got != 0 {
		t.Fatalf("an old success widened the ramp by %d", got)
	}
}

// try2 records a failure of an earlier permit.
func (g *rig) try2(_ *Handle, p resilience.Permit, o gateway.Outcome, began time.Time) {
	o = g.stamp(o, 0)
	o.BeganAt = began
	p.Record(o, g.now)
}

func TestCanaryBehindACappedHintIsAlone(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, hinted(limited, 18*24*time.Hour))
	if got := g.back(h); got != 15*time.Minute {
		t.Fatalf("capped at %s", got)
	}
	canary := g.released(h)
	if len(canary) != 1 {
		t.Fatalf("%d canaries", len(canary))
	}
	g.wait(10 * time.Second)
	if got := len(g.released(h)); got != 0 {
		t.Fatalf("%d more went before the canary answered", got)
	}
	canary[0].Record(gateway.Outcome{Kind: gateway.Canceled, BeganAt: g.now}, g.now)
	canary = g.released(h)
	if len(canary) != 1 {
		t.Fatalf("%d canaries after a cancelled one", len(canary))
	}
	g.wait(30 * time.Second) // it never comes back: its lease ends
	lost := canary[0]
	if canary = g.released(h); len(canary) != 1 {
		t.Fatalf("%d canaries after a lost one", len(canary))
	}
	g.wait(time.Second)
	canary[0].Alive(g.now)
	if got := len(g.released(h)); got != 2 {
		t.Fatalf("%d after the canary answered, want 2", got)
	}
	lost.Record(g.stamp(success, 0), g.now)
}

func TestReturnFromTheBreaker(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	h.Return(g.now)
	if got := len(g.released(h)); got != 1 {
		t.Fatalf("released %d, want 1", got)
	}
	g.wait(250 * time.Millisecond)
	if got := len(g.released(h)); got != 2 {
		t.Fatalf("released %d, want 2", got)
	}
	if h.Status(g.now) != "active" {
		t.Fatal(h.Status(g.now))
	}
}

func TestNeutralEndsGiveTheirPlaceBack(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, limited)
	g.back(h)
	p := g.allow(h)
	g.want(h, resilience.Delayed, gateway.Returning)
	p.Record(gateway.Outcome{Kind: gateway.LocalError}, g.now)
	p.Record(gateway.Outcome{Kind: gateway.LocalError}, g.now)
	if got := len(g.released(h)); got != 1 {
		t.Fatalf("released %d, want 1", got)
	}
}

func TestInferredRate(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	episode := func() {
		g.wait(11 * time.Second) // no success is recent
		g.try(h, limited)
		g.back(h)
		g.wait(2 * time.Second)
	}
	serve := func(n int) {
		for range n {
			g.try(h, success)
			g.wait(900 * time.Millisecond)
		}
	}
	episode()
	serve(20)
	episode()
	serve(20)
	if h.LearnedRPM(g.now) != 0 {
		t.Fatal("two episodes are enough to infer a rate")
	}
	episode()
	rpm := h.LearnedRPM(g.now)
	if rpm < 30 || rpm > 45 { // 40 successes in about 70 s
		t.Fatalf("inferred %.1f per minute", rpm)
	}
	if st := g.room.Status(g.now); len(st) == 0 || st[0].Detail["learned_rpm"] == "" {
		t.Fatalf("not shown: %+v", st)
	}
	// The spacing holds, and a caller who waits for Until is admitted.
	g.try(h, success)
	var gaps []time.Duration
	for range 20 {
		r := h.Peek(ask(), g.now)
		if r.OK() {
			t.Fatal("no spacing")
		}
		if r.Verdict != resilience.Delayed || r.Reason != gateway.Paced || r.Layer != gateway.LayerPacing {
			t.Fatalf("paced by %+v", r)
		}
		gaps = append(gaps, g.back(h))
		p := g.allow(h)
		p.Record(g.stamp(success, 0), g.now)
	}
	if want := time.Duration(float64(time.Minute) / rpm); gaps[10] != want {
		t.Fatalf("spacing %s, want %s", gaps[10], want)
	}
	// An attempt that never left costs nothing.
	g.back(h)
	p := g.allow(h)
	p.Record(gateway.Outcome{Kind: gateway.Canceled}, g.now)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	// A tenth more per five minutes, a step back at the next 429, gone after a day.
	if got := h.LearnedRPM(g.now.Add(5 * time.Minute)); got < rpm*1.099 || got > rpm*1.101 {
		t.Fatalf("after 5 min %.2f, want %.2f", got, rpm*1.1)
	}
	g.wait(20 * time.Minute)
	before := h.LearnedRPM(g.now)
	g.try(h, limited)
	if got := h.LearnedRPM(g.now); got < before/1.1001 || got > before/1.0999 {
		t.Fatalf("a 429 left the rate at %.2f, was %.2f: want one step less", got, before)
	}
	if got := h.LearnedRPM(g.now.Add(5*time.Minute + time.Second)); got >= before*1.0001 {
		t.Fatalf("growth did not start over: %.2f", got)
	}
	if got := h.LearnedRPM(g.now.Add(25 * time.Hour)); got != 0 {
		t.Fatalf("still %.2f after a day", got)
	}
}

func TestAnOutageTeachesNoRate(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	for range 6 {
		g.try(h, limited)
		g.back(h)
	}
	if got := h.LearnedRPM(g.now); got != 0 {
		t.Fatalf("inferred %.1f from no success at all", got)
	}
}
