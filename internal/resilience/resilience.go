// Package resilience holds the words that all rooms of resilience share: what is asked of a room ([Ask]), what it
// answers ([Ruling]), what it hands out ([Permit]). A room is one mechanism: breaker, cooldown, lockout, gate. Rooms
// never import each other; what one must learn of another comes as a [gateway.Outcome].
//
// The life of a permit: plan calls Peek, which is free and changes nothing; attempt calls Allow, which takes; the
// attempt reports Alive at first content and Record exactly once at its end, which also releases. Record of a
// [gateway.Canceled] or [gateway.LocalError] outcome returns what was taken and teaches nothing, so a deferred
// Record(canceled) after the real one is a no-op.
//
// Time is always given: rooms read no clock. In the process it is time.Now (virtual in a testing/synctest bubble), in
// the simulator it is the simulated instant.
package resilience

import (
	"context"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
)

// Verdict is the answer of a layer.
type Verdict uint8

// The verdicts. Forbidden means "not this candidate now"; Delayed means "this candidate, but later".
const (
	Allowed Verdict = iota
	Delayed
	Forbidden
)

func (v Verdict) String() string {
	switch v {
	case Allowed:
		return "allowed"
	case Delayed:
		return "delayed"
	}
	return "forbidden"
}

// Ruling is one layer's answer about one candidate. It is a small value: peeking allocates nothing.
type Ruling struct {
	Verdict Verdict
	Layer   gateway.Layer
	Reason  gateway.Reason
	Probe   bool      // allowed, as a probe or canary: the candidate is on trial
	Weak    bool      // allowed, but the candidate is degraded: score it at half
	Until   time.Time // when it may change by time alone; zero = only by an event
}

// OK reports whether the candidate may be used now.
func (r Ruling) OK() bool { return r.Verdict == Allowed }

// Ask is what a request tells the layers about itself. It is filled in once per planning and only read.
type Ask struct {
	Request   gateway.RequestID
	ClientKey gateway.ClientKeyID
	Session   string
	Tokens    int // estimated prompt tokens

	Fallbacks    int           // other candidates of the pool that are runnable now
	AttemptsLeft int           // of the request's budget, this one included
	PoolSize     int           // candidates of the pool, whatever their state
	PoolProven   bool          // some candidate of the pool is proven
	Waited       time.Duration // how long the request has waited so far
	Deadline     time.Time
}

// Permit is the right to make one attempt. It remembers the epoch in which it was given, so a late report cannot move
// a newer state. Methods are safe for concurrent use; only the first Record counts.
type Permit interface {
	// Alive reports first content. A losing run ends; for a probe it is the success that frees the probe's slot.
	Alive(now time.Time)
	// Record ends the attempt, teaches the room and releases the permit.
	Record(o gateway.Outcome, now time.Time)
}

// Handle is a room bound to one candidate; it holds its cells, so nothing is looked up by name on the hot path.
type Handle interface {
	// Peek is the ruling if Allow were called now. It takes nothing, changes nothing, does no I/O, allocates nothing.
	Peek(ask *Ask, now time.Time) Ruling
	// Allow takes a permit, or returns a nil Permit and the ruling that refuses. ctx bounds the store's I/O only.
	Allow(ctx context.Context, ask *Ask, now time.Time) (Permit, Ruling)
}

// Changes counts, over all keys of the rooms that share it, how often one became plain or ceased to be: plain means that
// Peek allows whoever asks, whenever, until the next change. A planner that saw no change since it last looked need not
// ask the handles that were plain then. The zero value is ready; a nil Changes counts nothing.
type Changes struct{ n atomic.Uint64 }

// Note counts a change. A room calls it after the change can be seen.
func (c *Changes) Note() {
	if c != nil {
		c.n.Add(1)
	}
}

// Count is the number of changes so far.
func (c *Changes) Count() uint64 { return c.n.Load() }

// Status is one line about one key of a room, for people.
type Status struct {
	Layer  gateway.Layer
	Key    string // what is isolated: connection, account, model ...
	State  string // closed, degraded, open, half_open, cooling, banned, locked ...
	Reason gateway.Reason
	Until  time.Time
	Detail map[string]string
}

// Record is the durable form of one key of a room; Value is JSON that only the room reads. An empty Value deletes.
type Record struct {
	Room  string
	Key   string
	Value []byte
	At    time.Time
}

// Keep stores durable records. It must return quickly and never fail the caller: storage trouble never stops traffic.
// A nil Keep keeps nothing.
type Keep func(Record)

// Save calls k unless it is nil.
func (k Keep) Save(r Record) {
	if k != nil {
		k(r)
	}
}
