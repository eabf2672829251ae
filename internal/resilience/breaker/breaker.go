// Package breaker answers one question: is this service broken, so that asking it now only costs time?
//
// Key. A connection and an exact model, and the connection itself; a whole provider in the OmniRoute presets. With
// scope auto a provider is out when enough of its connections are; that is computed from them and stored nowhere.
//
// What opens it: failures of the service (5xx, timeouts, nothing at all), by a run, by the rate in a window, by a kind
// of its own, by the outer gate, or by an operator. What closes it: probes that succeed, or an operator.
//
// What it never does: read a clock, start a timer or a goroutine, count what is the caller's fault or ours, count 429
// (unless a preset says so), or let a report of an older epoch change anything.
//
// The rules are one pure function, step, in machine.go; everything around it holds a mutex for that step only, and
// calls back outside of it.
package breaker

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// RoomName is the Room of the records that are kept.
const RoomName = "breaker"

// Transition is one change of one key, for the log, the history and the metrics.
type Transition struct {
	Key        string               `json:"key,omitzero"`
	Provider   gateway.ProviderID   `json:"provider,omitzero"`
	Connection gateway.ConnectionID `json:"connection,omitzero"`
	Model      gateway.ModelID      `json:"model,omitzero"`
	From       State                `json:"from"`
	To         State                `json:"to"`
	Cause      string               `json:"cause"` // kind, rate, wcount, consecutive, probe, dead, forced_open ...
	At         time.Time            `json:"at"`
	Until      time.Time            `json:"until,omitzero"` // of an open one; zero = no time is known
	Fails      int                  `json:"fails,omitzero"` // counted failures when it changed
	N          int                  `json:"n,omitzero"`     // attempts in the window when it changed
	F          int                  `json:"f,omitzero"`     // failures among them
	Actor      string               `json:"actor,omitzero"` // who ordered it
}

// Options are what a Room needs from outside; the zero value works.
type Options struct {
	// Keep receives durable records. A record is older than another of its key when its At is; a store must let the
	// later one win.
	Keep resilience.Keep
	// OnTransition hears every change of state, degraded included. It is called without any lock held.
	OnTransition func(Transition)
	// OnFree hears that a candidate may have become runnable without a transition: a probe slot was given back while
	// the key stays half-open, or first content lifted a provider's outage. It is called without any lock held.
	OnFree func()
	// Rand is a number in [0,1) for the jitter of open times; nil = no jitter. It must be safe for concurrent use.
	Rand func() float64
	// AttemptMax is the longest time an attempt may be silent; 0 = last_chance of the connection, else 5 min. The lease
	// of a probe is 5 s longer.
	AttemptMax time.Duration
	// Changes counts keys that become plain, or cease to be; nil counts nothing.
	Changes *resilience.Changes
}

// Room holds the breakers of everything bound to it. It has no goroutines and is safe for concurrent use.
type Room struct {
	opts   Options
	origin atomic.Pointer[origin]
	tokens atomic.Uint64
	counts tally

	mu     sync.RWMutex
	cells  map[string]*cell
	groups map[gateway.ProviderID]*group
	parked map[string]weak.Pointer[cell] // plain cells of models that only handles hold
	parkAt int                           // size of cells at which the next are parked
}

// New returns an empty room.
func New(o Options) *Room {
	return &Room{opts: o, cells: map[string]*cell{}, groups: map[gateway.ProviderID]*group{},
		parked: map[string]weak.Pointer[cell]{}, parkAt: maxCells}
}

// origin ties the machine's integers to a time.Time with a monotonic reading, so that a step of the wall clock does
// not reach the machine inside one process.
type origin struct {
	at time.Time
	ns int64
}

func (r *Room) ns(t time.Time) int64 {
	o := r.origin.Load()
	if o == nil {
		o = r.begin(t)
	}
	return o.ns + int64(t.Sub(o.at))
}

//go:noinline
func (r *Room) begin(t time.Time) *origin {
	r.origin.CompareAndSwap(nil, &origin{at: t, ns: t.UnixNano()})
	return r.origin.Load()
}

// time is the inverse of ns; 0 is the zero time.
func (r *Room) time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	if o := r.origin.Load(); o != nil {
		return o.at.Add(time.Duration(ns - o.ns))
	}
	return time.Unix(0, ns)
}

