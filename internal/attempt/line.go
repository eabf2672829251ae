package attempt

import (
	"fmt"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Why a request may not stand in line, or stood in it for nothing. The reason given is the true one: what the candidates
// said when they were last asked.

// crowded refuses a request at the door when the line of its pool is as long as it may be, before anything else is done
// for it: it could only stand behind the others.
func (r *run) crowded() *gateway.Error {
	if !r.engine.Queues.Busy() {
		return nil
	}
	line := r.engine.Queues.Pool(r.job.Pool.Name)
	if !line.Full(r.job.Queue, 1) {
		return nil
	}
	wait, _ := line.Estimate(r.job.Journey.ClientKey, time.Now())
	r.job.Journey.PoolSize = len(r.job.Pool.Candidates)
	r.job.Journey.Exclude(gateway.Exclusion{Layer: gateway.LayerPacing, Reason: gateway.QueueFull})
	wait = max(wait, time.Second)
	return r.closeWith(&gateway.Error{Code: gateway.RateLimitQueueFull, RetryAfter: wait,
		Message: fmt.Sprintf("%d requests already wait for this model, which is as many as may", line.Len()),
		Next:    fmt.Sprintf("Try again in %s, or add another connection for this model.", wait.Round(time.Second))})
}

// tooLate reports when the first of the candidates can run, if the rates of all of them say that this is not before the
// request has to give up. What may change by an event is waited for: a slot, a first content.
func (r *run) tooLate(step next.Step, limit time.Time) (at time.Time, late bool) {
	if limit.IsZero() || step.Transient || step.Else || step.Until.IsZero() || step.Until.Before(limit) {
		return at, false
	}
	for _, id := range step.Set {
		switch c := r.plan.Ruling(id); {
		case c.Until.IsZero(), c.Reason != gateway.Paced && c.Reason != gateway.QuotaPreflight:
			return at, false
		}
	}
	return step.Until, true
}

// unproven reports whether no candidate of the pool has proven itself: then nobody knows how fast the pool serves, and
// the caps of the unproven give way with the time that the request itself has waited.
func (r *run) unproven() bool { return !r.plan.Proven && len(r.job.Pool.Candidates) > 1 }

// queueFull is the error of a request that may not stand in line. What an upstream said to it before is more useful.
func (r *run) queueFull(wait time.Duration, message string) *gateway.Error {
	if r.lastError != nil {
		return r.fail(gateway.QueueFull)
	}
	code := gateway.RateLimitQueueFull
	if r.only(gateway.ConcurrencyFull) {
		code = gateway.SemaphoreQueueFull
	}
	d, earliest := r.diagnose(time.Now())
	e := &gateway.Error{Code: code, RetryAfter: max(wait, time.Second), Diagnostics: d, Next: d.Next, Message: message}
	if wait == 0 && !earliest.IsZero() {
		e.RetryAfter = max(time.Until(earliest), time.Second)
	}
	return r.closeWith(e)
}

// queueTimeout is the error of a request that stood in line for as long as it may.
func (r *run) queueTimeout() *gateway.Error {
	if r.lastError != nil {
		return r.fail(gateway.DeadlinePassed)
	}
	code, waited := gateway.QueueWaitTimeout, r.queued.Round(time.Millisecond)
	message := fmt.Sprintf("nothing became free within %s", waited)
	switch {
	case r.only(gateway.ConcurrencyFull):
		code, message = gateway.SemaphoreTimeout, fmt.Sprintf("no slot became free within %s", waited)
	case r.only(gateway.Unproven):
		message = fmt.Sprintf("no source of this model has begun to answer within %s; each is sent only a few requests until it does", waited)
	case r.only(gateway.Paced), r.only(gateway.QuotaPreflight):
		message = fmt.Sprintf("the rates of every account that serves this model were used up for %s", waited)
	}
	d, earliest := r.diagnose(time.Now())
	return r.closeWith(&gateway.Error{Code: code, Diagnostics: d, Next: d.Next, Message: message,
		RetryAfter: max(time.Until(earliest), time.Second)})
}

// only reports whether one reason alone is what holds the request back.
func (r *run) only(why gateway.Reason) bool {
	found := false
	for _, c := range r.plan.Ranked {
		if c.Ruling.Verdict == resilience.Delayed {
			if c.Ruling.Reason != why {
				return false
			}
			found = true
		}
	}
	return found
}

// timedOut is the code of an attempt that one of the clocks ended: timeouts.total is the longest that a call may run.
func timedOut(f *flight) gateway.Code {
	if f.outcome.Reason != gateway.TotalTimeout {
		return gateway.UpstreamTimeout
	}
	limit := f.candidate.Candidate.Connection.Timeouts.Total
	if limit > 0 && f.outcome.EndedAt.Sub(f.outcome.BeganAt) >= limit {
		return gateway.ExecutionTimeout
	}
	return gateway.UpstreamTimeout // it was stream_total
}
