package catalog

import (
	"fmt"

	"spillway/internal/config"
	"spillway/internal/gateway"
)

// maxNesting bounds nested combos and alias chains, as configuration does.
const maxNesting = 10

// compileCombos expands nested combos in place. A nested target's weight is its own times that of the line that names
// its combo; a target that comes up twice keeps its first place.
func (s *Snapshot) compileCombos() error {
	byName := make(map[string]*config.Combo, len(s.config.Combos))
	for _, c := range s.config.Combos {
		byName[c.Name] = c
	}
	s.combos = make(map[string]*gateway.Combo, len(byName))
	for name, c := range byName {
		seen := map[gateway.Target]bool{}
		out := &gateway.Combo{Name: name, Strategy: c.Strategy, Options: options(c.Options)}
		var expand func(c *config.Combo, weight, depth int) error
		expand = func(c *config.Combo, weight, depth int) error {
			if depth > maxNesting {
				return fmt.Errorf("catalog: combo %q is nested more than %d deep", name, maxNesting)
			}
			for _, t := range c.Targets {
				w := min(weight*max(t.Weight, 1), maxWeight)
				if t.Combo != "" {
					nested := byName[t.Combo]
					if nested == nil {
						return fmt.Errorf("catalog: combo %q names the unknown combo %q", c.Name, t.Combo)
					}
					if err := expand(nested, w, depth+1); err != nil {
						return err
					}
					continue
				}
				key := gateway.Target{Provider: t.Provider, Model: t.Model, Connection: t.Connection}
				if !seen[key] {
					seen[key] = true
					key.Weight = w
					out.Targets = append(out.Targets, key)
				}
			}
			return nil
		}
		if err := expand(c, 1, 1); err != nil {
			return err
		}
		s.combos[name] = out
	}
	return nil
}

// maxWeight keeps products of nested weights in an int on every platform.
const maxWeight = 1 << 30

func options(o config.ComboOptions) gateway.ComboOptions {
	return gateway.ComboOptions{Continuation: o.Continuation, StreamGuarantee: o.StreamGuarantee,
		ContentRefused: o.ContentRefused, FailoverMode: o.Failover.Mode, MaxAttempts: o.Failover.MaxAttempts,
		ExcludeStatus: o.Failover.ExcludeStatus, StickyLimit: o.StickyLimit, AllowEmpty: o.AllowEmpty,
		EarlyCommit: o.EarlyCommit}
}

// Ordered reports whether a strategy tries targets in a fixed order of preference, so that a preferred target exists.
func Ordered(strategy string) bool {
	switch strategy {
	case "priority", "fill-first", "lkgp", "context-relay":
		return true
	}
	return false
}
