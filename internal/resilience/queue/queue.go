// Package queue answers: whose turn is it to look for a free candidate? There is one line per pool (combo or provider).
// A request that finds all its candidates full or paced joins with the set of them and keeps its place until one of
// them takes it: the first grant wins. The order is FIFO within a client key and fair between keys.
//
// It is not a guard: who waits here holds nothing. When it is a waiter's turn it plans again from the top and either
// leaves, served, or waits on. Only one waiter looks at a time, so that a slot that comes back wakes one and not ten
// thousand; a wake-up between a look and the next wait is never lost, and a line that nobody wakes looks by itself once
// a second, so it cannot wedge. It never ends a running attempt: its clock is the time in line and nothing else.
package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	memory "spillway/internal/state"
)

// Config holds `pacing.queue`.
type Config struct {
	// MaxWait is how long a request may wait in line. Default 0 = what is left of its deadline; else 1ms-24h.
	MaxWait time.Duration `yaml:"max_wait"`
	// MaxQueueDepth is how many may wait, per connection of the pool. Default 1000, 0 = off, at most 100000.
	MaxQueueDepth int `yaml:"max_queue_depth"`
}

// Default is the profile recommended.
func Default() Config { return Config{MaxQueueDepth: 1000} }

// Preset returns the numbers of a profile by name; ok is false for an unknown one.
func Preset(name string) (c Config, ok bool) {
	switch name {
	case "recommended":
		return Default(), true
	case "omniroute-oauth", "omniroute-apikey", "omniroute-local":
		return Config{MaxWait: 30 * time.Second}, true
	case "polygateway", "autorouter":
		return Config{}, true
	}
	return Config{}, false
}

// Validate reports every problem, each starting with the field's name.
func (c Config) Validate() error {
	var errs []error
	if c.MaxWait != 0 && (c.MaxWait < time.Millisecond || c.MaxWait > 24*time.Hour) {
		errs = append(errs, fmt.Errorf("max_wait: must be 0 or between 1ms and 24h, is %s", c.MaxWait))
	}
	if c.MaxQueueDepth < 0 || c.MaxQueueDepth > 100000 {
		errs = append(errs, fmt.Errorf("max_queue_depth: must be between 0 and 100000, is %d", c.MaxQueueDepth))
	}
	return errors.Join(errs...)
}

// Options tune a room. The zero value is fine.
type Options struct {
	Line LineConfig
	Keep int // pools that are remembered although nobody uses them; default 256
}

// Room holds the pools. It is safe for concurrent use and starts nothing: a pool has a timer only while somebody waits.
type Room struct {
	line  LineConfig
	pools *memory.Index[string, Pool]
	busy  atomic.Int64 // pools with somebody in line

	mu      sync.Mutex
	waiting map[*Pool]struct{}
}

// New returns an empty room.
func New(o Options) *Room {
	if o.Keep <= 0 {
		o.Keep = 256
	}
	return &Room{line: o.Line, pools: memory.NewIndex[string, Pool](o.Keep, strings.Clone), waiting: map[*Pool]struct{}{}}
}

// Pool returns the pool of a name. A pool lives as long as somebody uses it or waits in it; of those that nobody uses
// the newest Options.Keep are kept.
func (r *Room) Pool(name string) *Pool {
	return r.pools.Get(name, func() *Pool { return &Pool{room: r, line: NewLine(r.line)} })
}

// Wake tells every pool with somebody in line that something may have become free. With nobody in line anywhere it
// costs one atomic read. It is what gate's OnFree is for.
func (r *Room) Wake() {
	if r.busy.Load() == 0 {
		return
	}
	r.mu.Lock()
	pools := make([]*Pool, 0, len(r.waiting))
	for p := range r.waiting {
		pools = append(pools, p)
	}
	r.mu.Unlock()
	for _, p := range pools {
		p.Wake()
	}
}

// Busy reports whether anybody is in line anywhere. It costs one atomic read.
func (r *Room) Busy() bool { return r.busy.Load() > 0 }

// Len is the number of requests in line over all pools.
func (r *Room) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for p := range r.waiting {
		n += p.Len()
	}
	return n
}

