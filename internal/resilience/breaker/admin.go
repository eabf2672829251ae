package breaker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// ErrUnknownKey is returned for a key that no candidate was ever bound to.
var ErrUnknownKey = errors.New("no such breaker")

// Force opens or closes a breaker by hand. A forced-open one is not probed and a forced-closed one does not trip,
// until the given time, or with a zero time until an operator says otherwise. The key is a connection's, a model's or
// a provider's (ConnectionKey, ModelKey, ProviderKey); an order to a connection holds for its models, one to a
// provider for its connections. Orders are kept and stand in the history with their actor.
func (r *Room) Force(key string, open bool, until time.Time, actor string, now time.Time) error {
	ev := event{kind: evForceClose, actor: actor}
	if open {
		ev.kind = evForceOpen
	}
	if !until.IsZero() {
		if !until.After(now) {
			return fmt.Errorf("force %s: the time %v has passed", key, until.Format(time.RFC3339))
		}
		ev.until = r.ns(until)
	}
	return r.order(key, ev, now)
}

// Reset forgets what a breaker has learned, and any force; permits that are out become stale. Keys as in Force.
func (r *Room) Reset(key, actor string, now time.Time) error {
	return r.order(key, event{kind: evReset, actor: actor}, now)
}

func (r *Room) order(key string, ev event, now time.Time) error {
	ns := r.ns(now)
	cells := r.family(key, ev.kind)
	if len(cells) == 0 {
		return fmt.Errorf("%w: %s", ErrUnknownKey, key)
	}
	for _, c := range cells {
		c.mu.Lock()
		rules, provider := c.rules, c.id.provider
		c.mu.Unlock()
		if rules == nil {
			rules = unbound
		}
		_, e, _ := c.apply(r, rules, ev, ns)
		r.mu.RLock()
		g := r.groups[provider]
		r.mu.RUnlock()
		r.settle(g, e)
	}
	return nil
}

// family is the cell of key and those below it, in the order of their keys. Opening needs only the topmost: it refuses
// for all below.
func (r *Room) family(key string, kind eventKind) (cells []*cell) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys, tops []string
	if r.cells[key] != nil {
		tops = []string{key}
	} else if p, ok := strings.CutPrefix(key, ProviderKey("")); ok {
		for k, c := range r.cells {
			if c.id.parent == "" && c.id.provider == gateway.ProviderID(p) {
				tops = append(tops, k)
			}
		}
	}
	keys = append(keys, tops...)
	for k, c := range r.cells {
		if kind != evForceOpen && c.id.parent != "" && slices.Contains(tops, c.id.parent) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		cells = append(cells, r.cells[k])
	}
	return cells
}

// unbound are the rules of a cell that was restored and not bound since.
var unbound = compile(Recommended(), 0, defaultAttemptMax)

// Status lists every key that is not plainly closed, and the forced ones, sorted by key. A provider that is out
// because its connections are has a line of its own.
func (r *Room) Status(now time.Time) []resilience.Status {
	ns := r.ns(now)
	r.mu.RLock()
	cells := make([]*cell, 0, len(r.cells))
	for _, c := range r.cells {
		cells = append(cells, c)
	}
	groups := make([]*group, 0, len(r.groups))
	for _, g := range r.groups {
		groups = append(groups, g)
	}
	r.mu.RUnlock()
	var out []resilience.Status
	for _, c := range cells {
		if s, ok := c.status(r, ns); ok {
			out = append(out, s)
		}
	}
	for _, g := range groups {
		out = append(out, g.status(r, ns)...)
	}
	slices.SortFunc(out, func(a, b resilience.Status) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func (c *cell) status(room *Room, now int64) (resilience.Status, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rules
	if r == nil {
		r = unbound
	}
	seen, forced := c.see(r, now), c.s.forcedAt(now)
	if seen == Closed && forced == unforced {
		return resilience.Status{}, false
	}
	n, f := c.s.sums(r, now)
	s := resilience.Status{Layer: gateway.LayerBreaker, Key: c.id.key, State: seen.String(), Detail: map[string]string{
		"provider": string(c.id.provider), "fails": strconv.Itoa(int(c.s.fails)),
	}}
	put := func(name, value string) {
		if value != "" && value != "0" {
			s.Detail[name] = value
		}
	}
	put("connection", string(c.id.connection))
	put("model", string(c.id.model))
	put("attempts", strconv.FormatInt(n, 10))
	put("failures", strconv.FormatInt(f, 10))
	put("streak", strconv.Itoa(int(c.s.streak)))
	if c.s.st != closed {
		out := c.s.peek(r, true, now)
		s.Reason, s.Until = out.reason, room.time(out.until)
		put("cause", c.s.oc.String())
		probes, _ := c.s.probes(now)
		put("probes", strconv.Itoa(int(probes)))
		if c.s.since != 0 {
			put("since", room.time(c.s.since).UTC().Format(time.RFC3339))
		}
	}
	if forced != unforced {
		s.Until = room.time(c.s.fu)
		put("forced", map[force]string{forcedOpen: "open", forcedClosed: "closed"}[forced])
		put("forced_by", c.s.fby)
	}
	return s, true
}

func (g *group) status(room *Room, now int64) (out []resilience.Status) {
	o := g.out.Load()
	if o == nil {
		return nil
	}
	line := func(model gateway.ModelID, c *cut) {
		u := g.peek(unbound, model, true, now)
		s := resilience.Status{Layer: gateway.LayerBreaker, Key: ProviderKey(g.provider), State: Open.String(),
			Reason: u.reason, Until: room.time(u.until), Detail: map[string]string{
				"provider": string(g.provider), "cause": "auto", "tripped": strconv.Itoa(len(c.cells)),
			}}
		if u.admit {
			s.State = HalfOpen.String()
		}
		if model != "" {
			s.Key += "/" + string(model)
			s.Detail["model"] = string(model)
		}
		out = append(out, s)
	}
	if o.all != nil {
		line("", o.all)
	}
	for model, c := range o.models {
		line(model, c)
	}
	return out
}

// History returns the last 20 transitions of a key, oldest first, or nil for an unknown key.
func (r *Room) History(key string) []Transition {
	r.mu.RLock()
	c := r.cells[key]
	r.mu.RUnlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.history)
}
