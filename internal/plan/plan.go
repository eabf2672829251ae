package plan

import (
	"math/rand/v2"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/resilience/breaker"
	"spillway/internal/route/strategy"
)

// Plan is the candidates of a request in rank order, each with its ruling. It is a scratch object of one request:
// Make fills it again before every attempt.
type Plan struct {
	Pool   *Pool
	Ranked []next.Candidate // best first
	Proven bool             // some candidate has given first content lately
	Open   int              // candidates that are runnable without being on trial

	// Returns tells that the session could have stayed, but went back to a higher target.
	Returns bool

	home      int  // candidate that the session is bound to, -1 = none
	mayReturn bool // the session may go back to a higher target
	pin       int  // the only connection that will do, -1 = any

	// Demoted are targets that rank last because they are known to refuse what the request asks for.
	Demoted []Demoted
	wish    wish

	rulings []resilience.Ruling
	seen    uint64          // changes of the rooms when plain was filled, plus one
	plain   []bool          // per candidate: breaker, cooldown, lockout and rates allow everybody until the next change
	free    []bool          // per candidate: the gate has nothing against it
	items   []strategy.Item // per candidate
	inner   []strategy.Item // per target
	order   []int
	within  []int
	rng     *rand.Rand
}

func newPlan(p *Pool) *Plan {
	n := len(p.Candidates)
	pl := &Plan{
		Pool: p, Ranked: make([]next.Candidate, 0, n), rulings: make([]resilience.Ruling, n), plain: make([]bool, n), free: make([]bool, n),
		items: make([]strategy.Item, n), inner: make([]strategy.Item, len(p.targets)),
		order: make([]int, 0, len(p.targets)), within: make([]int, 0, n),
		rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), home: -1, pin: -1,
	}
	for i, c := range p.Candidates {
		pl.items[i].Weight, pl.items[i].Priority = c.weight, c.priority
	}
	return pl
}

// Open returns a plan of the pool; give it back with Close.
func (p *Pool) Open() *Plan { return p.reuse.Get().(*Plan) }

// Close gives the plan back.
func (pl *Plan) Close() {
	pl.home, pl.pin, pl.Returns, pl.wish, pl.Demoted = -1, -1, false, wish{}, pl.Demoted[:0]
	pl.Pool.reuse.Put(pl)
}

// Make peeks at every candidate and ranks them. allowed limits the connections (nil = all). Of ask it fills in what
// depends on the pool: PoolSize, PoolProven and, candidate by candidate, Fallbacks.
func (pl *Plan) Make(ask *resilience.Ask, allowed func(*gateway.Connection) bool, now time.Time) {
	pl.look(ask, allowed, now)
	pl.rank(now)
	if !pl.ignorant() {
		pl.demote(now)
	}
}

// look peeks in two passes. Whether a candidate on trial (a due breaker, an account to be checked again) may be used
// depends on whether the request could still fall back, so what is plainly runnable is counted first.
func (pl *Plan) look(ask *resilience.Ask, allowed func(*gateway.Connection) bool, now time.Time) {
	pool := pl.Pool
	ask.PoolSize, pl.Proven, pl.Open = len(pool.Candidates), false, 0
	for i := range pool.hot {
		h := &pool.hot[i]
		v := h.health.View(now)
		pl.Proven = pl.Proven || v.Proven
		it := &pl.items[i]
		it.Success, it.Silent, it.InFlight, it.Limit = v.Success, v.Silent, v.InFlight, h.gate.Limit(now)
		pl.free[i] = h.gate.Free(v.Proven)
	}
	ask.PoolProven = pl.Proven
	ask.Fallbacks = 1
	pl.settle()
	again := false
	for i, c := range pool.Candidates {
		r := &pl.rulings[i]
		if allowed != nil && !allowed(c.Candidate.Connection) {
			*r = resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerRoute, Reason: gateway.Unavailable}
			continue
		}
		if pl.pin >= 0 && c.Connection != pl.pin {
			*r = resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerRoute, Reason: gateway.ObjectElsewhere}
			continue
		}
		if pl.plain[i] {
			if *r = (resilience.Ruling{}); !pl.free[i] {
				*r = pool.hot[i].gate.Peek(ask, now)
			}
		} else {
			c.peek(r, ask, now)
		}
		switch {
		case !r.OK():
			again = again || r.Reason == gateway.NotBefore
		case r.Probe:
			again = true
		default:
			pl.Open++
		}
	}
	if !pl.ignorant() {
		pl.limitTools(now)
	}
	ask.Fallbacks = pl.Open
	if again || pl.Open == 0 {
		pl.lookAgain(ask, now)
	}
	for i := range pl.items {
		r := &pl.rulings[i]
		pl.items[i].Eligible, pl.items[i].Weak = r.OK(), r.Weak || r.Probe
	}
}

// settle finds out which candidates are plain, when a room has changed since it last did. Most of the time nothing has:
// then three of four questions per candidate need not be asked.
func (pl *Plan) settle() {
	now := pl.Pool.changes.Count() + 1 // read first: a change that comes meanwhile is found at the next look
	if pl.seen == now {
		return
	}
	pl.seen = now
	for i, c := range pl.Pool.Candidates {
		pl.plain[i] = c.Breaker.Plain() && c.Cooldown.Plain() && c.Lockout.Plain() && c.Rate.Plain()
	}
}

