package attempt

import (
	"slices"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/plan"
)

// Emergency is where a request goes on when the pool that was asked for has failed it: the pool of another combo, with
// that combo's own walk and options. It shares the deadline, the waits and the attempt budget.
type Emergency struct {
	Pool       *plan.Pool
	Walk       next.Config
	AllowEmpty bool
}

// Attempts that are kept for the emergency combo, which could otherwise never be asked when the budget is spent.
const (
	keptMost  = 3
	keptShare = 3 // never more than a third of the budget, but one of two
)

// kept is how many attempts of a budget are kept for the emergency combo.
func kept(budget int) int {
	if budget == 2 {
		return 1
	}
	return min(keptMost, budget/keptShare)
}

// fallBack leaves the pool that was asked for, whose walk has ended for a reason, and goes on over the emergency combo's.
// It reports false when there is none or when the end was the caller's own fault: another combo would hide it, or be
// asked what somebody has refused on purpose. It happens once; gerr is what the client is told if it fails, too.
func (r *run) fallBack(why gateway.Reason, gerr *gateway.Error) bool {
	to := r.job.Emergency
	if to == nil || r.asked != nil || gerr == nil || !r.mayFallBack(why) {
		return false
	}
	walk := to.Walk
	walk.Earlier = len(r.history)
	if next.Left(&walk, r.history) <= 0 {
		return false
	}
	r.asked = gerr
	r.leaveQueue()
	j := r.job.Journey
	j.Status, j.Code, j.Error = 0, "", ""
	j.Path = append(slices.Clip(j.Path), "emergency fallback "+to.Pool.Name+" ("+why.String()+")")
	bound := r.session.bound
	r.translate(to.Pool)
	r.plan.Close()
	r.job.Pool, r.job.Walk, r.job.AllowEmpty, r.job.Queue = to.Pool, walk, to.AllowEmpty, to.Pool.Queue
	r.plan = to.Pool.Open()
	r.plan.Want(r.job.Envelope, envelope.Asks)
	r.budget = r.engine.budgetOf(to.Pool.Name)
	r.walkAt, r.preferred, r.session, r.noted = time.Now(), nil, session{}, false
	_ = r.recognize(r.walkAt) // it cannot fail: a request that refers to stored objects does not fall back
	if bound {
		j.Moved = gateway.EmergencyFallback
	}
	return true
}

// mayFallBack reports whether the end of the walk is nobody's wish: not the caller's fault, not a refusal of content, not
// a status that the combo returns at once, not for want of time.
func (r *run) mayFallBack(why gateway.Reason) bool {
	switch why {
	case gateway.StopHere, gateway.StatusExcluded, gateway.ClientGone, gateway.DeadlinePassed:
		return false
	}
	if r.parent.Err() != nil || !r.deadline.IsZero() && !time.Now().Before(r.deadline) || r.plan.Pinned() ||
		slices.ContainsFunc(r.job.Envelope.Refs, func(ref gateway.Ref) bool { return !ref.Loose }) {
		return false
	}
	for i := range r.history {
		if r.history[i].Outcome.Kind == gateway.ContentRefused {
			return false
		}
	}
	if f := r.lastError; f != nil && !f.outcome.Failed() {
		return false // the last word was that the request itself is wrong
	}
	if why == gateway.QueueFull {
		return true // perhaps before anything was planned
	}
	for _, c := range r.plan.Ranked {
		if c.Ruling.Layer != gateway.LayerRoute {
			return true
		}
	}
	return false // nothing that this caller may use could ever have served it
}

// translate makes the history speak of another pool's candidates. What that pool does not know keeps its cost and is
// otherwise nobody: candidates there are numbered from 0.
func (r *run) translate(to *plan.Pool) {
	for i := range r.history {
		t := &r.history[i]
		c := r.job.Pool.Candidates[t.ID].Candidate
		r.before = append(r.before, c)
		known := to.Known(c)
		t.ID, t.Target, t.Provider, t.Connection, t.Account, t.Model =
			known.ID, known.Target, known.Provider, known.Connection, known.Account, known.Model
	}
}

// tried is the candidate of the ith attempt, in whichever pool it was made.
func (r *run) tried(i int) gateway.Candidate {
	if i < len(r.before) {
		return r.before[i]
	}
	return r.job.Pool.Candidates[r.history[i].ID].Candidate
}

// ending is the error that the client gets. After a fallback it is the one of the pool that was asked for: that is what
// the client knows, and when that pool is back is when it should ask again.
func (r *run) ending(gerr *gateway.Error) *gateway.Error {
	if r.asked == nil || gerr == nil {
		return gerr
	}
	e := *r.asked
	e.Verbatim = nil
	how := " failed as well"
	if len(r.history) == len(r.before) {
		how = " is out as well"
	}
	e.Message += "; the emergency combo " + gateway.Quote(r.job.Pool.Name) + how
	if e.RetryAfter == 0 {
		e.RetryAfter = gerr.RetryAfter
	}
	return r.closeWith(&e)
}
