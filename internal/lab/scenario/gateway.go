package scenario

import (
	"bytes"
	"maps"
	"slices"

	"github.com/goccy/go-yaml"
)

// Model is the model that the sources of a scenario are asked for, and Combo the name under which the gateway offers
// them all.
const (
	Model = "lab-model"
	Combo = "lab"
)

// KeyOf is the credential of the gateway's connection to a source.
func (s Source) KeyOf() string {
	if len(s.Keys) > 0 {
		return s.Keys[0]
	}
	return "key-" + s.Name
}

type tree = map[string]any

var allProtocols = []string{"openai", "responses", "anthropic", "gemini"}

// models are the upstream names of what the source serves.
func (s Source) models() []string {
	if s.Asked == nil {
		return []string{Model}
	}
	out := slices.Sorted(maps.Values(s.Asked))
	return slices.Compact(out)
}

func provider(url string) tree {
	return tree{"protocols": allProtocols, "base_url": url + "/v1", "class": "apikey"}
}

// GatewayYAML writes the configuration of a Spillway that has the sources of the scenario as its providers, one
// connection each, and a combo named lab over all of them. urls holds the root URL of each source.
func (s *Scenario) GatewayYAML(urls map[string]string) ([]byte, error) {
	providers := tree{}
	var connections, targets []any
	for _, src := range s.Sources {
		name := src.Group()
		if providers[name] == nil {
			p := provider(urls[src.Name])
			if s.Gateway.Strategy != "" {
				p["strategy"] = s.Gateway.Strategy
			}
			providers[name] = p
			targets = append(targets, name+"/"+Model)
		}
		c := tree{"id": src.Name, "provider": name, "key": src.KeyOf(), "models": src.models()}
		if src.Account != "" {
			c["account"] = src.Account
		}
		maps.Copy(c, src.Connection)
		connections = append(connections, c)
	}
	combo := tree{"name": Combo, "targets": targets}
	if s.Gateway.Strategy != "" {
		combo["strategy"] = s.Gateway.Strategy
	}
	if len(s.Gateway.Options) > 0 {
		combo["options"] = s.Gateway.Options
	}
	out := tree{"providers": providers, "connections": connections, "combos": []any{combo}}
	if len(s.Gateway.Combos) > 0 {
		out["combos"] = s.Gateway.Combos
	}
	maps.Copy(out, s.Gateway.Settings)
	return encode(out)
}

// CasesYAML writes the configuration of a Spillway for the failover suite: a priority combo of the primary and the
// fallback per case, named as the case's model, everything else default.
func CasesYAML(cases []Case, primaryURL, fallbackURL string) ([]byte, error) {
	var combos []any
	for _, c := range cases {
		combos = append(combos, tree{"name": c.Model, "strategy": "priority",
			"targets": []string{"lab-primary/" + c.Model, "lab-fallback/" + c.Model}})
	}
	return encode(tree{
		"providers": tree{"lab-primary": provider(primaryURL), "lab-fallback": provider(fallbackURL)},
		"connections": []any{
			tree{"id": "primary", "provider": "lab-primary", "key": "key-primary"},
			tree{"id": "fallback", "provider": "lab-fallback", "key": "key-fallback"},
		},
		"combos": combos,
	})
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := yaml.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}
