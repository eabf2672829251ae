package lockout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// cell is the lock of one key behind a mutex that is held for single steps only.
type cell struct {
	room  *Room
	key   string
	owner atomic.Pointer[gateway.Candidate] // one of its candidates, for people
	hot   atomic.Bool                       // there is, or was, a lock; Peek and successes look at it only then

	mu         sync.Mutex
	l          lock
	okAt       time.Time // last success
	at         time.Time // of the last step
	actor      string
	unsaved    bool
	unheard    bool
	publishing bool
}

func (c *cell) load() lock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.l
}

// change says how a step is published.
type change struct {
	persist bool
	actor   string
}

// step applies a pure step and publishes what changed.
func (c *cell) step(now time.Time, ch change, f func(lock) lock) {
	c.mu.Lock()
	before := c.l
	c.l, c.at = f(c.l), now
	if c.l != before && !(c.l.blank() && before.blank()) {
		c.unsaved, c.actor = c.unsaved || ch.persist, ch.actor
		c.unheard = c.unheard || !c.l.Until.Equal(before.Until)
	}
	c.hot.Store(!c.l.blank())
	todo, flipped := c.unsaved || c.unheard, c.l.blank() != before.blank()
	c.mu.Unlock()
	c.room.seen.Store(max(c.room.seen.Load(), now.UnixNano()))
	if flipped {
		c.room.hold(c)
	}
	if todo {
		c.publish()
	}
}

// publish hands changes to Keep and OnChange with no lock held. One caller at a time does it and goes on while there is
// more, so the last thing stored is the newest.
func (c *cell) publish() {
	for {
		c.mu.Lock()
		if c.publishing || !c.unsaved && !c.unheard {
			c.mu.Unlock()
			return
		}
		l, at, actor, save, tell := c.l, c.at, c.actor, c.unsaved, c.unheard
		c.publishing, c.unsaved, c.unheard = true, false, false
		c.mu.Unlock()
		if save {
			c.room.opts.Keep.Save(resilience.Record{Room: RoomName, Key: c.key, Value: l.encode(), At: at})
		}
		if tell && c.room.opts.OnChange != nil {
			st := c.status(&l, at)
			if actor != "" {
				st.Detail["actor"] = actor
			}
			c.room.opts.OnChange(st, at)
		}
		c.mu.Lock()
		c.publishing = false
		c.mu.Unlock()
	}
}

// until is when the cell's lock ends; c.hot tells whether it is worth asking.
func (c *cell) until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.l.Until
}

// Handle is the room bound to one candidate. It is safe for concurrent use.
type Handle struct {
	cfg   *Config
	c     gateway.Candidate
	cells [provider]*cell // by place - 1; exact and family are one cell where there is no family
}

var _ resilience.Handle = (*Handle)(nil)

// Peek implements resilience.Handle. Until is the end of the longest lock, so whoever waits for it is admitted.
func (h *Handle) Peek(_ *resilience.Ask, now time.Time) resilience.Ruling {
	var until time.Time
	for _, c := range &h.cells {
		if c.hot.Load() {
			until = later(until, c.until())
		}
	}
	if !now.Before(until) {
		return resilience.Ruling{}
	}
	return resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerLockout, Reason: gateway.ModelLockout, Until: until}
}

// Allow implements resilience.Handle. It takes nothing; ctx is unused: the room does no I/O.
func (h *Handle) Allow(_ context.Context, ask *resilience.Ask, now time.Time) (resilience.Permit, resilience.Ruling) {
	r := h.Peek(ask, now)
	if !r.OK() {
		return nil, r
	}
	return &permit{h: h, at: now}, r
}

// Learn takes an outcome for which no permit of this room exists.
func (h *Handle) Learn(o gateway.Outcome, now time.Time) {
	if o.Uncounted {
		return
	}
	ch := change{persist: h.cfg.Persist}
	e := event{o: o, cfg: h.cfg, perModel: h.c.Connection.Provider.PerModelQuota, now: now}
	if o.Kind != gateway.Success {
		if p := e.where(); p != nowhere {
			e.okAt = h.servedAt()
			h.cells[p-1].step(now, ch, func(l lock) lock { return l.fail(e) })
		}
		return
	}
	h.served(now)
	for i, c := range h.cells {
		if i == int(family-1) && c == h.cells[exact-1] {
			continue // one cell: a success counts once
		}
		if c.hot.Load() {
			c.step(now, ch, func(l lock) lock { return l.succeed(e) })
		}
	}
}

// served notes that the account serves the model.
func (h *Handle) served(now time.Time) {
	c := h.cells[quota-1]
	c.mu.Lock()
	c.okAt = later(c.okAt, now)
	c.mu.Unlock()
}

func (h *Handle) servedAt() time.Time {
	c := h.cells[quota-1]
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.okAt
}

// Status is "locked" or "open".
func (h *Handle) Status(now time.Time) string {
	if h.Peek(nil, now).OK() {
		return "open"
	}
	return "locked"
}

// Cause is the kind of outcome behind the lock that ends last, LocalError when there is none. Requests wait for a rate
// limit but never for a spent quota or a missing model.
func (h *Handle) Cause(now time.Time) gateway.Kind {
	var worst lock
	for _, c := range &h.cells {
		if l := c.load(); now.Before(l.Until) && l.Until.After(worst.Until) {
			worst = l
		}
	}
	return worst.Kind
}

// Keys are the keys that concern the candidate, for Clear; some may be unknown to be locked.
func (h *Handle) Keys() []string {
	keys := make([]string, 0, len(h.cells))
	for i, c := range h.cells {
		if i == int(family-1) && c == h.cells[exact-1] {
			continue
		}
		keys = append(keys, c.key)
	}
	return keys
}

type permit struct {
	h    *Handle
	at   time.Time // when it was given
	done atomic.Bool
}

// Alive implements resilience.Permit; only the end of an attempt says anything about a model.
func (p *permit) Alive(time.Time) {}

// Record implements resilience.Permit.
func (p *permit) Record(o gateway.Outcome, now time.Time) {
	if p.done.Swap(true) {
		return
	}
	if o.BeganAt.IsZero() {
		o.BeganAt = p.at
	}
	p.h.Learn(o, now)
}
