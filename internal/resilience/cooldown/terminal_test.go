package cooldown

import (
	"fmt"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// seen is one observation of a table: after a pause, by a request of a client key.
type seen struct {
	pause time.Duration
	req   string
	key   string
	o     gateway.Outcome
}

func TestTerminalNeedsTwoObservations(t *testing.T) {
	const s = time.Second
	text := ban
	text.Status, text.Structured = 500, false
	coded := text
	coded.Structured = true
	creditsText := credits
	creditsText.Status, creditsText.Structured = 429, false
	for _, tc := range []struct {
		name string
		seen []seen
		want string
	}{
		{"one ban", []seen{{0, "r1", "k", ban}}, "active"},
		{"two bans", []seen{{0, "r1", "k", ban}, {10 * s, "r2", "k", ban}}, "banned"},
		{"two bans of one request", []seen{{0, "r1", "k", ban}, {10 * s, "r1", "k", ban}}, "active"},
		{"too close", []seen{{0, "r1", "k", ban}, {9 * s, "r2", "k", ban}}, "active"},
		{"far apart is only the same request", []seen{{0, "r1", "k", ban}, {5 * s, "r2", "k", ban}, {7 * s, "r1", "k", ban}}, "active"},
		{"a success between", []seen{{0, "r1", "k", ban}, {10 * s, "r2", "k", success}, {10 * s, "r3", "k", ban}}, "active"},
		{"words alone", []seen{{0, "r1", "k", text}, {20 * s, "r2", "k", text}, {20 * s, "r3", "k", text}}, "active"},
		{"a structured code", []seen{{0, "r1", "k", coded}, {20 * s, "r2", "k", coded}}, "banned"},
		{"credits by words", []seen{{0, "r1", "k", creditsText}, {300 * s, "r2", "k", creditsText}}, "active"},
		{"credits", []seen{{0, "r1", "k", credits}, {10 * s, "r2", "k", credits}}, "credits_exhausted"},
		{"credits, then a ban", []seen{{0, "r1", "k", credits}, {10 * s, "r2", "k", ban}}, "active"},
		{"one key of two", []seen{{0, "r0", "other", success}, {s, "r1", "k", ban}, {10 * s, "r2", "k", ban}, {60 * s, "r3", "k", ban}}, "active"},
		{"two keys", []seen{{0, "r0", "other", success}, {s, "r1", "k", ban}, {10 * s, "r2", "other", ban}}, "banned"},
		{"the other key left", []seen{{0, "r0", "other", success}, {s, "r1", "k", ban}, {700 * s, "r2", "k", ban}}, "banned"},
		{"403 only", []seen{{0, "r1", "k", forbid}, {60 * s, "r2", "k", forbid}, {60 * s, "r3", "k", forbid}, {60 * s, "r4", "k", forbid}, {60 * s, "r5", "k", forbid}}, "active"},
		{"401 and two retries", []seen{{0, "r1", "k", refused}, {60 * s, "r2", "k", refused}, {60 * s, "r3", "k", refused}}, "active"},
		{"401 and three retries", []seen{{0, "r1", "k", refused}, {60 * s, "r2", "k", refused}, {60 * s, "r3", "k", refused}, {60 * s, "r4", "k", refused}}, "expired"},
		{"two rejections", []seen{{0, "r1", "k", rejected}, {60 * s, "r2", "k", rejected}}, "active"},
		{"one request rejected thrice", []seen{{0, "r1", "k", rejected}, {60 * s, "r1", "k", rejected}, {60 * s, "r1", "k", rejected}}, "active"},
		{"two requests rejected thrice", []seen{{0, "r1", "k", rejected}, {60 * s, "r1", "k", rejected}, {60 * s, "r2", "k", rejected}}, "active"},
		{"three rejections", []seen{{0, "r1", "k", rejected}, {60 * s, "r2", "k", rejected}, {60 * s, "r3", "k", rejected}}, "banned"},
		{"a success among rejections", []seen{{0, "r1", "k", rejected}, {60 * s, "r2", "k", rejected}, {60 * s, "r3", "k", success}, {60 * s, "r4", "k", rejected}}, "active"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			h := g.bind(connection("a", "A"))
			for _, x := range tc.seen {
				g.wait(x.pause)
				o := x.o
				o.Request, o.ClientKey = gateway.RequestID(x.req), gateway.ClientKeyID(x.key)
				o.BeganAt, o.EndedAt = g.now, g.now
				h.Learn(o, g.now)
			}
			g.wait(10 * time.Hour) // past any cooldown
			if got := h.Status(g.now); got != tc.want {
				t.Fatalf("status %s, want %s", got, tc.want)
			}
		})
	}
}

