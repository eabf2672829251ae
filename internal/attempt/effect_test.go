package attempt

import (
	"fmt"
	"testing"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/gate"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lockout"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// house is one candidate in real rooms with the configuration recommended.
type house struct {
	t        *testing.T
	now      time.Time
	gap      time.Duration // from one end to the next
	requests int
	breaker  *breaker.Handle
	cooldown *cooldown.Handle
	lockout  *lockout.Handle
	gate     *gate.Handle
	health   *health.Handle
}

type change func(*gateway.Provider, *lockout.Config)

func perModel(p *gateway.Provider, _ *lockout.Config) { p.PerModelQuota = true }

func lockoutOn(_ *gateway.Provider, c *lockout.Config) { c.Enabled = true }

func newHouse(t *testing.T, changes ...change) *house {
	p := &gateway.Provider{ID: "p", BaseURL: "http://p.test"}
	locks := lockout.Default(gateway.APIKey)
	for _, c := range changes {
		c(p, &locks)
	}
	c := gateway.Candidate{Connection: &gateway.Connection{ID: "c", Provider: p, Account: "a", Identity: "c#1"}, Model: "m"}
	h := &house{t: t, now: t0, gap: time.Second, health: health.New(health.Options{}).Bind(c)}
	h.breaker = breaker.New(breaker.Options{}).Bind(c, breaker.Recommended())
	h.cooldown = cooldown.New(cooldown.Options{}).Bind(c, cooldown.Default(gateway.APIKey))
	h.lockout = lockout.New(lockout.Options{}).Bind(c, locks)
	h.gate = gate.New(gate.Options{}).Bind(c, gate.Default(), h.health.Proven)
	return h
}

// outcome is a typical one of a kind.
func outcome(k gateway.Kind) gateway.Outcome {
	o := gateway.Outcome{Kind: k, Scope: Effects[k].Scope}
	switch k {
	case gateway.ServiceError:
		o.Status, o.Reason = 503, gateway.UpstreamStatus
	case gateway.RateLimited:
		o.Status, o.Reason, o.RetryAfter, o.Hint = 429, gateway.RateLimitHit, time.Minute, gateway.HintHeader
	case gateway.QuotaExhausted:
		o.Status, o.Reason = 429, gateway.QuotaHit
	case gateway.CreditsExhausted:
		o.Status, o.Reason, o.Structured = 402, gateway.CreditsGone, true
	case gateway.AuthError:
		o.Status, o.Reason, o.Structured = 401, gateway.KeyRefused, true
	case gateway.RequestRejected:
		o.Status, o.Reason = 403, gateway.RejectedByAccount
	case gateway.Banned:
		o.Status, o.Reason, o.Structured = 403, gateway.AccountBanned, true
	case gateway.ModelUnavailable:
		o.Status, o.Reason = 404, gateway.ModelMissing
	case gateway.Alive:
		o.Status, o.Reason = 400, gateway.CallerFault
	case gateway.ContentRefused:
		o.Status, o.Reason = 400, gateway.ContentPolicy
	case gateway.Canceled:
		o.Reason = gateway.ClientGone
	}
	return o
}

// ends makes one attempt of a new request that ends so, in every room, whatever the others think of the candidate.
func (h *house) ends(o gateway.Outcome) {
	h.now = h.now.Add(h.gap / 2)
	h.requests++
	o.Request, o.BeganAt, o.EndedAt = gateway.RequestID(fmt.Sprint("r", h.requests)), h.now, h.now.Add(h.gap/2)
	ask := &resilience.Ask{Request: o.Request, Fallbacks: 1, AttemptsLeft: 9, PoolSize: 2}
	flight := h.health.Begin(health.Facts{}, h.now)
	for _, room := range []resilience.Handle{h.cooldown, h.lockout, h.gate, h.breaker} {
		if p, _ := room.Allow(h.t.Context(), ask, h.now); p != nil {
			if o.Kind == gateway.Success {
				p.Alive(o.EndedAt)
			}
			defer p.Record(o, o.EndedAt)
		}
	}
	if o.Kind == gateway.Success {
		flight.Content(o.EndedAt)
	}
	flight.End(o, o.EndedAt)
	h.now = o.EndedAt
}

func (h *house) times(n int, o gateway.Outcome) {
	for range n {
		h.ends(o)
	}
}

func (h *house) peek(room resilience.Handle) resilience.Ruling {
	return room.Peek(&resilience.Ask{Fallbacks: 1, AttemptsLeft: 9, PoolSize: 2}, h.now)
}

func (h *house) open() bool { return h.peek(h.breaker).Verdict == resilience.Forbidden }

var failure = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.UpstreamStatus, Status: 500}

