package gate

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const sec = time.Second

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(sec))) }

func TestAIMDEngages(t *testing.T) {
	cfg := Default().AIMD
	for _, c := range []struct {
		name  string
		state state
		event congestion
		want  float64 // limit, 0 = not engaged
	}{
		{"while it succeeds", state{successAt: at(-9)}, congestion{inFlight: 30, beganAt: at(-1)}, 15},
		{"never below one", state{successAt: at(-1)}, congestion{inFlight: 1, beganAt: at(-1)}, 1},
		{"no success lately", state{successAt: at(-11)}, congestion{inFlight: 30, beganAt: at(-1)}, 0},
		{"never a success", state{}, congestion{inFlight: 30, beganAt: at(-1)}, 0},
		{"with a hint as well", state{successAt: at(-1)}, congestion{inFlight: 30, hinted: true, beganAt: at(-1)}, 15},
		{"a hint without a success is a cooldown's", state{}, congestion{inFlight: 30, hinted: true, local: true, beganAt: at(-1)}, 0},
		{"local needs no success", state{}, congestion{inFlight: 30, local: true, beganAt: at(-1)}, 15},
		{"engaged: cut, hint or not", state{engaged: true, limit: 20, cutAt: at(-5)}, congestion{inFlight: 20, hinted: true, beganAt: at(-1)}, 10},
		{"engaged, few in flight", state{engaged: true, limit: 20, cutAt: at(-5)}, congestion{inFlight: 6, beganAt: at(-1)}, 3},
		{"more in flight than the limit", state{engaged: true, limit: 20, cutAt: at(-5)}, congestion{inFlight: 60, beganAt: at(-1)}, 10},
		{"the same congestion", state{engaged: true, limit: 20, cutAt: at(-5)}, congestion{inFlight: 20, beganAt: at(-6)}, 20},
		{"began at the cut", state{engaged: true, limit: 20, cutAt: at(-5)}, congestion{inFlight: 20, beganAt: at(-5)}, 20},
	} {
		got := congested(cfg, c.state, c.event, t0)
		if got.engaged != (c.want > 0) || got.limit != c.want {
			t.Errorf("%s: %+v, want limit %v", c.name, got, c.want)
		}
	}
}

func TestAIMDGrowsOnlyWhileUsed(t *testing.T) {
	cfg := Default().AIMD
	s := state{engaged: true, limit: 10}
	if s = succeeded(cfg, s, 6, t0); s.limit != 10.1 {
		t.Errorf("+1/limit while more than half is used: %v", s.limit)
	}
	if s = succeeded(cfg, s, 5, t0); s.limit != 10.1 {
		t.Errorf("half of it used: %v", s.limit)
	}
	cfg.Max = 10
	if s = succeeded(cfg, s, 10, t0); s.limit != 10 {
		t.Errorf("max: %v", s.limit)
	}
}

func TestAIMDDisengages(t *testing.T) {
	cfg := Default().AIMD
	s := pressed(cfg, state{engaged: true, limit: 10}, 5, t0)
	if _, engaged := effective(cfg, &s, at(299)); !engaged {
		t.Error("not yet")
	}
	if _, engaged := effective(cfg, &s, at(300)); engaged {
		t.Error("5 min at twice the peak")
	}
	if again := pressed(cfg, s, 6, at(200)); !again.looseAt.IsZero() {
		t.Error("used again")
	}
	if gone := succeeded(cfg, s, 1, at(301)); gone.engaged {
		t.Errorf("%+v", gone)
	}
}

// Preset polygateway: engaged from the start at 8, cut to a half, +1/limit per success.
func TestAIMDAlways(t *testing.T) {
	c, _ := Preset("polygateway")
	cfg := c.AIMD
	if n, engaged := effective(cfg, nil, t0); n != 8 || !engaged {
		t.Errorf("start %d", n)
	}
	s := succeeded(cfg, state{}, 1, t0)
	if s.limit != 8.125 {
		t.Errorf("one success: %v", s.limit)
	}
	s = congested(cfg, s, congestion{inFlight: 2, hinted: true, beganAt: at(1)}, at(2))
	if s.limit != 8.125/2 {
		t.Errorf("one 429: %v", s.limit)
	}
	s = pressed(cfg, s, 0, at(2))
	if _, engaged := effective(cfg, &s, at(10_000)); !engaged {
		t.Error("never disengaged")
	}
	for i := range 20 {
		s = congested(cfg, s, congestion{inFlight: 1, beganAt: at(10 + float64(i))}, at(10.5+float64(i)))
	}
	if s.limit != 1 {
		t.Errorf("never below one: %v", s.limit)
	}
}

func TestAIMDProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Default().AIMD
		cfg.Mode = rapid.SampledFrom([]string{AIMDOff, AIMDOnDemand, AIMDAlways}).Draw(t, "mode")
		var s state
		now := t0
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ms")) * time.Millisecond)
			n := rapid.IntRange(0, 100).Draw(t, "in flight")
			before, was := effective(cfg, &s, now)
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				s = congested(cfg, s, congestion{inFlight: n, hinted: rapid.Bool().Draw(t, "hint"), local: rapid.Bool().Draw(t, "local"),
					beganAt: now.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "age")) * time.Millisecond)}, now)
				if after, is := effective(cfg, &s, now); is && was && after > before {
					t.Fatalf("a 429 raised the limit from %d to %d", before, after)
				}
			case 1:
				s = succeeded(cfg, s, n, now)
				if after, is := effective(cfg, &s, now); is && was && (after < before || after > before+1) {
					t.Fatalf("a success moved the limit from %d to %d", before, after)
				}
			default:
				s = pressed(cfg, s, n, now)
			}
			if limit, engaged := effective(cfg, &s, now); engaged && limit < 1 {
				t.Fatalf("limit %d", limit)
			}
		}
	})
}

// A limit of one that is refused all the same pauses, longer each time, until a success; no refusal of a hint or of the
// same congestion does.
func TestAIMDFloorPauses(t *testing.T) {
	cfg := Default().AIMD
	s := state{engaged: true, limit: 1, cutAt: at(-5), successAt: at(-1)}
	now := t0
	for i, want := range []time.Duration{500 * time.Millisecond, sec, 2 * sec, 4 * sec, 8 * sec, 8 * sec} {
		s = congested(cfg, s, congestion{inFlight: 1, beganAt: now}, now)
		if got := held(cfg, &s, now).Sub(now); got != want {
			t.Errorf("refusal %d pauses %s, want %s", i+1, got, want)
		}
		if !held(cfg, &s, now.Add(want)).IsZero() {
			t.Errorf("pause %d does not end", i+1)
		}
		now = now.Add(want + time.Millisecond)
	}
	same := congested(cfg, s, congestion{inFlight: 1, beganAt: s.cutAt}, now)
	hinted := congested(cfg, s, congestion{inFlight: 1, hinted: true, beganAt: now}, now)
	if same.floored != s.floored || !held(cfg, &hinted, now).IsZero() && hinted.holdAt != s.holdAt {
		t.Error("only a new refusal without a hint pauses")
	}
	s = succeeded(cfg, s, 1, now)
	if s.floored != 0 || !held(cfg, &s, now).IsZero() {
		t.Error("a success ends the pause")
	}
	if s = congested(cfg, state{engaged: true, limit: 8, cutAt: at(-5)}, congestion{inFlight: 8, beganAt: t0}, t0); !held(cfg, &s, t0).IsZero() {
		t.Error("what can be cut is cut")
	}
}

// TestAIMDKeepsTheRateOfAnAccount: an account that takes one attempt at a time, but no more than so many a second and says
// nothing about it, is asked at about that rate: few refusals, little left unused.
func TestAIMDKeepsTheRateOfAnAccount(t *testing.T) {
	cfg := Default().AIMD
	for _, perSecond := range []float64{0.5, 2, 10} {
		const burst = 5.0
		tokens, s := burst, state{}
		now, last := t0, t0
		served, refused := 0, 0
		step := func() { // one attempt at a time, each of 20 ms, whenever the gate lets it through
			if until := held(cfg, &s, now); !until.IsZero() {
				now = until
			}
			tokens, last = min(burst, tokens+now.Sub(last).Seconds()*perSecond), now
			began := now
			s = s.began(now)
			now = now.Add(20 * time.Millisecond)
			if tokens >= 1 {
				tokens--
				served++
				s = succeeded(cfg, s, 1, now)
				return
			}
			refused++
			s = congested(cfg, s, congestion{inFlight: 1, beganAt: began}, now)
		}
		for now.Sub(t0) < 30*time.Second { // finding out
			step()
		}
		served, refused = 0, 0
		from := now
		for now.Sub(from) < 10*time.Minute {
			step()
		}
		able := now.Sub(from).Seconds() * perSecond
		if rate := float64(refused) / float64(served); rate > 0.06 {
			t.Errorf("%v per second: %d refused, %d served", perSecond, refused, served)
		}
		if float64(served) < 0.85*able {
			t.Errorf("%v per second: %d served of %.0f", perSecond, served, able)
		}
	}
}
