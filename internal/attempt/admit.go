package attempt

import (
	"context"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/resilience"
)

// permits are what one attempt has taken, in the order of taking.
type permits struct {
	taken [5]resilience.Permit
	n     int
	done  bool
}

func (p *permits) add(x resilience.Permit) {
	p.taken[p.n] = x
	p.n++
}

// alive tells every room that content has come.
func (p *permits) alive(now time.Time) {
	for _, x := range p.taken[:p.n] {
		x.Alive(now)
	}
}

// renew prolongs the leases of those permits that have one: a probe that still shows signs of life keeps its place.
func (p *permits) renew(now time.Time) {
	for _, x := range p.taken[:p.n] {
		if lease, ok := x.(interface{ Renew(time.Time) }); ok {
			lease.Renew(now)
		}
	}
}

// record teaches every room and releases, in reverse order, once.
func (p *permits) record(o gateway.Outcome, now time.Time) {
	if p.done {
		return
	}
	p.done = true
	for i := p.n - 1; i >= 0; i-- {
		p.taken[i].Record(o, now)
	}
}

// admit takes the permits of a candidate: cheap refusals first, the breaker's last, so that a probe is never wasted on
// an attempt that a full gate then stops. A half-taken set is returned untouched. nil means that the candidate was lost
// since the look.
func (r *run) admit(step next.Step) *flight {
	c := r.job.Pool.Candidates[step.ID]
	now := time.Now()
	f := &flight{run: r, candidate: c}
	fallbacks := r.ask.Fallbacks
	r.ask.Fallbacks = r.plan.Fallbacks(step.ID)
	defer func() { r.ask.Fallbacks = fallbacks }()
	const rated = 3
	for i, h := range [...]resilience.Handle{c.Cooldown, c.Lockout, c.Gate, c.Rate, c.Breaker} {
		permit, ruling := h.Allow(r.parent, &r.ask, now)
		if permit == nil {
			f.permits.record(untouched(now), now)
			r.refused = ruling
			return nil
		}
		f.probe = f.probe || ruling.Probe
		f.permits.add(permit)
		if i == rated {
			f.rate = permit
		}
	}
	f.attempt = gateway.Attempt{Target: c.Candidate.Target(), Connection: c.Candidate.Connection.ID, Probe: f.probe,
		BeganAt: now, Before: c.Breaker.State(now).String()}
	f.ctx, f.cancel = context.WithCancelCause(r.parent)
	return f
}

// untouched is the outcome of a permit that was never used: it teaches nothing, and without BeganAt it says that nothing
// was sent, so what counts what was sent takes it back.
func untouched(now time.Time) gateway.Outcome {
	return gateway.Outcome{Kind: gateway.Canceled, Reason: gateway.RaceLost, EndedAt: now}
}

// untriedLeft reports whether a runnable candidate other than id is left that this request has not tried.
func (r *run) untriedLeft(id int) bool {
	for i := range r.plan.Ranked {
		c := &r.plan.Ranked[i]
		if c.ID == id || !c.Ruling.OK() {
			continue
		}
		tried := false
		for j := range r.history {
			if r.history[j].ID == c.ID {
				tried = true
				break
			}
		}
		if !tried {
			return true
		}
	}
	return false
}

// breakerState is the state of a candidate's breaker for the decision log.
func breakerState(c *plan.Candidate, now time.Time) string { return c.Breaker.State(now).String() }
