// Package health answers: how well and how fast has this candidate served lately? Its key is (Connection.Identity,
// exact model), so a connection id that is re-pointed to another base URL or credential starts fresh.
//
// It learns from flights (one per attempt): when headers and first content came, and the outcome at the end. It offers
// two views: [View], which strategies and the walk score with (success, attempts in flight, attempts that are silent
// for too long, proven or not), and [Learned], from which the clocks of an attempt are made.
//
// It never forbids or delays anything, and it never learns from the caller's faults, from the gateway's own errors or
// from a client that left (spec resilience.md sections 1 and 10).
package health

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// Options tune a room. The zero value is the recommended one.
type Options struct {
	Config Config // the zero value means Default()
	// Keep is how many candidates that no snapshot holds any more are remembered; default 1024.
	Keep int
}

// Room holds what was learned about every candidate. It is safe for concurrent use.
type Room struct {
	cfg   Config
	cells *memory.Index[key, cell]
}

// New returns an empty room. It starts nothing.
func New(o Options) *Room {
	if o.Config == (Config{}) {
		o.Config = Default()
	}
	if o.Keep <= 0 {
		o.Keep = 1024
	}
	return &Room{cfg: o.Config, cells: memory.NewIndex[key, cell](o.Keep, key.clone)}
}

// Bind returns the handle of a candidate. Handles of one key share everything; a handle stays valid for ever.
func (r *Room) Bind(c gateway.Candidate) *Handle {
	cell := r.cell(c)
	return &Handle{cell: cell, seen: cell.seen, cfg: cell.cfg}
}

func (r *Room) cell(c gateway.Candidate) *cell {
	return r.cells.Get(keyOf(c), func() *cell { return &cell{cfg: &r.cfg, seen: new(seen), state: newState()} })
}

// Reset forgets what was learned about a candidate; attempts in flight stay counted.
func (r *Room) Reset(c gateway.Candidate) {
	cell := r.cell(c)
	cell.mu.Lock()
	defer cell.mu.Unlock()
	fresh := newState()
	fresh.flying, fresh.talking = cell.state.flying, cell.state.talking
	cell.state = fresh
	for _, class := range cell.made {
		class.reset()
	}
	cell.habits = [2]habits{}
	cell.publish()
}

// Status is one line per candidate that has been used.
func (r *Room) Status(now time.Time) []resilience.Status {
	var out []resilience.Status
	for key, cell := range r.cells.Snapshot() {
		if line, used := cell.status(key, now); used {
			out = append(out, line)
		}
	}
	return out
}

// View is a candidate's health as strategies see it.
type View struct {
	// Success is the share of attempts that succeed lately: EWMA, alpha 0.2, 1 at start, drifting back to 1 with a
	// half-life of 5 minutes.
	Success float64
	// InFlight is the number of attempts between Begin and End.
	InFlight int
	// Silent is the weight of the attempts in flight that are without content for longer than their p95, as failures:
	// half a failure each.
	Silent float64
	// Faltered is true when the last attempt that counts has failed.
	Faltered bool
	// Proven is true when first content was seen since start and no more than 60 s ago.
	Proven bool

	alpha float64
}

// Health is Success lowered by the silent attempts as if each had already weighed its half failure. This is the
// "health" of the specification.
func (v View) Health() float64 {
	if v.Silent == 0 {
		return v.Success
	}
	return v.Success * math.Pow(1-v.alpha/2, 2*v.Silent)
}

// Facts are what is known of an attempt before it is sent.
type Facts struct {
	Stream bool
	Bytes  int // size of the request body in bytes
}

// Learned is what the clocks of an attempt are made from.
type Learned struct {
	P95     time.Duration // 95th percentile of the time to first content (whole answer when not streamed); 0 = unknown
	Guessed bool          // P95 lies among attempts that were cut, at half as much again as they were waited for
	Samples int           // samples in the window
	// LongestCut is the longest wait after which an attempt without content was cut within the last hour.
	LongestCut time.Duration
	// HeadersEarly: headers come well before content, so a clock on headers is meaningful.
	HeadersEarly bool
	// ThinksSilently: content often comes late after early headers, without any sign of life between.
	ThinksSilently bool
}

