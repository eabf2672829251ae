package plan

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/resilience/breaker"
)

// look peeks in two passes. Whether a candidate on trial (a due breaker, an account to be checked again) may be used
// depends on whether the request could still fall back, so what is plainly runnable is counted first.
func (pl *Plan) look(ask *resilience.Ask, allowed func(*gateway.Connection) bool, now time.Time) {
	pl.settle()
	pl.glance(allowed, now)
	ask.PoolSize, ask.PoolProven, ask.Fallbacks = len(pl.Pool.Candidates), pl.Proven, 1
	again := false
	for _, i := range pl.doubt {
		r := &pl.walkers[i].Ruling
		if pl.plain[i] {
			*r = pl.Pool.hot[i].gate.Peek(ask, now)
		} else {
			pl.Pool.Candidates[i].peek(r, ask, now)
		}
		switch {
		case !r.OK():
			again = again || r.Reason == gateway.NotBefore
		case r.Probe:
			again = true
		default:
			pl.Open++
		}
	}
	if !pl.ignorant() {
		pl.limitTools(now)
	}
	ask.Fallbacks = pl.Open
	if again || pl.Open == 0 {
		pl.lookAgain(ask, now)
	}
	for _, i := range pl.doubt {
		pl.note(i, now)
	}
}

// settle finds out which candidates are plain, when a room has changed since it last did. Most of the time nothing has:
// then four of five questions per candidate need not be asked.
func (pl *Plan) settle() {
	now := pl.Pool.changes.Count() + 1 // read first: a change that comes meanwhile is found at the next look
	if pl.seen == now {
		return
	}
	pl.seen = now
	for i, c := range pl.Pool.Candidates {
		pl.plain[i] = c.Breaker.Plain() && c.Cooldown.Plain() && c.Lockout.Plain() && c.Rate.Plain()
		pl.steady[i] = pl.plain[i] && c.Gate.Plain()
		pl.items[i].Limit = c.Gate.Limit(time.Time{}) // of the others it is asked every time
	}
}

// glance sees how well every candidate is, says yes to those that nothing can be held against, no to those that this
// request must not use, and leaves the others in doubt.
func (pl *Plan) glance(allowed func(*gateway.Connection) bool, now time.Time) {
	pl.Proven, pl.Open, pl.doubt = false, 0, pl.doubt[:0]
	picky := allowed != nil || pl.pin >= 0
	nano := now.UnixNano()
	for i := range pl.Pool.hot {
		h, it, w := &pl.Pool.hot[i], &pl.items[i], &pl.walkers[i]
		inFlight, proven, calm := h.health.Calm(nano)
		it.Success, it.Silent, it.InFlight, it.Faltered = 1, 0, inFlight, false
		if !calm && pl.plain[i] { // what the rooms may refuse is looked at more closely when they do not
			v := h.health.View(now)
			it.Success, it.Silent, it.Faltered = v.Success, v.Silent, v.Faltered
		}
		pl.Proven = pl.Proven || proven
		free := pl.steady[i] && (proven || h.gate.Untried())
		if pl.plain[i] && !pl.steady[i] {
			it.Limit = h.gate.Limit(now)
			free = h.gate.Free(proven)
		}
		w.Health, w.Faltered, w.Trial, w.Cause = it.Success, it.Faltered, false, 0
		switch {
		case picky && !pl.may(i, allowed):
		case free:
			w.Ruling = resilience.Ruling{}
			it.Eligible, it.Weak = true, false
			pl.Open++
		default:
			pl.doubt = append(pl.doubt, i)
		}
	}
}

// may reports whether this request may use candidate i at all; if not, that is the ruling.
func (pl *Plan) may(i int, allowed func(*gateway.Connection) bool) bool {
	c := pl.Pool.Candidates[i]
	switch {
	case allowed != nil && !allowed(c.Candidate.Connection):
		pl.bar(i, gateway.Unavailable, time.Time{})
	case pl.pin >= 0 && c.Connection != pl.pin:
		pl.bar(i, gateway.ObjectElsewhere, time.Time{})
	default:
		return true
	}
	return false
}

