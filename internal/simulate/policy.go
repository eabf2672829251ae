package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"spillway/internal/lab/scenario"
)

// Policy is a set of settings that a scenario is played under.
type Policy struct {
	Name     string
	Strategy string         // of the combo and the providers; "" = the scenario's
	Options  map[string]any // of the combo, laid over the scenario's
	Settings map[string]any // top-level fields of a configuration, laid over the scenario's

	connections map[string]tree // of a file, by id, for replays
}

type tree = map[string]any

// roundRobin is a plain load balancer: every connection in turn, three retries whatever went wrong, no isolation, no
// waiting and no adaptive pacing, one limit for the first content. It is settings over the same engine.
func roundRobin() Policy {
	breaker := tree{}
	for _, kind := range []string{"service_error", "timeout", "slow", "stall", "empty_output", "auth_error"} {
		breaker[kind] = tree{"class": "neutral"}
	}
	return Policy{Name: "round-robin", Strategy: "round-robin",
		Options: tree{"failover": tree{"mode": "max_attempts", "max_attempts": 4}},
		Settings: tree{
			"limits":   tree{"attempts": 4},
			"waits":    tree{"enabled": false},
			"timeouts": tree{"first_content": "30s", "last_chance": "30s"},
			"resilience": tree{
				"breaker":  tree{"kinds": breaker},
				"cooldown": tree{"base": "1ms", "max_backoff_steps": 0, "max_backoff": "1ms", "use_retry_hints": false, "not_before_max": "0s", "ramp_step": "0s", "learn_episodes": 0},
				"pacing":   tree{"unproven_cap": 0, "aimd": tree{"mode": "off"}},
				"affinity": tree{"ttl": "0s"},
			},
		}}
}

// profiles are the built-in sets of numbers; see resilience.profile.
var profiles = []string{"recommended", "omniroute-oauth", "omniroute-apikey", "omniroute-local", "polygateway", "autorouter"}

// Presets lists the names that ParsePolicy knows.
func Presets() []string { return append(slices.Clone(profiles), "round-robin") }

// Recommended is the policy of a gateway without settings.
func Recommended() Policy { return Policy{Name: "recommended"} }

// ParsePolicy returns a preset by its name, or a policy from a file. A file has the form of spillway.yaml; what names
// upstreams, clients or this machine is left out of it, since a scenario brings its own: the settings count.
func ParsePolicy(name string) (Policy, error) {
	switch {
	case name == "recommended":
		return Recommended(), nil
	case name == "round-robin":
		return roundRobin(), nil
	case slices.Contains(profiles, name):
		return Policy{Name: name, Settings: tree{"resilience": tree{"profile": name}}}, nil
	case !isFile(name):
		return Policy{}, fmt.Errorf("no policy is named %q; there are %s, and files", name, strings.Join(Presets(), ", "))
	}
	p, err := readPolicy(name)
	if err != nil {
		return Policy{}, fmt.Errorf("policy %s: %w", name, err)
	}
	return p, nil
}

// notSettings are the fields of spillway.yaml that a scenario decides.
var notSettings = []string{"listen", "data", "database", "state", "providers", "connections", "combos", "aliases", "keys",
	"allowed_origins", "log", "emergency_fallback"}

// Apply returns the scenario under the policy.
func (p Policy) Apply(s scenario.Scenario) scenario.Scenario {
	if p.Strategy != "" {
		s.Gateway.Strategy = p.Strategy
	}
	s.Gateway.Combos = p.combos(s.Gateway.Combos)
	s.Gateway.Options = over(s.Gateway.Options, p.Options)
	s.Gateway.Settings = over(s.Gateway.Settings, p.Settings)
	return s
}

// combos are the combos of a replayed log under the policy.
func (p Policy) combos(list []any) []any {
	if p.Strategy == "" && len(p.Options) == 0 {
		return list
	}
	out := make([]any, 0, len(list))
	for _, c := range list {
		fields, _ := c.(tree)
		changed := maps.Clone(fields)
		if p.Strategy != "" {
			changed["strategy"] = p.Strategy
		}
		if len(p.Options) > 0 {
			options, _ := changed["options"].(tree)
			changed["options"] = over(options, p.Options)
		}
		out = append(out, changed)
	}
	return out
}

// over lays one tree over another, field by field.
func over(under, top tree) tree {
	out := maps.Clone(under)
	if out == nil {
		out = tree{}
	}
	for k, v := range top {
		if a, ok := out[k].(tree); ok {
			if b, ok := v.(tree); ok {
				v = over(a, b)
			}
		}
		out[k] = v
	}
	return out
}
