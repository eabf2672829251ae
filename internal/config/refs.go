package config

import (
	"fmt"
	"slices"
	"strings"

	"spillway/internal/gateway"
)

// Strategies are the names of the strategies of spec strategies.md, for a Source that does not say which exist.
var Strategies = []string{"priority", "fill-first", "weighted", "round-robin", "random", "strict-random", "p2c",
	"health-aware", "least-used", "cost-optimized", "latency-optimized", "reset-aware", "reset-window", "headroom",
	"context-optimized", "cache-optimized", "lkgp", "context-relay", "auto", "fusion", "pipeline", "debate",
	"quota-share", "expiry-first", "hedged"}

// maxComboDepth bounds nested combos, and alias chains.
const maxComboDepth = 10

func (l *loader) checkStrategy(path, name string) {
	known := l.src.Strategies
	if known == nil {
		known = Strategies
	}
	if !slices.Contains(known, name) {
		l.at(path, "unknown strategy %s%s", quote(name), didYouMean(name, known))
	}
}

func (l *loader) combo(name string) *Combo {
	for _, c := range l.cfg.Combos {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (l *loader) comboNames() []string {
	var out []string
	for _, c := range l.cfg.Combos {
		out = append(out, c.Name)
	}
	return out
}

func (l *loader) checkCombos() {
	first := map[string]int{}
	for i, c := range l.cfg.Combos {
		path := fmt.Sprintf("combos[%d]", i)
		if at, dup := first[c.Name]; c.Name == "" {
			l.at(path+".name", "is missing; clients ask for it as a model")
		} else if dup {
			l.at(path+".name", "%s is already the name of combos[%d]", quote(c.Name), at)
		} else {
			first[c.Name] = i
		}
		l.checkStrategy(path+".strategy", c.Strategy)
		if len(c.Targets) == 0 {
			l.at(path+".targets", "is missing; write them as in [openai/gpt-5.1, {combo: other}]")
		}
		for j := range c.Targets {
			l.checkTarget(fmt.Sprintf("%s.targets[%d]", path, j), &c.Targets[j])
		}
		l.checkOptions(path+".options", &c.Options)
	}
	for i, c := range l.cfg.Combos {
		if first[c.Name] == i {
			l.checkNesting(i, c)
		}
	}
	if name := l.cfg.EmergencyFallback; name != "" && l.combo(name) == nil {
		l.at("emergency_fallback", "unknown combo %s%s", quote(name), didYouMean(name, l.comboNames()))
	}
}

func (l *loader) checkTarget(path string, t *Target) {
	l.checkRange(path+".weight", t.Weight, 1, 1_000_000)
	switch {
	case t.Combo != "" && (t.Target != "" || t.Connection != ""):
		l.at(path, "is either {target: provider/model} or {combo: name}, not both")
		return
	case t.Combo != "":
		if l.combo(t.Combo) == nil {
			l.at(path+".combo", "unknown combo %s%s", quote(t.Combo), didYouMean(t.Combo, l.comboNames()))
		}
		return
	case t.Target == "":
		if _, written := l.marks[path]; written {
			l.at(path, "needs target: provider/model, or combo: name")
		}
		return
	}
	provider, model, ok := strings.Cut(t.Target, "/")
	if !ok || provider == "" || model == "" {
		hint := ""
		if l.combo(t.Target) != nil {
			hint = "; for the combo write {combo: " + t.Target + "}"
		}
		l.at(path, "%s is not provider/model%s", quote(t.Target), hint)
		return
	}
	t.Provider, t.Model = gateway.ProviderID(provider), gateway.ModelID(model)
	if l.cfg.Providers[t.Provider] == nil {
		l.at(path, "unknown provider %s%s", quote(provider), l.providerHint(provider))
		return
	}
	if t.Connection == "" {
		return
	}
	if c := l.checkConnectionRef(path+".connection", t.Connection); c != nil && c.Provider != t.Provider {
		l.at(path+".connection", "connection %s belongs to provider %s, not to %s", c.ID, c.Provider, t.Provider)
	}
}

func (l *loader) checkOptions(path string, o *ComboOptions) {
	l.checkRange(path+".sticky_limit", o.StickyLimit, 0, 1_000_000)
	for i, s := range o.Failover.ExcludeStatus {
		l.checkRange(fmt.Sprintf("%s.failover.exclude_status[%d]", path, i), s, 100, 599)
	}
	switch {
	case o.Failover.Mode == gateway.MaxAttemptsMode:
		l.checkRange(path+".failover.max_attempts", o.Failover.MaxAttempts, 1, 100)
	case o.Failover.MaxAttempts != 0:
		l.at(path+".failover.max_attempts", "is used with mode: max_attempts only; add the mode or remove it")
	}
}

// checkNesting reports the cycle that a combo closes, or a depth above the limit. A cycle is reported once, at the
// first of its combos.
func (l *loader) checkNesting(index int, c *Combo) {
	var walk func(c *Combo, trail []string) bool
	walk = func(c *Combo, trail []string) bool {
		trail = append(trail[:len(trail):len(trail)], c.Name)
		for j, t := range c.Targets {
			next := l.combo(t.Combo)
			if t.Combo == "" || next == nil {
				continue
			}
			path := fmt.Sprintf("combos[%d].targets[%d]", slices.Index(l.cfg.Combos, c), j)
			if at := slices.Index(trail, next.Name); at >= 0 {
				if at == 0 && l.firstOf(trail) == index {
					l.at(path, "combos contain each other: %s", strings.Join(append(trail, next.Name), " -> "))
				}
				return true
			}
			if len(trail) >= maxComboDepth {
				l.at(path, "combos are nested more than %d deep: %s", maxComboDepth, strings.Join(append(trail, next.Name), " -> "))
				return true
			}
			if walk(next, trail) {
				return true
			}
		}
		return false
	}
	walk(c, nil)
}

// firstOf is the place of the first of some combos in the file.
func (l *loader) firstOf(names []string) int {
	first := len(l.cfg.Combos)
	for _, name := range names {
		first = min(first, slices.Index(l.cfg.Combos, l.combo(name)))
	}
	return first
}

func (l *loader) checkAliases() {
	for _, name := range sortedKeys(l.cfg.Aliases) {
		path, to := join("aliases", name), l.cfg.Aliases[name]
		switch {
		case name == "":
			l.at("aliases", "an alias needs a name")
			continue
		case to == "":
			l.at(path, "needs what it stands for: a combo, provider/model or another alias")
			continue
		case strings.Contains(to, "*") && strings.Count(name, "*") != 1:
			l.at(path, "a * in the value takes what the * of the name matched; the name must hold exactly one")
			continue
		}
		l.checkAliasTarget(path, name, to)
	}
}

func (l *loader) checkAliasTarget(path, name, to string) {
	trail := []string{name}
	for {
		if l.combo(to) != nil || to == "auto" || strings.HasPrefix(to, "auto/") {
			return
		}
		next, ok := l.cfg.Aliases[to]
		if !ok {
			break
		}
		if at := slices.Index(trail, to); at >= 0 {
			if at == 0 && name == slices.Min(trail) {
				l.at(path, "aliases stand for each other: %s", strings.Join(append(trail, to), " -> "))
			}
			return
		}
		if len(trail) >= maxComboDepth {
			l.at(path, "aliases are chained more than %d deep", maxComboDepth)
			return
		}
		trail, to = append(trail, to), next
	}
	if provider, model, ok := strings.Cut(to, "/"); ok && model != "" && l.cfg.Providers[gateway.ProviderID(provider)] != nil {
		return
	}
	if l.servedByName(to) {
		return
	}
	if strings.Contains(to, "/") {
		provider, _, _ := strings.Cut(to, "/")
		l.at(path, "unknown provider %s%s", quote(provider), l.providerHint(provider))
		return
	}
	if !l.openEnded() {
		l.at(path, "%s is no combo, no alias, no provider/model, and no connection lists it%s", quote(to), didYouMean(to, l.comboNames()))
		return
	}
	l.warn(path, "%s is no combo, no alias and no provider/model; it works only if an upstream lists a model of that name", quote(to))
}

// servedByName reports whether a connection or a catalogue lists a model.
func (l *loader) servedByName(model string) bool {
	id := gateway.ModelID(model)
	for _, c := range l.cfg.Connections {
		if slices.Contains(c.Models, id) {
			return true
		}
	}
	for _, p := range l.cfg.Providers {
		if slices.Contains(p.Models, id) {
			return true
		}
	}
	return false
}

// openEnded reports whether some connection serves whatever is asked for.
func (l *loader) openEnded() bool {
	return slices.ContainsFunc(l.cfg.Connections, func(c *Connection) bool { return len(c.Models) == 0 })
}
