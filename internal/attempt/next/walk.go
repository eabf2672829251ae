package next

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Reserve: the last attempts of the budget are kept for candidates of providers not yet tried.
const (
	reserveMost  = 3
	reserveShare = 3 // never more than a third of the budget
)

// Back-off between rounds: a candidate that failed is not asked again at once.
const (
	roundBase = 500 * time.Millisecond
	roundMax  = 8 * time.Second
)

// walk is rules 3 to 6: choose among what is runnable, else wait, else fail.
func (s *State) walk() Step {
	best, rest := s.choose()
	best = s.keepRank(best, rest)
	if best == nil && rest != nil {
		if step, ok := s.holdFor(rest); ok {
			return step
		}
		best = rest
	}
	if step, ok := s.preferredBack(best); ok {
		return step
	}
	back := s.waitedFor()
	if back != nil {
		best = back
	}
	if best == nil {
		return s.waitOrFail()
	}
	repeat := s.providerTried(best.Provider)
	if repeat && s.Tokens < 1 {
		if fresh := s.freshProvider(); fresh != nil {
			best, back, repeat = fresh, nil, false
		} else {
			return s.waitForToken()
		}
	}
	step := Step{Do: TryNow, ID: best.ID, Why: gateway.NextCandidate, Repeat: repeat}
	if len(s.History) == 0 {
		step.Why = gateway.FirstChoice
	}
	if back != nil {
		step.Why = gateway.PreferredBack
	}
	if s.Racing {
		step.Why = gateway.ProbeRace
	}
	if n := s.rounds(best.ID); n > 0 { // an untried candidate never waits
		step.Delay = max(s.roundDelay(best.ID, n), 0)
	}
	if step.Delay > 0 && !s.Deadline.IsZero() && s.Now.Add(step.Delay).After(s.Deadline) {
		return Step{Do: Fail, Why: gateway.DeadlinePassed}
	}
	return step
}

// choose returns the best runnable candidate that follows the scope of what failed, and the best of all the rest.
func (s *State) choose() (best, rest *Candidate) {
	last := s.last()
	var tail *Candidate
	reserve := s.inReserve()
	for _, c := range s.Candidates {
		if !s.runnable(c) {
			continue
		}
		switch {
		case reserve && !s.providerTried(c.Provider):
			return c, nil
		case s.follows(c):
			if best == nil || s.closer(c, best, last) {
				best = c
			}
			if last == nil && !reserve {
				return best, nil // nothing that comes later can take its place
			}
		case s.toTail(c):
			if tail == nil {
				tail = c
			}
		case rest == nil:
			rest = c
		}
	}
	if rest == nil {
		rest = tail
	}
	return best, rest
}

// falteredShare is how much of a failed candidate's health an untried one needs to come before it although it faltered.
const falteredShare = 0.75

// keepRank is the other half of rule 5: a candidate that failed once in this request keeps its rank before untried ones
// that failed their last attempt as well and are clearly worse. To ask those first would cost an attempt that is as good
// as lost, and win no time unless it fails faster than the back-off passes. It returns whom to try: best, another that
// follows, or failed.
func (s *State) keepRank(best, failed *Candidate) *Candidate {
	if best == nil || failed == nil || s.Racing || s.tries(failed.ID) != 1 || s.rounds(failed.ID) != 1 || s.toTail(failed) ||
		s.inReserve() || s.Tokens < 1 {
		return best
	}
	worse := func(c *Candidate) bool { return c.Faltered && c.Health < falteredShare*failed.Health }
	if !worse(best) {
		return best
	}
	if back := s.Now.Add(s.roundDelay(failed.ID, 1)); !s.Deadline.IsZero() && back.After(s.Deadline) {
		return best
	}
	for _, c := range s.Candidates {
		if !worse(c) && s.runnable(c) && s.follows(c) {
			return c
		}
	}
	return failed
}

