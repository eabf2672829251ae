package attempt

import (
	"runtime/debug"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/resilience/verdict"
)

// raceMin is the least time a probe has for itself before the next candidate starts as well.
const raceMin = 2 * time.Second

// raceAgain is how often it is looked whether another candidate, that was busy, can start by now.
const raceAgain = 250 * time.Millisecond

// race flies a probe. When it shows no content within max(2 s, its learned p95), the next candidate starts beside it, as
// soon as one can; the first content wins and the other is cancelled. So the user whose request pays for a probe loses
// two seconds at most, or the time for which everybody has to wait.
func (r *run) race(probe *flight, step next.Step) *flight {
	results := make(chan *flight, 2)
	var second *flight
	over := false
	defer func() {
		if !over {
			r.callOff(probe, second)
		}
	}()
	r.launched(probe, step)
	r.start(probe, results)
	won := r.finish(probe, &second, results)
	over = true
	return won
}

// callOff ends what is in the air when the run panics in the middle of a race: nobody is left to take the results.
func (r *run) callOff(flights ...*flight) {
	for _, f := range flights {
		if f != nil {
			f.cancel(errDone)
		}
	}
	r.flights.Wait()
	for _, f := range flights {
		if f != nil {
			f.release()
		}
	}
}

// finish waits for the probe, and for the second flight once one can start.
func (r *run) finish(probe *flight, beside **flight, results chan *flight) *flight {
	after := max(raceMin, r.p95(probe))
	timer := time.NewTimer(after)
	defer timer.Stop()
	for *beside == nil {
		select {
		case f := <-results:
			return r.landed(f)
		case <-timer.C:
		}
		var later bool
		if *beside, later = r.second(); *beside == nil && !later {
			return r.landed(<-results)
		}
		timer.Reset(raceAgain)
	}
	second := *beside
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

// second admits the candidate that starts beside a probe. Without one, later tells whether one may come free.
func (r *run) second() (f *flight, later bool) {
	step := r.decide(true)
	if step.Do == next.Fail {
		return nil, false
	}
	if step.Do != next.TryNow || step.Delay > 0 {
		return nil, true
	}
	if !r.pay(step) {
		return nil, true
	}
	f = r.admit(step)
	if f == nil || f.probe { // two trials at once would leave the request without a sure one
		r.unpaid(step)
		if f != nil {
			f.abandon()
		}
		return nil, true
	}
	r.launched(f, step)
	return f, false
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
