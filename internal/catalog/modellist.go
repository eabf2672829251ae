package catalog

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"spillway/internal/gateway"
)

// ModelInfo is one line of /v1/models.
type ModelInfo struct {
	ID        string               // as a client asks for it
	Kind      string               // combo, alias or model
	Providers []gateway.ProviderID // who serves it, in order
}

// Models lists every name that a client may ask for: combos, aliases without wildcards, models. Sorted by kind in that
// order, then by name; the caller must not change the slice.
func (s *Snapshot) Models() []ModelInfo { return s.models }

func (s *Snapshot) listModels() []ModelInfo {
	var out []ModelInfo
	taken := map[string]bool{}
	add := func(id, kind string, providers []gateway.ProviderID) {
		if !taken[id] {
			taken[id] = true
			out = append(out, ModelInfo{id, kind, providers})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.combos)) {
		add(name, "combo", providersOf(s.combos[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.aliases)) {
		if m, ok := s.Resolve(name); ok {
			add(name, "alias", providersOf(m.Combo))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.served)) {
		c := s.served[name]
		if first, _, ok := strings.Cut(name, "/"); ok && s.providers[gateway.ProviderID(first)] != nil {
			// As a bare name it would mean the provider of that name, so it is listed with its own in front.
			for _, t := range c.Targets {
				add(t.String(), "model", []gateway.ProviderID{t.Provider})
			}
			continue
		}
		add(name, "model", providersOf(c))
	}
	return out
}

func providersOf(c *gateway.Combo) []gateway.ProviderID {
	var out []gateway.ProviderID
	for _, t := range c.Targets {
		if !slices.Contains(out, t.Provider) {
			out = append(out, t.Provider)
		}
	}
	return out
}

// WithUpstreamModels returns a snapshot that also knows what a provider's own list names; s stays as it is. The version
// stays, too: the configuration did not change.
func (s *Snapshot) WithUpstreamModels(provider gateway.ProviderID, models []gateway.ModelID) *Snapshot {
	next := *s
	next.upstream = maps.Clone(s.upstream)
	next.upstream[provider] = slices.Clone(models)
	next.index()
	return &next
}

// Unlisted lists the providers with a connection that serves whatever is asked for: those whose own list completes what
// is known.
func (s *Snapshot) Unlisted() []*gateway.Provider {
	var out []*gateway.Provider
	for _, c := range s.connections {
		if len(c.Models) == 0 && !slices.Contains(out, c.Provider) {
			out = append(out, c.Provider)
		}
	}
	return out
}

// How long a list, and the failure to fetch one, is kept.
const (
	ModelListTTL      = 24 * time.Hour
	ModelListRetryTTL = 5 * time.Minute
)

// ModelList keeps the lists that were fetched from upstreams, over reloads. It is safe for concurrent use; the zero
// value is ready. It fetches nothing itself.
type ModelList struct {
	mu    sync.Mutex
	lists map[string]fetched // guarded by mu; by provider and base URL, so a re-pointed provider starts fresh
}

type fetched struct {
	models []gateway.ModelID
	busy   bool
	until  time.Time
}

func listKey(p *gateway.Provider) string { return string(p.ID) + "\x00" + p.BaseURL }

// Claim reports whether the caller is to fetch a provider's list now, and then keeps others from doing so for a minute.
func (l *ModelList) Claim(p *gateway.Provider, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, ok := l.lists[listKey(p)]
	if ok && now.Before(have.until) {
		return false
	}
	have.busy, have.until = true, now.Add(time.Minute)
	l.put(p, have)
	return true
}

// Record keeps what was fetched; ok is false when it could not be, and then an older list stays in use.
func (l *ModelList) Record(p *gateway.Provider, models []gateway.ModelID, ok bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := fetched{models: slices.Clone(models), until: now.Add(ModelListTTL)}
	if !ok {
		have = fetched{models: l.lists[listKey(p)].models, until: now.Add(ModelListRetryTTL)}
	}
	l.put(p, have)
}

func (l *ModelList) put(p *gateway.Provider, f fetched) {
	if l.lists == nil {
		l.lists = map[string]fetched{}
	}
	l.lists[listKey(p)] = f
}

// Known returns a provider's list and whether one was ever fetched, or is being fetched now by somebody else.
func (l *ModelList) Known(p *gateway.Provider) (models []gateway.ModelID, fetching bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.lists[listKey(p)]
	return f.models, f.busy
}

// Apply returns a snapshot that knows every list kept for its providers: for a snapshot fresh from a reload.
func (l *ModelList) Apply(s *Snapshot) *Snapshot {
	next := *s
	next.upstream = maps.Clone(s.upstream)
	for _, p := range s.Unlisted() {
		if models, _ := l.Known(p); len(models) > 0 {
			next.upstream[p.ID] = models
		}
	}
	next.index()
	return &next
}