// runnable says whether an attempt on a candidate may begin now. Beside a probe only a sure one may start.
func (s *State) runnable(c *Candidate) bool {
	return c.Ruling.OK() && !(s.Racing && c.Ruling.Probe) && !(c.Trial && s.tooDear(c)) && s.usable(c) && !s.restsUntil(c).After(s.Now)
}

// tooDear reports whether a probe would be this request's last attempt although another candidate has only to be waited
// for: who probes must be able to fall back.
func (s *State) tooDear(probe *Candidate) bool {
	if Left(&s.Config, s.History) > 1 {
		return false
	}
	for _, c := range s.Candidates {
		if c.ID != probe.ID && s.usable(c) && (c.Ruling.Verdict == resilience.Delayed || !c.Ruling.OK() && s.worthWaiting(c)) {
			return true
		}
	}
	return false
}

// hintMost is the longest time for which the hint of a service fault is believed, as in the cooldown room.
const hintMost = 60 * time.Second

// restsUntil is when the hints that this request was given let it ask a candidate again; zero = at any time. The rooms
// may allow it earlier, for want of another candidate, but who was told to wait does not ask before.
func (s *State) restsUntil(c *Candidate) (until time.Time) {
	for i := range s.History {
		t := &s.History[i]
		if t.Live || t.BackAt.IsZero() || t.ID != c.ID && (t.Account != c.Account || t.Outcome.Scope != gateway.ScopeAccount) {
			continue
		}
		at := t.BackAt
		if most := t.Outcome.EndedAt.Add(hintMost); t.Outcome.Kind == gateway.ServiceError && at.After(most) {
			at = most
		}
		until = later(until, at)
	}
	return until
}

// usable says whether this request may use a candidate at all (again). What a key, an account or a model did wrong does
// not get better by asking again at once; a silent candidate is not asked again while the request can do anything else.
func (s *State) usable(c *Candidate) bool {
	if !s.fits(c) {
		return false
	}
	hostFaults := 0
	for i := range s.History {
		t := &s.History[i]
		if t.Live {
			if t.ID == c.ID || t.Connection == c.Connection && t.Model == c.Model {
				return false
			}
			continue
		}
		if t.Target == c.Target && (t.Outcome.Reason == gateway.CapabilityRefused || t.Outcome.Kind == gateway.ContentRefused) {
			return false
		}
		if t.ID != c.ID {
			continue
		}
		switch t.Outcome.Kind {
		case gateway.AuthError, gateway.CreditsExhausted, gateway.Banned, gateway.QuotaExhausted,
			gateway.ModelUnavailable, gateway.RequestRejected, gateway.Alive:
			return false
		}
		if t.Outcome.Reason == gateway.HostFault {
			hostFaults++
		}
	}
	return hostFaults < 2 // a wrong proxy setting does not mend itself meanwhile
}

// follows is rule 3: where to go next follows the scope of the last failure. Only candidates that this request has not
// tried yet follow; the others are "the rest of the pool".
func (s *State) follows(c *Candidate) bool {
	if s.tries(c.ID) > 0 {
		return false
	}
	for i := range s.History {
		t := &s.History[i]
		if t.Live || !Failed(t) {
			continue
		}
		switch t.Outcome.Scope {
		case gateway.ScopeAccount, gateway.ScopeFamily:
			if c.Account == t.Account {
				return false
			}
		case gateway.ScopeConnection:
			if c.Connection == t.Connection {
				return false
			}
		case gateway.ScopeModel:
			if c.Provider == t.Provider && c.Model == t.Model && !quotaLike(t.Outcome.Kind) {
				return false
			}
			if c.Account == t.Account && c.Model == t.Model {
				return false
			}
		}
	}
	return s.failedConnections(c.Provider, c.Connection) < 2
}

// quotaLike kinds with model scope belong to the account: another account of the same target follows.
func quotaLike(k gateway.Kind) bool { return k == gateway.RateLimited || k == gateway.QuotaExhausted }

