package cooldown

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// grant is what one permit took of one key.
type grant struct {
	rampID  uint64 // 0 = no ramp was on
	step    int
	recheck time.Time // the CheckAt before this permit moved it; zero = no re-check
	moved   time.Time // what it was moved to
	paced   bool
	admitAt time.Time // the admission before this one
	at      time.Time // this admission
}

func (s state) startRamp(strict bool) state {
	s.ramp = ramp{on: true, strict: strict, id: s.ramp.id + 1}
	return s
}

// reached is the step that the ramp stands at, counting the time since the canary left.
func (r *ramp) reached(cfg *Config, now time.Time) int {
	if r.strict || r.at.IsZero() || cfg.RampStep <= 0 {
		return r.step
	}
	return min(r.step+max(int(now.Sub(r.at)/cfg.RampStep), 0), fullRamp)
}

// gate is the ramp's answer: how many may still go in this step, and until when one too many waits.
func (r *ramp) gate(cfg *Config, now time.Time) (ok bool, until time.Time) {
	step := r.reached(cfg, now)
	switch {
	case !r.on || step >= fullRamp || cfg.RampStep <= 0 && !r.strict:
		return true, time.Time{}
	case step > r.step || r.out < 1<<step:
		return true, time.Time{}
	case r.strict:
		until = r.at.Add(cfg.CanaryLease)
		return !now.Before(until), until
	}
	return false, r.at.Add(cfg.RampStep)
}

// ruling is the answer for one key. It reads only.
func (s *state) ruling(cfg *Config, conn *gateway.Connection, ask *resilience.Ask, now time.Time) resilience.Ruling {
	out := resilience.Ruling{Layer: gateway.LayerCooldown}
	if s.Standing != active {
		return s.terminalRuling(ask, now)
	}
	// Later refusals of the same key only move Until, so that a lone caller who waits for it is admitted.
	refuse := func(v resilience.Verdict, r gateway.Reason, until time.Time) {
		if out.Verdict == resilience.Allowed {
			out.Verdict, out.Reason, out.Probe = v, r, false
		}
		out.Until = later(out.Until, until)
	}
	if !conn.DisableCooling {
		cooling := now.Before(s.Until)
		if cooling {
			refuse(resilience.Forbidden, gateway.ConnectionCooldown, s.Until)
		}
		if now.Before(s.NotBefore) && ask != nil && ask.Fallbacks > 0 {
			refuse(resilience.Forbidden, gateway.NotBefore, s.NotBefore)
		}
		if s.ramp.on && !cooling {
			if ok, until := s.ramp.gate(cfg, now); !ok {
				refuse(resilience.Delayed, gateway.Returning, until)
			} else if out.OK() && s.ramp.reached(cfg, now) == 0 && (cfg.RampStep > 0 || s.ramp.strict) {
				out.Probe, out.Reason = true, gateway.Returning
			}
		}
	}
	if at := s.nextAdmission(cfg, now); now.Before(at) {
		if out.OK() {
			out.Layer = gateway.LayerPacing
		}
		refuse(resilience.Delayed, gateway.Paced, at)
	}
	return out
}

// terminalRuling refuses, but for the one request per hour or day that re-checks. It should be one that can still
// fall back; when nothing else is runnable it may pay for the re-check itself, because it fails either way.
func (s *state) terminalRuling(ask *resilience.Ask, now time.Time) resilience.Ruling {
	out := resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerCooldown, Reason: gateway.Terminal}
	if !s.Standing.recheckable() {
		return out
	}
	if now.Before(s.CheckAt) {
		out.Until = s.CheckAt
		return out
	}
	if ask != nil && ask.Fallbacks > 0 && ask.AttemptsLeft == 1 {
		return out // the request's last attempt is better spent on a runnable candidate
	}
	out.Verdict, out.Probe = resilience.Allowed, true
	return out
}

// take is the step for an admission that ruling allowed.
func (s state) take(cfg *Config, now time.Time) (state, grant) {
	var g grant
	if s.Standing != active {
		g.recheck, g.moved = s.CheckAt, now.Add(s.recheck(cfg, now))
		s.CheckAt = g.moved
		return s, g
	}
	if s.ramp.on && s.ramp.reached(cfg, now) >= fullRamp {
		s.ramp.on = false
	}
	if s.ramp.on {
		if step := s.ramp.reached(cfg, now); step > s.ramp.step || s.ramp.out == 0 || s.ramp.out >= 1<<step {
			s.ramp.step, s.ramp.out, s.ramp.at = step, 0, now
		}
		s.ramp.out++
		g.rampID, g.step = s.ramp.id, s.ramp.step
	}
	if s.Learned > 0 {
		g.paced, g.admitAt, g.at = true, s.admitAt, now
		s.admitAt = now
	}
	return s, g
}

// refund is the step for an attempt that taught nothing: it was cancelled or the fault was ours. sent says whether
// anything reached the upstream.
func (s state) refund(g grant, sent bool) state {
	if !g.moved.IsZero() && s.CheckAt.Equal(g.moved) {
		s.CheckAt = g.recheck
	}
	if g.paced && !sent && s.admitAt.Equal(g.at) {
		s.admitAt = g.admitAt
	}
	return s.giveBack(g)
}

// settle ends an attempt that was no answer. The place of the canary behind a capped hint becomes free; in an ordinary
// ramp only time and successes let more through.
func (s state) settle(g grant) state {
	if s.ramp.strict {
		return s.giveBack(g)
	}
	return s
}

func (s state) giveBack(g grant) state {
	if g.rampID != 0 && g.rampID == s.ramp.id && g.step == s.ramp.step && s.ramp.out > 0 {
		s.ramp.out--
	}
	return s
}

// widen is the step for a success of an attempt that this ramp released: twice as many may follow at once.
func (s state) widen(g grant, now time.Time) state {
	if !s.ramp.on || g.rampID != s.ramp.id {
		return s
	}
	s.ramp = ramp{on: s.ramp.step+1 < fullRamp, id: s.ramp.id, step: s.ramp.step + 1, at: now}
	return s
}