func TestExpiredTakesBoundedExponentialRetries(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	for i, want := range secs(3, 6, 12) {
		g.try(h, refused)
		if got := g.back(h); got != want {
			t.Fatalf("retry %d after %s, want %s", i+1, got, want)
		}
	}
	g.try(h, refused)
	g.want(h, resilience.Forbidden, gateway.Terminal)
	if h.Status(g.now) != "expired" {
		t.Fatalf("status %s", h.Status(g.now))
	}
}

func exhausted(t testing.TB, o gateway.Outcome) (*rig, *Handle) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	for g.n < 10 && (h.Status(g.now) == "active" || h.Status(g.now) == "unavailable") {
		g.back(h)
		g.try(h, o)
		g.wait(10 * time.Second)
	}
	return g, h
}

func TestRecheckOncePerHourThenPerDay(t *testing.T) {
	for _, o := range []gateway.Outcome{credits, refused} {
		g, h := exhausted(t, o)
		tried := 0
		began := g.now
		for g.now.Sub(began) < 9*24*time.Hour {
			if p, r := h.Allow(t.Context(), ask(), g.now); p != nil {
				if !r.Probe {
					t.Fatal("a re-check is not marked as a probe")
				}
				tried++
				if p2, _ := h.Allow(t.Context(), ask(), g.now); p2 != nil {
					t.Fatal("two re-checks at once")
				}
				p.Record(g.stamp(o, 0), g.now)
			}
			g.wait(time.Minute)
		}
		if tried < 7*24+1 || tried > 7*24+4 {
			t.Errorf("%s: %d re-checks in 9 days, want one per hour for a week, then one per day", o.Kind, tried)
		}
	}
}

func TestRecheckRules(t *testing.T) {
	g, h := exhausted(t, credits)
	r := g.want(h, resilience.Forbidden, gateway.Terminal)
	g.now = r.Until
	last := ask()
	last.AttemptsLeft = 1
	if h.Peek(last, g.now).OK() {
		t.Error("a request's last attempt was spent on a re-check while others are runnable")
	}
	if !h.Peek(lone(), g.now).OK() {
		t.Error("with nothing else runnable nobody may re-check")
	}
	p := g.allow(h)
	p.Record(gateway.Outcome{Kind: gateway.Canceled}, g.now)
	p = g.allow(h) // a cancelled re-check was none
	o := g.stamp(hinted(limited, time.Minute), time.Second)
	g.wait(time.Second)
	p.Record(o, g.now)
	if r := g.want(h, resilience.Forbidden, gateway.Terminal); r.Until.Sub(g.now) < 59*time.Minute {
		t.Errorf("a cooldown overwrote the terminal state: %+v", r)
	}
	g.wait(time.Hour)
	g.try(h, success)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	if h.Status(g.now) != "active" {
		t.Errorf("status %s after a good re-check", h.Status(g.now))
	}
}

func TestBannedIsLeftByOperatorOrNewCredentialOnly(t *testing.T) {
	g, h := exhausted(t, ban)
	if r := g.want(h, resilience.Forbidden, gateway.Terminal); !r.Until.IsZero() {
		t.Fatalf("a ban ends by itself at %s", r.Until)
	}
	g.wait(1000 * time.Hour)
	g.want(h, resilience.Forbidden, gateway.Terminal)
	h.Learn(g.stamp(success, 0), g.now)
	g.want(h, resilience.Forbidden, gateway.Terminal)

	same, other := connection("a", "A"), connection("b", "A")
	g.room.Retain([]*gateway.Connection{same, other})
	g.want(h, resilience.Forbidden, gateway.Terminal)
	fresh := connection("a", "A") // a named account: the key changed, the name did not
	fresh.Identity = "a#2"
	g.room.Retain([]*gateway.Connection{fresh, other})
	g.want(g.bind(fresh), resilience.Allowed, gateway.ReasonNone)

	g, h = exhausted(t, ban)
	h.Renewed(g.now)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	g, h = exhausted(t, refused)
	h.Renewed(g.now)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
}

// One client that provokes refusals can never take a connection from the others.
func TestOneClientCannotEndAnAccount(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	for i := range 500 {
		o := ban
		o.ClientKey = "mallory"
		if i%3 == 0 {
			o = success
			o.ClientKey = "alice"
		}
		o.Request = gateway.RequestID(fmt.Sprint("r", i))
		o.BeganAt, o.EndedAt = g.now, g.now
		h.Learn(o, g.now)
		g.wait(7 * time.Second)
	}
	if got := h.Status(g.now.Add(time.Hour)); got != "active" {
		t.Fatalf("status %s", got)
	}
}