// closer prefers, among followers, another account of the target that just failed by account or connection scope; rank
// decides otherwise, and candidates come in rank order.
func (s *State) closer(c, best *Candidate, last *Try) bool {
	if last == nil {
		return false
	}
	switch last.Outcome.Scope {
	case gateway.ScopeAccount, gateway.ScopeConnection, gateway.ScopeFamily:
		return c.Target == last.Target && best.Target != last.Target
	}
	return false
}

// failedConnections counts the connections of a provider, other than one, that failed in this request by a fault of the
// provider or of the attempt: at most one other connection is tried before another provider.
func (s *State) failedConnections(provider, other int) int {
	n := 0
	for i := range s.History {
		t := &s.History[i]
		if t.Provider != provider || t.Connection == other || t.Live || !providerScope(t) {
			continue
		}
		first := true
		for j := range i {
			if p := &s.History[j]; p.Connection == t.Connection && !p.Live && providerScope(p) {
				first = false
				break
			}
		}
		if first {
			n++
		}
	}
	return n
}

func providerScope(t *Try) bool {
	return Failed(t) && (t.Outcome.Scope == gateway.ScopeProvider || t.Outcome.Scope == gateway.ScopeAttempt)
}

// Failed reports whether an ended attempt failed by more than a lost race.
func Failed(t *Try) bool { return t.Outcome.Failed() }

// toTail is rule 5: time-outs and stalls go to the tail after one failure, anything else after two if an unfailed
// runnable candidate has at least half the health.
func (s *State) toTail(c *Candidate) bool {
	n := s.failures(c.ID)
	if n == 0 {
		return false
	}
	for i := range s.History {
		t := &s.History[i]
		if t.ID != c.ID || t.Live {
			continue
		}
		switch t.Outcome.Kind {
		case gateway.Timeout, gateway.Slow, gateway.Stall:
			return true
		}
	}
	if n < 2 {
		return false
	}
	for _, o := range s.Candidates {
		if s.failures(o.ID) == 0 && o.Health >= 0.5*c.Health && s.runnable(o) {
			return true
		}
	}
	return false
}

// failures counts the failed attempts on a candidate.
func (s *State) failures(id int) int {
	n := 0
	for i := range s.History {
		if s.History[i].ID == id && !s.History[i].Live && Failed(&s.History[i]) {
			n++
		}
	}
	return n
}

// rounds is how many attempts on a candidate make it wait before the next one: the failed ones and, of those that went
// wrong on our side, all but the first: that one was mostly a key that has been read again.
func (s *State) rounds(id int) int {
	ours := 0
	for i := range s.History {
		if t := &s.History[i]; t.ID == id && !t.Live && t.Outcome.Kind == gateway.LocalError {
			ours++
		}
	}
	return s.failures(id) + max(ours-1, 0)
}

func (s *State) providerTried(provider int) bool {
	for i := range s.History {
		if s.History[i].Provider == provider {
			return true
		}
	}
	return false
}

// inReserve reports whether only reserved attempts are left.
func (s *State) inReserve() bool {
	budget := s.AttemptLimit + s.Kept
	if s.AttemptMax > 0 {
		budget = min(budget, s.AttemptMax)
	}
	return len(s.History) > 0 && Left(&s.Config, s.History) <= min(reserveMost, budget/reserveShare)
}

// freshProvider is the best runnable candidate of a provider that this request has not tried.
func (s *State) freshProvider() *Candidate {
	for _, c := range s.Candidates {
		if !s.providerTried(c.Provider) && s.runnable(c) {
			return c
		}
	}
	return nil
}

// roundDelay is what is left of the back-off of a candidate that failed n times: exponential, with full jitter on the
// upper half, counted from its last end.
func (s *State) roundDelay(id, n int) time.Duration {
	var ended time.Time
	for i := range s.History {
		if t := &s.History[i]; t.ID == id && t.Outcome.EndedAt.After(ended) {
			ended = t.Outcome.EndedAt
		}
	}
	return backOff(n, s.Jitter) - s.Now.Sub(ended)
}

