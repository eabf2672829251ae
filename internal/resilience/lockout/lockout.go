// Package lockout answers: may this one model be used at this connection now? It isolates the faults of a model, so
// that the connection's other models go on.
//
// Keys. A missing model and the faults of section 4's settings lock (connection identity, model); refusals with 402,
// 403 or 429 lock the model's quota family where there is one; per-model rate limits and quotas belong to the account,
// so they lock (provider, account, model or family); a retired model is locked at every account of the provider.
//
// What locks: a missing or retired model, per-model limits, and rules with scope model, always; 403 and 5xx codes only
// when enabled. The longer lock wins, each further one is longer. What unlocks: time, an operator, or a success, which
// halves the count.
//
// What it never does: lock a family because of a service fault, lock anything because of the caller's faults, or
// shorten a lock.
package lockout

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// RoomName is the room of its durable records.
const RoomName = "lockout"

// ErrUnknownKey is returned by Clear when nothing is known by that key.
var ErrUnknownKey = errors.New("lockout: unknown key")

// Options are what a room needs from its surroundings; the zero value works.
type Options struct {
	// Keep stores what must survive a restart. It is called without any lock held, in order per key.
	Keep resilience.Keep
	// OnChange hears of every lock that is set, moved or lifted, likewise.
	OnChange func(resilience.Status, time.Time)
	// Rand is not used: a lock has no jitter, the accounts behind it do not return together.
	Rand func() float64
	// Changes counts keys that become plain, or cease to be; nil counts nothing.
	Changes *resilience.Changes
}

// Room holds all locks. It is safe for concurrent use.
type Room struct {
	opts Options

	seen atomic.Int64 // the latest instant of any step, in Unix nanoseconds

	limit int // of held

	cells *memory.Index[string, cell] // all cells that somebody holds; a blank one lives as long as a handle does

	mu   sync.Mutex
	held map[string]*cell // those that are not blank; the room itself holds them
}

// maxHeld is how many locks are kept before those that are over longest are forgotten. Clients choose model names, so
// the number of keys has no other bound.
const maxHeld = 10_000

// New returns an empty room.
func New(o Options) *Room {
	return &Room{opts: o, limit: maxHeld, cells: memory.NewIndex[string, cell](0, nil), held: map[string]*cell{}}
}

// Bind returns the room's handle for a candidate. State is shared by all handles of one key and outlives them.
func (r *Room) Bind(c gateway.Candidate, cfg Config) *Handle {
	unit := string(c.Model)
	if cfg.Family != "" {
		unit = "family " + cfg.Family
	}
	conn := c.Connection
	prov, id := string(conn.Provider.ID), memory.Identity(conn)
	h := &Handle{cfg: &cfg, c: c}
	h.cells[exact-1] = r.cell("connection:"+id+"/"+string(c.Model), c)
	h.cells[family-1] = r.cell("connection:"+id+"/"+unit, c)
	h.cells[quota-1] = r.cell("account:"+memory.Account(conn)+"/"+unit, c)
	h.cells[provider-1] = r.cell("provider:"+prov+"/"+string(c.Model), c)
	if !cfg.Persist {
		for _, c := range h.cells {
			c.discard()
		}
	}
	return h
}

// cell finds or makes a cell.
func (r *Room) cell(key string, of gateway.Candidate) *cell {
	c := r.cells.Get(key, func() *cell { return &cell{room: r, key: key} })
	if of.Connection != nil {
		c.owner.Store(&of)
	}
	return c
}

// hold keeps or lets go of a cell whose blankness changed, and makes room when there are too many.
func (r *Room) hold(c *cell) {
	r.mu.Lock()
	l := c.Load()
	if l.blank() {
		delete(r.held, c.key)
	} else {
		r.held[c.key] = c
	}
	var old []*cell
	if len(r.held) > r.limit {
		old = r.oldest(len(r.held) / 10)
	}
	r.mu.Unlock()
	r.drop(old)
}

// oldest returns up to n held cells whose locks are over, those over longest first; r.mu is held.
func (r *Room) oldest(n int) []*cell {
	type over struct {
		c     *cell
		until time.Time
	}
	now := time.Unix(0, r.seen.Load())
	var all []over
	for _, c := range r.held {
		if l := c.Load(); !now.Before(l.Until) {
			all = append(all, over{c, l.Until})
		}
	}
	slices.SortFunc(all, func(a, b over) int { return a.until.Compare(b.until) })
	out := make([]*cell, 0, n)
	for _, o := range all[:min(n, len(all))] {
		out = append(out, o.c)
	}
	return out
}

