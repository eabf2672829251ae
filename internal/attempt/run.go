package attempt

import (
	"context"
	"slices"
	"sync"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/resilience"
	"spillway/internal/resilience/lane"
	"spillway/internal/resilience/queue"
)

// run is one request on its way. It belongs to one goroutine; only flights of a race run beside it.
type run struct {
	engine *Engine
	job    *Job
	parent context.Context
	began  time.Time
	budget *budget
	jitter func() float64

	plan      *plan.Plan
	session   session
	ask       resilience.Ask
	history   []next.Try
	first     [1]next.Try    // where history stands while it is short
	flights   sync.WaitGroup // raced ones
	waiter    *queue.Waiter
	waits     int
	waited    time.Duration // for transient reasons
	queued    time.Duration // all pauses
	upstream  time.Duration // spent waiting for upstreams
	preferred map[int]bool
	waiting   gateway.Reason // of the wait that is going on
	deadline  time.Time
	lastError *flight // the last attempt that failed with an upstream's answer
	refused   resilience.Ruling

	laneWaited time.Duration // for slots in a slow lane

	walkAt time.Time           // when the walk over the present pool began
	noted  bool                // what the present pool's first plan left out is in the decision log
	asked  *gateway.Error      // of the pool that was asked for, once the request went on over the emergency combo
	before []gateway.Candidate // of the attempts in that pool
}

// close gives back what the request holds, however it ends.
func (r *run) close() {
	r.flights.Wait()
	r.leaveQueue()
	if r.plan != nil {
		r.plan.Close()
	}
	if cb := r.engine.Events.Emergency; cb != nil && r.asked != nil {
		cb(!r.job.Journey.Committed.IsZero())
	}
}

func (r *run) loop() *gateway.Error {
	j := r.job.Journey
	crowd := r.crowded()
	if crowd != nil && r.job.Emergency == nil {
		return crowd
	}
	r.plan = r.job.Pool.Open()
	r.plan.Want(r.job.Envelope, envelope.Asks)
	r.ask = resilience.Ask{Request: j.ID, ClientKey: j.ClientKey, Tokens: r.job.Envelope.Tokens}
	if d := r.job.Timeouts.Request; d > 0 {
		r.deadline = r.began.Add(d)
		r.ask.Deadline = r.deadline
	}
	j.PoolSize = len(r.job.Pool.Candidates)
	if gerr := r.recognize(r.began); gerr != nil {
		return gerr
	}
	if crowd != nil && !r.fallBack(gateway.QueueFull, crowd) {
		return r.closeWith(crowd)
	}
	for range maxSteps {
		if r.parent.Err() != nil {
			return r.clientGone()
		}
		step := r.decide(false)
		switch step.Do {
		case next.Fail:
			if gerr := r.fail(step.Why); !r.fallBack(step.Why, gerr) {
				return gerr
			}
		case next.WaitUntil:
			if gerr := r.wait(step); gerr != nil && !r.fallBack(gateway.QueueFull, gerr) {
				return gerr
			}
		case next.TryNow:
			if won := r.try(step); won != nil {
				return r.deliver(won)
			}
		}
	}
	r.engine.Log.Error("a request took more steps than any plan needs", "request", j.ID, "pool", r.job.Pool.Name)
	return r.fail(gateway.AttemptsSpent)
}

// maxSteps is a stop for the case that decisions stop making progress: far above what budgets and waits allow.
const maxSteps = 2000

// decide plans again and asks the walk.
func (r *run) decide(racing bool) next.Step {
	now := time.Now()
	walk := r.job.Walk
	r.patient(&walk)
	r.ask.Waited = r.queued
	r.ask.AttemptsLeft = next.Left(&walk, r.history)
	r.plan.Make(&r.ask, r.job.Allowed, now)
	if !r.noted {
		r.noted = true
		r.noteExcluded()
		r.noteDemoted()
	}
	tokens, in, success := r.budget.view(now)
	s := next.State{
		Config: walk, Now: now, BeganAt: r.walkAt, Deadline: r.deadline, Candidates: r.plan.Ranked, History: r.history,
		LastSuccess: success, Tokens: tokens, TokenIn: in, Waits: r.waits, WaitedFor: r.waited, Preferred: r.preferred,
		Jitter: r.jitter(), Racing: racing,
	}
	if r.waiter != nil && s.Waits > 0 {
		s.Waits-- // the wait that is going on is not one more
	}
	step := next.Decide(&s)
	if step.Do == next.TryNow && r.waiter == nil && !racing && r.behindOthers(step.ID) {
		return next.Step{Do: next.WaitUntil, Set: []int{step.ID}, Why: gateway.WaitForSlot}
	}
	return step
}

// noteExcluded writes into the decision log what the first plan left out.
func (r *run) noteExcluded() {
	r.roomForExcluded()
	for _, e := range r.job.Pool.Excluded {
		r.job.Journey.Exclude(e)
	}
	for _, c := range r.plan.Ranked {
		if !c.Ruling.OK() {
			r.job.Journey.Exclude(r.exclusion(c.ID, c.Ruling))
		}
	}
}

