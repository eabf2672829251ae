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
	Ranked []*next.Candidate // best first; they are the plan's and change with the next Make
	Proven bool              // some candidate has given first content lately
	Open   int               // candidates that are runnable without being on trial

	// Returns tells that the session could have stayed, but went back to a higher target.
	Returns bool

	home      int  // candidate that the session is bound to, -1 = none
	mayReturn bool // the session may go back to a higher target
	pin       int  // the only connection that will do, -1 = any

	// Demoted are targets that rank last because they are known to refuse what the request asks for.
	Demoted []Demoted
	wish    wish

	// Per candidate: how the walk and how the strategies see it. What does not change is filled in once.
	walkers []next.Candidate
	items   []strategy.Item
	inner   []strategy.Item // per target

	seen   uint64 // changes of the rooms when plain and steady were filled, plus one
	plain  []bool // per candidate: breaker, cooldown, lockout and rates allow everybody until the next change
	steady []bool // per candidate: and so does the gate, but for the cap of the unproven
	doubt  []int  // the candidates that had to be asked

	order  []int
	within []int
	rng    *rand.Rand
}

func newPlan(p *Pool) *Plan {
	n := len(p.Candidates)
	pl := &Plan{
		Pool: p, Ranked: make([]*next.Candidate, 0, n), walkers: make([]next.Candidate, n), items: make([]strategy.Item, n),
		inner: make([]strategy.Item, len(p.targets)), plain: make([]bool, n), steady: make([]bool, n), doubt: make([]int, 0, n),
		order: make([]int, 0, len(p.targets)), within: make([]int, 0, n),
		rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), home: -1, pin: -1,
	}
	for i, c := range p.Candidates {
		pl.walkers[i] = next.Candidate{ID: i, Target: c.Target, Provider: c.Provider, Connection: c.Connection, Account: c.Account,
			Model: c.Model}
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
	pl.rank()
	if !pl.ignorant() {
		pl.demote(now)
	}
}

// Fallbacks is how many other candidates could take over from candidate id now.
func (pl *Plan) Fallbacks(id int) int {
	if r := &pl.walkers[id].Ruling; r.OK() && !r.Probe {
		return max(pl.Open-1, 0) // what runs for want of another was not counted
	}
	return pl.Open
}

// Ruling is what the last look said of candidate id.
func (pl *Plan) Ruling(id int) resilience.Ruling { return pl.walkers[id].Ruling }

// rank orders targets by the combo's strategy and connections inside a target by the provider's.
func (pl *Plan) rank() {
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
			pl.Ranked = append(pl.Ranked, &pl.walkers[run.from+w])
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
			out.Success, out.Silent, out.InFlight, out.Limit = it.Success, it.Silent, it.InFlight, it.Limit
			out.Faltered, out.Weak = it.Faltered, it.Weak
		}
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
