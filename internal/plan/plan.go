package plan

import (
	"math/rand/v2"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/route/strategy"
)

// Plan is the candidates of a request in rank order, each with its ruling. It is a scratch object of one request:
// Make fills it again before every attempt.
type Plan struct {
	Pool   *Pool
	Ranked []next.Candidate // best first
	Proven bool             // some candidate has given first content lately
	Open   int              // candidates that are runnable without being on trial

	rulings []resilience.Ruling
	items   []strategy.Item // per candidate
	inner   []strategy.Item // per target
	order   []int
	within  []int
	rng     *rand.Rand
}

func newPlan(p *Pool) *Plan {
	n := len(p.Candidates)
	return &Plan{
		Pool: p, Ranked: make([]next.Candidate, 0, n), rulings: make([]resilience.Ruling, n),
		items: make([]strategy.Item, n), inner: make([]strategy.Item, len(p.targets)),
		order: make([]int, 0, len(p.targets)), within: make([]int, 0, n),
		rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
}

// Open returns a plan of the pool; give it back with Close.
func (p *Pool) Open() *Plan { return p.reuse.Get().(*Plan) }

// Close gives the plan back.
func (pl *Plan) Close() { pl.Pool.reuse.Put(pl) }

// Make peeks at every candidate and ranks them. allowed limits the connections (nil = all). Of ask it fills in what
// depends on the pool: PoolSize, PoolProven and, candidate by candidate, Fallbacks.
func (pl *Plan) Make(ask *resilience.Ask, allowed func(*gateway.Connection) bool, now time.Time) {
	pl.look(ask, allowed, now)
	pl.rank(now)
}

// look peeks in two passes. Whether a candidate on trial (a due breaker, an account to be checked again) may be used
// depends on whether the request could still fall back, so what is plainly runnable is counted first.
func (pl *Plan) look(ask *resilience.Ask, allowed func(*gateway.Connection) bool, now time.Time) {
	pool := pl.Pool
	ask.PoolSize, pl.Proven, pl.Open = len(pool.Candidates), false, 0
	for i, c := range pool.Candidates {
		v := c.Health.View(now)
		pl.Proven = pl.Proven || v.Proven
		pl.items[i] = strategy.Item{Weight: c.weight, Priority: c.priority, Success: v.Success, Silent: v.Silent,
			InFlight: v.InFlight, Limit: c.Gate.Limit(now)}
	}
	ask.PoolProven = pl.Proven
	ask.Fallbacks = 1
	for i, c := range pool.Candidates {
		if allowed != nil && !allowed(c.Candidate.Connection) {
			pl.rulings[i] = resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerRoute, Reason: gateway.Unavailable}
			continue
		}
		pl.rulings[i] = c.Peek(ask, now)
		if pl.rulings[i].OK() && !pl.rulings[i].Probe {
			pl.Open++
		}
	}
	for i, c := range pool.Candidates {
		r := pl.rulings[i]
		if allowed != nil && !allowed(c.Candidate.Connection) {
			continue
		}
		// With nothing plainly runnable what was forbidden may be a trial that is not for requests with an alternative.
		if depends := r.Probe || r.Reason == gateway.NotBefore || pl.Open == 0 && r.Verdict == resilience.Forbidden; depends {
			ask.Fallbacks = pl.Open
			pl.rulings[i] = c.Peek(ask, now)
		}
	}
	ask.Fallbacks = pl.Open
}

// Fallbacks is how many other candidates could take over from candidate id now.
func (pl *Plan) Fallbacks(id int) int {
	if r := pl.rulings[id]; r.OK() && !r.Probe {
		return pl.Open - 1
	}
	return pl.Open
}

// Ruling is what the last look said of candidate id.
func (pl *Plan) Ruling(id int) resilience.Ruling { return pl.rulings[id] }

// Peek asks the layers in their order; the first that does not allow names itself. A delay is only the answer when no
// layer forbids.
func (c *Candidate) Peek(ask *resilience.Ask, now time.Time) resilience.Ruling {
	out := c.Breaker.Peek(ask, now)
	if out.Verdict == resilience.Forbidden {
		return out
	}
	for _, h := range [...]resilience.Handle{c.Cooldown, c.Lockout, c.Gate} {
		r := h.Peek(ask, now)
		if r.Verdict == resilience.Forbidden {
			return r
		}
		if r.Verdict == resilience.Delayed && out.OK() {
			r.Probe, r.Weak = out.Probe, out.Weak
			out = r
			continue
		}
		out.Probe = out.Probe || r.Probe
		out.Weak = out.Weak || r.Weak
	}
	return out
}

// rank orders targets by the combo's strategy and connections inside a target by the provider's.
func (pl *Plan) rank(now time.Time) {
	pool := pl.Pool
	pl.Ranked = pl.Ranked[:0]
	for i := range pl.items {
		r := pl.rulings[i]
		pl.items[i].Eligible, pl.items[i].Weak = r.OK(), r.Weak || r.Probe
	}
	for t, run := range pool.targets {
		pl.inner[t] = pl.summary(run)
	}
	pl.order = pool.strategy.Rank(pl.order, pl.inner, pool.state, pl.rng)
	for _, t := range pl.order {
		run := pool.targets[t]
		pl.within = run.strategy.Rank(pl.within, pl.items[run.from:run.to], run.state, pl.rng)
		for _, w := range pl.within {
			pl.append(run.from+w, now)
		}
	}
}

// summary is a target as its combo's strategy sees it: the best of its candidates.
func (pl *Plan) summary(run target) strategy.Item {
	out := strategy.Item{Weight: run.weight}
	best := -1.0
	for i := run.from; i < run.to; i++ {
		it := pl.items[i]
		if it.Eligible && !out.Eligible {
			out.Eligible, best = true, -1
		}
		if it.Eligible != out.Eligible {
			continue
		}
		if load := it.Success / (1 + float64(it.InFlight)/float64(max(it.Limit, 1))); load > best {
			best = load
			out.Success, out.Silent, out.InFlight, out.Limit, out.Weak = it.Success, it.Silent, it.InFlight, it.Limit, it.Weak
		}
	}
	return out
}

func (pl *Plan) append(i int, now time.Time) {
	c := pl.Pool.Candidates[i]
	r := pl.rulings[i]
	x := next.Candidate{ID: i, Target: c.Target, Provider: c.Provider, Connection: c.Connection, Account: c.Account,
		Model: c.Model, Ruling: r, Health: pl.items[i].Success}
	switch r.Reason {
	case gateway.ConnectionCooldown:
		x.Cause = c.Cooldown.Cause(now)
	case gateway.ModelLockout:
		x.Cause = c.Lockout.Cause(now)
	}
	pl.Ranked = append(pl.Ranked, x)
}

// Used tells the strategies that an attempt on candidate id began.
func (pl *Plan) Used(id int) {
	p := pl.Pool
	c := p.Candidates[id]
	p.state.Used(c.Target, len(p.targets))
	run := p.targets[c.Target]
	run.state.Used(id-run.from, run.to-run.from)
}
