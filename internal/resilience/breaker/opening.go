package breaker

import "spillway/internal/gateway"

// trip opens the breaker. It consumes the evidence: the new epoch voids the window and every permit that is out.
func (s *state) trip(r *rules, ev event, c cause, now int64) {
	if s.st == closed {
		if s.stableAt(r, now) {
			s.et, s.d = 0, 0
		}
		s.since = now
	}
	if s.et == 0 {
		s.et, s.d = now, 0
	}
	if r.streakOn[c] {
		s.streak = add32(s.streak, 1)
	}
	d := s.openFor(r, ev, c, now)
	s.d = max(s.d, d)
	s.ot = now + d - d/1000*r.jitterP/65536*ev.u
	if c == causeRate {
		s.fails = max(s.fails, r.threshold)
	}
	if c == causeProbe && s.outer(r) {
		c = causeWcount
	}
	s.bump(now)
	s.st, s.oc, s.tripLow = open, c, ev.below
	s.ok, s.cs, s.nb, s.lt = 0, 0, 0, now
	s.dropAll()
}

// openFor is how long a trip by c keeps the breaker open, before jitter (spec breaker.md section 4).
func (s *state) openFor(r *rules, ev event, c cause, now int64) int64 {
	base := r.base
	if ev.pol.open > 0 {
		base = ev.pol.open
	}
	var d int64
	switch {
	case c == causeDead:
		if d = ev.pol.open; d == 0 {
			d = r.max
		}
		return d
	case c == causeWcount && r.wopen > 0:
		d = r.wopen
	case r.episode && c == causeProbe:
		d = max(min((now-s.et)/2, r.max), base)
	case !r.episode && r.streakOn[c]:
		d = max(min(base*r.power(s.streak), r.max), base)
	default:
		d = base
	}
	if c == causeProbe && s.outer(r) {
		d = max(d, r.wopen)
	}
	if r.honour && (ev.okind == gateway.ServiceError) && ev.retryAfter > d {
		d = min(ev.retryAfter, max(r.max, d))
	}
	return d
}

// backoff is the open time of a streak: base x factor^(streak - escalate_after), capped.
func (r *rules) backoff(streak int32) int64 { return min(r.base*r.power(streak), r.max) }

// power is factor^max(0, streak - escalate_after), bounded so that a product with a day does not overflow.
func (r *rules) power(streak int32) int64 {
	p := int64(1)
	for i := r.escalate; i < streak && p < 1<<16; i++ {
		p *= r.factor
		if r.factor == 1 {
			break
		}
	}
	return min(p, 1<<16)
}

// close ends the open spell with a clean slate; the episode and the streak may live on.
func (s *state) close(r *rules, now int64) {
	s.clean()
	s.cs, s.lt, s.okAt = now, now, now
	if r.reset == StreakResetOnClose {
		s.streak, s.et, s.d = 0, 0, 0
	}
}

func (s *state) clean() {
	s.st, s.fails, s.run, s.low, s.lf = closed, 0, 0, 0, 0
	s.kinds = [gateway.NumKinds]uint16{}
	s.a0, s.f0, s.a1, s.f1, s.wn, s.ws = 0, 0, 0, 0, 0, 0
	s.ok, s.nb, s.ot, s.since, s.tripLow = 0, 0, 0, 0, false
	s.failAt, s.otherFailAt, s.failModel = 0, 0, ""
	s.dropAll()
}

// forceOpen is sticky: the breaker is not due before ev.until, and with 0 never.
func (s *state) forceOpen(ev event, now int64) {
	s.bump(now)
	s.st, s.oc, s.forced, s.fu, s.fby = open, causeForced, forcedOpen, ev.until, ev.actor
	s.ot, s.since, s.tripLow = ev.until, now, false
	s.ok, s.cs, s.nb, s.lt = 0, 0, 0, now
	s.dropAll()
}

// forceClose suppresses trips until ev.until, 0 = until an operator says otherwise; failures still count.
func (s *state) forceClose(r *rules, ev event, now int64) {
	s.close(r, now)
	s.bump(now)
	s.streak, s.et, s.d, s.okAt = 0, 0, 0, 0
	s.forced, s.fu, s.fby = forcedClosed, ev.until, ev.actor
}
