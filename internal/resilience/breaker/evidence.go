package breaker

import "spillway/internal/gateway"

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
		s.noteOuter(r, now)
	}
	if !ev.below {
		s.low = 0
	}
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
	if c == causeNone || !ev.gated || s.wholeConnection(r, now) || c == causeWcount && s.severalSince(s.ws) {
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

// severalSince reports that at least two models failed since an instant. The outer gate asks it, whose count is of
// failures without any success between.
func (s *state) severalSince(at int64) bool { return s.otherFailAt != 0 && s.otherFailAt >= at }

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
