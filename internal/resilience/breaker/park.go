package breaker

import (
	"weak"

	"spillway/internal/resilience"
)

// Clients choose the names of models, so their cells have no bound of their own. Above maxCells the room lets go of the
// plain cells of models: who has a handle keeps its cell, which is found again by its name, and comes back into the room
// as soon as there is something to tell about it. What nobody holds is forgotten.

// plain reports that nothing is lost with the cell but a few successes.
func (c *cell) plain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.cold() && c.s.f0 == 0 && c.s.f1 == 0
}

// faded reports that the cell is closed, by itself, and has learned nothing since an instant.
func (c *cell) faded(since int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.st == closed && c.s.forced == unforced && max(c.s.okAt, c.s.lf, c.s.lt) < since
}

// park lets go of plain cells, but for the one that is being bound, when there are too many; r.mu is held. It returns the
// records that take from the store what has faded.
func (r *Room) park(except *cell) (gone []resilience.Record) {
	if len(r.cells) < r.parkAt {
		return nil
	}
	var latest int64
	for _, c := range r.cells {
		latest = max(latest, c.usedAt())
	}
	for key, c := range r.cells {
		if c.id.model == "" || c == except {
			continue
		}
		plain := c.plain()
		if !plain && !c.faded(latest-idleTime) {
			continue
		}
		delete(r.cells, key)
		if g := r.groups[c.id.provider]; g != nil {
			g.leave(c)
		}
		c.parked.Store(true)
		r.parked[key] = weak.Make(c)
		if !plain {
			gone = append(gone, resilience.Record{Room: RoomName, Key: key, At: r.time(latest)})
		}
	}
	for key, p := range r.parked {
		if p.Value() == nil {
			delete(r.parked, key)
		}
	}
	r.parkAt = max(maxCells, 2*len(r.cells))
	return gone
}

// unpark returns the parked cell of a key, nil when nobody holds one; r.mu is held.
func (r *Room) unpark(key string) *cell {
	c := r.parked[key].Value()
	delete(r.parked, key)
	if c != nil {
		c.parked.Store(false)
	}
	return c
}

// adopt takes a parked cell back that has something to tell.
func (r *Room) adopt(c *cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.parked.Swap(false) {
		return
	}
	delete(r.parked, c.id.key)
	r.cells[c.id.key] = c
	if g := r.groups[c.id.provider]; g != nil {
		g.rejoin(c)
	}
}

// leave and rejoin are of one model of a connection.
func (g *group) leave(c *cell) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[c.id.conn]; m != nil && m.models[c.id.model] == c {
		delete(m.models, c.id.model)
	}
}

func (g *group) rejoin(c *cell) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[c.id.conn]; m != nil && m.apart {
		m.models[c.id.model] = c
	}
}
