package attempt

import (
	"fmt"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/resilience/queue"
)

// pause sleeps before an attempt; it reports false when the client left meanwhile. Who stands in line lets the others
// look meanwhile.
func (r *run) pause(d time.Duration, why gateway.Reason) bool {
	began := time.Now()
	if r.waiter != nil {
		r.waiter.Pass()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.parent.Done():
	}
	r.paused(began, why)
	return r.parent.Err() == nil
}

// paused notes a pause in the decision log; pauses that follow one another for one reason are one.
func (r *run) paused(began time.Time, why gateway.Reason) {
	d := time.Since(began)
	r.queued += d
	j := r.job.Journey
	if n := len(j.Waits); n > 0 && r.waiter != nil && r.waiting == why {
		j.Waits[n-1].For = time.Since(j.Waits[n-1].At)
		return
	}
	r.waiting = why
	j.Waits = append(j.Waits, gateway.Wait{At: began, Reason: why, For: d})
}

// wait stands in the pool's line until something changed or the step's time has come. A request keeps its place over
// several looks and leaves the line when it has a permit.
func (r *run) wait(step next.Step) *gateway.Error {
	began := time.Now()
	if step.Transient && r.waiter == nil && step.Why != gateway.RetryBudget { // many such waits are short ones, for one cause
		r.waits++
	}
	if step.Prefer > 0 {
		if r.preferred == nil {
			r.preferred = map[int]bool{}
		}
		r.preferred[step.Prefer-1] = true
	}
	if step.Prefer > 0 || len(step.Set) == 0 { // for one known instant: there is no line to stand in
		r.pause(time.Until(step.Until), step.Why)
		if step.Transient {
			r.waited += time.Since(began)
		}
		return nil // the loop sees when the client left
	}
	limit := r.waitLimit(step, began)
	if step.Else && !limit.IsZero() && !step.Until.Before(limit) {
		r.pause(time.Until(step.Until), step.Why)
		return nil
	}
	if at, late := r.tooLate(step, limit); late {
		return r.queueFull(at.Sub(began), "the rates of every account that serves this model are used up for longer than this request may wait")
	}
	if gerr := r.joinQueue(step, began); gerr != nil {
		if step.Else {
			r.pause(time.Until(step.Until), step.Why)
			return nil
		}
		return gerr
	}
	err := r.waiter.Wait(r.parent, step.Until, limit)
	r.paused(began, step.Why)
	if step.Transient {
		r.waited += time.Since(began)
	}
	if err != nil && r.parent.Err() == nil && !step.Transient && !step.Else {
		return r.queueTimeout()
	}
	return nil
}

// joinQueue enters the pool's line, once. It is refused at once when the line is too long or the computed wait is longer
// than what the request has left.
func (r *run) joinQueue(step next.Step, now time.Time) *gateway.Error {
	if r.waiter != nil {
		return nil
	}
	set := make([]int, len(step.Set))
	for i, id := range step.Set {
		set[i] = r.job.Pool.Candidates[id].Gate.Key()
	}
	entry := queue.Entry{Key: r.job.Journey.ClientKey, Set: set, Connections: 1, Until: r.deadline, Blind: r.unproven()}
	w, refused := r.engine.Queues.Pool(r.job.Pool.Name).Join(entry, r.job.Queue, now)
	if refused != nil {
		return r.queueFull(refused.RetryAfter, fmt.Sprintf("%d requests already wait for this model", refused.Depth))
	}
	r.waiter = w
	if cb := r.engine.Events.Waiting; cb != nil {
		cb(1)
	}
	return nil
}

// waitLimit is when a wait ends for good: max_wait of the queue for something full or paced, the budget of waits for
// something that is out.
func (r *run) waitLimit(step next.Step, now time.Time) time.Time {
	if !step.Transient {
		return r.job.Queue.WaitUntil(r.deadline, r.began)
	}
	limit := now.Add(min(r.job.Walk.WaitBudget-r.waited, r.job.Walk.MaxWait))
	if !r.deadline.IsZero() && r.deadline.Before(limit) {
		return r.deadline
	}
	return limit
}

// behindOthers reports whether an earlier request waits in line for this candidate: then this one joins the line
// instead of overtaking.
func (r *run) behindOthers(id int) bool {
	if !r.engine.Queues.Busy() {
		return false
	}
	set := [1]int{r.job.Pool.Candidates[id].Gate.Key()}
	return r.engine.Queues.Pool(r.job.Pool.Name).Ahead(set[:])
}

// leaveServed leaves the line with a permit for candidate taken. It tells what is refused now, so that the next in line need
// not look, only to find the same.
func (r *run) leaveServed(taken int) {
	if r.waiter == nil {
		return
	}
	var room [16]int
	if refused, until := r.spent(room[:0], taken); len(refused) > 0 {
		r.waiter.LeaveSpent(refused, until)
	} else {
		r.waiter.Leave(true)
	}
	r.outOfLine()
}

// spent appends what is refused, to everybody alike and after candidate taken was taken: for want of a slot, for a rest, for
// a broken service. until is how long that may hold at least; zero = unknown. Where anything else could be taken, it tells
// nothing.
func (r *run) spent(keys []int, taken int) (refused []int, until time.Time) {
	if r.job.Allowed != nil || r.plan.Pinned() {
		return nil, until // it sees less than others
	}
	for i := range r.plan.Ranked {
		if c := r.plan.Ranked[i]; c.Ruling.OK() && c.ID != taken {
			return nil, until
		}
	}
	ask, now := r.ask, time.Now()
	ask.Fallbacks = 0
	for _, c := range r.job.Pool.Candidates {
		ruling := c.Peek(&ask, now)
		if !alike(ruling) {
			continue
		}
		keys = append(keys, c.Gate.Key())
		if until.IsZero() || !ruling.Until.IsZero() && ruling.Until.Before(until) {
			until = ruling.Until
		}
	}
	return keys, until
}

// alike reports whether a ruling refuses every request, whatever it asks for.
func alike(ruling resilience.Ruling) bool {
	switch ruling.Reason {
	case gateway.ConcurrencyFull, gateway.CircuitOpen, gateway.ProbeBusy, gateway.ConnectionCooldown, gateway.ModelLockout:
		return !ruling.OK()
	case gateway.Paced:
		return !ruling.OK() && ruling.Until.IsZero() // else by a rate, perhaps of tokens, of which another request needs fewer
	}
	return false
}

// leaveQueue leaves the line for good, without what was waited for.
func (r *run) leaveQueue() {
	if r.waiter == nil {
		return
	}
	r.waiter.Leave(false)
	r.outOfLine()
}

func (r *run) outOfLine() {
	r.waiter, r.waiting = nil, gateway.ReasonNone // the next wait is another one
	if cb := r.engine.Events.Waiting; cb != nil {
		cb(-1)
	}
}
