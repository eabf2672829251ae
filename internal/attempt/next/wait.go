package next

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// waitOrFail is rule 6. Something that is only full or paced is waited for in the pool's queue; something that is out
// for a short transient reason is waited for inside waits, and so is what may run but asked this request to wait;
// anything else fails now.
func (s *State) waitOrFail() Step {
	if s.Racing {
		return Step{Do: WaitUntil, Why: gateway.NothingRunnable}
	}
	delayed := Step{Do: WaitUntil, Why: gateway.WaitForSlot}
	out := Step{Do: WaitUntil, Why: gateway.WaitForReturn, Transient: true}
	var rested time.Time
	for _, c := range s.Candidates {
		if !s.usable(c) {
			continue
		}
		if c.Ruling.OK() {
			if at := s.restsUntil(c); s.affordable(at) {
				rested = sooner(rested, at)
			}
			continue
		}
		if c.Ruling.Verdict == resilience.Delayed {
			delayed.add(c)
		} else if s.worthWaiting(c) {
			out.add(c)
			if c.Ruling.Reason == gateway.ProbeBusy {
				out.Why = gateway.WaitForProbe
			}
		}
	}
	switch {
	case len(delayed.Set) > 0:
		delayed.Set = append(delayed.Set, out.Set...)
		delayed.Until = sooner(sooner(delayed.Until, out.Until), rested)
		return delayed
	case len(out.Set) > 0:
		out.Until = sooner(out.Until, rested)
		return out
	case !rested.IsZero():
		return Step{Do: WaitUntil, Until: rested, Why: gateway.NotBefore, Transient: true}
	}
	return Step{Do: Fail, Why: gateway.NothingRunnable}
}

func (st *Step) add(c *Candidate) {
	st.Set = append(st.Set, c.ID)
	st.Until = sooner(st.Until, c.Ruling.Until)
}

// sooner is the earlier of two instants of which either may be unknown.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// worthWaiting reports whether a candidate that is out comes back soon enough: a transient reason, inside what waits
// and the deadline leave.
func (s *State) worthWaiting(c *Candidate) bool {
	if !transient(c) {
		return false
	}
	if c.Ruling.Until.IsZero() { // only an event can help: a probe that is out
		return c.Ruling.Reason == gateway.ProbeBusy && s.affordable(s.Now)
	}
	return s.affordable(c.Ruling.Until)
}

// affordable reports whether waits and the deadline allow a wait until then.
func (s *State) affordable(until time.Time) bool {
	wait := until.Sub(s.Now)
	return s.WaitsEnabled && s.Waits < s.MaxWaits && wait <= s.MaxWait && s.WaitedFor+wait <= s.WaitBudget &&
		(s.Deadline.IsZero() || until.Before(s.Deadline))
}

// tokenSpread is over how long those who wait for the retry budget come back: all at once they would find one token.
const tokenSpread = 500 * time.Millisecond

// waitForToken waits for the retry budget, inside waits.
func (s *State) waitForToken() Step {
	at := s.Now.Add(max(s.TokenIn, time.Millisecond) + time.Duration(s.Jitter*float64(tokenSpread)))
	if !s.affordable(at) {
		return Step{Do: Fail, Why: gateway.RetryBudget}
	}
	return Step{Do: WaitUntil, Until: at, Why: gateway.RetryBudget, Transient: true}
}
