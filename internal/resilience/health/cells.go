package health

import (
	"strings"
	"sync"
	"weak"

	"spillway/internal/gateway"
)

// key is what everything here is kept by.
type key struct {
	identity string
	model    gateway.ModelID
}

func (k key) String() string { return k.identity + " " + string(k.model) }

// keyOf falls back to the connection's id where no identity was computed (tests, programs that embed the engine).
func keyOf(c gateway.Candidate) key {
	id := c.Connection.Identity
	if id == "" {
		id = string(c.Connection.ID)
	}
	return key{identity: id, model: c.Model}
}

// cells finds the cell of a key. A cell lives as long as a handle, a flight or the ring of recent cells holds it: what
// a snapshot uses is never dropped or split in two, and models that clients make up cannot fill the memory.
type cells struct {
	mu      sync.Mutex
	byKey   map[key]weak.Pointer[cell]
	recent  []*cell // ring: the newest cells, kept although nobody else may hold them
	next    int
	sweepAt int // size of byKey at which dead entries are dropped
}

func newCells(keep int) cells {
	return cells{byKey: make(map[key]weak.Pointer[cell]), recent: make([]*cell, keep), sweepAt: 2 * keep}
}

func (c *cells) get(k key, cfg *Config) *cell {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.byKey[k]; ok {
		if found := p.Value(); found != nil {
			return found
		}
	}
	made := &cell{cfg: cfg, state: newState()}
	// The model may be a part of a request's body, which a key must not keep alive.
	k = key{identity: strings.Clone(k.identity), model: gateway.ModelID(strings.Clone(string(k.model)))}
	c.byKey[k] = weak.Make(made)
	c.recent[c.next] = made
	c.next = (c.next + 1) % len(c.recent)
	if len(c.byKey) >= c.sweepAt {
		for k, p := range c.byKey {
			if p.Value() == nil {
				delete(c.byKey, k)
			}
		}
		c.sweepAt = max(2*len(c.recent), 2*len(c.byKey))
	}
	return made
}

// all returns the living cells.
func (c *cells) all() map[key]*cell {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[key]*cell, len(c.byKey))
	for k, p := range c.byKey {
		if found := p.Value(); found != nil {
			out[k] = found
		}
	}
	return out
}
