package breaker

import (
	"spillway/internal/gateway"
)

type eventKind uint8

const (
	evAcquire eventKind = iota
	evAlive
	evReport
	evRenew
	evForceOpen
	evForceClose
	evReset
)

// event is what happens to one key. Randomness and tokens travel in it, so that the step is a function.
type event struct {
	kind  eventKind
	token uint64 // evAcquire: the token of the probe, should it become one; else the permit's, 0 = normal permit
	ep    int64  // the permit's epoch
	alive bool   // the permit's Alive was accepted

	mayProbe bool // evAcquire: probe_source lets this request probe

	pol        policy // evReport
	okind      gateway.Kind
	model      gateway.ModelID
	below      bool
	gated      bool // the key is a connection whose models are kept apart: its trips need more
	retryAfter int64
	u          int64 // jitter, 0..65535

	until int64 // evForceOpen, evForceClose
	actor string
}

// ruling is the machine's answer to one event.
type ruling struct {
	admit   bool
	probe   bool
	weak    bool
	reason  gateway.Reason
	until   int64 // of a denial, 0 = unknown
	stale   bool  // fenced off: changed nothing
	counted bool  // a failure, for the rules of this key
	leaked  int   // leases found expired
}

// step is the breaker: the only implementation of the transition table in spec breaker.md section 6. It is pure.
// wakeAt is when time alone next changes what an Acquire would be told, 0 = never.
func step(r *rules, s state, ev event, now int64) (next state, out ruling, wakeAt int64) {
	switch ev.kind {
	case evAlive, evReport, evRenew:
		if s.stale(ev, now) {
			return s, ruling{stale: true}, s.wakeAt(r, now)
		}
	}
	s.clamp(r, now)
	if s.forced != unforced && s.forcedAt(now) == unforced {
		s.forced, s.fu, s.fby = unforced, 0, ""
	}
	leaked := s.prune(now)
	switch ev.kind {
	case evAcquire:
		out = s.acquire(r, ev, now)
	case evAlive:
		s.alive(r, ev, now)
	case evReport:
		out.counted = s.report(r, ev, now)
	case evRenew:
		s.renew(r, ev, now)
	case evForceOpen:
		s.forceOpen(ev, now)
	case evForceClose:
		s.forceClose(r, ev, now)
	case evReset:
		ep := s.ep
		s = state{ep: ep, lt: now}
		s.bump(now)
	}
	out.leaked = leaked
	return s, out, s.wakeAt(r, now)
}

// stale is the fence: a report of another epoch, or of a probe whose lease is gone, changes nothing.
func (s *state) stale(ev event, now int64) bool {
	if ev.ep != s.ep || s.st == open {
		return true
	}
	return s.st == half && !ev.alive && (ev.token == 0 || !s.live(ev.token, now))
}

func (s *state) wakeAt(r *rules, now int64) int64 {
	switch {
	case s.forcedAt(now) != unforced:
		return s.fu
	case s.st == open:
		return s.ot
	case s.st == half:
		return s.peek(r, true, now).until
	}
	return 0
}

// peek is what an Acquire at now would be told; it is a pure read of (s, now).
func (s *state) peek(r *rules, mayProbe bool, now int64) ruling {
	forced := s.forcedAt(now)
	switch {
	case forced == forcedOpen:
		return ruling{reason: gateway.CircuitOpen, until: s.fu}
	case s.st == closed:
		return ruling{admit: true, weak: s.degraded(r, now)}
	case s.st == open:
		if until := min(s.ot, now+r.cap); now < until {
			return ruling{reason: s.reason(), until: until}
		}
	default:
		n, first := s.probes(now)
		switch {
		case n >= r.permits:
			return ruling{reason: gateway.ProbeBusy, until: max(first, s.nb)}
		case now < s.nb:
			return ruling{reason: s.reason(), until: min(s.nb, now+max(r.cap, r.interval))}
		}
	}
	if !mayProbe {
		return ruling{reason: gateway.CircuitOpen}
	}
	return ruling{admit: true, probe: true}
}