// breakerEffect finds out by experiment what a kind does to a breaker.
func breakerEffect(t *testing.T, o gateway.Outcome) Effect {
	alone := newHouse(t)
	alone.times(12, o)
	proven := newHouse(t)
	proven.ends(outcome(gateway.Success))
	proven.times(12, o)
	if alone.open() {
		if proven.open() {
			return Bad
		}
		return Effects[gateway.Slow].Breaker
	}
	// Does it end a losing run of failures, of which five open?
	run := newHouse(t)
	run.times(4, failure)
	run.ends(o)
	run.times(1, failure)
	if run.open() {
		return None
	}
	// Twenty calls make a rate; what does not count in the window cannot hold it down.
	window := newHouse(t)
	window.gap = 300 * time.Millisecond
	for range 12 {
		window.times(2, failure)
		window.times(4, o)
	}
	if window.open() {
		return AliveRun
	}
	return Good
}

// TestEffectsOnTheBreaker holds the real breaker to the table.
func TestEffectsOnTheBreaker(t *testing.T) {
	for k := range gateway.NumKinds {
		want := Effects[k].Breaker
		if want == Neutral {
			want = None // nothing changes
		}
		if have := breakerEffect(t, outcome(k)); have != want {
			t.Errorf("%s: %q, the table says %q", k, have, want)
		}
	}
}

// TestEffectsOnTheCooldown holds the real cooldown room to the table.
func TestEffectsOnTheCooldown(t *testing.T) {
	for k := range gateway.NumKinds {
		h := newHouse(t)
		h.ends(outcome(k))
		first := h.peek(h.cooldown)
		h.now = h.now.Add(15 * time.Second) // the next one counts as an observation of its own
		h.ends(outcome(k))
		second := h.peek(h.cooldown)
		var have string
		switch {
		case first.OK() && second.OK():
			have = "nothing"
		case second.Reason == gateway.Terminal:
			have = "terminal"
		default:
			have = "cools"
		}
		want := "cools"
		switch Effects[k].Cooldown {
		case None, "clears errors", Effects[gateway.ServiceError].Cooldown: // no hint was given here
			want = "nothing"
		case "terminal":
			want = "terminal"
		}
		if have != want {
			t.Errorf("%s: %s (%+v, %+v), the table says %q", k, have, first, second, Effects[k].Cooldown)
		}
	}
	busy := outcome(gateway.ServiceError)
	busy.RetryAfter, busy.Hint = 5*time.Minute, gateway.HintHeader
	h := newHouse(t)
	h.ends(busy)
	if r := h.peek(h.cooldown); r.Reason != gateway.NotBefore || r.Until.Sub(h.now) != time.Minute {
		t.Errorf("the Retry-After of a 503: %+v, %s away", r, r.Until.Sub(h.now))
	}
	h = newHouse(t)
	h.ends(outcome(gateway.RateLimited))
	h.now = h.now.Add(2 * time.Minute)
	h.ends(outcome(gateway.Success))
	if s := h.cooldown.Status(h.now); s != "active" {
		t.Errorf("a success leaves the state %q", s)
	}
}

// TestEffectsOnTheLockout holds the real lockout room to the table, in its three settings.
func TestEffectsOnTheLockout(t *testing.T) {
	locks := func(k gateway.Kind, changes ...change) bool {
		h := newHouse(t, changes...)
		h.times(2, outcome(k))
		return !h.peek(h.lockout).OK()
	}
	for k := range gateway.NumKinds {
		plain, model, on := false, false, false
		switch Effects[k].Lockout {
		case "exact triple if enabled":
			on = true
		case "model if per-model quota", "until reset":
			model = true
		case Effects[gateway.ModelUnavailable].Lockout:
			plain, model, on = true, true, true
		}
		if a, b, c := locks(k), locks(k, perModel), locks(k, lockoutOn); a != plain || b != model || c != on {
			t.Errorf("%s locks: %t, with per-model quota %t, when enabled %t; the table says %q", k, a, b, c, Effects[k].Lockout)
		}
	}
}

