package next

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// waitOrFail is rule 6. Something that is only full or paced is waited for in the pool's queue; something that is out
// for a short transient reason is waited for inside waits; anything else fails now.
func (s *State) waitOrFail() Step {
	if s.Racing {
		return Step{Do: WaitUntil, Why: gateway.NothingRunnable}
	}
	delayed := Step{Do: WaitUntil, Why: gateway.WaitForSlot}
	out := Step{Do: WaitUntil, Why: gateway.WaitForReturn, Transient: true}
	for i := range s.Candidates {
		c := &s.Candidates[i]
		if c.Ruling.OK() || !s.usable(c) {
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
		if !out.Until.IsZero() && (delayed.Until.IsZero() || out.Until.Before(delayed.Until)) {
			delayed.Until = out.Until
		}
		return delayed
	case len(out.Set) > 0:
		return out
	}
	return Step{Do: Fail, Why: gateway.NothingRunnable}
}

func (st *Step) add(c *Candidate) {
	st.Set = append(st.Set, c.ID)
	if u := c.Ruling.Until; !u.IsZero() && (st.Until.IsZero() || u.Before(st.Until)) {
		st.Until = u
	}
}

// worthWaiting reports whether a candidate that is out comes back soon enough: a transient reason, inside what waits
// and the deadline leave.
func (s *State) worthWaiting(c *Candidate) bool {
	r := c.Ruling
	if !s.WaitsEnabled || !transient(c) || s.Waits >= s.MaxWaits {
		return false
	}
	if r.Until.IsZero() { // only an event can help: a probe that is out
		return r.Reason == gateway.ProbeBusy && s.WaitedFor < s.WaitBudget
	}
	wait := r.Until.Sub(s.Now)
	return wait <= s.MaxWait && s.WaitedFor+wait <= s.WaitBudget &&
		(s.Deadline.IsZero() || r.Until.Before(s.Deadline))
}

// waitForToken waits for the retry budget, inside waits.
func (s *State) waitForToken() Step {
	at := s.Now.Add(max(s.TokenIn, time.Millisecond))
	if !s.WaitsEnabled || s.Waits >= s.MaxWaits || s.TokenIn > s.MaxWait || s.WaitedFor+s.TokenIn > s.WaitBudget ||
		!s.Deadline.IsZero() && at.After(s.Deadline) {
		return Step{Do: Fail, Why: gateway.RetryBudget}
	}
	return Step{Do: WaitUntil, Until: at, Why: gateway.RetryBudget, Transient: true}
}