// bar leaves candidate i out of this request, whatever the rooms say.
func (pl *Plan) bar(i int, why gateway.Reason, until time.Time) {
	pl.walkers[i].Ruling = resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerRoute, Reason: why, Until: until}
	pl.items[i].Eligible, pl.items[i].Weak = false, false
}

// note passes what is known of a candidate that was in doubt on to strategies and walk.
func (pl *Plan) note(i int, now time.Time) {
	w, c, it := &pl.walkers[i], pl.Pool.Candidates[i], &pl.items[i]
	r := &w.Ruling
	it.Eligible, it.Weak = r.OK(), r.Weak || r.Probe
	switch {
	case !it.Eligible:
		it.Success, it.Silent = 0, 0 // nobody asks how well it would have done
	case !pl.plain[i]:
		v := c.Health.View(now)
		it.Success, it.Silent, it.Faltered, it.Limit = v.Success, v.Silent, v.Faltered, c.Gate.Limit(now)
	}
	w.Health, w.Faltered = it.Success, it.Faltered
	w.Trial = r.Probe && c.Breaker.State(now) != breaker.Closed
	switch r.Reason {
	case gateway.ConnectionCooldown:
		w.Cause = c.Cooldown.Cause(now)
	case gateway.ModelLockout:
		w.Cause = c.Lockout.Cause(now)
	}
}

// lookAgain asks anew where the answer depends on how many others can run. With nothing plainly runnable what was
// forbidden may be a trial that is not for requests with an alternative.
func (pl *Plan) lookAgain(ask *resilience.Ask, now time.Time) {
	for _, i := range pl.doubt {
		c, r := pl.Pool.Candidates[i], &pl.walkers[i].Ruling
		if r.Layer == gateway.LayerRoute {
			continue // this caller may not use it, whatever the rooms say
		}
		if r.Probe || r.Reason == gateway.NotBefore || pl.Open == 0 && r.Verdict == resilience.Forbidden {
			c.peek(r, ask, now)
		}
	}
}

// Peek asks the layers in their order; the first that does not allow names itself. A delay is only the answer when no
// layer forbids.
func (c *Candidate) Peek(ask *resilience.Ask, now time.Time) (out resilience.Ruling) {
	c.peek(&out, ask, now)
	return out
}

// peek is Peek in place. The handles are called by their own types, and only those that may say something: this runs for
// every candidate before every attempt.
func (c *Candidate) peek(out *resilience.Ruling, ask *resilience.Ask, now time.Time) {
	*out = resilience.Ruling{}
	if !c.Breaker.Plain() {
		if *out = c.Breaker.Peek(ask, now); out.Verdict == resilience.Forbidden {
			return
		}
	}
	if !c.Cooldown.Plain() && forbids(out, c.Cooldown.Peek(ask, now)) {
		return
	}
	if !c.Lockout.Plain() && forbids(out, c.Lockout.Peek(ask, now)) {
		return
	}
	if !c.Gate.Free(false) && forbids(out, c.Gate.Peek(ask, now)) {
		return
	}
	if !c.Rate.Plain() {
		forbids(out, c.Rate.Peek(ask, now))
	}
}

// forbids takes the next layer's answer in, and reports whether it ends the matter.
func forbids(out *resilience.Ruling, r resilience.Ruling) bool {
	switch {
	case r.Verdict == resilience.Forbidden:
		*out = r
		return true
	case r.Verdict == resilience.Delayed && (out.OK() || r.Until.After(out.Until)): // of two delays the one that ends later
		r.Probe, r.Weak = out.Probe, out.Weak
		*out = r
	default:
		out.Probe = out.Probe || r.Probe
		out.Weak = out.Weak || r.Weak
	}
	return false
}
