// Package plan orders the candidates of a request and says of each whether it may run now. Planning looks and takes
// nothing: every room is only peeked at. A Pool is compiled once per combo and snapshot, so planning 100 candidates
// looks nothing up by name and allocates nothing.
package plan

import (
	"net/url"
	"strings"
	"sync"

	"spillway/internal/catalog"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/resilience/ability"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/gate"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lane"
	"spillway/internal/resilience/lockout"
	"spillway/internal/resilience/queue"
	"spillway/internal/resilience/rate"
	"spillway/internal/route/strategy"
)

// Candidate is a candidate with its handles: everything an attempt on it needs.
type Candidate struct {
	gateway.Candidate
	ID int // index in Pool.Candidates

	// Identities inside the pool: equal exactly when the things are the same.
	Target, Provider, Connection, Account, Model int
	AccountName                                  string // the account, everywhere and over restarts

	Breaker  *breaker.Handle
	Cooldown *cooldown.Handle
	Lockout  *lockout.Handle
	Gate     *gate.Handle
	Rate     *rate.Handle // nil = no rates
	Health   *health.Handle
	Ability  *ability.Handle // nil = nothing is known
	Lane     *lane.Handle    // nil = its connection has opted into nothing at usage walls

	URL       *url.URL // of the pool's operation, not streamed
	StreamURL *url.URL // and streamed; the same for all protocols but Gemini

	weight, priority int
}

// Pool is the set of candidates of one combo for one client protocol and operation.
type Pool struct {
	Name        string // names the queue, the retry budget and the stall clock
	Combo       *gateway.Combo
	Ordered     bool
	Connections int          // distinct ones
	Queue       queue.Config // bounds of its line; the depth is of the whole pool
	Candidates  []*Candidate
	Excluded    []gateway.Exclusion // can never serve this protocol, with the reason

	hot      []hot          // by candidate
	home     map[place]int  // candidates by what a session is bound to
	conns    map[string]int // Candidate.Connection by identity
	targets  []target
	strategy strategy.Kind
	sticky   int // uses of one target in a row before the strategy moves on; below 2 it always does
	state    *strategy.State
	changes  *resilience.Changes
	reuse    sync.Pool // *Plan
}

// hot is what planning asks of every candidate, however well it is.
type hot struct {
	health health.Handle
	gate   *gate.Handle
}

// target is a run of candidates: the connections of one provider for one model.
type target struct {
	from, to int
	weight   int
	strategy strategy.Kind
	state    *strategy.State
}

// place is what a session is bound to.
type place struct {
	connection string // identity
	model      gateway.ModelID
}

// Binder binds a candidate to its rooms. It is implemented where the rooms are put together.
type Binder interface {
	Bind(c gateway.Candidate, p gateway.Protocol, op gateway.Operation, snapshot *catalog.Snapshot) Candidate
	// Changes is what the rooms count their changes with.
	Changes() *resilience.Changes
	// Strategy returns the memory of a strategy: one per name, kept over reloads.
	Strategy(name string) *strategy.State
	// URLs returns the URLs of an operation at a candidate, for a client protocol.
	URLs(c gateway.Candidate, p gateway.Protocol, op gateway.Operation) (plain, stream *url.URL, err error)
}

// maxPools bounds the cache of a board: model names come from clients.
const maxPools = 4096

// Board is a snapshot with its compiled pools. It is safe for concurrent use and lives as long as its snapshot.
type Board struct {
	Snapshot *catalog.Snapshot
	binder   Binder

	mu    sync.RWMutex
	pools map[poolKey]*Pool
}

type poolKey struct {
	combo     string
	protocol  gateway.Protocol
	operation gateway.Operation
}

// NewBoard returns an empty board over a snapshot.
func NewBoard(s *catalog.Snapshot, b Binder) *Board {
	return &Board{Snapshot: s, binder: b, pools: map[poolKey]*Pool{}}
}

