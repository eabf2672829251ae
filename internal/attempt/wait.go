package attempt

import (
	"context"
	"fmt"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
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
	ctx, cancel := r.parent, context.CancelFunc(nil)
	if !limit.IsZero() {
		ctx, cancel = context.WithDeadline(r.parent, limit)
		defer cancel()
	}
	err := r.waiter.Wait(ctx, step.Until)
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

func (r *run) leaveQueue(served bool) {
	if r.waiter == nil {
		return
	}
	r.waiter.Leave(served)
	r.waiter, r.waiting = nil, gateway.ReasonNone // the next wait is another one
	if cb := r.engine.Events.Waiting; cb != nil {
		cb(-1)
	}
}