// backOff is the pause behind the nth failure.
func backOff(n int, jitter float64) time.Duration {
	d := min(roundBase<<min(n-1, 6), roundMax)
	return d/2 + time.Duration(jitter*float64(d/2))
}

// holdFor is the end of rule 3: nothing that follows can run, but something that follows would only have to wait for a
// slot. Then the rest of the pool, which has failed this request before, has its turn only after a back-off over its
// whole provider, and the request stands in line meanwhile: a healthy provider that is busy is worth more than the
// thirtieth key of a dead one.
func (s *State) holdFor(rest *Candidate) (Step, bool) {
	if s.Racing {
		return Step{}, false
	}
	step := Step{Do: WaitUntil, Why: gateway.WaitForSlot, Else: true}
	for _, c := range s.Candidates {
		if c.Ruling.Verdict == resilience.Delayed && s.usable(c) && s.follows(c) {
			step.add(c)
		}
	}
	n, ended := 0, time.Time{}
	for i := range s.History {
		if t := &s.History[i]; t.Provider == rest.Provider && !t.Live && Failed(t) {
			n, ended = n+1, later(ended, t.Outcome.EndedAt)
		}
	}
	due := ended.Add(backOff(max(n, 1), s.Jitter))
	if len(step.Set) == 0 || !due.After(s.Now) || !s.Deadline.IsZero() && due.After(s.Deadline) {
		return Step{}, false
	}
	step.Until = sooner(step.Until, due)
	return step, true
}

// preferredBack is rule 4: an ordered strategy waits, once per target, for its preferred target when that says it is
// back in a moment and no equal candidate can run.
func (s *State) preferredBack(best *Candidate) (Step, bool) {
	last := s.last()
	if !s.Ordered || s.Racing || last == nil || last.BackAt.IsZero() || s.Preferred[last.Target] || !s.WaitsEnabled {
		return Step{}, false
	}
	if best != nil && (best.Target <= last.Target || s.inReserve() && !s.providerTried(best.Provider)) {
		return Step{}, false // an equal or better candidate runs, or what is left is kept for it
	}
	c := s.find(last.ID)
	if c == nil || c.Ruling.OK() || !transient(c) || !s.usable(c) {
		return Step{}, false
	}
	until := later(s.restsUntil(c), c.Ruling.Until)
	if left := until.Sub(s.Now); left <= 0 || left > s.PreferWait || !s.Deadline.IsZero() && until.After(s.Deadline) {
		return Step{}, false
	}
	return Step{Do: WaitUntil, Until: until, Set: []int{c.ID}, Why: gateway.PreferredBack, Prefer: last.Target + 1}, true
}

// waitedFor is the end of rule 4: the candidate for which the request has waited, when it is back. It is asked once more,
// although others have not failed yet; nil when there is none, or what is left is kept for another provider.
func (s *State) waitedFor() *Candidate {
	last := s.last()
	if !s.Ordered || s.Racing || last == nil || last.BackAt.IsZero() || !s.Preferred[last.Target] {
		return nil
	}
	for i := range s.History {
		if t := &s.History[i]; t != last && t.ID == last.ID && !t.BackAt.IsZero() {
			return nil // that was the try for which it waited
		}
	}
	c := s.find(last.ID)
	if c == nil || !s.runnable(c) || s.inReserve() && s.freshProvider() != nil {
		return nil
	}
	return c
}

// transient reports whether a candidate is out for a reason that time heals soon. Quota, keys and missing models are not
// waited for, however short their cooldown says.
func transient(c *Candidate) bool {
	switch c.Ruling.Reason {
	case gateway.CircuitOpen, gateway.ProviderCooldown, gateway.ProbeBusy, gateway.Returning, gateway.NotBefore:
		return true
	case gateway.ConnectionCooldown, gateway.ModelLockout:
		switch c.Cause {
		case gateway.QuotaExhausted, gateway.CreditsExhausted, gateway.AuthError, gateway.Banned, gateway.RequestRejected,
			gateway.ModelUnavailable:
			return false
		}
		return true
	}
	return false
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
