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

// fail counts one failure of a closed breaker and trips it when one of the channels says so.
func (s *state) fail(r *rules, ev event, now int64) {
	k := min(int(ev.okind), len(s.kinds)-1)
	s.run = add32(s.run, 1)
	s.observe(r, now, true)
	if r.gap == 0 || s.lf == 0 || now-s.lf >= r.gap {
		s.lf = now
		s.fails = add32(s.fails, max(ev.pol.weight, 1))
		if s.kinds[k] < 1<<16-1 {
			s.kinds[k]++
		}
		if ev.below {
			s.low = add32(s.low, 1)
		}
	}
	if !ev.below {
		s.low = 0
	}
	s.noteOuter(r, now)
	if ev.gated {
		s.noteFailure(ev.model, now)
	}
	if s.forcedAt(now) == forcedClosed {
		return
	}
	if c := s.verdict(r, ev, now); c != causeNone {
		s.trip(r, ev, c, now)
	}
}

// noteOuter counts a failure for the outer gate, those of probes included: a provider that stays down reaches it.
func (s *state) noteOuter(r *rules, now int64) {
	if r.wcount == 0 {
		return
	}
	if s.ws == 0 || now-s.ws > r.wwindow {
		s.wn, s.ws = 0, now
	}
	s.wn = add32(s.wn, 1)
}

func (s *state) outer(r *rules) bool { return r.wcount > 0 && int64(s.wn) >= r.wcount }

// noteFailure remembers the last failure and the last one of another model: enough to know that two models failed.
func (s *state) noteFailure(m gateway.ModelID, now int64) {
	if s.failAt != 0 && s.failModel != m {
		s.otherFailAt = s.failAt
	}
	s.failModel, s.failAt = m, now
}

// verdict is the cause by which the failure just counted opens the breaker. Rate outranks the run, so that the cause
// which feeds the open time wins.
func (s *state) verdict(r *rules, ev event, now int64) cause {
	n, f := s.sums(r, now)
	c := causeNone
	switch p := ev.pol; {
	case p.immediate || (p.threshold > 0 && int32(s.kinds[min(int(ev.okind), len(s.kinds)-1)]) >= p.threshold):
		c = causeKind
	case r.rateP > 0 && n >= r.minCalls && f*1000 >= r.rateP*n:
		c = causeRate
	case s.outer(r):
		c = causeWcount
	case s.fails >= r.threshold && !s.vetoed(r, n, f):
		c = causeConsecutive
	}
	if c == causeNone || !ev.gated || s.wholeConnection(r, now) {
		return c
	}
	if s.low >= r.threshold && !s.vetoed(r, n, f) {
		return causeConsecutive
	}
	return causeNone
}

// wholeConnection reports that the evidence is not one model's: no model succeeded within the window and two failed.
func (s *state) wholeConnection(r *rules, now int64) bool {
	return (s.okAt == 0 || now-s.okAt > r.memory) && s.otherFailAt != 0 && now-s.otherFailAt <= r.memory
}

// vetoed reports that the window explains the run: a source this flaky has such runs.
func (s *state) vetoed(r *rules, n, f int64) bool {
	switch r.evidence {
	case EvidenceSuppress:
		return n >= r.minCalls && f*1000 < r.rateP*n
	case EvidenceRunTest:
		return int64(s.fails) < plausibleRun(n-int64(s.run), f-int64(s.run), r.minCalls)
	}
	return false
}

// runLengths holds, per step of 5 % of failure rate, the shortest run whose chance is at most one in a million.
var runLengths = [...]int64{5, 6, 8, 9, 10, 12, 14, 16, 18, 20, 24}

// plausibleRun is the shortest run that says more than "flaky", given n attempts with f failures before the run. With
// fewer than minCalls there is nothing to judge by; above 55 % only the rate channel decides.
func plausibleRun(n, f, minCalls int64) int64 {
	n, f = max(n, 0), max(f, 0)
	if n < minCalls {
		return 0
	}
	i := ((f+1)*20+n+1)/(n+2) - 1 // ceil((f+1)/(n+2) / 5 %) - 1
	if i >= int64(len(runLengths)) {
		return 1 << 62
	}
	return runLengths[max(i, 0)]
}