// ProviderKey is the key of a provider's breaker, and of everything of the provider in Force and Reset.
func ProviderKey(id gateway.ProviderID) string { return "provider:" + string(id) }

// ConnectionKey is the key of a connection's breaker.
func ConnectionKey(c *gateway.Connection) string { return c.Identity }

// ModelKey is the key of the breaker of one model on one connection.
func ModelKey(c *gateway.Connection, m gateway.ModelID) string { return c.Identity + "/" + string(m) }

// Bind returns the handle of one candidate under cfg. Candidates with the same connection identity and model share
// their cells, whatever the snapshot; cfg may differ between snapshots.
func (r *Room) Bind(c gateway.Candidate, cfg Config) *Handle {
	conn := c.Connection
	attempt := r.opts.AttemptMax
	if attempt == 0 {
		attempt = conn.Timeouts.LastChance
	}
	if attempt == 0 {
		attempt = defaultAttemptMax
	}
	rules := compile(cfg, conn.MaxConcurrent, attempt)
	id := identity{key: ConnectionKey(conn), provider: conn.Provider.ID, connection: conn.ID, conn: conn.Identity}
	if cfg.Scope == ScopeProvider {
		id = identity{key: ProviderKey(conn.Provider.ID), provider: conn.Provider.ID}
	}
	r.mu.Lock()
	h := &Handle{room: r, rules: rules, model: c.Model}
	h.own = r.cell(id, rules)
	if cfg.EvidencePerModel {
		h.conn = h.own
		id.parent, id.model = id.key, c.Model
		id.key += "/" + string(c.Model)
		h.own = r.cell(id, rules)
	}
	if cfg.Scope == ScopeAuto {
		h.group = r.groups[conn.Provider.ID]
		if h.group == nil {
			h.group = &group{provider: conn.Provider.ID, members: map[string]*member{}, changes: r.opts.Changes}
			r.groups[conn.Provider.ID] = h.group
		}
		h.group.join(h, conn.Identity)
	}
	gone := r.park(h.own)
	r.mu.Unlock()
	r.keepAll(gone)
	if h.group != nil && (!h.own.healthy() || (h.conn != nil && !h.conn.healthy())) {
		h.group.judge()
	}
	return h
}

// Retain names the identities that are still configured: the others leave their provider's group, so that what is gone
// cannot keep a provider out. Their state is kept for their return, until it is both plain and old.
func (r *Room) Retain(live map[string]bool) {
	r.mu.Lock()
	groups := make([]*group, 0, len(r.groups))
	for _, g := range r.groups {
		groups = append(groups, g)
	}
	for _, c := range r.cells {
		c.retired.Store(c.id.conn != "" && !live[c.id.conn])
	}
	gone := r.evict()
	r.mu.Unlock()
	for _, g := range groups {
		g.retain(live)
	}
	r.keepAll(gone)
}

func (r *Room) keepAll(records []resilience.Record) {
	for _, rec := range records {
		r.opts.Keep.Save(rec)
	}
}

const (
	maxCells = 10_000
	idleTime = int64(30 * time.Minute)
)

// evict makes room when there are more than maxCells keys: only those that are no longer configured, plainly closed
// and unused for 30 min. It returns the records that delete them from the store.
func (r *Room) evict() (gone []resilience.Record) {
	if len(r.cells) <= maxCells {
		return nil
	}
	var latest int64
	for _, c := range r.cells {
		latest = max(latest, c.usedAt())
	}
	for key, c := range r.cells {
		if len(r.cells) <= maxCells {
			break
		}
		if c.retired.Load() && c.idle(latest-idleTime) {
			delete(r.cells, key)
			gone = append(gone, resilience.Record{Room: RoomName, Key: key, At: r.time(latest)})
		}
	}
	return gone
}

// cell finds or makes the cell of a key; r.mu is held.
func (r *Room) cell(id identity, rules *rules) *cell {
	c := r.cells[id.key]
	if c == nil {
		if c = r.unpark(id.key); c == nil {
			id.key, id.model = strings.Clone(id.key), gateway.ModelID(strings.Clone(string(id.model)))
			c = &cell{id: id, changes: r.opts.Changes}
		}
		r.cells[c.id.key] = c
	}
	c.bind(rules)
	return c
}