// TestEffectsOnHealth holds the real health room to the table, and sees that nothing stays in flight.
func TestEffectsOnHealth(t *testing.T) {
	for k := range gateway.NumKinds {
		h := newHouse(t)
		h.times(3, failure)
		before := h.health.View(h.now).Success
		h.ends(outcome(k))
		drift := newHouse(t) // what time alone does
		drift.times(3, failure)
		after, idle := h.health.View(h.now).Success, drift.health.View(h.now).Success
		var have Effect
		switch {
		case after > idle+1e-9:
			have = Good
		case after < idle-1e-9:
			have = Bad
		default:
			have = None
		}
		if have != Effects[k].Health {
			t.Errorf("%s: %v -> %v (idle %v), the table says %q", k, before, after, idle, Effects[k].Health)
		}
		if v := h.health.View(h.now); v.InFlight != 0 || h.gate.InFlight() != 0 {
			t.Errorf("%s: %d and %d still in flight", k, v.InFlight, h.gate.InFlight())
		}
	}
}

// TestOnlyUnhintedRateLimitsPace: AIMD learns from a 429 without a hint that comes while the account serves, and from
// nothing else.
func TestOnlyUnhintedRateLimitsPace(t *testing.T) {
	for k := range gateway.NumKinds {
		h := newHouse(t)
		h.ends(outcome(gateway.Success))
		before := h.gate.Limit(h.now)
		o := outcome(k)
		o.RetryAfter, o.Hint = 0, gateway.HintNone
		h.ends(o)
		if paced := h.gate.Limit(h.now) != before; paced != (k == gateway.RateLimited) {
			t.Errorf("%s paces: %t", k, paced)
		}
	}
}

// TestUncountedTeachesNothing: a rule with count: false leaves every room as it was.
func TestUncountedTeachesNothing(t *testing.T) {
	for k := range gateway.NumKinds {
		h := newHouse(t, lockoutOn, perModel)
		o := outcome(k)
		o.Uncounted = true
		h.times(12, o)
		if h.open() || !h.peek(h.cooldown).OK() || !h.peek(h.lockout).OK() || h.health.View(h.now).Success != 1 || h.gate.Limit(h.now) != gate.Default().DefaultLimit {
			t.Errorf("%s: open %t, cooldown %+v, lockout %+v, health %v", k, h.open(), h.peek(h.cooldown), h.peek(h.lockout), h.health.View(h.now).Success)
		}
	}
}

// TestEffectsOnTheWalk: the columns "costs" and "stops" are what the walk does.
func TestEffectsOnTheWalk(t *testing.T) {
	for k := range gateway.NumKinds {
		row := Effects[k]
		if next.Costs(k) != row.Costs {
			t.Errorf("%s: costs %t, the table says %t", k, next.Costs(k), row.Costs)
		}
		o := outcome(k)
		o.BeganAt, o.EndedAt = t0, t0.Add(time.Second)
		s := next.State{Config: next.Config{AttemptLimit: 10}, Now: o.EndedAt, BeganAt: t0, Tokens: 9,
			Candidates: []*next.Candidate{{ID: 0, Health: 1}, {ID: 1, Target: 1, Provider: 1, Connection: 1, Account: 1, Model: 1, Health: 1}},
			History:    []next.Try{{Outcome: o}}}
		if stops := next.Decide(&s).Do == next.Fail; stops != row.Stops && k != gateway.Success {
			t.Errorf("%s: stops %t, the table says %t", k, stops, row.Stops)
		}
		if row.Breaker == "" || row.Cooldown == "" || row.Lockout == "" || row.Health == "" {
			t.Errorf("%s: the row is not complete: %+v", k, row)
		}
	}
}