func (s *state) reason() gateway.Reason {
	if s.oc == causeWcount {
		return gateway.ProviderCooldown
	}
	return gateway.CircuitOpen
}

func (s *state) acquire(r *rules, ev event, now int64) ruling {
	out := s.peek(r, ev.mayProbe, now)
	if !out.probe {
		return out
	}
	if s.st == open {
		s.st, s.ok, s.lt = half, 0, now
		s.dropAll()
	}
	s.leases[s.nl] = lease{token: ev.token, until: now + r.ttl}
	s.nl++
	s.nb = now + r.interval
	return out
}

func (s *state) renew(r *rules, ev event, now int64) {
	for i := range s.leases[:s.nl] {
		if s.leases[i].token == ev.token {
			s.leases[i].until = now + r.ttl
		}
	}
}

// alive is first content: for a probe the success itself, else the end of a losing run.
func (s *state) alive(r *rules, ev event, now int64) {
	switch {
	case s.st == closed:
		s.okAt = now
		s.relieve(r, now)
	case !ev.alive:
		s.probeSucceeded(r, ev, now)
	}
}

// report is the end of an attempt. It says whether it counted as a failure.
func (s *state) report(r *rules, ev event, now int64) (counted bool) {
	if s.st == half {
		return s.reportProbe(r, ev, now)
	}
	switch ev.pol.class {
	case succeeded, alive:
		s.okAt = now
		if !ev.alive {
			s.relieve(r, now)
		}
		if ev.pol.class == succeeded {
			s.observe(r, now, false)
		}
	case slow:
		if s.okAt != 0 && now-s.okAt <= r.memory {
			return false
		}
		s.fail(r, ev, now)
		return true
	case failure:
		s.fail(r, ev, now)
		return true
	case dead:
		if s.forcedAt(now) != forcedClosed {
			s.trip(r, ev, causeDead, now)
		}
		return true
	}
	return false
}

func (s *state) reportProbe(r *rules, ev event, now int64) (counted bool) {
	switch ev.pol.class {
	case succeeded, alive:
		if !ev.alive {
			s.probeSucceeded(r, ev, now)
		}
	case failure, slow, dead:
		s.noteOuter(r, now)
		s.trip(r, ev, causeProbe, now)
		return true
	case throttled:
		if !ev.alive {
			s.drop(ev.token)
			s.nb = max(s.nb, now+max(min(ev.retryAfter, r.max), r.interval, 1e9))
		}
	default:
		if !ev.alive {
			s.drop(ev.token)
			if s.nb <= now+r.interval { // its own pacing is refunded, a throttled sibling's stays
				s.nb = now
			}
		}
	}
	return false
}

func (s *state) probeSucceeded(r *rules, ev event, now int64) {
	s.drop(ev.token)
	s.okAt, s.wn, s.ws = now, 0, 0
	if s.ok++; s.ok >= r.need {
		s.close(r, now)
	}
}

// relieve is what a success does to the evidence besides the window.
func (s *state) relieve(r *rules, now int64) {
	s.run, s.low, s.wn, s.ws = 0, 0, 0, 0
	switch r.count {
	case CountConsecutive:
		s.fails = 0
		s.kinds = [gateway.NumKinds]uint16{}
	case CountLeaky:
		s.fails = max(0, s.fails-1)
		for i, n := range s.kinds {
			s.kinds[i] = max(n, 1) - 1
		}
	}
	if s.stableAt(r, now) {
		s.et, s.d = 0, 0
		if r.reset == StreakResetStable {
			s.streak = 0
		}
	}
}

// stableAt reports that the breaker has been closed for long enough to call the episode over.
func (s *state) stableAt(r *rules, now int64) bool {
	if s.cs == 0 {
		return false
	}
	d := s.d
	if !r.episode {
		d = r.backoff(s.streak)
	}
	return now-s.cs >= r.stable*d
}
