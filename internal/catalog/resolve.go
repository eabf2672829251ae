package catalog

import (
	"cmp"
	"slices"
	"strings"

	"spillway/internal/config"
	"spillway/internal/gateway"
)

// Match is what a model name means.
type Match struct {
	Combo   *gateway.Combo // never nil; shared, must not be changed
	Path    []string       // how the name was resolved, for the decision log
	Ordered bool           // the combo's strategy is ordered
	Plain   bool           // one provider/model, no combo
	// Guess is set when no list names the model and it goes to those whose lists are not known. A caller that can fetch
	// lists ([Snapshot.Unlisted]) does so first and resolves again.
	Guess bool
}

// pattern is an alias with wildcards.
type pattern struct{ glob, to string }

func (s *Snapshot) compileAliases() {
	s.aliases = make(map[string]string, len(s.config.Aliases))
	for name, to := range s.config.Aliases {
		if strings.ContainsAny(name, "*?") {
			s.patterns = append(s.patterns, pattern{name, to})
		} else {
			s.aliases[name] = to
		}
	}
	slices.SortFunc(s.patterns, func(a, b pattern) int {
		if d := specificity(b.glob) - specificity(a.glob); d != 0 {
			return d
		}
		return strings.Compare(a.glob, b.glob)
	})
}

// specificity counts the letters that a pattern fixes; a ? fixes the length but not the letter.
func specificity(glob string) int {
	return 2*len(glob) - 2*strings.Count(glob, "*") - strings.Count(glob, "?")
}

// Resolve finds what a model name means: exact combo, alias (exact, then the most specific pattern), provider/model,
// then any connection that serves the model; auto and auto/... mean everything configured. false means that nothing
// configured could ever serve it.
func (s *Snapshot) Resolve(model string) (Match, bool) {
	var path []string
	for depth := 0; ; depth++ {
		if c, ok := s.combos[model]; ok {
			return Match{Combo: c, Path: append(path, "combo "+model), Ordered: Ordered(c.Strategy)}, true
		}
		glob, to, ok := s.alias(model)
		if !ok || depth >= maxNesting || to == model {
			break
		}
		path, model = append(path, "alias "+glob+" -> "+to), to
	}
	if provider, id, ok := strings.Cut(model, "/"); ok && id != "" {
		if p := s.providers[gateway.ProviderID(provider)]; p != nil {
			return Match{Combo: plain(model, p.ID, gateway.ModelID(id)), Path: append(path, "provider/model"), Ordered: true, Plain: true}, true
		}
	}
	if c, ok := s.served[model]; ok {
		return Match{Combo: c, Path: append(path, "served by name"), Ordered: true, Plain: len(c.Targets) == 1}, true
	}
	if model == "auto" || strings.HasPrefix(model, "auto/") {
		if c := s.automatic(model); c != nil {
			return Match{Combo: c, Path: append(path, "auto")}, true
		}
		return Match{}, false
	}
	if len(s.open) == 0 || model == "" {
		return Match{}, false
	}
	c := &gateway.Combo{Name: model, Strategy: "priority"}
	for _, id := range s.open {
		c.Targets = append(c.Targets, gateway.Target{Provider: id, Model: gateway.ModelID(model), Weight: 1})
	}
	return Match{Combo: c, Path: append(path, "asked of providers whose models are not known"), Ordered: true,
		Plain: len(c.Targets) == 1, Guess: true}, true
}

// alias finds what a name stands for.
func (s *Snapshot) alias(name string) (glob, to string, ok bool) {
	if to, ok = s.aliases[name]; ok {
		return name, to, true
	}
	for _, p := range s.patterns {
		if config.Glob(p.glob, name) {
			return p.glob, substitute(p, name), true
		}
	}
	return "", "", false
}

// substitute puts what the pattern's * matched in the place of the target's *.
func substitute(p pattern, name string) string {
	before, after, ok := strings.Cut(p.glob, "*")
	if !ok || !strings.Contains(p.to, "*") || len(before)+len(after) > len(name) {
		return p.to
	}
	return strings.Replace(p.to, "*", name[len(before):len(name)-len(after)], 1)
}

func plain(name string, provider gateway.ProviderID, model gateway.ModelID) *gateway.Combo {
	return &gateway.Combo{Name: name, Strategy: "priority", Targets: []gateway.Target{{Provider: provider, Model: model, Weight: 1}}}
}

// index builds what depends on lists of models.
func (s *Snapshot) index() {
	s.served, s.open, s.auto = map[string]*gateway.Combo{}, nil, map[string]*gateway.Combo{}
	order := slices.Clone(s.connections)
	slices.SortStableFunc(order, func(a, b *gateway.Connection) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, conn := range order {
		models := s.modelsOf(conn)
		if len(models) == 0 && !slices.Contains(s.open, conn.Provider.ID) {
			s.open = append(s.open, conn.Provider.ID)
		}
		for _, m := range models {
			c := s.served[string(m)]
			if c == nil {
				c = &gateway.Combo{Name: string(m), Strategy: "priority"}
				s.served[string(m)] = c
			}
			t := gateway.Target{Provider: conn.Provider.ID, Model: m, Weight: 1}
			if !slices.Contains(c.Targets, t) {
				c.Targets = append(c.Targets, t)
			}
		}
	}
	for _, kind := range autoKinds {
		if c := s.compileAuto(kind, order); len(c.Targets) > 0 {
			s.auto[kind] = c
		}
	}
	s.models = s.listModels()
}

// modelsOf lists what a connection is known to serve: its own list, else the preset's catalogue and the upstream's list.
func (s *Snapshot) modelsOf(c *gateway.Connection) []gateway.ModelID {
	if len(c.Models) > 0 {
		return c.Models
	}
	out := slices.Clone(s.config.Providers[c.Provider.ID].Models)
	for _, m := range s.upstream[c.Provider.ID] {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}
