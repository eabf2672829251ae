package record

import (
	"cmp"
	"fmt"
	"slices"

	"spillway/internal/gateway"
)

// pool is everything that was ever tried or left out for one name that clients ask for.
type pool struct {
	asked, name string
	strategy    string
	targets     []*target
}

// target is a provider's model in a pool, with how it came to be tried.
type target struct {
	provider gateway.ProviderID
	model    gateway.ModelID
	won      int // over targets that were not left out: + when a request began with it, - when with another
	any      int // attempts
}

// pools finds the pools. The order of a pool's targets is not in the log, but it shows: a target that requests began with
// although another one was not left out stands before that one.
func (l *Log) pools() []*pool {
	byName := map[string]*pool{}
	var out []*pool
	for _, j := range l.journeys {
		p := byName[j.Model]
		if p == nil {
			p = &pool{asked: j.Model, name: fmt.Sprintf("asked-%d", len(out)+1)}
			byName[j.Model] = p
			out = append(out, p)
		}
		p.strategy = cmp.Or(p.strategy, j.Strategy)
		for i := range j.Attempts {
			p.target(j.Attempts[i].Target).any++
		}
	}
	for _, j := range l.journeys {
		if len(j.Attempts) > 0 {
			byName[j.Model].begun(j)
		}
	}
	for _, p := range out {
		slices.SortStableFunc(p.targets, func(a, b *target) int {
			return cmp.Or(cmp.Compare(b.won, a.won), cmp.Compare(b.any, a.any))
		})
	}
	return slices.DeleteFunc(out, func(p *pool) bool { return len(p.targets) == 0 })
}

// begun notes whom a request began with, of those that it could have.
func (p *pool) begun(j *gateway.Journey) {
	first := p.target(j.Attempts[0].Target)
	for _, t := range p.targets {
		out := slices.ContainsFunc(j.Excluded, func(x gateway.Exclusion) bool {
			return x.Target.Provider == t.provider && x.Target.Model == t.model
		})
		if t != first && !out {
			first.won++
			t.won--
		}
	}
}

func (p *pool) target(t gateway.Target) *target {
	for _, have := range p.targets {
		if have.provider == t.Provider && have.model == t.Model {
			return have
		}
	}
	n := &target{provider: t.Provider, model: t.Model}
	p.targets = append(p.targets, n)
	return n
}

// serves is the provider's model for what is asked for; "" = none.
func (p *pool) serves(provider gateway.ProviderID, model gateway.ModelID) bool {
	return slices.ContainsFunc(p.targets, func(t *target) bool { return t.provider == provider && t.model == model })
}

// combo is the pool in the words of spillway.yaml.
func (p *pool) combo() map[string]any {
	var targets []any
	for _, t := range p.targets {
		targets = append(targets, string(t.provider)+"/"+string(t.model))
	}
	out := map[string]any{"name": p.name, "targets": targets}
	if p.strategy != "" {
		out["strategy"] = p.strategy
	}
	return out
}
