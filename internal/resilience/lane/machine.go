package lane

import (
	"time"

	"spillway/internal/gateway"
)

// Do is what an attempt does next.
type Do uint8

// The three things. Pass: the answer is judged as any other. Again: the same account is asked again, after a wait. AskReset:
// ask the provider for a reset first, and tell the room what came of it.
const (
	Pass Do = iota
	Again
	AskReset
)

// Move is the decision about one answer.
type Move struct {
	Do    Do
	After time.Duration  // Again: how long to wait
	Was   gateway.Reason // Again: what the attempt has met
	Why   gateway.Reason // Again: why the next one is made
}

// phase is where the lane of a connection is.
type phase uint8

const (
	off    phase = iota // no wall so far, or it is long over
	active              // requests carry the slow header
	held                // over, and no offer is accepted for a while
)

var phaseNames = [...]string{"off", "slow_lane", "held"}

// state is what is known about one connection. The zero value is off.
type state struct {
	Phase phase
	Until time.Time // active: the turn of the window; held: when offers are accepted again
	Why   string    // of the last end

	ResetAt time.Time // when a reset may be claimed again
	ClaimTo time.Time // one is being claimed, at most until then
}

// event is one answer, and what the attempt's request may still do.
type event struct {
	Answer
	Slow    bool          // the request went in the slow lane
	Waited  time.Duration // so long has this request waited for slots
	Left    time.Duration // of its deadline; 0 = it has none
	Again   bool          // it may make another attempt here
	Jitter  float64       // in [0,1)
	Now     time.Time
	NoClaim bool // a reset has been asked for already
}

// rules are what the operator wants, on the provider's terms.
type rules struct {
	*Terms
	LowPriority bool
	AutoReset   bool
}

// turned is the state at now: windows turn and holds end by themselves.
func (r *rules) turned(s state, now time.Time) state {
	if s.Phase == active && !now.Before(s.Until) {
		s = r.end(s, "window_turn", s.Until)
	}
	if s.Phase == held && !now.Before(s.Until) {
		s.Phase, s.Until = off, time.Time{}
	}
	return s
}

// end leaves the lane and accepts no offer for a while.
func (r *rules) end(s state, why string, now time.Time) state {
	s.Phase, s.Until, s.Why = held, now.Add(r.Hold), why
	return s
}

// answered decides about one answer.
func (r *rules) answered(s state, e event) (state, Move) {
	s = r.turned(s, e.Now)
	if s.Phase == active {
		return r.inLane(s, e)
	}
	if !e.Wall || !e.Again {
		return s, Move{}
	}
	if r.AutoReset && !e.NoClaim && !e.Now.Before(s.ResetAt) && !e.Now.Before(s.ClaimTo) {
		s.ClaimTo = e.Now.Add(r.ClaimLease)
		return s, Move{Do: AskReset}
	}
	if !r.LowPriority || s.Phase == held || !e.Offered || e.End != "" || e.ResetAt.IsZero() {
		return s, Move{}
	}
	s.Phase, s.Why = active, ""
	s.Until = soonest(e.ResetAt.Add(r.Grace), e.Now.Add(r.SpentMost))
	return s, Move{Do: Again, Was: gateway.UsageWall, Why: gateway.SlowLane}
}

// inLane decides about an answer while the lane is open. An answer to a request that left before it was opened is the
// wall once more, and goes into the lane as well.
func (r *rules) inLane(s state, e event) (state, Move) {
	switch {
	case e.End != "":
		s = r.end(s, e.End, e.Now)
		if e.Spent && !e.ResetAt.IsZero() {
			s.Until = later(s.Until, soonest(e.ResetAt, e.Now.Add(r.SpentMost)))
		}
		return s, Move{}
	case !e.Slow:
		if e.Wall && e.Again {
			return s, Move{Do: Again, Was: gateway.UsageWall, Why: gateway.SlowLane}
		}
		return s, Move{}
	case e.Busy:
		return r.busy(s, e)
	case e.Wall: // refused although it came in the lane, and nothing says why
		return r.end(s, "refused", e.Now), Move{}
	}
	return s, Move{}
}

// busy waits for a slot, as long as the provider and the request allow; then the lane is over.
func (r *rules) busy(s state, e event) (state, Move) {
	if !e.Again {
		return s, Move{} // a bound of the request, which says nothing about the lane
	}
	wait := r.Wait
	if e.Wait > 0 {
		wait = clamp(e.Wait, r.WaitLeast, r.WaitMost)
	}
	wait = clamp(time.Duration(float64(wait)*(1-r.Jitter+2*r.Jitter*e.Jitter)), r.WaitLeast, r.WaitMost)
	most := r.MaxWait
	if e.MaxWait > 0 {
		most = clamp(e.MaxWait, r.MaxWaitLeast, r.MaxWaitMost)
	}
	if e.Waited+wait > most || e.Left > 0 && wait > e.Left-r.Margin {
		return r.end(s, "max_wait", e.Now), Move{}
	}
	return s, Move{Do: Again, After: wait, Was: gateway.LaneBusy, Why: gateway.SlowLane}
}

// claimed takes in what came of a claim; without a reset the wall is what it was.
func (r *rules) claimed(s state, c Claim, e event) (state, Move) {
	s.ClaimTo = time.Time{}
	switch {
	case c.Failed, c.Done && c.Kept:
		s.ResetAt = e.Now.Add(r.ClaimFailed) // not at every wall
	case c.NextAt.After(e.Now):
		s.ResetAt = soonest(c.NextAt, e.Now.Add(4*r.ClaimAgain))
	default:
		s.ResetAt = e.Now.Add(r.ClaimAgain)
	}
	if c.Done {
		if s.Phase == active { // the wall is gone, and the lane with it
			s = r.end(s, "limit_reset", e.Now)
		}
		return s, Move{Do: Again, Was: gateway.UsageWall, Why: gateway.LimitReset}
	}
	e.NoClaim = true
	return r.answered(s, e)
}

func clamp(d, least, most time.Duration) time.Duration { return min(max(d, least), most) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// soonest is the earlier of two instants, of which the first may be unknown.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
