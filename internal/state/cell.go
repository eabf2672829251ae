package state

import (
	"sync"
	"time"

	"spillway/internal/resilience"
)

// Cell is the state S of one key behind a mutex that is held for single steps only, and what of its changes is not yet
// stored or told. A room embeds it in its own cell:
//
//	c.Lock()
//	c.State = next
//	pending := c.Note(state.News{At: now, Keep: true})
//	c.Unlock()
//	if pending {
//		c.Publish(...)
//	}
//
// The zero value is ready.
type Cell[S any] struct {
	sync.Mutex           // guards everything below
	State      S         // written between Lock and Unlock
	At         time.Time // of the last step

	actor  string
	keptAt time.Time // of the last record, as a wall time
	keep   bool      // there is something to store
	tell   bool      // there is something to tell
	busy   bool      // somebody publishes
}

// News is what a step leaves to be done outside of the lock.
type News struct {
	At    time.Time // of the step
	Actor string    // who ordered the change; "" = traffic
	Keep  bool      // what must survive a restart changed
	Tell  bool      // what people want to hear of changed

	recordAt time.Time
}

// Load returns the present state.
func (c *Cell[S]) Load() S {
	c.Lock()
	defer c.Unlock()
	return c.State
}

// Note remembers what a step changed and reports whether there is anything to publish, be it of this step or of an
// earlier one. The mutex is held.
func (c *Cell[S]) Note(n News) bool {
	c.At = n.At
	if n.Keep || n.Tell {
		c.actor = n.Actor
		c.keep, c.tell = c.keep || n.Keep, c.tell || n.Tell
	}
	return c.keep || c.tell
}

// Follow makes every further record of the key later than one that the store has already: the clock may have been set
// back since.
func (c *Cell[S]) Follow(at time.Time) {
	c.Lock()
	defer c.Unlock()
	if at = at.Round(0); at.After(c.keptAt) {
		c.keptAt = at
	}
}

// Publish hands the newest state to out as long as there is something to publish. The mutex must not be held, and is
// not while out runs. One caller at a time does it and goes on while there is more, so the last thing stored is the
// newest; several steps may come out as one.
func (c *Cell[S]) Publish(out func(S, News)) {
	for {
		c.Lock()
		if c.busy || !c.keep && !c.tell {
			c.Unlock()
			return
		}
		s, n := c.State, News{At: c.At, Actor: c.actor, Keep: c.keep, Tell: c.tell}
		if n.Keep {
			c.keptAt = rise(c.keptAt, n.At)
			n.recordAt = c.keptAt
		}
		c.busy, c.keep, c.tell = true, false, false
		c.Unlock()
		out(s, n)
		c.Lock()
		c.busy = false
		c.Unlock()
	}
}

// rise is at as a wall time, or the next instant after last when at is not later: a store lets the later record of a key
// win, but callers come with instants that are not in order, and the wall clock may be set back.
func rise(last, at time.Time) time.Time {
	if at = at.Round(0); at.After(last) {
		return at
	}
	return last.Add(1)
}

// Record is the durable record of the news. Its time rises from record to record of a key.
func (n News) Record(room, key string, value []byte) resilience.Record {
	return resilience.Record{Room: room, Key: key, Value: value, At: n.recordAt}
}

// Sign adds the actor, if there is one, to the details of a line about the news; Detail must not be nil.
func (n News) Sign(line resilience.Status) resilience.Status {
	if n.Actor != "" {
		line.Detail["actor"] = n.Actor
	}
	return line
}
