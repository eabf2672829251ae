package cooldown

import (
	"fmt"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func connection(id, account string) *gateway.Connection {
	return &gateway.Connection{
		ID: gateway.ConnectionID(id), Account: gateway.AccountID(account), Identity: id + "#1",
		Provider: &gateway.Provider{ID: "lab", Class: gateway.APIKey},
	}
}

// rig drives one room on a clock of its own.
type rig struct {
	t     testing.TB
	room  *Room
	cfg   Config
	now   time.Time
	n     int
	saved map[string]resilience.Record
	heard []resilience.Status
}

func newRig(t testing.TB) *rig {
	g := &rig{t: t, cfg: Default(gateway.APIKey), now: t0, saved: map[string]resilience.Record{}}
	g.cfg.Jitter = 0
	g.room = g.open()
	return g
}

func (g *rig) open() *Room {
	return New(Options{
		Keep:     func(r resilience.Record) { g.saved[r.Key] = r },
		OnChange: func(s resilience.Status, _ time.Time) { g.heard = append(g.heard, s) },
		Rand:     func() float64 { return 0.5 },
	})
}

// restart is what a new process sees.
func (g *rig) restart() {
	g.room = g.open()
	var all []resilience.Record
	for _, r := range g.saved {
		all = append(all, r)
	}
	g.room.Restore(all, g.now)
}

func (g *rig) bind(c *gateway.Connection) *Handle {
	return g.room.Bind(gateway.Candidate{Connection: c, Model: "m"}, g.cfg)
}

func (g *rig) wait(d time.Duration) { g.now = g.now.Add(d) }

// ask is a request with another candidate to go to.
func ask() *resilience.Ask { return &resilience.Ask{Fallbacks: 1, AttemptsLeft: 5, PoolSize: 2} }

// lone is a request with nowhere else to go.
func lone() *resilience.Ask { return &resilience.Ask{AttemptsLeft: 5, PoolSize: 1} }

func (g *rig) allow(h *Handle) resilience.Permit {
	g.t.Helper()
	p, r := h.Allow(g.t.Context(), ask(), g.now)
	if p == nil {
		g.t.Fatalf("refused at +%s: %+v", g.now.Sub(t0), r)
	}
	return p
}

// stamp fills in what every real outcome carries: a request of its own, begun now and ended d later.
func (g *rig) stamp(o gateway.Outcome, d time.Duration) gateway.Outcome {
	g.n++
	if o.Request == "" {
		o.Request = gateway.RequestID(fmt.Sprintf("req_%d", g.n))
	}
	o.BeganAt, o.EndedAt = g.now, g.now.Add(d)
	return o
}

// try makes one whole attempt that takes 100 ms.
func (g *rig) try(h *Handle, o gateway.Outcome) {
	g.t.Helper()
	p := g.allow(h)
	o = g.stamp(o, 100*time.Millisecond)
	g.wait(100 * time.Millisecond)
	p.Record(o, g.now)
}

// back waits until a lone caller is admitted.
func (g *rig) back(h *Handle) time.Duration {
	g.t.Helper()
	began := g.now
	if r := h.Peek(lone(), g.now); !r.OK() {
		if r.Until.IsZero() {
			g.t.Fatalf("no way back: %+v", r)
		}
		if h.Peek(lone(), r.Until.Add(-1)).OK() {
			g.t.Fatalf("admitted before Until %+v", r)
		}
		g.now = r.Until
	}
	if r := h.Peek(lone(), g.now); !r.OK() {
		g.t.Fatalf("Until was not honest: %+v", r)
	}
	return g.now.Sub(began)
}

func (g *rig) want(h *Handle, verdict resilience.Verdict, reason gateway.Reason) resilience.Ruling {
	g.t.Helper()
	r := h.Peek(ask(), g.now)
	if r.Verdict != verdict || r.Reason != reason {
		g.t.Fatalf("at +%s: got %s/%s, want %s/%s", g.now.Sub(t0), r.Verdict, r.Reason, verdict, reason)
	}
	return r
}

// The outcomes that tests speak of.
var (
	success  = gateway.Outcome{Kind: gateway.Success, Scope: gateway.ScopeRequest, Reason: gateway.Answered, Status: 200}
	limited  = gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount, Reason: gateway.RateLimitHit, Status: 429}
	spent    = gateway.Outcome{Kind: gateway.QuotaExhausted, Scope: gateway.ScopeAccount, Reason: gateway.QuotaHit, Status: 429}
	credits  = gateway.Outcome{Kind: gateway.CreditsExhausted, Scope: gateway.ScopeAccount, Reason: gateway.CreditsGone, Status: 402, Structured: true}
	refused  = gateway.Outcome{Kind: gateway.AuthError, Scope: gateway.ScopeConnection, Reason: gateway.KeyRefused, Status: 401, Structured: true}
	forbid   = gateway.Outcome{Kind: gateway.AuthError, Scope: gateway.ScopeConnection, Reason: gateway.KeyRefused, Status: 403, Structured: true}
	rejected = gateway.Outcome{Kind: gateway.RequestRejected, Scope: gateway.ScopeConnection, Reason: gateway.RejectedByAccount, Status: 403, Structured: true}
	ban      = gateway.Outcome{Kind: gateway.Banned, Scope: gateway.ScopeAccount, Reason: gateway.AccountBanned, Status: 403, Structured: true}
	overload = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.UpstreamStatus, Status: 503}
)

func hinted(o gateway.Outcome, d time.Duration) gateway.Outcome {
	o.RetryAfter, o.Hint = d, gateway.HintHeader
	return o
}
