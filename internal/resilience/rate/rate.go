// Package rate answers: may one more request go to this account now, by the rates that its operator declared or its
// provider told? It counts requests and tokens of the last minute per account, keeps a shortest interval between two
// requests, and believes what rate-limit headers say is left until their reset.
//
// Key: the account of a provider, which all its connections that share a credential or a name belong to. What headers say belongs to the
// account as well, or to one model of it: where the provider has a quota per model, and from the moment on at which the
// answers of two models name different limits.
//
// It delays, it never forbids, and it tells the exact time at which a refused request would be let through if nothing
// else happened. A request reserves itself and its estimated tokens in one step, and settles with what it really used.
// A learned limit is never above a declared one, is believed for 24 hours at most, and after a rest that headers asked
// for one request finds out how things are: nothing latches. The room judges no failure and cools nothing; a refusal of
// the upstream is the cooldown room's.
package rate

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

// RoomName is the room of its durable records.
const RoomName = "rate"

// Options tune a room; the zero value works.
type Options struct {
	// Keep stores what must survive a restart: how much of the running minute is used, and what was learned.
	Keep resilience.Keep
	// Changes counts keys that become plain, or cease to be; nil counts nothing.
	Changes *resilience.Changes
	// OnFree is called, outside all locks, when something may go earlier than was said. It must be quick.
	OnFree func()
	// Remember is how many accounts that no snapshot holds any more are remembered; default 1024.
	Remember int
}

// Room holds the tallies of all accounts. It is safe for concurrent use and starts nothing.
type Room struct {
	opts  Options
	cells *memory.Index[string, cell]
}

// cell is the state of one account, or of one model of it.
type cell struct {
	memory.Cell[state]
	room *Room
	key  string
	hot  atomic.Bool // something learned is to be obeyed
}

// New returns an empty room.
func New(o Options) *Room {
	if o.Remember <= 0 {
		o.Remember = 1024
	}
	if o.OnFree == nil {
		o.OnFree = func() {}
	}
	return &Room{opts: o, cells: memory.NewIndex[string, cell](o.Remember, strings.Clone)}
}

func (r *Room) cell(key string) *cell {
	return r.cells.Get(key, func() *cell { return &cell{room: r, key: strings.Clone(key)} })
}

// Handle is the room bound to one candidate. A nil handle limits nothing. It is safe for concurrent use.
type Handle struct {
	room    *Room
	cfg     Config
	limits  limits // declared ones
	account *cell
	model   *cell // of what is learned per model
	name    gateway.ModelID
	split   bool // the provider has a quota per model

	families []family // headers that it may send
}

var _ resilience.Handle = (*Handle)(nil)

// Bind returns the handle of a candidate. Tallies are shared by all handles of one account and outlive them.
func (r *Room) Bind(c gateway.Candidate, cfg Config) *Handle {
	conn := c.Connection
	owner := memory.Account(conn)
	l := conn.RateLimits
	h := &Handle{room: r, cfg: cfg, limits: limits{rpm: l.RPM, tpm: l.TPM, interval: l.MinInterval}, account: r.cell(owner)}
	h.name, h.model = gateway.ModelID(strings.Clone(string(c.Model))), r.cell(owner+" "+string(c.Model))
	h.families = familiesOf(conn.Provider)
	h.split = conn.Provider != nil && conn.Provider.PerModelQuota
	h.account.Lock()
	defer h.account.Unlock()
	h.account.State.catchUp(h.effective(&h.account.State, h.account.State.restoredAt))
	h.model.Lock()
	defer h.model.Unlock()
	h.model.State.catchUp(h.effective(&h.model.State, h.model.State.restoredAt))
	h.model.State.model = true
	return h
}

// Plain reports that Peek allows everybody until something changes.
func (h *Handle) Plain() bool {
	return h == nil || h.limits == (limits{}) && !h.account.hot.Load() && !h.model.hot.Load()
}

// Peek implements [resilience.Handle].
func (h *Handle) Peek(ask *resilience.Ask, now time.Time) resilience.Ruling {
	if h.Plain() {
		return resilience.Ruling{}
	}
	h.lock()
	defer h.unlock()
	return h.ruling(tokensOf(ask), now)
}

func tokensOf(ask *resilience.Ask) int {
	if ask == nil {
		return 0
	}
	return ask.Tokens
}

// lock takes the account before the model, always.
func (h *Handle) lock() {
	h.account.Lock()
	h.model.Lock()
}

func (h *Handle) unlock() {
	h.model.Unlock()
	h.account.Unlock()
}

