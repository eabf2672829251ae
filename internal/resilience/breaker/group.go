package breaker

import (
	"slices"
	"sync"
	"sync/atomic"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// group is a provider in scope auto. It has no breaker state: it judges from its members' cells, and remembers only
// when first content last lifted a verdict.
type group struct {
	provider gateway.ProviderID
	out      atomic.Pointer[outage] // nil = the provider is not out

	mu        sync.Mutex
	members   map[string]*member
	window    int64
	contentAt int64
	changes   *resilience.Changes
}

// member is one connection of the provider.
type member struct {
	conn   *cell
	models map[gateway.ModelID]*cell // those that the room holds
	apart  bool                      // models are kept apart
}

// outage is a verdict: for all models, or for some.
type outage struct {
	all    *cut
	models map[gateway.ModelID]*cut
}

// cut is one reason why a provider is out: the cells that tripped together.
type cut struct {
	cells []*cell
}

func (g *group) quiet() bool { return g.out.Load() == nil }

func (g *group) join(h *Handle, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.window = h.rules.autoWindow
	m := g.members[id]
	if m == nil {
		m = &member{models: map[gateway.ModelID]*cell{}}
		g.members[id] = m
	}
	if m.apart = h.conn != nil; !m.apart {
		m.conn, m.models = h.own, map[gateway.ModelID]*cell{}
		return
	}
	m.conn, m.models[h.own.id.model] = h.conn, h.own
}

func (g *group) retain(live map[string]bool) {
	g.mu.Lock()
	for id := range g.members {
		if !live[id] {
			delete(g.members, id)
		}
	}
	g.mu.Unlock()
	g.judge()
}

// content is first content on any connection of the provider, which lifts every verdict older than it. It reports
// whether it lifted one.
func (g *group) content(now int64) bool {
	if g.out.Load() == nil {
		return false
	}
	g.mu.Lock()
	g.contentAt = max(g.contentAt, now)
	g.mu.Unlock()
	g.judge()
	return g.quiet()
}

// trip is one tripped connection as the judgement sees it.
type trip struct {
	cell  *cell
	since int64
}

// judge recomputes the verdict from the members. It runs after transitions only, which are rare.
func (g *group) judge() {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []trip
	byModel := map[gateway.ModelID][]trip{}
	serving := map[gateway.ModelID]int{}
	for _, m := range g.members {
		whole, low := m.conn.tripped()
		any := trip{}
		if whole.cell != nil && (low || !m.apart) {
			any = whole
		}
		for model, c := range m.models {
			serving[model]++
			own, low := c.tripped()
			if own.cell == nil {
				own = whole
			} else if low && (any.cell == nil || own.since < any.since) {
				any = own
			}
			if own.cell != nil {
				byModel[model] = append(byModel[model], own)
			}
		}
		if any.cell != nil {
			all = append(all, any)
		}
	}
	out := &outage{all: g.cut(all, len(g.members))}
	for model, trips := range byModel {
		if c := g.cut(trips, serving[model]); c != nil {
			if out.models == nil {
				out.models = map[gateway.ModelID]*cut{}
			}
			out.models[model] = c
		}
	}
	if out.all == nil && out.models == nil {
		out = nil
	}
	if was := g.out.Swap(out); (was == nil) != (out == nil) {
		g.changes.Note()
	}
}

// cut applies the rule of spec resilience.md section 2 to the connections that are out: at least two, and at least
// half of all, tripped within the window, and no first content since the later trip.
func (g *group) cut(trips []trip, members int) *cut {
	need := max(2, (members+1)/2)
	slices.SortFunc(trips, func(a, b trip) int { return int(min(max(a.since-b.since, -1), 1)) })
	for last := len(trips) - 1; last >= need-1; last-- {
		if trips[last].since-trips[last-need+1].since > g.window || trips[last].since <= g.contentAt {
			continue
		}
		c := &cut{}
		for _, t := range trips {
			c.cells = append(c.cells, t.cell)
		}
		return c
	}
	return nil
}

// tripped reports whether evidence, not an operator or a dead credential, has taken the cell out, since when, and
// whether the fault was below HTTP.
func (c *cell) tripped() (t trip, low bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.st == closed || c.s.oc == causeForced || c.s.oc == causeDead {
		return trip{}, false
	}
	return trip{cell: c, since: c.s.since}, c.s.tripLow
}

// peek rules for a candidate whose own cells admit it. It is out until the first of the tripped connections is due;
// from then on it may be tried, too, unless a probe is already under way, so a provider cannot stay out because
// nobody asks for the connections that tripped.
func (g *group) peek(r *rules, model gateway.ModelID, may bool, now int64) ruling {
	o := g.out.Load()
	if o == nil {
		return ruling{admit: true}
	}
	c := o.all
	if c == nil {
		c = o.models[model]
	}
	if c == nil {
		return ruling{admit: true}
	}
	var due bool
	var busy, until int64
	for _, m := range c.cells {
		switch out, n := m.rule(r, now); {
		case out.admit:
			due = true
		case n > 0:
			if busy == 0 || out.until < busy {
				busy = out.until
			}
		case out.until != 0 && (until == 0 || out.until < until):
			until = out.until
		}
	}
	switch {
	case busy != 0:
		return ruling{reason: gateway.ProbeBusy, until: busy}
	case !due && until != 0:
		return ruling{reason: gateway.CircuitOpen, until: until}
	case !may:
		return ruling{reason: gateway.CircuitOpen}
	}
	return ruling{admit: true, probe: true}
}

// rule is what an Acquire would be told, and how many probes are under way.
func (c *cell) rule(r *rules, now int64) (ruling, int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _ := c.s.probes(now)
	return c.s.peek(r, true, now), n
}
