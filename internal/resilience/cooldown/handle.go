package cooldown

import (
	"context"
	"sync"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Handle is the room bound to one candidate. It is safe for concurrent use.
type Handle struct {
	room          *Room
	cfg           *Config
	c             gateway.Candidate
	egress        string
	conn, account *cell
}

var _ resilience.Handle = (*Handle)(nil)

// Peek implements resilience.Handle.
func (h *Handle) Peek(ask *resilience.Ask, now time.Time) resilience.Ruling {
	if h.Plain() {
		return resilience.Ruling{}
	}
	if !h.conn.hot.Load() {
		return h.peek(h.account, ask, now)
	}
	return stricter(h.peek(h.conn, ask, now), h.peek(h.account, ask, now))
}

func (h *Handle) peek(c *cell, ask *resilience.Ask, now time.Time) resilience.Ruling {
	if !c.hot.Load() {
		return resilience.Ruling{}
	}
	c.Lock()
	defer c.Unlock()
	return c.State.ruling(h.cfg, h.c.Connection, ask, now)
}

// Plain reports that Peek allows everybody until something changes.
func (h *Handle) Plain() bool { return !h.conn.hot.Load() && !h.account.hot.Load() }

// stricter joins the answers of the connection and its account. Until is when both would allow; when one of them waits
// for an event alone, no time is known.
func stricter(a, b resilience.Ruling) resilience.Ruling {
	if a.OK() && b.OK() {
		if b.Probe {
			return b
		}
		return a
	}
	if b.Verdict > a.Verdict || b.Verdict == a.Verdict && b.Reason == gateway.Terminal {
		a, b = b, a
	}
	if b.OK() || a.Until.IsZero() {
		return a
	}
	if b.Until.IsZero() {
		a.Until = b.Until
		return a
	}
	a.Until = later(a.Until, b.Until)
	return a
}

// Allow implements resilience.Handle. ctx is unused: the room does no I/O.
func (h *Handle) Allow(_ context.Context, ask *resilience.Ask, now time.Time) (resilience.Permit, resilience.Ruling) {
	if !h.conn.hot.Load() && !h.account.hot.Load() {
		return &permit{h: h, at: now}, resilience.Ruling{}
	}
	p := &permit{h: h, at: now}
	h.conn.Lock()
	h.account.Lock()
	ruling := stricter(h.conn.State.ruling(h.cfg, h.c.Connection, ask, now), h.account.State.ruling(h.cfg, h.c.Connection, ask, now))
	if ruling.OK() {
		var s state
		s, p.took.conn = h.conn.State.take(h.cfg, now)
		h.conn.set(s, "", now)
		s, p.took.account = h.account.State.take(h.cfg, now)
		h.account.set(s, "", now)
	}
	h.account.Unlock()
	h.conn.Unlock()
	if !ruling.OK() {
		return nil, ruling
	}
	h.conn.publish() // a re-check moved its next one
	h.account.publish()
	return p, ruling
}

// Learn takes an outcome for which no permit of this room exists.
func (h *Handle) Learn(o gateway.Outcome, now time.Time) { h.learn(o, now, taken{}) }

// Return begins a ramp for the connection, because its breaker has just let it back.
func (h *Handle) Return(now time.Time) {
	if h.cfg.RampStep <= 0 || h.c.Connection.DisableCooling {
		return
	}
	h.conn.step(now, func(s state) state {
		if s.ramp.on || s.Standing != active {
			return s
		}
		return s.startRamp(false)
	})
}

// Renewed says that the connection's credential was read again and differs: what the old one was blamed for is lifted.
func (h *Handle) Renewed(now time.Time) {
	h.conn.step(now, func(s state) state {
		if s.Standing == disabled {
			return s
		}
		return s.cleared()
	})
	h.account.step(now, func(s state) state {
		s, _ = s.renew(h.c.Connection.ID, "")
		return s
	})
}

// Status is the state in one word: active, unavailable, expired, credits_exhausted, banned or disabled, the worse of
// the connection's and its account's.
func (h *Handle) Status(now time.Time) string {
	conn, account := h.conn.Load(), h.account.Load()
	if conn.Standing == active && account.Standing == active {
		if w := conn.word(now); w != active.String() {
			return w
		}
		return account.word(now)
	}
	return max(conn.Standing, account.Standing).String()
}

// Cause is the kind of outcome behind the present cooldown or terminal state, LocalError when there is none. Requests
// wait for a rate limit but never for a spent quota or a refused key.
func (h *Handle) Cause(now time.Time) gateway.Kind {
	standing, until, cause := h.conn.cause()
	if s, u, c := h.account.cause(); s > standing || s == standing && u.After(until) {
		standing, until, cause = s, u, c
	}
	if standing == active && !now.Before(until) {
		return gateway.LocalError
	}
	return cause
}

// cause reads what Cause needs: planning asks it of everything that is out, and the whole state is large.
func (c *cell) cause() (standing, time.Time, gateway.Kind) {
	if !c.hot.Load() {
		return active, time.Time{}, gateway.LocalError
	}
	c.Lock()
	defer c.Unlock()
	return c.State.Standing, c.State.Until, c.State.Cause
}

// LearnedRPM is the rate per minute that the account was seen to bear; 0 = none was inferred.
func (h *Handle) LearnedRPM(now time.Time) float64 {
	s := h.account.Load()
	return s.rpm(h.cfg, now)
}

// Keys are the keys of the candidate's connection and account.
func (h *Handle) Keys() (connection, account string) { return h.conn.key, h.account.key }

// taken is what a permit took of both keys.
type taken struct{ conn, account grant }

type permit struct {
	h  *Handle
	at time.Time // when it was given

	mu    sync.Mutex
	done  bool
	alive bool
	took  taken
}

// Alive implements resilience.Permit: who returns and serves may serve twice as many.
func (p *permit) Alive(now time.Time) {
	p.mu.Lock()
	skip := p.alive || p.done
	p.alive = true
	took := p.took
	if !skip {
		p.took.conn.rampID, p.took.account.rampID = 0, 0 // one success widens once
	}
	p.mu.Unlock()
	if skip || took == (taken{}) {
		return
	}
	p.h.conn.step(now, func(s state) state { return s.widen(took.conn, now) })
	p.h.account.step(now, func(s state) state { return s.widen(took.account, now) })
}

// Record implements resilience.Permit.
func (p *permit) Record(o gateway.Outcome, now time.Time) {
	p.mu.Lock()
	done := p.done
	p.done = true
	took := p.took
	p.mu.Unlock()
	if done {
		return
	}
	if o.Uncounted || o.Kind == gateway.LocalError || o.Kind == gateway.Canceled {
		p.release(took, !o.BeganAt.IsZero(), now)
		return
	}
	if o.BeganAt.IsZero() {
		o.BeganAt = p.at
	}
	p.h.learn(o, now, took)
}

// release returns what was taken and teaches nothing.
func (p *permit) release(took taken, sent bool, now time.Time) {
	if took == (taken{}) {
		return
	}
	p.h.conn.step(now, func(s state) state { return s.refund(took.conn, sent) })
	p.h.account.step(now, func(s state) state { return s.refund(took.account, sent) })
}
