package app

import (
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/protocol/families"
	"spillway/internal/resilience"
	"spillway/internal/resilience/ability"
	"spillway/internal/resilience/affinity"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/gate"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lane"
	"spillway/internal/resilience/lockout"
	"spillway/internal/resilience/outage"
	"spillway/internal/resilience/queue"
	"spillway/internal/resilience/rate"
	"spillway/internal/route/strategy"
)

// rooms are the rooms of resilience, put together. They outlive configurations: state is keyed by identity.
type rooms struct {
	breaker  *breaker.Room
	cooldown *cooldown.Room
	lockout  *lockout.Room
	gate     *gate.Room
	rate     *rate.Room
	health   *health.Room
	outage   *outage.Room
	queues   *queue.Room
	affinity *affinity.Room
	ability  *ability.Room
	lane     *lane.Room
	changes  resilience.Changes // of breaker, cooldown, lockout, gate and rate, for planning

	mu         sync.Mutex
	strategies map[string]*strategy.State
	returning  map[gateway.ConnectionID]*cooldown.Handle // to start the ramp when a breaker closes
}

// events are what the rooms tell.
type events struct {
	keep       resilience.Keep
	transition func(breaker.Transition)
	changed    func(resilience.Status, time.Time)
}

func newRooms(set *config.Settings, e events) *rooms {
	r := &rooms{
		health: health.New(health.Options{Config: set.Health}), outage: outage.New(set.Outage), queues: queue.New(queue.Options{}),
		strategies: map[string]*strategy.State{}, returning: map[gateway.ConnectionID]*cooldown.Handle{},
	}
	// What comes back from isolation may be what somebody in line waits for.
	changed := func(s resilience.Status, now time.Time) {
		r.queues.Wake()
		e.changed(s, now)
	}
	r.breaker = breaker.New(breaker.Options{Keep: e.keep, Changes: &r.changes, Rand: rand.Float64, OnFree: r.queues.Wake,
		OnTransition: func(t breaker.Transition) {
			r.transition(t)
			e.transition(t)
		}})
	r.cooldown = cooldown.New(cooldown.Options{Keep: e.keep, Changes: &r.changes, OnChange: changed, Rand: rand.Float64})
	r.lockout = lockout.New(lockout.Options{Keep: e.keep, Changes: &r.changes, OnChange: changed, Rand: rand.Float64})
	r.gate = gate.New(gate.Options{OnFree: r.queues.Wake, Changes: &r.changes})
	r.rate = rate.New(rate.Options{Keep: e.keep, Changes: &r.changes, OnFree: r.queues.Wake})
	r.ability = ability.New(ability.Options{Keep: e.keep})
	r.lane = lane.New(lane.Options{OnChange: e.changed})
	r.affinity = affinity.New(affinity.Options{Keep: e.keep})
	r.affinity.Configure(affinity.Config(set.Affinity))
	return r
}

// transition lets a connection whose breaker closed return by ramp, and wakes who waits for it. One model that comes back
// says nothing about the connection, which was never away.
func (r *rooms) transition(t breaker.Transition) {
	if t.To == breaker.Closed && t.Model == "" && (t.From == breaker.Open || t.From == breaker.HalfOpen) && t.Actor == "" {
		r.mu.Lock()
		h := r.returning[t.Connection]
		r.mu.Unlock()
		if h != nil {
			h.Return(t.At)
		}
	}
	r.queues.Wake()
}

// restore takes over what was kept before the last stop; no rule is more permissive than it was then.
func (r *rooms) restore(records []resilience.Record, now time.Time) {
	r.breaker.Restore(records, now)
	r.cooldown.Restore(records, now)
	r.lockout.Restore(records, now)
	r.rate.Restore(records, now)
	r.affinity.Restore(records, now)
	r.ability.Restore(records, now)
}

// retain names what is configured now.
func (r *rooms) retain(s *catalog.Snapshot) {
	r.affinity.Configure(affinity.Config(s.Config().Global().Affinity))
	conns := s.AllConnections()
	live := make(map[string]bool, len(conns))
	for _, c := range conns {
		live[c.Identity] = true
	}
	r.breaker.Retain(live)
	r.cooldown.Retain(conns)
	r.lockout.Retain(conns)
	r.outage.Retain(conns)
	r.lane.Retain(conns)
}

// Bind implements plan.Binder. What is learned about a model belongs to the operation as well: a model that cannot embed,
// or a provider that has no such path, is not out for chat, and the quick answers of one call do not set the clocks of
// another. Keys, accounts and slots are shared.
func (r *rooms) Bind(c gateway.Candidate, p gateway.Protocol, op gateway.Operation, s *catalog.Snapshot) plan.Candidate {
	set := s.Settings(c.Connection.ID)
	unit := c
	unit.Model = op.Unit(c.Model, p)
	h := r.health.Bind(unit)
	cool := r.cooldown.Bind(c, set.Cooldown)
	r.mu.Lock()
	r.returning[c.Connection.ID] = cool
	r.mu.Unlock()
	return plan.Candidate{
		Breaker:  r.breaker.Bind(unit, set.Breaker),
		Cooldown: cool,
		Lockout:  r.lockout.Bind(unit, lockFamily(set.Lockout, c, s)),
		Gate:     r.gate.Bind(c, set.Pacing.Gate, h.Proven),
		Rate:     r.rate.Bind(c, set.Pacing.Rates),
		Health:   h,
		Ability:  r.ability.Bind(unit),
		Lane:     r.lane.Bind(c),
	}
}

// lockFamily is the policy of locks with the quota that the model shares with others.
func lockFamily(cfg lockout.Config, c gateway.Candidate, s *catalog.Snapshot) lockout.Config {
	if p := s.Config().Providers[c.Connection.Provider.ID]; p != nil {
		cfg.Family = p.QuotaFamily(c.Model)
	}
	return cfg
}

// Changes implements plan.Binder.
func (r *rooms) Changes() *resilience.Changes { return &r.changes }

// maxStrategies bounds the memories of strategies: names of pools can come from clients.
const maxStrategies = 1 << 14

// Strategy implements plan.Binder.
func (r *rooms) Strategy(name string) *strategy.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.strategies[name]
	if st == nil {
		st = &strategy.State{}
		if len(r.strategies) < maxStrategies {
			r.strategies[name] = st
		}
	}
	return st
}

// URLs implements plan.Binder.
func (r *rooms) URLs(c gateway.Candidate, p gateway.Protocol, op gateway.Operation) (plain, stream *url.URL, err error) {
	f := families.For(p)
	base := c.Connection.Provider.BaseURL
	if plain, err = url.Parse(f.Upstream(base, c, &gateway.Envelope{Protocol: p, Operation: op})); err != nil {
		return nil, nil, err
	}
	stream, err = url.Parse(f.Upstream(base, c, &gateway.Envelope{Protocol: p, Operation: op, Stream: true}))
	return plain, stream, err
}

// status lists everything that is out or limited, in the order of the layers.
func (r *rooms) status(now time.Time) []resilience.Status {
	out := r.breaker.Status(now)
	out = append(out, r.cooldown.Status(now)...)
	out = append(out, r.lockout.Status(now)...)
	out = append(out, r.gate.Status(now)...)
	out = append(out, r.ability.Status(now)...)
	out = append(out, r.lane.Status(now)...)
	return append(out, r.rate.Status(now)...)
}