// lookAgain asks anew where the answer depends on how many others can run. With nothing plainly runnable what was
// forbidden may be a trial that is not for requests with an alternative.
func (pl *Plan) lookAgain(ask *resilience.Ask, now time.Time) {
	for i, c := range pl.Pool.Candidates {
		r := &pl.rulings[i]
		if r.Layer == gateway.LayerRoute {
			continue // this caller may not use it, whatever the rooms say
		}
		if r.Probe || r.Reason == gateway.NotBefore || pl.Open == 0 && r.Verdict == resilience.Forbidden {
			c.peek(r, ask, now)
		}
	}
}

// Fallbacks is how many other candidates could take over from candidate id now.
func (pl *Plan) Fallbacks(id int) int {
	if r := pl.rulings[id]; r.OK() && !r.Probe {
		return max(pl.Open-1, 0) // what runs for want of another was not counted
	}
	return pl.Open
}

// Ruling is what the last look said of candidate id.
func (pl *Plan) Ruling(id int) resilience.Ruling { return pl.rulings[id] }

// Peek asks the layers in their order; the first that does not allow names itself. A delay is only the answer when no
// layer forbids.
func (c *Candidate) Peek(ask *resilience.Ask, now time.Time) (out resilience.Ruling) {
	c.peek(&out, ask, now)
	return out
}

// peek is Peek in place. The handles are called by their own types, and only those that may say something: this runs for
// every candidate before every attempt.
func (c *Candidate) peek(out *resilience.Ruling, ask *resilience.Ask, now time.Time) {
	*out = resilience.Ruling{}
	if !c.Breaker.Plain() {
		if *out = c.Breaker.Peek(ask, now); out.Verdict == resilience.Forbidden {
			return
		}
	}
	if !c.Cooldown.Plain() && forbids(out, c.Cooldown.Peek(ask, now)) {
		return
	}
	if !c.Lockout.Plain() && forbids(out, c.Lockout.Peek(ask, now)) {
		return
	}
	if !c.Gate.Free(false) && forbids(out, c.Gate.Peek(ask, now)) {
		return
	}
	if !c.Rate.Plain() {
		forbids(out, c.Rate.Peek(ask, now))
	}
}

// forbids takes the next layer's answer in, and reports whether it ends the matter.
func forbids(out *resilience.Ruling, r resilience.Ruling) bool {
	switch {
	case r.Verdict == resilience.Forbidden:
		*out = r
		return true
	case r.Verdict == resilience.Delayed && (out.OK() || r.Until.After(out.Until)): // of two delays the one that ends later
		r.Probe, r.Weak = out.Probe, out.Weak
		*out = r
	default:
		out.Probe = out.Probe || r.Probe
		out.Weak = out.Weak || r.Weak
	}
	return false
}

// rank orders targets by the combo's strategy and connections inside a target by the provider's.
func (pl *Plan) rank(now time.Time) {
	pool := pl.Pool
	pl.Ranked = pl.Ranked[:0]
	for t := range pool.targets {
		pl.summary(&pl.inner[t], &pool.targets[t])
	}
	pl.order = pool.strategy.Rank(pl.order, pl.inner, pool.state, pl.rng)
	if pool.sticky > 1 {
		pl.stick()
	}
	own := -1 // the target in which the session's own connection comes first
	if pl.home >= 0 {
		own = pl.stay()
	}
	for _, t := range pl.order {
		run := &pool.targets[t]
		pl.within = run.strategy.Rank(pl.within, pl.items[run.from:run.to], run.state, pl.rng)
		if t == own {
			toFront(pl.within, pl.home-run.from)
		}
		for _, w := range pl.within {
			pl.append(run.from+w, now)
		}
	}
}

// summary is a target as its combo's strategy sees it: the best of its candidates.
func (pl *Plan) summary(out *strategy.Item, run *target) {
	*out = strategy.Item{Weight: run.weight}
	best := -1.0
	for i := run.from; i < run.to; i++ {
		it := &pl.items[i]
		if it.Eligible && !out.Eligible {
			out.Eligible, best = true, -1
		}
		if it.Eligible != out.Eligible {
			continue
		}
		rest := it.Success
		if it.InFlight > 0 {
			rest /= 1 + float64(it.InFlight)/float64(max(it.Limit, 1))
		}
		if rest > best {
			best = rest
			out.Success, out.Silent, out.InFlight, out.Limit, out.Weak = it.Success, it.Silent, it.InFlight, it.Limit, it.Weak
		}
	}
}

func (pl *Plan) append(i int, now time.Time) {
	n := len(pl.Ranked)
	pl.Ranked = pl.Ranked[:n+1] // its capacity is that of the pool
	x, w := &pl.Ranked[n], &pl.Pool.walkers[i]
	x.ID, x.Target, x.Provider, x.Connection, x.Account, x.Model = w.ID, w.Target, w.Provider, w.Connection, w.Account, w.Model
	x.Cause = 0
	x.Ruling, x.Health = pl.rulings[i], pl.items[i].Success
	x.Trial = x.Ruling.Probe && pl.Pool.Candidates[i].Breaker.State(now) != breaker.Closed
	switch x.Ruling.Reason {
	case gateway.ConnectionCooldown:
		x.Cause = pl.Pool.Candidates[i].Cooldown.Cause(now)
	case gateway.ModelLockout:
		x.Cause = pl.Pool.Candidates[i].Lockout.Cause(now)
	}
}

// Used tells the strategies that an attempt on candidate id began.
func (pl *Plan) Used(id int) {
	p := pl.Pool
	c := p.Candidates[id]
	p.state.Used(c.Target, len(p.targets))
	run := p.targets[c.Target]
	run.state.Used(id-run.from, run.to-run.from)
}