func (r *Room) mark(p *Pool, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waits {
		r.waiting[p] = struct{}{}
	} else {
		delete(r.waiting, p)
	}
}

// Entry is what a request says when it joins.
type Entry struct {
	Key gateway.ClientKeyID
	Set []int // candidates that it waits for: keys of gate's handles; empty = anything
	// Connections of the pool, for the depth; 0 = the size of Set.
	Connections int
	// Until is the request's deadline; zero = none.
	Until time.Time
	// Blind says that the learned service rate tells nothing about this wait: what is waited for grows with the wait.
	Blind bool
}

// Refused says why a request may not join.
type Refused struct {
	Reason     gateway.Reason // QueueFull
	Code       gateway.Code   // RATE_LIMIT_QUEUE_FULL
	RetryAfter time.Duration  // at least 1 s
	Depth      int            // requests in line
	Computed   bool           // refused because the computed wait is too long, not because of the depth
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%d requests wait already, try again in %s", r.Depth, r.RetryAfter.Round(time.Second))
}

// Waiter is a request in line.
type Waiter struct {
	pool  *Pool
	place *Place
	turn  chan struct{} // capacity 1

	limit   *time.Timer // nil = no Wait had a limit
	limitAt time.Time
}

// WaitUntil is when a request that joins at now has to give up: MaxWait or the deadline, whichever is earlier; zero =
// never.
func (c Config) WaitUntil(deadline, now time.Time) time.Time {
	if c.MaxWait <= 0 {
		return deadline
	}
	if until := now.Add(c.MaxWait); deadline.IsZero() || until.Before(deadline) {
		return until
	}
	return deadline
}

// Wait blocks until it is this waiter's turn to look, and returns nil; or until ctx ends, and returns its error; or until
// limit (Config.WaitUntil; zero = none), and returns context.DeadlineExceeded. until is when the candidates may change by
// time alone (the earliest Until of their rulings; zero = unknown): then the line looks again, in its order. Calling Wait
// after a look means Pass. After an error the waiter has to leave: it may hold the turn.
func (w *Waiter) Wait(ctx context.Context, until, limit time.Time) error {
	w.pool.step(func(l *Line, now time.Time) {
		w.pass(l)
		l.Await(w.place, until, now)
	})
	select {
	case <-w.turn:
		return nil
	case <-w.overdue(limit):
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overdue is the channel of a timer that fires at limit; nil = never. It is kept over several looks, which mostly have
// one limit.
func (w *Waiter) overdue(limit time.Time) <-chan time.Time {
	switch {
	case limit.IsZero():
		return nil
	case w.limit == nil:
		w.limit = time.NewTimer(time.Until(limit))
	case !limit.Equal(w.limitAt):
		w.limit.Reset(time.Until(limit))
	}
	w.limitAt = limit
	return w.limit.C
}

// Pass tells that the waiter looked and could not run: the next in line whose set may differ looks. The waiter itself
// looks again after its next Wait.
func (w *Waiter) Pass() {
	w.pool.step(func(l *Line, _ time.Time) { w.pass(l) })
}

// pass keeps a turn that came and was not used yet: it is for the next Wait, and nothing is known to be refused.
func (w *Waiter) pass(l *Line) {
	if len(w.turn) == 0 {
		l.Pass(w.place)
	}
}

// Leave takes the waiter out of the line and lets the next look. It must always be called; it is idempotent, so defer
// Leave(false) and call Leave(true) as soon as a candidate was taken, before the attempt is made.
func (w *Waiter) Leave(served bool) {
	w.stop()
	w.pool.step(func(l *Line, now time.Time) { l.Leave(w.place, served, now) })
}

// LeaveSpent is Leave(true) of a waiter that knows which candidates are refused to everybody now that it has taken one:
// who waits for nothing else need not look before something changes or until has come; zero = unknown.
func (w *Waiter) LeaveSpent(refused []int, until time.Time) {
	w.stop()
	w.pool.step(func(l *Line, now time.Time) {
		l.Spent(w.place, refused, until, now)
		l.Leave(w.place, true, now)
	})
}

func (w *Waiter) stop() {
	if w.limit != nil {
		w.limit.Stop()
	}
}