// drop forgets cells whose locks are over.
func (r *Room) drop(cells []*cell) {
	now := time.Unix(0, r.seen.Load())
	for _, c := range cells {
		c.step(now, change{persist: true}, func(l lock) lock {
			if now.Before(l.Until) {
				return l // locked again meanwhile
			}
			return lock{EpisodeAt: l.EpisodeAt}
		})
	}
}

// discard forgets what an earlier process knew, where locks are not to outlive a restart, and takes it from the store.
func (c *cell) discard() {
	if c.old.Swap(false) {
		c.step(time.Unix(0, c.room.seen.Load()), change{persist: true}, func(l lock) lock { return lock{EpisodeAt: l.EpisodeAt} })
	}
}

// Restore takes over records of an earlier process. It only ever makes the room stricter. Records of other rooms and
// unreadable ones are ignored.
func (r *Room) Restore(records []resilience.Record, now time.Time) {
	for rec, d := range memory.Decode[lock](RoomName, records) {
		d.Count = max(d.Count, 0)
		c := r.cell(rec.Key, gateway.Candidate{})
		c.Follow(rec.At)
		c.old.Store(c.Load() == lock{})
		c.step(now, change{persist: true}, func(l lock) lock { return l.restore(d, now) })
	}
}

// Retain tells the room which connections exist now: of those that are gone, locks that are over are forgotten. A lock
// that holds stays: the connection may come back.
func (r *Room) Retain(live []*gateway.Connection) {
	ids := make(map[string]bool, len(live))
	providers := map[gateway.ProviderID]bool{}
	for _, c := range live {
		ids[memory.Identity(c)] = true
		providers[c.Provider.ID] = true
	}
	var gone []*cell
	r.mu.Lock()
	for key, c := range r.held {
		of := c.owner.Load()
		if of == nil || !providers[of.Connection.Provider.ID] ||
			strings.HasPrefix(key, "connection:") && !ids[memory.Identity(of.Connection)] {
			gone = append(gone, c)
		}
	}
	r.mu.Unlock()
	r.drop(gone)
}

// Status lists every key that is locked or still counts, sorted by key.
func (r *Room) Status(now time.Time) []resilience.Status {
	r.mu.Lock()
	cells := slices.Collect(maps.Values(r.held))
	r.mu.Unlock()
	var out []resilience.Status
	for _, c := range cells {
		if l := c.Load(); !l.blank() {
			out = append(out, c.status(&l, now))
		}
	}
	slices.SortFunc(out, func(a, b resilience.Status) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Clear lifts a lock and forgets its count. A lockout is never terminal, so terminal changes nothing. ErrUnknownKey
// when nothing is known by that key.
func (r *Room) Clear(key, actor string, _ bool, now time.Time) error {
	c := r.cells.Find(key)
	if c == nil {
		return ErrUnknownKey
	}
	c.step(now, change{persist: true, actor: actor}, func(lock) lock { return lock{EpisodeAt: now.Add(-1)} }) // what begins at now is news
	return nil
}

// status describes a lock for people.
func (c *cell) status(l *lock, now time.Time) resilience.Status {
	st := resilience.Status{Layer: gateway.LayerLockout, Key: c.key, State: "open", Detail: map[string]string{}}
	if now.Before(l.Until) {
		st.State, st.Reason, st.Until = "locked", gateway.ModelLockout, l.Until
	}
	put := func(k, v string, ok bool) {
		if ok {
			st.Detail[k] = v
		}
	}
	if of := c.owner.Load(); of != nil {
		put("provider", string(of.Connection.Provider.ID), true)
		put("connection", string(of.Connection.ID), strings.HasPrefix(c.key, "connection:"))
		put("account", string(of.Connection.Account), strings.HasPrefix(c.key, "account:"))
		put("model", string(of.Model), true)
	}
	put("count", strconv.Itoa(l.Count), l.Count > 0)
	put("cause", l.Kind.String(), l.Kind != 0)
	put("error_status", strconv.Itoa(l.Status), l.Status != 0)
	put("rule", l.Rule, l.Rule != "")
	put("last_error", l.Message, l.Message != "")
	return st
}