// Handle is the room bound to one candidate. It is safe for concurrent use and small enough to be copied.
type Handle struct {
	cell *cell
	seen *seen   // the cell's
	cfg  *Config // the room's
}

// seen is what View answers without the lock, published after every change. It lies apart from its cell, which is large:
// planning looks at every candidate, and of these a few share a cache line.
type seen struct {
	alive  atomic.Int64 // the last sign of life in Unix nanoseconds, 0 = none yet, alwaysAlive while something delivers
	flying atomic.Int64
	// uneasy: an attempt is without content, the last one failed or the success rate is below 1: View depends on more.
	uneasy atomic.Bool
}

// cell is everything about one key.
type cell struct {
	cfg  *Config
	seen *seen
	used atomic.Bool

	mu      sync.Mutex
	state   state
	classes [2][numClasses]*class // by stream, prompt size; made when first used
	made    []*class              // the same, for walking
	habits  [2]habits
}

const alwaysAlive = math.MaxInt64

// publish recomputes what View reads without the lock; c.mu is held.
func (c *cell) publish() {
	s := &c.state
	c.seen.flying.Store(int64(s.flying))
	c.seen.uneasy.Store(s.flying > s.talking || s.faltered || s.rate < nearlyOne)
	switch {
	case s.talking > 0:
		c.seen.alive.Store(alwaysAlive)
	case s.presentAt.IsZero():
		c.seen.alive.Store(0)
	default:
		c.seen.alive.Store(s.presentAt.UnixNano())
	}
}

// View returns the present health. It allocates nothing.
func (h *Handle) View(now time.Time) View {
	inFlight, proven, calm := h.Calm(now.UnixNano())
	if calm {
		return View{Success: 1, InFlight: inFlight, Proven: proven, alpha: h.cfg.Alpha}
	}
	c := h.cell
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := 0
	for _, class := range c.made {
		silent += class.silent(now)
	}
	return View{
		Success:  c.state.success(c.cfg, now),
		InFlight: c.state.flying,
		Silent:   float64(silent) / 2,
		Faltered: c.state.faltered,
		Proven:   proven,
		alpha:    c.cfg.Alpha,
	}
}

// Proven reports whether first content was seen since start and the candidate was not absent for 60 s since. Its
// shape is what the gate's Bind takes.
func (h *Handle) Proven(now time.Time) bool {
	_, proven, _ := h.Calm(now.UnixNano())
	return proven
}

// Calm is what View says without a lock: planning asks it of every candidate. It is all that there is to say when calm:
// then every attempt succeeds, the last included, and none is silent. now is in Unix nanoseconds, so that it is converted once for all.
func (h *Handle) Calm(now int64) (inFlight int, proven, calm bool) {
	at := h.seen.alive.Load()
	return int(h.seen.flying.Load()), at == alwaysAlive || at > 0 && now-at < int64(h.cfg.Absence), !h.seen.uneasy.Load()
}

// Learned returns the learned waits for a request of this form and size.
func (h *Handle) Learned(stream bool, bytes int, now time.Time) Learned {
	c, s := h.cell, formOf(stream)
	c.mu.Lock()
	defer c.mu.Unlock()
	var out Learned
	size := sizeClass(bytes)
	if class := c.classes[s][size]; class != nil {
		var p p95
		p, out.Samples = class.p95(c.cfg, now)
		out.P95, out.Guessed = p.wait, p.guessed
	}
	// A larger prompt waits at least as long as a smaller one: what a smaller one was cut at holds for it as well.
	for _, class := range c.classes[s][:size+1] {
		if class != nil {
			out.LongestCut = max(out.LongestCut, class.cuts.longest(now))
		}
	}
	out.HeadersEarly = c.habits[s].headersEarly(now)
	out.ThinksSilently = c.habits[s].thinksSilently(now)
	return out
}

func formOf(stream bool) int {
	if stream {
		return 1
	}
	return 0
}
