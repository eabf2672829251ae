package cooldown

import (
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

func TestRestartKeepsWhatHolds(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, hinted(limited, 18*24*time.Hour))
	g.try2(h, &permit{h: h, at: g.now}, hinted(overload, time.Minute), g.now)
	until := h.Peek(ask(), g.now).Until
	g.wait(5 * time.Second)
	g.restart()
	h = g.bind(connection("a", "A"))
	if got := h.Peek(ask(), g.now).Until; !got.Equal(until) {
		t.Fatalf("until %s, want %s", got, until)
	}
	if s := h.account.Load(); s.Level != 1 || s.Last.Kind != gateway.RateLimited {
		t.Fatalf("%+v", s.durable)
	}
	// Nobody ran while the time passed: it still comes back by one canary, since the hint was capped.
	g.restart()
	h = g.bind(connection("a", "A"))
	g.wait(30 * time.Minute)
	g.allow(h)
	g.wait(time.Second)
	if p, r := h.Allow(t.Context(), ask(), g.now); p != nil {
		t.Fatalf("a second went with the canary: %+v", r)
	}
	if st := g.heard; len(st) == 0 {
		t.Fatal("nothing was announced")
	}
}

func TestRestoreIgnoresWhatIsNotItsOwn(t *testing.T) {
	r := New(Options{})
	r.Restore([]resilience.Record{
		{Room: "lockout", Key: "x", Value: []byte(`{"standing":"banned"}`)},
		{Room: RoomName, Key: "y", Value: []byte(`{"standing":"nonsense"}`)},
		{Room: RoomName, Key: "z", Value: []byte(`{`)},
		{Room: RoomName, Key: "w"},
	}, t0)
	if st := r.Status(t0); len(st) != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestRestoreSurvivesAClockThatWasSetBack(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, hinted(spent, 20*time.Hour))
	g.now = g.now.Add(-365 * 24 * time.Hour)
	g.restart()
	h = g.bind(connection("a", "A"))
	if got := g.back(h); got > 24*time.Hour {
		t.Fatalf("out for %s", got)
	}
	g.try(h, success)
	if h.Status(g.now) != "active" {
		t.Fatal(h.Status(g.now))
	}
}

func TestRestoreAfterFirstOutcomesMerges(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, hinted(limited, 10*time.Second))
	g.back(h)
	g.try(h, hinted(spent, 10*time.Hour))
	old := g.saved["account:lab/A"]
	g.room = g.open()
	h = g.bind(connection("a", "A"))
	g.try(h, hinted(limited, time.Minute))
	g.room.Restore([]resilience.Record{old}, g.now)
	if got := h.Peek(ask(), g.now).Until.Sub(t0); got < 9*time.Hour {
		t.Fatalf("the shorter cooldown won: %s", got)
	}
	if s := h.account.Load(); s.Level != 2 || s.Cause != gateway.QuotaExhausted {
		t.Fatalf("level %d because of %s, want 2 because of quota_exhausted", s.Level, s.Cause)
	}
}

func TestRetainForgetsOnlyWhatIsCleanAndGone(t *testing.T) {
	g := newRig(t)
	a, b := connection("a", "A"), connection("b", "B")
	ha := g.bind(a)
	g.bind(b)
	g.try(ha, hinted(limited, time.Hour))
	g.room.Retain(nil)
	if len(g.room.cells) != 1 {
		t.Fatalf("%d keys are left, want the one that cools", len(g.room.cells))
	}
	if st := g.room.Status(g.now); len(st) != 0 {
		t.Fatalf("a connection that is gone is shown: %+v", st)
	}
	g.room.Retain([]*gateway.Connection{a})
	g.want(g.bind(a), resilience.Forbidden, gateway.ConnectionCooldown)
	moved := connection("a", "A2")
	moved.Identity = "a#2" // a re-pointed id starts fresh
	g.want(g.bind(moved), resilience.Allowed, gateway.ReasonNone)
}

// What is stored last is what holds last, also with many writers.
func TestPublishKeepsOrder(t *testing.T) {
	var mu sync.Mutex
	last := map[string]resilience.Record{}
	r := New(Options{Keep: func(rec resilience.Record) { mu.Lock(); defer mu.Unlock(); last[rec.Key] = rec }})
	cfg := Default(gateway.APIKey)
	h := r.Bind(gateway.Candidate{Connection: connection("a", "A")}, cfg)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 300 {
				now := t0.Add(time.Duration(i*8+w) * time.Second)
				switch p, _ := h.Allow(t.Context(), ask(), now); {
				case p != nil && i%3 == 0:
					p.Record(gateway.Outcome{Kind: gateway.Success, BeganAt: now, EndedAt: now.Add(1)}, now.Add(1))
				case p != nil:
					p.Alive(now)
					p.Record(gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount,
						RetryAfter: time.Duration(w+1) * time.Second, BeganAt: now, EndedAt: now}, now)
				default:
					h.Peek(ask(), now)
					r.Status(now)
				}
			}
		})
	}
	wg.Wait()
	s := h.account.Load()
	if got, want := string(last["account:lab/A"].Value), string(s.encode()); got != want {
		t.Fatalf("stored %s\nholds %s", got, want)
	}
}

// A store lets the later record of a key win: callers whose instants are not in order, and a clock that was set back
// between two processes, must not make it keep an older state.
func TestRecordsRise(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	key := "account:lab/A"
	h.Learn(hinted(limited, time.Minute), t0.Add(time.Second))
	first := g.saved[key]
	if err := g.room.Clear(key, "ann", true, t0); err != nil {
		t.Fatal(err)
	}
	if second := g.saved[key]; !second.At.After(first.At) || len(second.Value) != 0 {
		t.Errorf("%s at %s after %s", second.Value, second.At, first.At)
	}
	g.saved[key] = first
	g.now = t0.Add(-time.Hour)
	g.restart()
	g.bind(connection("a", "A")).Learn(hinted(limited, time.Hour), g.now)
	if r := g.saved[key]; !r.At.After(first.At) || string(r.Value) == string(first.Value) {
		t.Errorf("%s at %s after %s", r.Value, r.At, first.At)
	}
}
