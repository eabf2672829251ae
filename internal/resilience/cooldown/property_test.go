package cooldown

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// open is an attempt on its way.
type open struct {
	p     resilience.Permit
	h     *Handle
	began time.Time
}

func anyOutcome(t *rapid.T) gateway.Outcome {
	o := rapid.SampledFrom([]gateway.Outcome{
		success, success, success, limited, limited, spent, credits, refused, forbid, rejected, ban, overload,
		{Kind: gateway.Canceled}, {Kind: gateway.Alive, Status: 400}, {Kind: gateway.Timeout, Scope: gateway.ScopeProvider},
	}).Draw(t, "outcome")
	if o.Failed() && rapid.IntRange(0, 2).Draw(t, "hinted") == 0 {
		o.RetryAfter = time.Duration(rapid.Int64Range(1, int64(72*time.Hour)).Draw(t, "hint"))
	}
	o.Request = gateway.RequestID(fmt.Sprint("r", rapid.IntRange(0, 50).Draw(t, "request")))
	o.ClientKey = gateway.ClientKeyID(rapid.SampledFrom([]string{"k1", "k1", "k2"}).Draw(t, "key"))
	o.Endpoint = rapid.IntRange(0, 9).Draw(t, "endpoint") == 0
	return o
}

func anyPause(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 4 * time.Second,
		11 * time.Second, time.Minute, 7 * time.Minute, time.Hour, 25 * time.Hour}).Draw(t, "pause")
}

// checkStep holds what every outcome must respect.
func checkStep(t *rapid.T, key string, o gateway.Outcome, before, after state) {
	t.Helper()
	failed := o.Kind != gateway.Success
	switch {
	case failed && before.Standing != active && after.Standing != before.Standing:
		t.Fatalf("%s: %s turned %s into %s", key, o.Kind, before.Standing, after.Standing)
	case failed && after.Standing == active && after.Until.Before(before.Until):
		t.Fatalf("%s: %s shortened %s to %s", key, o.Kind, before.Until, after.Until)
	case failed && after.NotBefore.Before(before.NotBefore):
		t.Fatalf("%s: %s shortened not-before", key, o.Kind)
	case after.Level > before.Level+1:
		t.Fatalf("%s: %s raised the level from %d to %d", key, o.Kind, before.Level, after.Level)
	case after.Level > before.Level && (!o.BeganAt.After(before.EpisodeAt) || o.Endpoint):
		t.Fatalf("%s: level raised by an attempt of the running episode", key)
	case after.Level < before.Level && failed:
		t.Fatalf("%s: %s lowered the level", key, o.Kind)
	case !failed && before.Standing == banned && after.Standing != banned:
		t.Fatalf("%s: a success lifted a ban", key)
	case after.Until.Sub(before.Until) > 0 && after.Until.Sub(o.EndedAt) > 24*time.Hour:
		t.Fatalf("%s: out for %s", key, after.Until.Sub(o.EndedAt))
	}
}

// checkWait holds that time and looking change nothing, and that Until is honest.
func checkWait(t *rapid.T, h *Handle, now time.Time) {
	conn, account := h.conn.Load(), h.account.Load()
	for _, a := range []*resilience.Ask{ask(), lone()} {
		r := h.Peek(a, now)
		if !r.OK() && !r.Until.IsZero() {
			if !r.Until.After(now) {
				t.Fatalf("refused until the past: %+v at %s", r, now)
			}
			if again := h.Peek(a, r.Until); !again.OK() {
				t.Fatalf("Until was not honest: %+v, then %+v", r, again)
			}
			if early := h.Peek(a, r.Until.Add(-1)); early.OK() {
				t.Fatalf("admitted before Until: %+v", r)
			}
		}
		if !r.OK() && r.Until.IsZero() && conn.Standing == active && account.Standing == active {
			t.Fatalf("no way back from %+v", r)
		}
	}
	if conn != h.conn.Load() || account != h.account.Load() {
		t.Fatal("looking changed the state")
	}
}

func TestPropertyOutcomesOnlyMoveTheStateAsTheyMay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newRig(t)
		g.cfg.Jitter = 0.1
		handles := []*Handle{g.bind(connection("a1", "A")), g.bind(connection("a2", "A"))}
		var flying []open
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			g.wait(anyPause(rt))
			h := rapid.SampledFrom(handles).Draw(rt, "handle")
			checkWait(rt, h, g.now)
			if len(flying) < 4 || rapid.Bool().Draw(rt, "start") {
				if p, r := h.Allow(t.Context(), ask(), g.now); p != nil {
					flying = append(flying, open{p, h, g.now})
				} else if r.OK() {
					rt.Fatal("refused without a reason")
				}
				continue
			}
			i := rapid.IntRange(0, len(flying)-1).Draw(rt, "which")
			f := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			o := anyOutcome(rt)
			o.BeganAt, o.EndedAt = f.began, g.now
			conn, account := f.h.conn.Load(), f.h.account.Load()
			f.p.Record(o, g.now)
			checkStep(rt, "connection", o, conn, f.h.conn.Load())
			checkStep(rt, "account", o, account, f.h.account.Load())
		}
	})
}

func TestPropertyRestartIsNeverMorePermissive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newRig(t)
		c := connection("a1", "A")
		h := g.bind(c)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			g.wait(anyPause(rt))
			if p, _ := h.Allow(t.Context(), ask(), g.now); p != nil {
				o := anyOutcome(rt)
				o.BeganAt = g.now
				g.wait(anyPause(rt))
				o.EndedAt = g.now
				p.Record(o, g.now)
			}
		}
		before := h
		g.restart()
		after := g.bind(c)
		for range 8 {
			b, a := before.Peek(ask(), g.now), after.Peek(ask(), g.now)
			if b.Verdict == resilience.Forbidden && a.Verdict != resilience.Forbidden {
				rt.Fatalf("at %s: %+v before the restart, %+v after it", g.now, b, a)
			}
			g.wait(anyPause(rt))
		}
		for _, x := range [][2]*cell{{before.account, after.account}, {before.conn, after.conn}} {
			b, a := x[0].Load(), x[1].Load()
			if a.Until.Before(b.Until) || a.NotBefore.Before(b.NotBefore) || a.Level < b.Level || a.Suspect != b.Suspect ||
				a.Standing != b.Standing || !a.CheckAt.Equal(b.CheckAt) || a.Learned != b.Learned {
				rt.Fatalf("%s: %+v became %+v", x[0].key, b.durable, a.durable)
			}
		}
	})
}

func TestPropertyTerminalNeedsDistinctRequestsAndTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newRig(t)
		h := g.bind(connection("a", "A"))
		type note struct {
			req gateway.RequestID
			at  time.Time
		}
		var notes []note
		o := rapid.SampledFrom([]gateway.Outcome{ban, credits, refused, rejected}).Draw(rt, "kind")
		for range rapid.IntRange(1, 12).Draw(rt, "n") {
			g.wait(anyPause(rt))
			o.Request = gateway.RequestID(fmt.Sprint("r", rapid.IntRange(0, 3).Draw(rt, "request")))
			o.BeganAt, o.EndedAt = g.now, g.now
			h.Learn(o, g.now)
			notes = append(notes, note{o.Request, g.now})
			if s := h.Status(g.now); s == "active" || s == "unavailable" {
				continue
			}
			for _, n := range notes {
				if n.req != o.Request && g.now.Sub(n.at) >= 10*time.Second {
					return
				}
			}
			rt.Fatalf("terminal after %+v", notes)
		}
	})
}
