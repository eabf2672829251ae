package cooldown

import (
	"time"

	"spillway/internal/gateway"
)

// verdict is the terminal state that an outcome speaks for; active = none.
func (e event) verdict() standing {
	switch {
	case e.o.Endpoint:
		return active // the endpoint refuses everybody; that says nothing about this key
	case e.o.Kind == gateway.RequestRejected:
		return banned
	case !e.o.Structured && e.o.Status != 401 && e.o.Status != 402 && e.o.Status != 403:
		return active // words alone are not enough
	case e.o.Kind == gateway.CreditsExhausted:
		return creditsExhausted
	case e.o.Kind == gateway.Banned:
		return banned
	case e.o.Kind == gateway.AuthError && e.o.Status == 401:
		return expired
	}
	return active
}

// suspect handles the outcomes that may end in a terminal state. Each also cools, long enough that the next attempt
// is an observation of its own.
func (s state) suspect(e event, back span) state {
	if d, capped := e.hint(e.cfg.MaxHint); d > 0 {
		back = span{length: max(d, back.length), hinted: true, capped: capped}
		if s.herd(e) {
			back.length = d
		}
	}
	if s.herd(e) {
		return s.cool(e, back)
	}
	of := e.verdict()
	if of == active {
		if e.o.Kind == gateway.CreditsExhausted {
			back.length = max(back.length, e.cfg.PaymentCooldown)
		}
		return s.cool(e, back)
	}
	s = s.observe(e, of)
	if s.proven(e, of) {
		return s.end(e, of)
	}
	if e.o.Kind == gateway.CreditsExhausted || e.o.Kind == gateway.Banned {
		back.length = max(back.length, e.cfg.ConfirmAfter)
	}
	return s.cool(e, back)
}

// observe adds the outcome to the suspicion; another kind of it begins a new one.
func (s state) observe(e event, of standing) state {
	if s.Suspect.Of != of || s.Suspect.Kind != e.o.Kind {
		s.Suspect = suspicion{Of: of, Kind: e.o.Kind}
	}
	free := maxSeen - 1 // a full list gives up its newest: the oldest are the better evidence
	for i, seen := range s.Suspect.Seen {
		if seen.At.IsZero() {
			free = i
			break
		}
		if seen.Request == e.o.Request {
			return s
		}
	}
	s.Suspect.Count++
	s.Suspect.Seen[free] = sighting{Request: e.o.Request, Key: e.o.ClientKey, At: e.now}
	return s
}

// proven reports whether the newest observation, with an earlier one of another request at least ConfirmAfter before
// it, is enough; when several client keys are in use, the two must come from different keys.
func (s *state) proven(e event, of standing) bool {
	need := 2
	switch e.o.Kind {
	case gateway.AuthError:
		need = 1 + e.cfg.ExpiredRetries
	case gateway.RequestRejected:
		need = e.cfg.RejectLimit
	}
	if s.Suspect.Count < max(need, 2) {
		return false
	}
	alone := s.alone(e.o.ClientKey, e.cfg.KeyWindow, e.now)
	for _, seen := range s.Suspect.Seen {
		if seen.At.IsZero() || seen.Request == e.o.Request || e.now.Sub(seen.At) < e.cfg.ConfirmAfter {
			continue
		}
		if alone || seen.Key != e.o.ClientKey {
			return true
		}
	}
	return false
}

// end makes the state terminal.
func (s state) end(e event, of standing) state {
	s.Standing, s.Cause, s.TerminalAt, s.EpisodeAt, s.WrittenAt = of, e.o.Kind, e.now, e.now, e.now
	s.Source, s.Identity = e.conn.ID, e.conn.Identity
	s.Until, s.Capped, s.Suspect, s.ramp.on = time.Time{}, false, suspicion{}, false
	s.CheckAt = time.Time{}
	if of.recheckable() {
		s.CheckAt = e.now.Add(e.cfg.RecheckEvery)
	}
	return s
}

// recheck is the wait until the next re-check, after one at now.
func (s *state) recheck(cfg *Config, now time.Time) time.Duration {
	if now.Sub(s.TerminalAt) >= cfg.RecheckLaterAfter {
		return cfg.RecheckLater
	}
	return cfg.RecheckEvery
}

// renew lifts what a credential was blamed for, because connection id now has another one.
func (s state) renew(id gateway.ConnectionID, identity string) (state, bool) {
	if s.Standing == active || s.Standing == disabled || s.Source != id || s.Identity == identity {
		return s, false
	}
	return s.cleared(), true
}

// cleared is the state after an operator's or a new credential's fresh start. What it learned to count goes too; when
// the last episode began stays, so that late failures of the old days begin no new one.
func (s state) cleared() state {
	return state{durable: durable{EpisodeAt: s.EpisodeAt, WrittenAt: s.WrittenAt}, okAt: s.okAt, ok: s.ok, keys: s.keys,
		ramp: ramp{id: s.ramp.id + 1}}
}

// from makes everything that began before now old news; what begins at now is not.
func (s state) from(now time.Time) state {
	before := now.Add(-1)
	s.EpisodeAt, s.WrittenAt = later(s.EpisodeAt, before), later(s.WrittenAt, before)
	return s
}
