// Package gate answers: is there room for one more attempt on this candidate? It counts attempts in flight against four
// caps (global, provider, connection, exact model at the connection), taken together all or nothing, against the AIMD
// limit of (account, model), and against the small cap of a candidate that has not yet proven itself.
//
// It delays, it never forbids, and a full gate disables nothing. In flight is never above a cap. What was taken comes
// back exactly once, by the permit's Record, whatever the outcome. Nothing here blocks or waits: waiting is the
// queue's, which is told through Options.OnFree that something may have become free.
package gate

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// Options tune a room.
type Options struct {
	// OnFree is called, outside all locks, whenever something that was full or paced may run: a slot came back, or a
	// first content arrived (which may prove a candidate). It must be quick and may be called from any goroutine.
	OnFree func()
	// Changes counts accounts that become plain, or cease to be; nil counts nothing.
	Changes *resilience.Changes
	// Keep is how many candidates that no snapshot holds any more are remembered; default 1024.
	Keep int
}

// Room owns all counters. It is safe for concurrent use.
type Room struct {
	onFree  func()
	changes *resilience.Changes

	mu     sync.Mutex // guards every change of a counter, so that taking is all or nothing
	global counter

	// Who holds a counter shares it: two counters of one key would let twice the cap through.
	providers *memory.Index[gateway.ProviderID, counter]
	conns     *memory.Index[string, counter]
	models    *memory.Index[modelKey, counter]
	accounts  *memory.Index[modelKey, account]
	lastKey   atomic.Int64
}

// modelKey is an exact model at a connection (by identity) or at an account.
type modelKey struct {
	owner string
	model gateway.ModelID
}

// clone copies the model's name, which may be a part of a request's body.
func (k modelKey) clone() modelKey {
	return modelKey{k.owner, gateway.ModelID(strings.Clone(string(k.model)))}
}

// counter is a number of attempts in flight. It is written under Room.mu and read without it.
type counter struct {
	key int // opaque id for queues; only of models
	n   atomic.Int64
}

// New returns an empty room. It starts nothing.
func New(o Options) *Room {
	if o.Keep <= 0 {
		o.Keep = 1024
	}
	if o.OnFree == nil {
		o.OnFree = func() {}
	}
	return &Room{
		onFree:    o.OnFree,
		changes:   o.Changes,
		providers: memory.NewIndex[gateway.ProviderID, counter](o.Keep, nil),
		conns:     memory.NewIndex[string, counter](o.Keep, nil),
		models:    memory.NewIndex[modelKey, counter](o.Keep, modelKey.clone),
		accounts:  memory.NewIndex[modelKey, account](o.Keep, modelKey.clone),
	}
}

// Handle is the room bound to one candidate under one configuration. It implements [resilience.Handle].
type Handle struct {
	// What Free and Limit look at lies together: planning asks them of every candidate.
	capped  bool // one of the four caps is set
	always  bool // AIMD is engaged from the start
	local   bool // class local
	fixed   int  // Limit while AIMD is not engaged
	trials  int  // cfg.UnprovenCap
	account *account
	model   *counter

	room              *Room
	cfg               Config
	proven            func(time.Time) bool
	connCap, modelCap int
	provider          *counter
	conn              *counter
}

var _ resilience.Handle = (*Handle)(nil)

// Bind returns the handle of a candidate. Counters are shared by key with every other handle, also with those of older
// snapshots; the caps are the handle's own. A zero cfg is Default(). proven tells whether the candidate has proven itself; nil = always.
func (r *Room) Bind(c gateway.Candidate, cfg Config, proven func(time.Time) bool) *Handle {
	if cfg == (Config{}) {
		cfg = Default()
	}
	id := memory.Identity(c.Connection)
	h := &Handle{room: r, cfg: cfg, trials: cfg.UnprovenCap, proven: proven, always: cfg.AIMD.Mode == AIMDAlways,
		connCap: c.Connection.MaxConcurrent, modelCap: c.Connection.ModelConcurrency[c.Model]}
	h.capped = h.connCap > 0 || h.modelCap > 0 || cfg.GlobalConcurrency > 0 || cfg.ProviderConcurrency > 0
	if h.fixed = smallest(h.connCap, h.modelCap); h.fixed == 0 {
		h.fixed = max(cfg.DefaultLimit, 1)
	}
	var provider gateway.ProviderID
	if p := c.Connection.Provider; p != nil {
		provider, h.local = p.ID, p.Class == gateway.Local
	}
	h.provider = r.providers.Get(provider, newCounter)
	h.conn = r.conns.Get(id, newCounter)
	h.model = r.models.Get(modelKey{id, c.Model}, func() *counter { return &counter{key: int(r.lastKey.Add(1))} })
	h.account = r.accounts.Get(modelKey{memory.Account(c.Connection), c.Model}, func() *account { return &account{changes: r.changes} })
	return h
}

func newCounter() *counter { return new(counter) }

// Key is a small number that is equal for handles of the same connection and model, for the sets of a queue.
func (h *Handle) Key() int { return h.model.key }

// Peek implements [resilience.Handle].
func (h *Handle) Peek(ask *resilience.Ask, now time.Time) resilience.Ruling {
	if ruling := h.caps(now); !ruling.OK() {
		return ruling
	}
	if !h.onTrial(ask) || h.isProven(now) {
		return resilience.Ruling{}
	}
	return h.trial(ask, now)
}

// caps applies the caps and the AIMD limit.
func (h *Handle) caps(now time.Time) resilience.Ruling {
	switch {
	case h.capped && h.full():
		return delayed(gateway.ConcurrencyFull, time.Time{})
	case h.paced(now):
		return delayed(gateway.Paced, held(h.cfg.AIMD, h.account.state.Load(), now))
	}
	return resilience.Ruling{}
}

