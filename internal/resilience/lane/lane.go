// Package lane answers: at a usage wall of a subscription, is there another way for the same account? The key is the
// connection's identity. There are two ways, each opted into per connection: the slower lane that the provider offers in
// the headers of the wall, and a reset of the limit that it may grant once in a while.
//
// It reads the heads of answers on the provider's terms ([Terms], data) and says what the attempt does next: nothing of
// its own, ask the same account again in the lane, wait for a slot first, or have the limit reset. Nothing is sent before
// the first wall. The lane ends when the provider says so, when the window of the wall turns, or when waiting takes too
// long, and then no offer is accepted for ten minutes.
//
// What it never does: I/O, wait, or keep anything over a restart, which costs one wall more.
package lane

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// Options are what a room needs from its surroundings; the zero value works.
type Options struct {
	// OnChange hears when a lane opens or ends. It is called without any lock held.
	OnChange func(resilience.Status, time.Time)
}

// Room holds the lanes of all connections that opted in. It is safe for concurrent use.
type Room struct {
	opts Options

	mu    sync.Mutex
	cells map[string]*cell // by identity
}

// New returns an empty room.
func New(o Options) *Room { return &Room{opts: o, cells: map[string]*cell{}} }

type cell struct {
	room *Room
	conn gateway.ConnectionID

	mu    sync.Mutex
	state state
}

// Handle is the room bound to one connection. It is safe for concurrent use.
type Handle struct {
	rules        rules
	cell         *cell
	organization string
}

// TermsOf are the terms on which a provider's walls are read; nil = it is not known to have any.
func TermsOf(p *gateway.Provider) *Terms {
	if p.Speaks(gateway.Anthropic) {
		return Anthropic
	}
	return nil
}

// Bind returns the handle of a candidate's connection; nil when it has opted into nothing.
func (r *Room) Bind(c gateway.Candidate) *Handle {
	conn := c.Connection
	if !conn.LowPriority && !conn.AutoReset {
		return nil
	}
	terms := TermsOf(conn.Provider)
	if terms == nil {
		return nil
	}
	id := memory.Identity(conn)
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.cells[id]
	if found == nil {
		found = &cell{room: r, conn: conn.ID}
		r.cells[id] = found
	}
	return &Handle{rules: rules{Terms: terms, LowPriority: conn.LowPriority, AutoReset: conn.AutoReset}, cell: found,
		organization: conn.Meta["organization"]}
}

// Slow reports whether a request that leaves now goes in the slow lane, and by which header it says so.
func (h *Handle) Slow(now time.Time) (name, value string, ok bool) {
	c := h.cell
	c.mu.Lock()
	s := h.rules.turned(c.state, now)
	c.mu.Unlock()
	if s.Phase != active {
		return "", "", false
	}
	return h.rules.Slow, h.rules.SlowValue, true
}

// Attempt is what is known of the attempt whose answer has come.
type Attempt struct {
	Status int
	Header http.Header
	Slow   bool          // it went in the slow lane
	Waited time.Duration // so long has its request waited for slots
	Left   time.Duration // of the request's deadline; 0 = it has none
	Again  bool          // the request may make another attempt here
	Jitter float64       // in [0,1)
}

func (h *Handle) event(a *Attempt, now time.Time) event {
	return event{Answer: h.rules.Read(a.Status, a.Header, now), Slow: a.Slow, Waited: a.Waited, Left: a.Left, Again: a.Again,
		Jitter: a.Jitter, Now: now}
}

// Answered decides about the answer to an attempt.
func (h *Handle) Answered(a *Attempt, now time.Time) Move {
	e := h.event(a, now)
	return h.step(now, func(s state) (state, Move) { return h.rules.answered(s, e) })
}

// Claimed takes in what came of the reset that a Move has asked for, and decides anew about the answer at the wall.
func (h *Handle) Claimed(a *Attempt, c Claim, now time.Time) Move {
	e := h.event(a, now)
	return h.step(now, func(s state) (state, Move) { return h.rules.claimed(s, c, e) })
}

func (h *Handle) step(now time.Time, f func(state) (state, Move)) Move {
	c := h.cell
	c.mu.Lock()
	before := c.state
	after, move := f(before)
	c.state = after
	c.mu.Unlock()
	if tell := c.room.opts.OnChange; tell != nil && (before.Phase != after.Phase || before.Why != after.Why) {
		tell(c.status(after), now)
	}
	return move
}

// OfferPath is where the provider says whether a reset is to be had, below its host.
func (h *Handle) OfferPath() string { return h.rules.OfferPath }

// ClaimPath is where one is claimed, below its host.
func (h *Handle) ClaimPath() string {
	return strings.Replace(h.rules.ClaimPath, "{organization}", h.organization, 1)
}

// Terms are the provider's.
func (h *Handle) Terms() *Terms { return h.rules.Terms }

// Retain forgets connections that are gone.
func (r *Room) Retain(live []*gateway.Connection) {
	keep := make(map[string]bool, len(live))
	for _, c := range live {
		keep[memory.Identity(c)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.cells {
		if !keep[id] {
			delete(r.cells, id)
		}
	}
}

// Status lists the lanes that are open or held, by connection.
func (r *Room) Status(now time.Time) []resilience.Status {
	r.mu.Lock()
	cells := make([]*cell, 0, len(r.cells))
	for _, c := range r.cells {
		cells = append(cells, c)
	}
	r.mu.Unlock()
	var out []resilience.Status
	for _, c := range cells {
		c.mu.Lock()
		s := (&rules{Terms: Anthropic}).turned(c.state, now)
		c.mu.Unlock()
		if s.Phase != off || now.Before(s.ResetAt) {
			out = append(out, c.status(s))
		}
	}
	slices.SortFunc(out, func(a, b resilience.Status) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// status describes a lane for people.
func (c *cell) status(s state) resilience.Status {
	st := resilience.Status{Layer: gateway.LayerPacing, Key: "connection:" + string(c.conn), State: phaseNames[s.Phase],
		Reason: gateway.UsageWall, Until: s.Until, Detail: map[string]string{"connection": string(c.conn)}}
	if s.Why != "" {
		st.Detail["ended_by"] = s.Why
	}
	if !s.ResetAt.IsZero() {
		st.Detail["next_reset_at"] = s.ResetAt.UTC().Format(time.RFC3339)
	}
	return st
}