// roomForExcluded makes the list as long as it will be, once.
func (r *run) roomForExcluded() {
	n := len(r.job.Pool.Excluded)
	for _, c := range r.plan.Ranked {
		if !c.Ruling.OK() {
			n++
		}
	}
	j := r.job.Journey
	j.Excluded = slices.Grow(j.Excluded, min(n, gateway.MaxExcluded))
}

func (r *run) exclusion(id int, ruling resilience.Ruling) gateway.Exclusion {
	c := r.job.Pool.Candidates[id]
	return gateway.Exclusion{Target: c.Candidate.Target(), Connection: c.Candidate.Connection.ID, Layer: ruling.Layer,
		Reason: ruling.Reason, Until: ruling.Until}
}

// try makes the attempt that a step asks for and returns the flight that is ready to be delivered, or nil when the walk
// goes on.
func (r *run) try(step next.Step) *flight {
	if !r.pay(step) {
		return nil // others have taken what was left of the retry budget since the look: plan again
	}
	if step.Delay > 0 && (!r.pause(step.Delay, step.Why) || r.overtaken(step)) {
		r.unpaid(step)
		return nil
	}
	f := r.admit(step)
	if f == nil {
		r.unpaid(step)
		return nil // lost the candidate between the look and the taking: plan again
	}
	r.leaveServed(step.ID)
	if f.probe && (r.plan.Fallbacks(f.candidate.ID) > 0 || r.busyLeft(f.candidate.ID, f.attempt.BeganAt)) {
		return r.race(f, step)
	}
	r.launched(f, step)
	f.fly()
	won := r.landed(f)
	for won == nil && f.again.Do == lane.Again {
		if f = r.repeat(f); f == nil {
			return nil
		}
		f.fly()
		won = r.landed(f)
	}
	return won
}

// isFirst reports whether the attempt that is to be made is the first one in the present pool, which costs no token.
func (r *run) isFirst() bool { return len(r.history) == r.job.Walk.Earlier }

// pay takes a token of the retry budget for an attempt that repeats a provider, before any pause: all who fail together
// see the same tokens, and would all come back with them.
func (r *run) pay(step next.Step) bool {
	return !step.Repeat || r.isFirst() || r.budget.take(time.Now())
}

// unpaid gives it back: the attempt is not made.
func (r *run) unpaid(step next.Step) {
	if step.Repeat && !r.isFirst() {
		r.budget.back()
	}
}

// overtaken reports whether others have failed at the candidate while this request paused before asking it again: then
// what looked like a hiccup is none, and the walk decides anew.
func (r *run) overtaken(step next.Step) bool {
	if step.Why != gateway.SameAgain {
		return false
	}
	return r.job.Pool.Candidates[step.ID].Peek(&r.ask, time.Now()).Weak
}

// launched notes a dispatch in the history, and what the attempt has to know of the request: from here on it may fly
// beside the run, which goes on writing.
func (r *run) launched(f *flight, step next.Step) {
	now := f.attempt.BeganAt
	if r.isFirst() {
		r.budget.first(now)
	}
	c := f.candidate
	f.slot = len(r.history)
	f.attempt.N = f.slot + 1
	f.attempt.Why = r.reason(c.ID, step.Why)
	r.history = append(r.history, next.Try{ID: c.ID, Target: c.Target, Provider: c.Provider, Connection: c.Connection,
		Account: c.Account, Model: c.Model, Live: true, Probe: f.probe})
	f.untried = r.untriedLeft(c.ID)
	r.plan.Used(c.ID)
}

// landed takes a flight that has its head or has ended. It returns the flight when it can be delivered.
func (r *run) landed(f *flight) *flight {
	t := &r.history[f.slot]
	if f.ready {
		at := f.attempt.ContentAt
		if at.IsZero() { // an answer without content that is an answer all the same: a refusal, a token limit
			at = time.Now()
		}
		r.upstream += at.Sub(f.attempt.BeganAt)
		return f
	}
	r.ended(f, t)
	r.upstream += f.attempt.EndedAt.Sub(f.attempt.BeganAt)
	if f.outcome.Failed() || f.outcome.Kind == gateway.Alive || f.outcome.Kind == gateway.ContentRefused ||
		f.outcome.Kind == gateway.InvalidResult {
		r.lastError = f
	}
	return nil
}

// ended writes a flight's outcome into history and journey.
func (r *run) ended(f *flight, t *next.Try) {
	t.Live = false
	t.Outcome = f.outcome
	if f.outcome.RetryAfter > 0 {
		t.BackAt = f.outcome.EndedAt.Add(f.outcome.RetryAfter)
	}
	r.job.Journey.Attempts = append(r.job.Journey.Attempts, f.attempt)
	if cb := r.engine.Events.Attempt; cb != nil {
		cb(f.candidate.Candidate, &f.attempt)
	}
}
