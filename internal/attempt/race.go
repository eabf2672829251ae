package attempt

import (
	"runtime/debug"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/resilience/verdict"
)

// raceMin is the least time a probe has for itself before the next candidate starts as well.
const raceMin = 2 * time.Second

// race flies a probe. When it shows no content within max(2 s, its learned p95), the next candidate starts beside it;
// the first content wins and the other is cancelled. So the user whose request pays for a probe loses two seconds at
// most.
func (r *run) race(probe *flight, step next.Step) *flight {
	results := make(chan *flight, 2)
	r.launched(probe, step)
	r.start(probe, results)
	after := max(raceMin, r.p95(probe))
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case f := <-results:
		return r.landed(f)
	case <-timer.C:
	}
	second := r.second()
	if second == nil {
		return r.landed(<-results)
	}
	r.start(second, results)
	first := <-results
	if !first.ready {
		r.landed(first)
		return r.landed(<-results)
	}
	loser := probe
	if first == probe {
		loser = second
	}
	loser.cancel(errRaceLost)
	if late := <-results; late.ready {
		late.lose()
	}
	r.ended(loser, &r.history[loser.slot])
	return r.landed(first)
}

// second admits the candidate that starts beside a probe; nil when there is none.
func (r *run) second() *flight {
	step := r.decide(true)
	if step.Do != next.TryNow || step.Delay > 0 {
		return nil
	}
	f := r.admit(step)
	if f == nil || f.probe { // two trials at once would leave the request without a sure one
		if f != nil {
			f.abandon()
		}
		return nil
	}
	r.launched(f, step)
	return f
}

// start flies beside the run. A panic there must not take the process with it: net/http guards only its own goroutines.
func (r *run) start(f *flight, results chan<- *flight) {
	f.raced = true
	r.flights.Go(func() {
		defer func() {
			if p := recover(); p != nil { // fly has given everything back and judged it as our own fault
				r.engine.Log.Error("an attempt panicked", "request", r.job.Journey.ID, "panic", p, "stack", string(debug.Stack()))
			}
			results <- f
		}()
		f.fly()
	})
}

func (r *run) p95(f *flight) time.Duration {
	env := r.job.Envelope
	return f.candidate.Health.Learned(env.Stream, len(env.Raw), f.attempt.BeganAt).P95
}

// lose ends a flight that had its head but was slower than the other.
func (f *flight) lose() {
	f.end(verdict.Evidence{RaceLost: true})
	f.release()
}

// abandon gives back a flight that was never sent.
func (f *flight) abandon() {
	now := time.Now()
	f.permits.record(untouched(now), now)
	f.cancel(errDone)
}
