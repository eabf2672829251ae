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

// alive tells every room that content has come. known says that it is no news of the candidate; then the gate need not hear
// of it, which would make who waits in line look for nothing.
func (p *permits) alive(known bool, now time.Time) {
	for i, x := range p.taken[:p.n] {
		if i == gated && known {
			continue
		}
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

// record teaches every room and releases, once. Slots and rates come last: they wake who waits for them, and who looks
// then has to see what this attempt has taught.
func (p *permits) record(o gateway.Outcome, now time.Time) {
	if p.done {
		return
	}
	p.done = true
	for _, i := range [...]int{cooled, locked, broken, rated, gated} {
		if i < p.n {
			p.taken[i].Record(o, now)
		}
	}
}

// The places of the permits, in the order of taking.
const (
	cooled = iota
	locked
	gated
	rated
	broken
)

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
	for i, h := range [...]resilience.Handle{cooled: c.Cooldown, locked: c.Lockout, gated: c.Gate, rated: c.Rate, broken: c.Breaker} {
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

// untriedLeft reports whether there is somewhere better to go than id: a runnable candidate that this request has not
// tried; or, while id has yet to show that it answers at all, one that is known to answer and is only busy.
func (r *run) untriedLeft(id int) bool {
	for _, c := range r.plan.Ranked {
		if c.ID != id && c.Ruling.OK() && r.lastOf(c.ID) == nil {
			return true
		}
	}
	if len(r.plan.Ranked) < 2 || next.Left(&r.job.Walk, r.history) <= 0 {
		return false
	}
	now := time.Now()
	return !r.job.Pool.Candidates[id].Health.Proven(now) && r.busyLeft(id, now)
}

// busyLeft reports whether a candidate other than id could answer this request in a moment: it has answered lately, and
// it is runnable, or full or paced, or out for no longer than one wait may last; or nothing is known of it either, because
// as many requests as may are trying it just now.
func (r *run) busyLeft(id int, now time.Time) bool {
	for _, c := range r.plan.Ranked {
		trial := c.Ruling.Verdict == resilience.Delayed && c.Ruling.Reason == gateway.Unproven
		if c.ID == id || !trial && !r.job.Pool.Candidates[c.ID].Health.Proven(now) {
			continue
		}
		if c.Ruling.Verdict == resilience.Forbidden && (c.Ruling.Until.IsZero() || c.Ruling.Until.Sub(now) > r.job.Walk.MaxWait) {
			continue
		}
		if last := r.lastOf(c.ID); last == nil || worthAgain(last.Outcome.Kind) {
			return true
		}
	}
	return false
}

// lastOf is the last attempt of this request on a candidate; nil = none.
func (r *run) lastOf(id int) *next.Try {
	for i := len(r.history) - 1; i >= 0; i-- {
		if r.history[i].ID == id {
			return &r.history[i]
		}
	}
	return nil
}

// worthAgain reports whether a candidate that failed so in this request may well answer it the next time.
func worthAgain(k gateway.Kind) bool {
	return k == gateway.ServiceError || k == gateway.EmptyOutput || k == gateway.RateLimited
}

// breakerState is the state of a candidate's breaker for the decision log.
func breakerState(c *plan.Candidate, now time.Time) string { return c.Breaker.State(now).String() }
