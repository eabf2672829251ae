package cooldown

import (
	"fmt"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// A quota hint of 156 hours was a one-way latch: the account was refilled and stayed out until a restart.
func TestP28QuotaHintIsNoLatch(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	o := spent
	o.RetryAfter, o.Hint = 561635*time.Second, gateway.HintStructured
	g.try(h, o)
	if got := g.back(h); got != 24*time.Hour {
		t.Fatalf("out for %s, want at most 24h", got)
	}
	g.try(h, success)
	if st := g.room.Status(g.now); len(st) != 0 {
		t.Fatalf("a served canary left %+v", st)
	}
	for range 10 {
		g.try(h, success)
	}

	g.try(h, o)
	_, account := h.Keys()
	if err := g.room.Clear(account, "ann", false, g.now); err != nil {
		t.Fatal(err)
	}
	g.want(h, resilience.Allowed, gateway.ReasonNone)
}

// A Retry-After of 18 days was obeyed.
func TestP29HintIsBounded(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	for range 3 { // also when it is repeated by each canary
		g.try(h, hinted(limited, 1587827*time.Second))
		if got := g.back(h); got != 15*time.Minute {
			t.Fatalf("out for %s, want 15m", got)
		}
	}
	s := newRig(t)
	hs := s.bind(connection("a", "A"))
	s.try(hs, hinted(overload, 24*time.Hour)) // and the 5xx with a hint of a day
	if r := s.want(hs, resilience.Forbidden, gateway.NotBefore); r.Until.Sub(s.now) > time.Minute {
		t.Fatalf("not before %s", r.Until.Sub(s.now))
	}
}

// Eight accounts cooled together and came back together.
func TestP31AccountsReturnOneByOne(t *testing.T) {
	g := newRig(t)
	draw := 0.0
	g.cfg = Default(gateway.APIKey)
	g.room = New(Options{Rand: func() float64 { draw += 0.11; return draw }})
	var all []*Handle
	for i := range 8 {
		h := g.bind(connection(fmt.Sprint("c", i), fmt.Sprint("A", i)))
		p := g.allow(h)
		p.Record(g.stamp(limited, 0), g.now)
		all = append(all, h)
	}
	until := map[time.Time]bool{}
	soonest := time.Time{}
	for _, h := range all {
		u := g.want(h, resilience.Forbidden, gateway.ConnectionCooldown).Until
		until[u] = true
		if soonest.IsZero() || u.Before(soonest) {
			soonest = u
		}
	}
	if len(until) != 8 {
		t.Fatalf("%d different deadlines for 8 accounts", len(until))
	}
	g.now = soonest
	usable := 0
	for _, h := range all {
		usable += len2(g, h)
	}
	if usable != 1 {
		t.Fatalf("%d attempts were let through at the soonest deadline, want one canary", usable)
	}
}

func len2(g *rig, h *Handle) (n int) {
	for range 10 {
		if p, _ := h.Allow(g.t.Context(), ask(), g.now); p != nil {
			n++
		}
	}
	return n
}

// A client called a wrong path and the keys were blacklisted.
func TestP33CallerFaultsNeverHurtAKey(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	for _, status := range []int{400, 404, 405, 413, 415, 422} {
		for range 20 {
			g.try(h, gateway.Outcome{Kind: gateway.Alive, Scope: gateway.ScopeRequest, Reason: gateway.CallerFault, Status: status})
		}
	}
	if len(g.room.Status(g.now)) != 0 {
		t.Fatalf("%+v", g.room.Status(g.now))
	}
	g.want(h, resilience.Allowed, gateway.ReasonNone)
}

// One of two upstream URLs answered 500 and the key was blamed.
func TestP34ServiceErrorsDoNotCoolAKey(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	for _, status := range []int{500, 502, 503, 504} {
		o := overload
		o.Status = status
		g.try(h, o)
	}
	g.want(h, resilience.Allowed, gateway.ReasonNone)
}

// A channel out of its daily quota was tried three times by every request.
func TestP37CooldownAfterTheFirst429(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, spent)
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)
	g.wait(59 * time.Minute)
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)

	h = g.bind(connection("b", "B"))
	g.try(h, limited)
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)
}

// A spent account was tried every 3 to 5 s for hours, because a cooldown that ran out reset the level.
func TestO3ExpiryKeepsTheLevel(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	tries := 0
	for end := g.now.Add(3 * time.Hour); g.now.Before(end); {
		g.back(h)
		g.try(h, limited)
		tries++
	}
	if tries > 120 { // 96 s apart in the end
		t.Fatalf("%d tries in three hours", tries)
	}
}

// Healthy accounts were stored as expired and never tried again, not even after a restart.
func TestO6TerminalStateHasAWayBack(t *testing.T) {
	g, h := exhausted(t, refused)
	if h.Status(g.now) != "expired" {
		t.Fatal(h.Status(g.now))
	}
	g.restart()
	h = g.bind(connection("a", "A"))
	if h.Status(g.now) != "expired" {
		t.Fatal("a restart forgot the state")
	}
	g.back(h)
	g.try(h, success)
	if h.Status(g.now) != "active" {
		t.Fatalf("%s after a good re-check", h.Status(g.now))
	}
}

// A per-minute 429 whose words speak of the "current quota" was taken for spent credits. Classification says
// rate_limited with the declared delay; then nothing terminal may follow, however often it comes.
func TestO11PerMinuteLimitIsNeverTerminal(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	o := hinted(limited, 33*time.Second)
	o.Hint, o.Structured, o.Message = gateway.HintStructured, true, "You exceeded your current quota"
	for range 20 {
		g.try(h, o)
		if got := g.back(h); got > 33*time.Second {
			t.Fatalf("out for %s", got)
		}
	}
	if h.Status(g.now) != "active" {
		t.Fatal(h.Status(g.now))
	}
}

// One 5xx of one model took a whole family or connection out.
func TestO5OneModelsFaultIsNotTheConnections(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, gateway.Outcome{Kind: gateway.EmptyOutput, Scope: gateway.ScopeModel, Status: 200})
	g.try(h, gateway.Outcome{Kind: gateway.ModelUnavailable, Scope: gateway.ScopeModel, Status: 404})
	g.try(h, gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeModel, Status: 503, RetryAfter: time.Minute})
	g.want(h, resilience.Allowed, gateway.ReasonNone)
}
