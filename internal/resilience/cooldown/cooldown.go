// Package cooldown answers: may this account and this connection be used now, or were they told to rest, or are they
// done for? It isolates account faults: rate limits, spent quota and credits, refused keys, bans.
//
// Keys. 429, quota, credits and bans belong to the account (provider + account), so every connection of the account
// rests. Auth faults, rejected requests and the Retry-After of an overloaded service belong to one connection, keyed by
// its identity: a re-pointed id starts fresh. What belongs to one model is the lockout room's.
//
// What cools: a hint of the upstream, else an exponential back-off that is raised once per episode and reset by a
// success alone; time merely allows a try. Who comes back does so by a ramp: one canary, then twice as many per success
// or per 250 ms. Terminal states (expired, credits_exhausted, banned, disabled) need evidence from two requests.
//
// What it never does: judge the service (the breaker's part), shorten a cooldown because of a failure, overwrite a
// terminal state by a cooldown, or learn from the caller's faults and our own.
package cooldown

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// RoomName is the room of its durable records.
const RoomName = "cooldown"

// Errors of Clear and Disable.
var (
	ErrUnknownKey = errors.New("cooldown: unknown key")
	ErrTerminal   = errors.New("cooldown: the state is terminal; clear it explicitly")
)

// Options are what a room needs from its surroundings; the zero value works.
type Options struct {
	// Keep stores what must survive a restart. It is called without any lock held, in order per key.
	Keep resilience.Keep
	// OnChange hears of every visible change of a key, likewise.
	OnChange func(resilience.Status, time.Time)
	// Rand draws the jitter from [0,1). nil = math/rand/v2. It must be safe for concurrent use.
	Rand func() float64
	// Changes counts keys that become plain, or cease to be; nil counts nothing.
	Changes *resilience.Changes
}

// Room holds the state of all accounts and connections. It is safe for concurrent use.
type Room struct {
	opts   Options
	egress atomic.Pointer[map[string][]sibling] // connections by egress family and egress

	mu       sync.Mutex
	cells    map[string]*cell
	retained bool
}

// sibling is a connection that shares an egress.
type sibling struct {
	cell    *cell
	account string
}

// New returns an empty room.
func New(o Options) *Room {
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return &Room{opts: o, cells: map[string]*cell{}}
}

// AccountKey is the key of a connection's account in Status, Clear and the records.
func AccountKey(c *gateway.Connection) string { return "account:" + memory.Account(c) }

// ConnectionKey is the key of a connection itself.
func ConnectionKey(c *gateway.Connection) string { return "connection:" + memory.Identity(c) }

// egressKey names the way out that a family shares; "" = the provider is in no family.
func egressKey(c *gateway.Connection) string {
	switch {
	case c.Provider.EgressFamily == "":
		return ""
	case c.EgressIP != "":
		return c.Provider.EgressFamily + "|ip|" + c.EgressIP
	}
	return c.Provider.EgressFamily + "|proxy|" + c.Proxy
}

// Bind returns the room's handle for a candidate. State is shared by all handles of one account or connection and
// outlives them.
func (r *Room) Bind(c gateway.Candidate, cfg Config) *Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Handle{
		room: r, cfg: &cfg, c: c, egress: egressKey(c.Connection),
		conn:    r.cell(ConnectionKey(c.Connection), c.Connection),
		account: r.cell(AccountKey(c.Connection), c.Connection),
	}
}

// cell finds or makes a cell; r.mu is held. of may be nil: then whoever binds later says whose it is.
func (r *Room) cell(key string, of *gateway.Connection) *cell {
	c := r.cells[key]
	if c == nil {
		c = &cell{room: r, key: key, spotless: true}
		r.cells[key] = c
	}
	if of != nil {
		c.owner.Store(of)
	}
	return c
}

// Restore takes over records of an earlier process. It only ever makes the room stricter: later deadlines win, levels
// rise, terminal states stand. Records of other rooms and unreadable ones are ignored.
func (r *Room) Restore(records []resilience.Record, now time.Time) {
	for rec, d := range memory.Decode[durable](RoomName, records) {
		d.Level = max(d.Level, 0)
		r.mu.Lock()
		c := r.cell(rec.Key, nil)
		r.mu.Unlock()
		c.Follow(rec.At)
		c.step(now, func(s state) state { return s.restore(d, now) })
	}
}

// Retain tells the room which connections exist now. It finds the siblings of an egress, lifts the terminal states of
// connections that have a new credential, and forgets keys that are gone and clean. What is gone but not clean is kept:
// it may come back.
func (r *Room) Retain(live []*gateway.Connection) {
	keep := make(map[string]bool, 2*len(live))
	byID := make(map[gateway.ConnectionID]string, len(live))
	groups := map[string][]sibling{}
	r.mu.Lock()
	for _, c := range live {
		conn, account := ConnectionKey(c), AccountKey(c)
		keep[conn], keep[account] = true, true
		byID[c.ID] = c.Identity
		cell := r.cell(conn, c)
		r.cell(account, c)
		if key := egressKey(c); key != "" && !c.DisableCooling {
			groups[key] = append(groups[key], sibling{cell, account})
		}
	}
	for key, c := range r.cells {
		if c.live.Store(keep[key]); !keep[key] && c.forgettable() {
			delete(r.cells, key)
		}
	}
	r.retained = true
	cells := slices.Collect(maps.Values(r.cells))
	r.mu.Unlock()
	r.egress.Store(&groups)
	for _, c := range cells {
		c.renew(byID)
	}
}

// Status lists every key that is not in perfect order, sorted by key.
func (r *Room) Status(now time.Time) []resilience.Status {
	r.mu.Lock()
	cells := slices.Collect(maps.Values(r.cells))
	retained := r.retained
	r.mu.Unlock()
	var out []resilience.Status
	for _, c := range cells {
		if retained && !c.live.Load() {
			continue
		}
		if s := c.Load(); !s.blank() {
			out = append(out, c.status(&s, now))
		}
	}
	slices.SortFunc(out, func(a, b resilience.Status) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Clear ends the cooldown of a key and forgets its level, learned rate and suspicions. A terminal state is ended only
// when terminal says so, else ErrTerminal. ErrUnknownKey when nothing is known by that key.
func (r *Room) Clear(key, actor string, terminal bool, now time.Time) error {
	c, err := r.find(key)
	if err != nil {
		return err
	}
	c.stepAs(actor, now, func(s state) state {
		if s.Standing != active && !terminal {
			err = ErrTerminal
			return s
		}
		return s.cleared().from(now)
	})
	return err
}

// Disable takes a key out until an operator clears it.
func (r *Room) Disable(key, actor string, now time.Time) error {
	c, err := r.find(key)
	if err != nil {
		return err
	}
	c.stepAs(actor, now, func(s state) state {
		s.Standing, s.Actor, s.TerminalAt = disabled, actor, now
		return s.from(now)
	})
	return nil
}

func (r *Room) find(key string) (*cell, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cells[key]
	if c == nil {
		return nil, ErrUnknownKey
	}
	return c, nil
}
