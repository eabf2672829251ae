package cooldown

import (
	"time"

	"spillway/internal/gateway"
)

// event is one outcome on its way into a state, with everything the step may depend on.
type event struct {
	o     gateway.Outcome
	cfg   *Config
	conn  *gateway.Connection
	now   time.Time
	u     float64 // the random share of the jitter, 0 to 1
	grant grant   // what the permit took of this key; zero without a permit
}

// began is when the attempt was dispatched; an outcome that does not say is taken as just begun.
func (e event) began() time.Time {
	if e.o.BeganAt.IsZero() {
		return e.now
	}
	return e.o.BeganAt
}

// hint is how long from now the upstream asked to be left alone, at most limit; 0 = it did not say.
func (e event) hint(limit time.Duration) (d time.Duration, capped bool) {
	rule := e.o.Hint == gateway.HintRule // the operator's own word
	if e.o.RetryAfter <= 0 || !e.cfg.UseRetryHints && !rule {
		return 0, false
	}
	if rule {
		limit = max(limit, e.cfg.MaxQuota)
	}
	d = e.o.RetryAfter
	if d > limit {
		d, capped = limit, true
	}
	if !e.o.EndedAt.IsZero() {
		d -= e.now.Sub(e.o.EndedAt)
	}
	return max(d, 1), capped
}

// span is a cooldown to be applied.
type span struct {
	length time.Duration
	hinted bool // named by the upstream or by the verdict itself, so the herd guard lets it move the deadline
	capped bool
}

// herd reports whether the attempt began before the current or last episode did: then it tells nothing that the
// episode does not already know, but for a hint.
func (s *state) herd(e event) bool { return !e.began().After(s.EpisodeAt) }

// fail is the step for every outcome that the cooldown column of the kinds table names.
func (s state) fail(e event) state {
	s.Last = fault{Message: e.o.Message, Kind: e.o.Kind, Reason: e.o.Reason, Code: e.o.Code, Status: e.o.Status, At: e.now}
	s = s.settle(e.grant)
	if s.Standing != active {
		return s // a terminal state is never overwritten by a cooldown
	}
	back := span{length: e.cfg.backoff(s.Level, e.u)}
	switch e.o.Kind {
	case gateway.ServiceError:
		s = s.holdOff(e)
		if e.cfg.ServiceBackoff {
			s = s.cool(e, back)
		}
	case gateway.Stall:
		if e.cfg.StreamStallCooldown {
			s = s.cool(e, back)
		}
	case gateway.RateLimited:
		s = s.rateLimited(e, back)
	case gateway.QuotaExhausted:
		d, capped := e.hint(e.cfg.MaxQuota)
		if d == 0 {
			d = e.cfg.quota(e.o.Status, e.now)
		}
		s = s.cool(e, span{length: d, hinted: true, capped: capped})
	case gateway.CreditsExhausted, gateway.Banned, gateway.AuthError, gateway.RequestRejected:
		s = s.suspect(e, back)
	}
	return s
}

// rateLimited handles a 429 of the account.
func (s state) rateLimited(e event, back span) state {
	s = s.stepBack(e)
	if d, capped := e.hint(e.cfg.MaxHint); d > 0 {
		return s.cool(e, span{length: d, hinted: true, capped: capped})
	}
	if e.cfg.IgnoreUnhinted || !s.okAt.IsZero() && e.cfg.SuccessGrace > 0 && e.now.Sub(s.okAt) <= e.cfg.SuccessGrace {
		return s // the account works, only too fast: AIMD's part
	}
	if !s.herd(e) {
		s = s.inferRate(e)
	}
	back.length = max(back.length, e.cfg.RateLimitCooldown)
	return s.cool(e, back)
}

// holdOff notes the Retry-After of an overloaded service: traffic goes elsewhere while there is an elsewhere.
func (s state) holdOff(e event) state {
	if e.o.Status != 503 && e.o.Status != 529 {
		return s
	}
	if d, _ := e.hint(e.cfg.NotBeforeMax); d > 0 && e.cfg.NotBeforeMax > 0 {
		if until := e.now.Add(d); until.After(s.NotBefore) {
			s.NotBefore, s.NotSetAt = until, e.now
		}
	}
	return s
}

// cool moves the deadline, never to an earlier instant. A new episode raises the level once.
func (s state) cool(e event, p span) state {
	herd := s.herd(e)
	if herd && !p.hinted {
		return s
	}
	if !herd {
		s.EpisodeAt = e.now
		if !e.o.Endpoint {
			s.Level = min(s.Level+1, e.cfg.MaxBackoffSteps)
		}
	}
	if e.conn.DisableCooling {
		return s
	}
	return s.extend(e.now.Add(p.length), p.capped, e)
}

// extend sets the deadline if it is later than the present one, and lets whoever comes back do so by ramp.
func (s state) extend(until time.Time, capped bool, e event) state {
	if !until.After(s.Until) || !until.After(e.now) {
		return s
	}
	s.Until, s.Capped, s.Cause, s.WrittenAt = until, capped, e.o.Kind, e.now
	return s.startRamp(capped)
}

// join cools a sibling of the same egress: never terminal, never shorter, no level.
func (s state) join(until time.Time, e event) state {
	if s.Standing != active || !until.After(s.Until) {
		return s
	}
	s.EpisodeAt = e.now
	return s.extend(until, false, e)
}

// succeed is the step for a complete answer. Only it resets the level, and only when it began after what it clears.
func (s state) succeed(e event) state {
	began := e.began()
	s.count(e.o.ClientKey, e.now)
	s = s.widen(e.grant, e.now)
	if s.Standing == disabled || s.Standing == banned {
		return s
	}
	if began.After(s.WrittenAt) && began.After(s.EpisodeAt) {
		if s.Standing != active {
			s.Standing, s.TerminalAt, s.CheckAt, s.Source, s.Identity = active, time.Time{}, time.Time{}, "", ""
		}
		s.Until, s.Capped, s.Cause, s.Level, s.Suspect = time.Time{}, false, 0, 0, suspicion{}
		if began.After(s.Last.At) {
			s.Last = fault{}
		}
	}
	if began.After(s.NotSetAt) {
		s.NotBefore, s.NotSetAt = time.Time{}, time.Time{}
	}
	return s.forgetRate(e.now)
}

// count notes a success in place.
func (s *state) count(key gateway.ClientKeyID, now time.Time) {
	s.okAt, s.ok = now, s.ok+1
	s.see(key, now)
}

// see notes in place which client key used the account, for the two-keys rule of terminal states.
func (s *state) see(key gateway.ClientKeyID, now time.Time) {
	old := 0
	for i := range s.keys {
		if s.keys[i].key == key && !s.keys[i].at.IsZero() {
			s.keys[i].at = now
			return
		}
		if s.keys[i].at.Before(s.keys[old].at) {
			old = i
		}
	}
	s.keys[old] = keySeen{key, now}
}

// alone reports whether no other client key was seen lately.
func (s *state) alone(key gateway.ClientKeyID, window time.Duration, now time.Time) bool {
	for _, k := range s.keys {
		if !k.at.IsZero() && k.key != key && now.Sub(k.at) <= window {
			return false
		}
	}
	return true
}