// Pool returns the compiled pool of a combo for a client protocol and operation.
func (b *Board) Pool(combo *gateway.Combo, p gateway.Protocol, op gateway.Operation) *Pool {
	key := poolKey{combo.Name, p, op}
	b.mu.RLock()
	pool := b.pools[key]
	b.mu.RUnlock()
	if pool != nil {
		return pool
	}
	pool = b.compile(combo, key)
	b.mu.Lock()
	defer b.mu.Unlock()
	if have := b.pools[key]; have != nil {
		return have
	}
	if len(b.pools) >= maxPools { // any one makes room: made-up names must not keep real ones from being compiled once
		for old := range b.pools {
			delete(b.pools, old)
			break
		}
	}
	b.pools[key] = pool
	return pool
}

// compile binds every connection of every target.
func (b *Board) compile(combo *gateway.Combo, key poolKey) *Pool {
	kind, err := strategy.Parse(combo.Strategy)
	if err != nil {
		kind = strategy.Priority // configuration has refused unknown names; a stored combo of a newer version may not be
	}
	pool := &Pool{Name: combo.Name, Combo: combo, Ordered: kind.Ordered(), strategy: kind,
		state: b.binder.Strategy("combo/" + combo.Name), changes: b.binder.Changes(),
		home: map[place]int{}, conns: map[string]int{}}
	if kind.Sticks() {
		pool.sticky = combo.Options.StickyLimit
	}
	ids := interner{}
	for ti, t := range combo.Targets {
		run := target{from: len(pool.Candidates), weight: t.Weight, strategy: strategy.HealthAware,
			state: b.binder.Strategy("target/" + t.String() + "@" + string(t.Connection))}
		for _, conn := range b.Snapshot.Serving(t) {
			if k, err := strategy.Parse(conn.Provider.Strategy); err == nil {
				run.strategy = k
			}
			pool.add(b, ti, gateway.Candidate{Connection: conn, Model: t.Model}, key, ids)
		}
		run.to = len(pool.Candidates)
		pool.targets = append(pool.targets, run)
	}
	pool.Connections = ids.count("c/")
	pool.Queue = lineOf(pool.Candidates, b.Snapshot)
	for _, c := range pool.Candidates {
		pool.hot = append(pool.hot, hot{*c.Health, c.Gate})
	}
	pool.reuse.New = func() any { return newPlan(pool) }
	return pool
}

func (p *Pool) add(b *Board, ti int, c gateway.Candidate, key poolKey, ids interner) {
	conn := c.Connection
	exclude := func(r gateway.Reason) {
		p.Excluded = append(p.Excluded, gateway.Exclusion{Target: c.Target(), Connection: conn.ID,
			Layer: gateway.LayerRoute, Reason: r})
	}
	if !conn.Provider.Speaks(key.protocol) {
		exclude(gateway.ProtocolMismatch)
		return
	}
	plain, stream, err := b.binder.URLs(c, key.protocol, key.operation)
	if err != nil {
		exclude(gateway.Unavailable)
		return
	}
	bound := b.binder.Bind(c, key.protocol, key.operation, b.Snapshot)
	bound.Candidate = c
	bound.ID, bound.Target = len(p.Candidates), ti
	bound.Provider = ids.id("p/" + string(conn.Provider.ID))
	bound.Connection = ids.id("c/" + conn.Identity)
	bound.AccountName = string(conn.Provider.ID) + "/" + string(conn.Account)
	bound.Account = ids.id("a/" + bound.AccountName)
	bound.Model = ids.id("m/" + string(c.Model))
	bound.URL, bound.StreamURL = plain, stream
	bound.weight, bound.priority = conn.Weight, conn.Priority
	p.conns[conn.Identity] = bound.Connection
	if at := (place{conn.Identity, c.Model}); p.home[at] == 0 { // the first of equal ones; 0 is none
		p.home[at] = len(p.Candidates) + 1
	}
	p.Candidates = append(p.Candidates, &bound)
}

// interner gives equal strings equal small integers.
type interner map[string]int

func (in interner) id(s string) int {
	i, ok := in[s]
	if !ok {
		i = len(in)
		in[s] = i
	}
	return i
}

// count is how many strings of one kind were seen.
func (in interner) count(prefix string) int {
	n := 0
	for s := range in {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}