// ruling joins the answers of the account and the model: both must let the request go. The locks are held.
func (h *Handle) ruling(prompt int, now time.Time) resilience.Ruling {
	n := h.account.State.estimate(prompt)
	a := h.account.State.admits(h.effective(&h.account.State, now), n, now)
	if m := h.model.State.admits(h.effective(&h.model.State, now), n, now); m.later(a) {
		a = m
	}
	if a.now(now) {
		return resilience.Ruling{}
	}
	return resilience.Ruling{Verdict: resilience.Delayed, Layer: gateway.LayerPacing, Reason: a.why, Until: a.at}
}

// effective are the limits that hold for a key: the smaller of what is declared and what was learned.
func (h *Handle) effective(s *state, now time.Time) limits {
	l := limits{}
	if s == &h.account.State {
		l = h.limits
	}
	if !h.cfg.Learn {
		return l
	}
	l.rpm = smaller(l.rpm, s.requests.perMinute(now))
	l.tpm = smaller(l.tpm, s.tokens.perMinute(now))
	l.preflight = h.cfg.Preflight
	return l
}

// Allow implements [resilience.Handle]: it reserves one request and its estimated tokens, or nothing. ctx is unused: the
// room does no I/O.
func (h *Handle) Allow(_ context.Context, ask *resilience.Ask, now time.Time) (resilience.Permit, resilience.Ruling) {
	if h.Plain() {
		return free{}, resilience.Ruling{}
	}
	prompt := tokensOf(ask)
	h.lock()
	if r := h.ruling(prompt, now); !r.OK() {
		h.unlock()
		return nil, r
	}
	p := &permit{h: h, prompt: prompt, tokens: h.account.State.estimate(prompt)}
	p.account = h.account.State.take(p.tokens, now)
	p.model = h.model.State.take(p.tokens, now)
	h.unlockKeeping(now)
	return p, resilience.Ruling{}
}

// unlockKeeping unlocks both keys and stores what each has sent since its last record, when it is worth it.
func (h *Handle) unlockKeeping(now time.Time) {
	account, model := h.note(h.account, now), h.note(h.model, now)
	h.unlock()
	if account {
		h.account.publish()
	}
	if model {
		h.model.publish()
	}
}

func (h *Handle) note(c *cell, now time.Time) (pending bool) {
	return c.Note(memory.News{At: now, Keep: c.State.worthKeeping(h.effective(&c.State, now), now)})
}

// publish stores the newest state of a cell.
func (c *cell) publish() {
	c.Publish(func(_ state, n memory.News) {
		if !n.Keep {
			return
		}
		c.Lock()
		value := c.State.encode(n.At)
		c.Unlock()
		c.room.opts.Keep.Save(n.Record(RoomName, c.key, value))
	})
}

// free is the permit of an account without limits.
type free struct{}

func (free) Alive(time.Time)                   {}
func (free) Record(gateway.Outcome, time.Time) {}

// permit is one reserved request.
type permit struct {
	h              *Handle
	prompt, tokens int // the estimate without, and with, what answers usually add
	account, model ticket

	mu    sync.Mutex
	heard bool
	done  bool
}

// Alive implements [resilience.Permit]. First content says nothing about rates.
func (p *permit) Alive(time.Time) {}

// Record implements [resilience.Permit]: the estimate is replaced by what was used. An attempt that never left (an
// outcome without BeganAt) gives back everything.
func (p *permit) Record(o gateway.Outcome, now time.Time) {
	p.mu.Lock()
	done, heard := p.done, p.heard
	p.done, p.heard = true, true
	p.mu.Unlock()
	if done {
		return
	}
	e := ended{sent: !o.BeganAt.IsZero(), heard: heard, used: spent(o, p.tokens), tokens: p.tokens, prompt: p.prompt,
		learns: o.Kind == gateway.Success && usedIn(o) > 0}
	p.h.lock()
	less := p.h.account.State.settle(p.account, e, now)
	less = p.h.model.State.settle(p.model, e, now) || less
	p.h.unlockKeeping(now)
	if less {
		p.h.room.opts.OnFree()
	}
}

// mostTokens bounds what one answer is believed to have used, so that no sum overflows.
const mostTokens = 1 << 40

// usedIn is what an answer says that it has used; 0 = nothing.
func usedIn(o gateway.Outcome) int {
	return min(max(o.Usage.Input, 0), mostTokens) + min(max(o.Usage.Output, 0), mostTokens)
}

// spent is how many tokens an attempt counts with after its end. Without usage in the answer it is nothing for what the
// upstream refused or could not do, else the estimate: it may have worked for an attempt that was left early.
func spent(o gateway.Outcome, estimate int) int {
	if n := usedIn(o); n > 0 && (o.Kind == gateway.Success || n > estimate) {
		return n
	}
	if !o.Failed() || o.Content {
		return estimate
	}
	switch o.Kind {
	case gateway.Timeout, gateway.Slow, gateway.Stall:
		return estimate
	}
	return 0
}

func smaller(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
