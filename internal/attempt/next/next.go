// Package next is the walk: given the plan, what was tried so far and the time, it says what a request does next: try a
// candidate, wait, or fail. It is a pure function, shared by the real attempt loop and the simulator, and the only place
// where "where to go after this failure" is decided. Source: resilience.md section 9.
package next

import (
	"slices"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Candidate is one candidate of the plan as the walk sees it. Candidates come in rank order, best first. Identities
// are small integers that are equal exactly when the things are the same.
type Candidate struct {
	ID         int // stable within the request
	Target     int // index of the target in the route: the preference class of an ordered strategy
	Provider   int
	Connection int
	Account    int
	Model      int
	Ruling     resilience.Ruling
	Health     float64 // success of this candidate, 0..1
	Faltered   bool    // its last attempt, by whichever request, failed
	Trial      bool    // the breaker asks for this attempt as a probe: it will more likely fail than not
	// Cause is the kind of outcome that put a candidate out by cooldown or lockout; meaningless otherwise.
	Cause gateway.Kind
}

// Try is an attempt of this request, ended or (Live) still running.
type Try struct {
	ID, Target, Provider, Connection, Account, Model int

	Live    bool
	Probe   bool
	Outcome gateway.Outcome
	BackAt  time.Time // when its hint says it is back; zero = no hint
}

// Config are the settings of the walk.
type Config struct {
	Ordered         bool          // ordered strategy: the preferred target is worth a second try and a short wait
	AttemptLimit    int           // attempts that cost, over the whole request
	AttemptMax      int           // attempts of any kind (combo option failover.max_attempts); 0 = no such bound
	ContentFailover bool          // a content refusal goes to the next candidate instead of stopping the walk
	ExcludeStatus   []int         // statuses that are returned at once
	StallWindow     time.Duration // 429s end after this long without a success in the pool
	PreferWait      time.Duration
	WaitsEnabled    bool
	MaxWait         time.Duration // longest single wait for something that is out for a transient reason
	MaxWaits        int
	WaitBudget      time.Duration // sum of such waits
	// Earlier is how many attempts of the history another walk of this request made, over another pool: what they cost and
	// whom they blame counts, but this walk goes on from none of them and its AttemptMax does not bound them.
	Earlier int
	// Kept is how many attempts of the request's budget are kept for another walk, beyond AttemptLimit.
	Kept int
}

// State is everything the walk may look at.
type State struct {
	Config
	Now          time.Time
	BeganAt      time.Time
	Deadline     time.Time
	Candidates   []*Candidate // in rank order; only read
	History      []Try        // in order of dispatch
	LastSuccess  time.Time    // of the pool, any request; zero = never
	Tokens       float64      // retry budget of the pool
	TokenIn      time.Duration
	Waits        int // waits for transient reasons so far
	WaitedFor    time.Duration
	Preferred    map[int]bool // targets already waited for once
	WindowLarger func(from, to int) bool
	Jitter       float64 // in [0,1), for this decision
	Racing       bool    // an attempt is running; only another candidate may start beside it
}

// Do is what to do.
type Do uint8

// The three things a request can do.
const (
	TryNow Do = iota
	WaitUntil
	Fail
)

// Step is the decision. For TryNow: ID and, when the attempt must not begin at once, Delay. For WaitUntil: Until (zero
// = only an event can help) and Set, the candidates waited for; without a Set nothing but that instant is waited for.
// For Fail: Why alone.
type Step struct {
	Do        Do
	ID        int
	Delay     time.Duration
	Until     time.Time
	Set       []int
	Why       gateway.Reason
	Transient bool // the wait counts against waits (something is out), not against the queue (something is full)
	Repeat    bool // the attempt repeats a provider already tried in this request: it costs a retry token
	Prefer    int  // WaitUntil for the preferred target: its index + 1
	Else      bool // WaitUntil: something else can be tried afterwards, so the line's own limits end nothing
}

// Decide is the walk.
func Decide(s *State) Step {
	if stop, why := s.stops(); stop {
		return Step{Do: Fail, Why: why}
	}
	if Left(&s.Config, s.History) <= 0 {
		return Step{Do: Fail, Why: gateway.AttemptsSpent}
	}
	if !s.Deadline.IsZero() && !s.Now.Before(s.Deadline) {
		return Step{Do: Fail, Why: gateway.DeadlinePassed}
	}
	if s.stalled() {
		return Step{Do: Fail, Why: gateway.StallWindow}
	}
	if step, ok := s.sameAgain(); ok {
		return step
	}
	return s.walk()
}

// stops says whether the last outcome ends the walk: the caller's fault, a refusal, a status to be returned at once.
func (s *State) stops() (bool, gateway.Reason) {
	last := s.last()
	if last == nil {
		return false, 0
	}
	if slices.Contains(s.ExcludeStatus, last.Outcome.Status) {
		return true, gateway.StatusExcluded
	}
	switch last.Outcome.Kind {
	case gateway.ContentRefused:
		return !s.ContentFailover, gateway.StopHere
	case gateway.Alive, gateway.InvalidResult:
		switch last.Outcome.Reason {
		case gateway.ContextTooLong:
			return !s.anyFits(last), gateway.StopHere
		case gateway.CapabilityRefused:
			return s.refusedBefore(last) || !s.anyOtherTarget(last), gateway.StopHere
		}
		return true, gateway.StopHere
	case gateway.Canceled:
		return last.Outcome.Reason == gateway.ClientGone, gateway.ClientGone
	}
	return false, 0
}

// last is the attempt that ended last; nil when none has.
func (s *State) last() *Try {
	var last *Try
	for i := s.Earlier; i < len(s.History); i++ {
		t := &s.History[i]
		if t.Live || t.Outcome.Reason == gateway.RaceLost && t.Outcome.Kind == gateway.Canceled {
			continue
		}
		if last == nil || !t.Outcome.EndedAt.Before(last.Outcome.EndedAt) {
			last = t
		}
	}
	return last
}

// anyFits reports whether some candidate has another model with a larger or unknown window: the same model is never
// sent the same too long prompt again.
func (s *State) anyFits(last *Try) bool {
	for _, c := range s.Candidates {
		if s.fits(c) && c.Model != last.Model {
			return true
		}
	}
	return false
}

// fits reports whether a candidate may be sent this prompt, given the context refusals so far.
func (s *State) fits(c *Candidate) bool {
	for i := range s.History {
		t := &s.History[i]
		if t.Live || t.Outcome.Reason != gateway.ContextTooLong {
			continue
		}
		if t.Model == c.Model || s.WindowLarger != nil && !s.WindowLarger(t.ID, c.ID) {
			return false
		}
	}
	return true
}

func (s *State) refusedBefore(last *Try) bool {
	for i := range s.History {
		t := &s.History[i]
		if !t.Live && t.Outcome.Reason == gateway.CapabilityRefused && t.Target != last.Target &&
			t.Outcome.Quirk == last.Outcome.Quirk {
			return true
		}
	}
	return false
}

func (s *State) anyOtherTarget(last *Try) bool {
	for _, c := range s.Candidates {
		if c.Target != last.Target {
			return true
		}
	}
	return false
}

// Left is how many attempts a request may still make: of its budget, in which only some outcomes count, and of the
// combo's bound, in which all do.
func Left(c *Config, history []Try) int {
	left := c.AttemptLimit
	for i := range history {
		if history[i].Live || Costs(history[i].Outcome.Kind) {
			left--
		}
	}
	if c.AttemptMax > 0 {
		left = min(left, c.AttemptMax-len(history)+c.Earlier)
	}
	return left
}

// Costs reports whether an outcome of kind k uses up one attempt of the request's budget. 429 and what an account or a
// key did wrong is free: it is bounded by the stall window, and because the candidate is out afterwards. What went wrong
// on our side costs, because nothing else would end it.
func Costs(k gateway.Kind) bool {
	switch k {
	case gateway.ServiceError, gateway.Timeout, gateway.Slow, gateway.Stall, gateway.EmptyOutput, gateway.InvalidResult,
		gateway.LocalError:
		return true
	}
	return false
}

// stalled reports whether the pool has been refusing by rate for a whole stall window without one success.
func (s *State) stalled() bool {
	last := s.last()
	if last == nil || last.Outcome.Kind != gateway.RateLimited || s.StallWindow <= 0 {
		return false
	}
	since := s.BeganAt
	if s.LastSuccess.After(since) {
		since = s.LastSuccess
	}
	return s.Now.Sub(since) >= s.StallWindow
}

// Bounds of "the same candidate again, once".
const (
	quickFailure = 2 * time.Second
	againMin     = 200 * time.Millisecond
	againMax     = 500 * time.Millisecond
)

// sameAgain is rule 2: a service error that came at once, on the preferred candidate of an ordered strategy, is worth
// one more try after a moment. Not for a probe: its one attempt has answered the question; not for one that is degraded,
// which others have just asked again; not before the time that it asked for; not with an attempt that is kept for another provider.
func (s *State) sameAgain() (Step, bool) {
	last := s.last()
	if !s.Ordered || s.Racing || last == nil || last.Probe || last.Outcome.Kind != gateway.ServiceError {
		return Step{}, false
	}
	if last.Outcome.EndedAt.Sub(last.Outcome.BeganAt) > quickFailure || s.tries(last.ID) != 1 {
		return Step{}, false
	}
	c := s.find(last.ID)
	if c == nil || !s.runnable(c) || c.Ruling.Probe || c.Ruling.Weak {
		return Step{}, false
	}
	if scarce := s.inReserve() || Left(&s.Config, s.History) == 1; scarce && s.freshProvider() != nil {
		return Step{}, false
	}
	if s.firstOf(last) != last {
		return Step{}, false // one such courtesy per provider: the others are reached by failing over
	}
	delay := againMin + time.Duration(s.Jitter*float64(againMax-againMin)) - s.Now.Sub(last.Outcome.EndedAt)
	if !s.Deadline.IsZero() && s.Now.Add(delay).After(s.Deadline) || s.Tokens < 1 {
		return Step{}, false
	}
	return Step{Do: TryNow, ID: c.ID, Delay: max(delay, 0), Why: gateway.SameAgain, Repeat: true}, true
}

// firstOf is the first attempt of this request on the provider of t.
func (s *State) firstOf(t *Try) *Try {
	for i := range s.History {
		if s.History[i].Provider == t.Provider {
			return &s.History[i]
		}
	}
	return nil
}

func (s *State) find(id int) *Candidate {
	for _, c := range s.Candidates {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// tries counts the attempts on a candidate.
func (s *State) tries(id int) int {
	n := 0
	for i := range s.History {
		if s.History[i].ID == id {
			n++
		}
	}
	return n
}