func delayed(why gateway.Reason, until time.Time) resilience.Ruling {
	return resilience.Ruling{Verdict: resilience.Delayed, Layer: gateway.LayerPacing, Reason: why, Until: until}
}

// full reports whether one of the four caps is reached.
func (h *Handle) full() bool {
	return reached(&h.room.global, h.cfg.GlobalConcurrency) || reached(h.provider, h.cfg.ProviderConcurrency) ||
		reached(h.conn, h.connCap) || reached(h.model, h.modelCap)
}

func reached(c *counter, limit int) bool { return limit > 0 && c.n.Load() >= int64(limit) }

// paced reports whether the AIMD limit is reached, or a pause is on because a limit of one was too much.
func (h *Handle) paced(now time.Time) bool {
	if !h.always && h.account.state.Load() == nil {
		return false // the usual case, made cheap
	}
	if !held(h.cfg.AIMD, h.account.state.Load(), now).IsZero() {
		return true
	}
	limit, engaged := h.account.limit(h.cfg.AIMD, now)
	return engaged && h.account.n.Load() >= int64(limit)
}

// onTrial reports whether the cap of the unproven would say no if the candidate is unproven. Alone in its pool a
// candidate has no such cap.
func (h *Handle) onTrial(ask *resilience.Ask) bool {
	limit := h.cfg.UnprovenCap
	return limit > 0 && ask != nil && ask.PoolSize > 1 && h.model.n.Load() >= int64(limit)
}

// Plain reports that nothing but the cap of the unproven can say no until the next change, and that Limit stays the same.
func (h *Handle) Plain() bool { return !h.capped && !h.always && h.account.state.Load() == nil }

// Untried reports whether there is room for an attempt on a candidate that has not proven itself.
func (h *Handle) Untried() bool { return h.trials <= 0 || h.model.n.Load() < int64(h.trials) }

// Free is a quick yes: neither a cap nor AIMD nor the cap of the unproven can say no, so Peek would allow. False says
// nothing: ask Peek. proven is what the caller knows of the candidate; false = nothing.
func (h *Handle) Free(proven bool) bool {
	return (!h.capped || !h.full()) && !h.always && h.account.state.Load() == nil && (proven || h.Untried())
}

func (h *Handle) isProven(now time.Time) bool { return h.proven == nil || h.proven(now) }

// trial applies the cap of an unproven candidate: UnprovenCap while another candidate of the pool is proven; without
// one it grows with the time that the request has waited.
func (h *Handle) trial(ask *resilience.Ask, now time.Time) resilience.Ruling {
	if ask.PoolProven || h.cfg.UnprovenStep <= 0 || h.cfg.UnprovenEvery <= 0 {
		return delayed(gateway.Unproven, time.Time{})
	}
	steps := int(ask.Waited / h.cfg.UnprovenEvery)
	if h.model.n.Load() < int64(h.cfg.UnprovenCap+steps*h.cfg.UnprovenStep) {
		return resilience.Ruling{}
	}
	next := time.Duration(steps+1) * h.cfg.UnprovenEvery
	return delayed(gateway.Unproven, now.Add(next-ask.Waited))
}

// Allow implements [resilience.Handle]. It takes one place of every cap, or none.
func (h *Handle) Allow(_ context.Context, ask *resilience.Ask, now time.Time) (resilience.Permit, resilience.Ruling) {
	proven := h.isProven(now) // asked before the lock: it is another room's
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	ruling := h.caps(now)
	if ruling.OK() && !proven && h.onTrial(ask) {
		ruling = h.trial(ask, now)
	}
	if !ruling.OK() {
		return nil, ruling
	}
	h.room.global.n.Add(1)
	h.provider.n.Add(1)
	h.conn.n.Add(1)
	h.model.n.Add(1)
	h.account.took(h.cfg.AIMD, now)
	return &permit{handle: h, beganAt: now}, resilience.Ruling{}
}

// InFlight is the number of attempts in flight on this connection and model.
func (h *Handle) InFlight() int { return int(h.model.n.Load()) }

// Limit is how many attempts at once the candidate is thought to carry: the smallest of the AIMD limit and the caps of
// connection and model, or Config.DefaultLimit when there is none of them.
func (h *Handle) Limit(now time.Time) int {
	if !h.always && h.account.state.Load() == nil {
		return h.fixed // the usual case, made cheap
	}
	limit, engaged := h.account.limit(h.cfg.AIMD, now)
	if !engaged {
		return h.fixed
	}
	return smallest(limit, h.connCap, h.modelCap)
}

// smallest is the least of the numbers that are set; 0 when none is.
func smallest(caps ...int) int {
	least := 0
	for _, n := range caps {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// permit holds one place of every cap.
type permit struct {
	handle  *Handle
	beganAt time.Time
	done    atomic.Bool
}

// Alive implements [resilience.Permit]: a first content may have proven the candidate, so what waited for that looks
// again.
func (p *permit) Alive(time.Time) {
	if !p.done.Load() && p.handle.cfg.UnprovenCap > 0 {
		p.handle.room.onFree()
	}
}

// Record implements [resilience.Permit].
func (p *permit) Record(o gateway.Outcome, now time.Time) {
	if p.done.Swap(true) {
		return
	}
	p.handle.give(o, p.beganAt, now)
	p.handle.room.onFree()
}

func (h *Handle) give(o gateway.Outcome, beganAt, now time.Time) {
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.account.learn(h, o, beganAt, now)
	h.room.global.n.Add(-1)
	h.provider.n.Add(-1)
	h.conn.n.Add(-1)
	h.model.n.Add(-1)
	h.account.gave(h.cfg.AIMD, now)
}
