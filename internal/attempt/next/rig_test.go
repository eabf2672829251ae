package next

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Instants of the tests are counted from here.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

func settings() Config {
	return Config{AttemptLimit: 10, StallWindow: 2 * time.Minute, PreferWait: 3 * time.Second, WaitsEnabled: true,
		MaxWait: 65 * time.Second, MaxWaits: 5, WaitBudget: 5 * time.Minute}
}

// pool makes candidates: each string lists the connections of one target as provider letters, one letter per
// connection; every target has a model of its own, every connection an account of its own.
func pool(targets ...string) []*Candidate {
	var out []*Candidate
	for t, conns := range targets {
		for _, p := range conns {
			id := len(out)
			out = append(out, &Candidate{ID: id, Target: t, Provider: int(p), Connection: id, Account: id, Model: t, Health: 1})
		}
	}
	return out
}

func out(reason gateway.Reason, until time.Time, cause gateway.Kind) func(*Candidate) {
	return func(c *Candidate) {
		c.Ruling = resilience.Ruling{Verdict: resilience.Forbidden, Reason: reason, Until: until}
		c.Cause = cause
	}
}

func delayed(reason gateway.Reason) func(*Candidate) {
	return func(c *Candidate) { c.Ruling = resilience.Ruling{Verdict: resilience.Delayed, Reason: reason} }
}

func probe(c *Candidate) { c.Ruling.Probe = true }

func weak(c *Candidate) { c.Ruling.Weak = true }

// trial is a probe of a breaker.
func trial(c *Candidate) { c.Ruling.Probe, c.Trial = true, true }

// game is one request against a pool.
type game struct {
	State
}

func newGame(cfg Config, c []*Candidate) *game {
	return &game{State{Config: cfg, Now: t0, BeganAt: t0, Deadline: at(10 * time.Minute), Candidates: c, Tokens: 30,
		Preferred: map[int]bool{}}}
}

func ordered(cfg Config) Config { cfg.Ordered = true; return cfg }

// set changes one candidate.
func (g *game) set(id int, how func(*Candidate)) *game {
	how(g.find(id))
	return g
}

// end is how an attempt ended.
type end struct {
	kind   gateway.Kind
	scope  gateway.Scope
	reason gateway.Reason
	status int
	took   time.Duration // 0 = 100 ms
	back   time.Duration // hint, from its end
	quirk  string
}

var (
	answered  = end{kind: gateway.Success}
	fault503  = end{kind: gateway.ServiceError, scope: gateway.ScopeProvider, reason: gateway.UpstreamStatus, status: 503}
	reset     = end{kind: gateway.ServiceError, scope: gateway.ScopeProvider, reason: gateway.ConnectionReset}
	timeout   = end{kind: gateway.Timeout, scope: gateway.ScopeProvider, reason: gateway.FirstContentTimeout, took: 10 * time.Second}
	slow      = end{kind: gateway.Slow, scope: gateway.ScopeAttempt, reason: gateway.LeftEarly, took: 10 * time.Second}
	stall     = end{kind: gateway.Stall, scope: gateway.ScopeAttempt, reason: gateway.TooSlow, took: 30 * time.Second}
	empty     = end{kind: gateway.EmptyOutput, scope: gateway.ScopeModel, reason: gateway.NoContent}
	limited   = end{kind: gateway.RateLimited, scope: gateway.ScopeAccount, reason: gateway.RateLimitHit, status: 429}
	quota     = end{kind: gateway.QuotaExhausted, scope: gateway.ScopeAccount, reason: gateway.QuotaHit, status: 429}
	badKey    = end{kind: gateway.AuthError, scope: gateway.ScopeConnection, reason: gateway.KeyRefused, status: 401}
	noModel   = end{kind: gateway.ModelUnavailable, scope: gateway.ScopeModel, reason: gateway.ModelMissing, status: 404}
	tooLong   = end{kind: gateway.Alive, reason: gateway.ContextTooLong, status: 400}
	badCall   = end{kind: gateway.Alive, reason: gateway.CallerFault, status: 400}
	refused   = end{kind: gateway.ContentRefused, reason: gateway.ContentPolicy, status: 400}
	noTools   = end{kind: gateway.Alive, reason: gateway.CapabilityRefused, status: 400, quirk: "tools"}
	hostFault = end{kind: gateway.LocalError, reason: gateway.HostFault}
	newKey    = end{kind: gateway.LocalError, reason: gateway.KeyRefused, status: 401}
	lostRace  = end{kind: gateway.Canceled, reason: gateway.RaceLost}
	left      = end{kind: gateway.Canceled, reason: gateway.ClientGone}
)

func (e end) within(d time.Duration) end     { e.took = d; return e }
func (e end) backIn(d time.Duration) end     { e.back = d; return e }
func (e end) scoped(scope gateway.Scope) end { e.scope = scope; return e }
func (e end) named(quirk string) end         { e.quirk = quirk; return e }

// begin dispatches an attempt now.
func (g *game) begin(id int) *Try {
	c := g.find(id)
	g.History = append(g.History, Try{ID: id, Target: c.Target, Provider: c.Provider, Connection: c.Connection,
		Account: c.Account, Model: c.Model, Live: true, Probe: c.Ruling.Probe, Outcome: gateway.Outcome{BeganAt: g.Now}})
	return &g.History[len(g.History)-1]
}

// finish ends an attempt; time moves on to its end.
func (g *game) finish(t *Try, e end) {
	if e.took == 0 {
		e.took = 100 * time.Millisecond
	}
	began := t.Outcome.BeganAt
	g.Now = later(g.Now, began.Add(e.took))
	t.Live = false
	t.Outcome = gateway.Outcome{Kind: e.kind, Scope: e.scope, Reason: e.reason, Status: e.status, Quirk: e.quirk,
		RetryAfter: e.back, BeganAt: began, EndedAt: g.Now}
	if e.back > 0 {
		t.BackAt = g.Now.Add(e.back)
	}
}

// did plays an attempt that has ended.
func (g *game) did(id int, e end) *game {
	g.finish(g.begin(id), e)
	return g
}

func (g *game) decide() Step { return Decide(&g.State) }

// tried counts the attempts on candidates that match.
func (g *game) tried(match func(*Try) bool) int {
	n := 0
	for i := range g.History {
		if match(&g.History[i]) {
			n++
		}
	}
	return n
}
