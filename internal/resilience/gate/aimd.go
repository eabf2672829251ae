package gate

import (
	"math"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// The machine of additive increase, multiplicative decrease: seed 001 sections 3.35 and 3.37, spec resilience.md
// section 5. All functions here are pure.

// state is the AIMD state of one (account, model). It is immutable once published.
type state struct {
	engaged   bool
	limit     float64
	cutAt     time.Time // attempts that began before it belong to a congestion that was already answered
	looseAt   time.Time // since when no more than half of the limit is used; zero = it is used
	successAt time.Time

	floored int       // congestions in a row that the limit of one did not prevent
	holdAt  time.Time // until when nothing goes because of them

	// What the account bears, once a limit of one turned out to be too much.
	countAt time.Time     // since when successes are counted
	served  int           // successes since
	gap     time.Duration // least time between two attempts at gapAt; 0 = none
	gapAt   time.Time
	nextAt  time.Time // when the next attempt may begin because of it
}

// A limit of one cannot be cut: an account that refuses even single attempts minds the rate and not the number at once.
// So what it has served meanwhile is taken for its rate: attempts keep that distance and a tenth more, and the distance
// halves in a minute without refusal. While nothing is served, each refusal doubles a pause as well, until a success
// ends it or the cooldown room finds that nothing succeeds any more.
const (
	holdBase  = 250 * time.Millisecond
	holdSteps = 5

	gapMargin = 1.1
	gapHalves = time.Minute
	gapLeast  = 20 * time.Millisecond // a shorter one is none
	gapMost   = 10 * time.Second
	countMost = 50 // successes that a rate is taken from; older ones weigh less and less
)

// held is until when the account is left alone because a limit of one was too much; zero = it is not.
func held(cfg AIMD, s *state, now time.Time) time.Time {
	if cfg.Mode == AIMDOff || s == nil {
		return time.Time{}
	}
	until := s.holdAt
	if s.nextAt.After(until) {
		until = s.nextAt
	}
	if !until.After(now) {
		return time.Time{}
	}
	return until
}

// refused is a refusal at a limit of one.
func (s state) refused(now time.Time) state {
	s.floored = min(s.floored+1, holdSteps)
	gap := time.Duration(float64(s.distance(now)) * gapMargin)
	if s.served > 0 {
		gap = max(gap, time.Duration(float64(now.Sub(s.countAt))/float64(s.served)*gapMargin))
	}
	s.gap, s.gapAt = min(gap, gapMost), now
	s.nextAt = now.Add(s.gap)
	if s.gap == 0 || s.floored > 1 {
		s.holdAt = now.Add(holdBase << s.floored)
	}
	return s
}

// distance is what is left of the gap.
func (s state) distance(now time.Time) time.Duration {
	if s.gap == 0 {
		return 0
	}
	left := time.Duration(float64(s.gap) * math.Exp2(-float64(now.Sub(s.gapAt))/float64(gapHalves)))
	if left < gapLeast {
		return 0
	}
	return left
}

// began keeps the distance after an attempt that begins now.
func (s state) began(now time.Time) state {
	if d := s.distance(now); d > 0 {
		s.nextAt = now.Add(d)
	}
	return s
}

// count takes in a success of an engaged account. A pause longer than within says nothing about its rate.
func (s state) count(within time.Duration, now time.Time) state {
	if s.countAt.IsZero() || now.Sub(s.successAt) > within {
		s.countAt, s.served = now, 0
		return s
	}
	if s.served++; s.served >= countMost {
		s.countAt = s.countAt.Add(now.Sub(s.countAt) / 2)
		s.served /= 2
	}
	return s
}

// effective returns the limit in whole attempts and whether there is one.
func effective(cfg AIMD, s *state, now time.Time) (int, bool) {
	switch {
	case cfg.Mode == AIMDOff:
		return 0, false
	case cfg.Mode == AIMDAlways:
		if s == nil || !s.engaged {
			return max(int(cfg.Start), 1), true
		}
		return max(int(s.limit), 1), true
	case s == nil || !s.engaged || expired(cfg, *s, now):
		return 0, false
	}
	return max(int(s.limit), 1), true
}

// expired: for Calm long the limit was at least twice of what was used, so it is no limit any more.
func expired(cfg AIMD, s state, now time.Time) bool {
	return cfg.Mode == AIMDOnDemand && s.engaged && !s.looseAt.IsZero() && now.Sub(s.looseAt) >= cfg.Calm
}

// congestion is a 429 for this account and model.
type congestion struct {
	inFlight int // this attempt included
	hinted   bool
	local    bool
	beganAt  time.Time
}

// congested answers a 429: it engages the limit or cuts it, once per congestion event.
func congested(cfg AIMD, s state, c congestion, now time.Time) state {
	s = settle(cfg, s, now)
	switch {
	case cfg.Mode == AIMDOff:
		return s
	case cfg.Mode == AIMDAlways && s.engaged, cfg.Mode == AIMDOnDemand && s.engaged:
		if !c.beganAt.After(s.cutAt) {
			return s
		}
	case cfg.Mode == AIMDAlways:
		s.engaged, s.limit = true, cfg.Start
	case (c.hinted || !c.local) && (s.successAt.IsZero() || now.Sub(s.successAt) > cfg.SuccessWithin):
		return s // a dead account is the cooldown's business
	}
	was := s.engaged
	if !was {
		s.countAt, s.served = now, 0
	}
	base := float64(c.inFlight)
	if cfg.Mode == AIMDAlways || (s.limit > 0 && s.limit < base) {
		base = s.limit
	}
	s.engaged, s.limit, s.cutAt, s.looseAt = true, max(1, base*cfg.Cut), now, time.Time{}
	if was && s.limit == 1 && !c.hinted {
		s = s.refused(now)
	}
	return s
}

// succeeded grows the limit while it is used.
func succeeded(cfg AIMD, s state, inFlight int, now time.Time) state {
	s = settle(cfg, s, now)
	if s.engaged {
		s = s.count(cfg.SuccessWithin, now)
	}
	s.successAt, s.floored, s.holdAt = now, 0, time.Time{}
	if cfg.Mode == AIMDAlways && !s.engaged {
		s.engaged, s.limit = true, cfg.Start
	}
	if !s.engaged {
		return s
	}
	if cfg.Mode == AIMDAlways || float64(inFlight) > s.limit/2 {
		s.limit += 1 / s.limit
	}
	if cfg.Max > 0 {
		s.limit = min(s.limit, float64(cfg.Max))
	}
	return s
}

// pressed follows how much of the limit is used; inFlight is the number after an attempt began or ended.
func pressed(cfg AIMD, s state, inFlight int, now time.Time) state {
	s = settle(cfg, s, now)
	switch {
	case !s.engaged || float64(inFlight) > s.limit/2:
		s.looseAt = time.Time{}
	case s.looseAt.IsZero():
		s.looseAt = now
	}
	return s
}

// settle makes time that passed visible.
func settle(cfg AIMD, s state, now time.Time) state {
	if expired(cfg, s, now) {
		return state{successAt: s.successAt}
	}
	return s
}

// account is the cell of one (account, model): a counter and the published AIMD state.
type account struct {
	n     atomic.Int64
	state atomic.Pointer[state] // nil = never engaged; replaced under Room.mu
	// successAt is kept apart while nothing is engaged, so that the normal case allocates nothing. Unix nanoseconds.
	successAt atomic.Int64
	changes   *resilience.Changes
}

func (a *account) limit(cfg AIMD, now time.Time) (int, bool) {
	return effective(cfg, a.state.Load(), now)
}

func (a *account) load() state {
	var s state
	if p := a.state.Load(); p != nil {
		s = *p
	}
	if at := a.successAt.Load(); at != 0 {
		s.successAt = time.Unix(0, at)
	}
	return s
}

// store publishes a state; one that is not engaged needs no room.
func (a *account) store(s state) {
	was := a.state.Load()
	switch {
	case s.engaged:
		a.state.Store(&s)
	case was != nil:
		a.state.Store(nil)
	}
	if s.engaged != (was != nil) {
		a.changes.Note()
	}
}

// took, gave and learn are called under Room.mu.
func (a *account) took(cfg AIMD, now time.Time) {
	n := a.n.Add(1)
	if p := a.state.Load(); p != nil && p.gap > 0 {
		a.store(p.began(now))
	}
	a.press(cfg, int(n), now)
}

func (a *account) gave(cfg AIMD, now time.Time) {
	n := a.n.Add(-1)
	a.press(cfg, int(n), now)
}

func (a *account) press(cfg AIMD, n int, now time.Time) {
	p := a.state.Load()
	if p == nil {
		return
	}
	if s := pressed(cfg, *p, n, now); s != *p {
		a.store(s)
	}
}

func (a *account) learn(h *Handle, o gateway.Outcome, beganAt, now time.Time) {
	if o.Uncounted || h.cfg.AIMD.Mode == AIMDOff {
		return
	}
	cfg, n := h.cfg.AIMD, int(a.n.Load())
	switch o.Kind {
	case gateway.Success:
		if p := a.state.Load(); p != nil || cfg.Mode == AIMDAlways {
			a.store(succeeded(cfg, a.load(), n, now))
		}
		a.successAt.Store(now.UnixNano())
	case gateway.RateLimited:
		c := congestion{inFlight: n, hinted: o.RetryAfter > 0, local: h.local, beganAt: beganAt}
		a.store(congested(cfg, a.load(), c, now))
	}
}
