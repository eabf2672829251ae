package lockout

import (
	"context"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// cell is the lock of one key.
type cell struct {
	room  *Room
	key   string
	owner atomic.Pointer[gateway.Candidate] // one of its candidates, for people
	hot   atomic.Bool                       // there is, or was, a lock; Peek and successes look at it only then
	old   atomic.Bool                       // what it holds comes from an earlier process, nothing was learned since

	memory.Cell[lock]
	okAt time.Time // last success; guarded likewise
}

// change says how a step is published.
type change struct {
	persist bool
	actor   string
}

// step applies a pure step and publishes what changed.
func (c *cell) step(now time.Time, ch change, f func(lock) lock) {
	c.Lock()
	before, after := c.State, f(c.State)
	n := memory.News{At: now, Actor: ch.actor}
	if after != before && !(after.blank() && before.blank()) {
		n.Keep, n.Tell = ch.persist, !after.Until.Equal(before.Until)
	}
	c.State = after
	if hot := !after.blank(); c.hot.Swap(hot) != hot {
		c.room.opts.Changes.Note()
	}
	todo := c.Note(n)
	c.Unlock()
	c.room.seen.Store(max(c.room.seen.Load(), now.UnixNano()))
	if after.blank() != before.blank() {
		c.room.hold(c)
	}
	if todo {
		c.publish()
	}
}

// publish hands what is pending to Keep and OnChange with no lock held.
func (c *cell) publish() {
	o := &c.room.opts
	c.Publish(func(l lock, n memory.News) {
		if n.Keep {
			o.Keep.Save(n.Record(RoomName, c.key, l.encode()))
		}
		if n.Tell && o.OnChange != nil {
			o.OnChange(n.Sign(c.status(&l, n.At)), n.At)
		}
	})
}

// until is when the cell's lock ends; c.hot tells whether it is worth asking.
func (c *cell) until() time.Time {
	c.Lock()
	defer c.Unlock()
	return c.State.Until
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

// Plain reports that Peek allows everybody until something changes.
func (h *Handle) Plain() bool {
	for _, c := range &h.cells {
		if c.hot.Load() {
			return false
		}
	}
	return true
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
			h.cells[p-1].old.Store(false)
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
	c.Lock()
	c.okAt = later(c.okAt, now)
	c.Unlock()
}

func (h *Handle) servedAt() time.Time {
	c := h.cells[quota-1]
	c.Lock()
	defer c.Unlock()
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
		if l := c.Load(); now.Before(l.Until) && l.Until.After(worst.Until) {
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
