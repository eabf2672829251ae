package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// State is what people see of a breaker.
type State uint8

// The states. Degraded is a closed breaker near to opening; an open one that is due is shown half-open.
const (
	Closed State = iota
	Degraded
	Open
	HalfOpen
)

var stateNames = [...]string{"closed", "degraded", "open", "half_open"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; an unknown name is Closed.
func (s *State) UnmarshalText(b []byte) error {
	*s = Closed
	for i, n := range stateNames {
		if n == string(b) {
			*s = State(i)
		}
	}
	return nil
}

// identity says whose state a cell holds.
type identity struct {
	key        string
	parent     string // key of the connection or provider that a model's cell belongs to
	conn       string // Connection.Identity, "" for a provider's cell
	provider   gateway.ProviderID
	connection gateway.ConnectionID
	model      gateway.ModelID
}

// cell is one key's state and its lock. word answers the hot path without the lock: while the breaker is plainly closed
// and nothing can make it otherwise but an event, it is twice the epoch, plus one if a success would change nothing but
// the window; else it is -1. content is first content that came while so: a success not yet in the state.
type cell struct {
	word    atomic.Int64
	content atomic.Int64
	retired atomic.Bool
	parked  atomic.Bool // only handles hold it
	changes *resilience.Changes

	mu      sync.Mutex
	id      identity
	rules   *rules // of the last binding, for orders and status
	s       state
	cold    bool
	shown   bool  // degraded when last looked at
	savedAt int64 // of the last record
	saved   int32 // failures in it
	history []Transition
}

const (
	maxHistory = 20
	saveEvery  = int64(5 * time.Second)
)

// effects are what must happen after a step, outside of the lock.
type effects struct {
	events []Transition
	record []byte
	key    string
	at     int64
	moved  bool // the phase changed: the provider's group must judge again
	freed  bool // a probe slot came free, nothing else
}

func (c *cell) bind(r *rules) {
	c.mu.Lock()
	c.rules = r
	c.publish(r)
	c.mu.Unlock()
	c.retired.Store(false)
}

func (c *cell) healthy() bool { return c.word.Load() >= 0 }

// publish recomputes what the hot path reads; c.mu is held.
func (c *cell) publish(r *rules) {
	c.cold = c.s.cold()
	word := int64(-1)
	if c.s.healthy(r) {
		word = c.s.ep << 1
		if c.cold && !c.shown && c.saved == c.s.fails {
			word |= 1
		}
	}
	if old := c.word.Load(); old != word {
		c.word.Store(word)
		if (old >= 0) != (word >= 0) {
			c.changes.Note()
		}
	}
}

// apply steps the cell. The effects are nil when there are none, which is the ordinary case.
func (c *cell) apply(room *Room, r *rules, ev event, now int64) (ruling, *effects, int64) {
	out, fx, ep := c.step(room, r, ev, now)
	if c.parked.Load() && !c.plain() {
		room.adopt(c)
	}
	return out, fx, ep
}

func (c *cell) step(room *Room, r *rules, ev event, now int64) (ruling, *effects, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absorb()
	before := c.s
	next, out, _ := step(r, before, ev, now)
	c.s = next
	room.counts.note(out, ev, before.st, &next)
	fx := c.effects(room, r, change{ev, out.counted, before, now})
	c.publish(r)
	return out, fx, next.ep
}

// quickContent is the short cut for first content on a cold cell: what step would do, without the lock. It reports
// whether it applied.
func (c *cell) quickContent(ep, now int64) bool {
	if c.word.Load() != ep<<1|1 {
		return false
	}
	c.content.Store(now)
	return true
}

// absorb brings what quickContent noted into the state; c.mu is held.
func (c *cell) absorb() {
	if c.content.Load() != 0 {
		c.s.okAt = max(c.s.okAt, c.content.Swap(0))
	}
}

// quickSuccess is the short cut for a success on a cold cell, without an event and without copying the state.
func (c *cell) quickSuccess(r *rules, ep, now int64) bool {
	c.mu.Lock()
	applies := c.word.Load() == ep<<1|1 // under the lock, for a trip changes it there
	if applies {
		c.s.okAt = now
		c.s.observe(r, now, false)
	}
	c.mu.Unlock()
	return applies
}

// change is one step as seen from outside.
type change struct {
	ev     event
	failed bool
	before state
	now    int64
}

// effects compares the state before with c.s; c.mu is held.
func (c *cell) effects(room *Room, r *rules, ch change) *effects {
	before, now := &ch.before, ch.now
	degraded, was := c.s.degraded(r, now), c.shown
	moved := before.st != c.s.st || ch.ev.kind >= evForceOpen || c.s.ep != before.ep
	counted := c.s.fails != c.saved && now-c.savedAt >= saveEvery ||
		c.s.st == half && c.s.nb > before.nb // the pacing of probes outlives a restart
	freed := !moved && c.s.st == half && c.s.nl < before.nl
	if !moved && degraded == was && !counted && !freed {
		return nil
	}
	e := &effects{key: c.id.key, at: max(now, c.savedAt+1), moved: moved, freed: freed}
	c.shown = degraded
	switch {
	case moved:
		t := c.transition(room, r, before, now)
		if ch.failed && before.st == closed && r.window > 0 { // a trip voids the window that it is judged by
			t.N, t.F = t.N+1, t.F+1
		}
		t.From, t.Cause, t.Actor = face(before.st, was), c.why(ch.ev, before).String(), ch.ev.actor
		c.history = append(c.history, t)
		if len(c.history) > maxHistory {
			c.history = append([]Transition(nil), c.history[len(c.history)-maxHistory:]...)
		}
		e.events = append(e.events, t)
	case degraded != was:
		t := c.transition(room, r, &c.s, now)
		t.From, t.Cause = face(c.s.st, was), causeHealthy.String()
		if degraded {
			t.Cause = causeDegraded.String()
		}
		e.events = append(e.events, t)
	}
	if moved || counted {
		c.savedAt, c.saved = e.at, c.s.fails
		e.record = c.encode(e.at)
	}
	return e
}

// why is the cause of a move.
func (c *cell) why(ev event, before *state) cause {
	switch {
	case ev.kind == evReset:
		return causeReset
	case ev.kind == evForceClose:
		return causeForcedClosed
	case c.s.st == open:
		return c.s.oc
	case c.s.st == half:
		return causeDue
	case before.st == half:
		return causeRecovered
	}
	return causeNone
}

// transition describes c.s; the numbers are those of evidence, the state that holds what led to the move.
func (c *cell) transition(room *Room, r *rules, evidence *state, now int64) Transition {
	n, f := evidence.sums(r, now)
	t := Transition{
		Key: c.id.key, Provider: c.id.provider, Connection: c.id.connection, Model: c.id.model,
		To: face(c.s.st, c.shown), At: room.time(now), Fails: int(max(c.s.fails, evidence.fails)), N: int(n), F: int(f),
	}
	if c.s.st == open {
		t.Until = room.time(c.s.ot)
	}
	return t
}

func face(st phase, degraded bool) State {
	switch st {
	case open:
		return Open
	case half:
		return HalfOpen
	}
	if degraded {
		return Degraded
	}
	return Closed
}

// see is the observable state as of now; c.mu is held.
func (c *cell) see(r *rules, now int64) State {
	if c.s.st == open && c.s.forcedAt(now) != forcedOpen && now >= min(c.s.ot, now+r.cap) {
		return HalfOpen
	}
	return face(c.s.st, c.s.degraded(r, now))
}

// usedAt is when the cell last learned something.
func (c *cell) usedAt() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absorb()
	return max(c.s.okAt, c.s.lf, c.s.lt)
}

func (c *cell) idle(since int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.cold() && max(c.s.okAt, c.s.lf, c.s.lt) < since
}

// settle carries out effects: the record first, so that nothing depends on what is not yet kept.
func (r *Room) settle(g *group, all ...*effects) {
	moved, freed := false, false
	for _, e := range all {
		if e == nil {
			continue
		}
		if e.record != nil {
			r.opts.Keep.Save(keepRecord(r, e))
		}
		moved, freed = moved || e.moved, freed || e.freed
	}
	if moved && g != nil {
		g.judge()
	}
	if freed {
		r.free()
	}
	if r.opts.OnTransition == nil {
		return
	}
	for _, e := range all {
		if e != nil {
			for _, t := range e.events {
				r.opts.OnTransition(t)
			}
		}
	}
}

func (r *Room) free() {
	if r.opts.OnFree != nil {
		r.opts.OnFree()
	}
}
