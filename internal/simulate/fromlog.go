package simulate

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"spillway/internal/lab/scenario"
)

// Connections lays what a policy file says about connections over the sources of a replayed log, by connection id: caps,
// accounts, weights, time-outs. Keys, addresses and models stay those of the replay. A policy that is no file changes
// nothing.
func (p Policy) Connections(s scenario.Scenario) scenario.Scenario {
	if len(p.connections) == 0 {
		return s
	}
	s.Sources = slices.Clone(s.Sources)
	for i := range s.Sources {
		if fields := p.connections[s.Sources[i].Name]; fields != nil {
			s.Sources[i].Connection = over(s.Sources[i].Connection, fields)
		}
	}
	return s
}

// ofReplay are the fields of a connection that a replay decides itself.
var ofReplay = []string{"id", "provider", "key", "key_file", "key_command", "models", "proxy", "egress_ip"}

// readConnections takes the connections out of a file's tree.
func readConnections(list any) map[string]tree {
	out := map[string]tree{}
	items, _ := list.([]any)
	for _, item := range items {
		fields, _ := item.(tree)
		id, _ := fields["id"].(string)
		if id == "" {
			continue
		}
		fields = maps.Clone(fields)
		for _, k := range ofReplay {
			delete(fields, k)
		}
		out[id] = fields
	}
	return out
}

// readPolicy reads a file.
func readPolicy(path string) (Policy, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Policy{}, err
	}
	p := Policy{Name: path, Settings: tree{}}
	if err := yaml.Unmarshal(b, &p.Settings); err != nil {
		return Policy{}, err
	}
	p.connections = readConnections(p.Settings["connections"])
	for _, k := range notSettings {
		delete(p.Settings, k)
	}
	if v, ok := p.Settings["strategy"]; ok {
		p.Strategy, _ = v.(string)
		delete(p.Settings, "strategy")
	}
	return p, nil
}

// isFile reports whether the name of a policy is that of a file.
func isFile(name string) bool { return strings.ContainsAny(name, "./\\") }
