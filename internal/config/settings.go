package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"spillway/internal/gateway"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/gate"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lockout"
	"spillway/internal/resilience/outage"
	"spillway/internal/resilience/queue"
	"spillway/internal/resilience/rate"
)

// Resilience is the shape of every `resilience:` mapping.
type Resilience struct {
	// Built-in numbers to start from. recommended, or a seed system's: omniroute (by class), omniroute-oauth,
	// omniroute-apikey, omniroute-local, polygateway, autorouter. Default recommended.
	Profile string `yaml:"profile" enum:"recommended,omniroute,omniroute-oauth,omniroute-apikey,omniroute-local,polygateway,autorouter"`
	// Isolation for service faults.
	Breaker breaker.Config `yaml:"breaker"`
	// Isolation for account faults.
	Cooldown cooldown.Config `yaml:"cooldown"`
	// Isolation for one model at one account.
	Lockout lockout.Config `yaml:"lockout"`
	// What delays rather than forbids.
	Pacing Pacing `yaml:"pacing"`
	// How success rates and first-content times are learned.
	Health health.Config `yaml:"health"`
	// What is one fault of an endpoint or of our own network, not of many keys. Only the global value counts.
	Outage outage.Config `yaml:"outage"`
	// Affinity of sessions.
	Affinity Affinity `yaml:"affinity"`
	// Streams.
	Streams Streams `yaml:"streams"`
}

// Pacing is everything that delays rather than forbids: concurrency caps and AIMD (the gate), rates, and the queue.
type Pacing struct {
	Gate gate.Config `yaml:",inline"`
	// The line in which requests wait for any candidate of their pool.
	Queue queue.Config `yaml:"queue"`
	// What is learned about rates. The rates themselves are rate_limits of a connection.
	Rates rate.Config `yaml:"rates"`
}

// tree is everything that is layered, with the paths that people see.
type tree struct {
	Resilience Resilience `yaml:"resilience"`
	Timeouts   Timeouts   `yaml:"timeouts"`
}

// Origin says where an effective value came from.
type Origin struct {
	Layer string `json:"layer"` // profile, environment, file, stored, provider, connection
	Name  string `json:"name"`  // of the profile, variable, file, provider or connection
	Pos   Pos    `json:"-"`     // where it is written, when it is written
	Path  string `json:"path,omitzero"`
}

func (o Origin) String() string {
	s := o.Layer + " " + o.Name
	if o.Pos.Line > 0 {
		s += fmt.Sprintf(" (%s:%d)", o.Pos.File, o.Pos.Line)
	}
	return s
}

// Settings are the effective settings of one connection (or of a provider, or of everything): built-in profile <
// environment < file < stored < provider < connection. They are immutable and shared by connections that add nothing.
type Settings struct {
	Resilience
	Timeouts Timeouts

	origins map[string]Origin // of every value that is not the profile's
}

// Setting is one effective value, for people.
type Setting struct {
	Path    string `json:"path"` // as in resilience.breaker.open_max
	Value   any    `json:"value"`
	Default any    `json:"default"` // what the profile says
	Origin  Origin `json:"origin"`
}

// Origin says where the value of a path, as in resilience.breaker.open_max, came from.
func (s *Settings) Origin(path string) Origin {
	if o, ok := s.origins[path]; ok {
		return o
	}
	return Origin{Layer: "profile", Name: s.Profile}
}

// ResilienceOverlay is a `resilience:` mapping: the fields that were written, kept as written, to be laid over others.
type ResilienceOverlay struct{ overlay }

// TimeoutsOverlay is a `timeouts:` mapping.
type TimeoutsOverlay struct{ overlay }

type overlay struct {
	n    *node
	path string
}

// Written reports whether the mapping sets anything.
func (o overlay) Written() bool { return o.n != nil && o.n.kind == mapNode && len(o.n.keys) > 0 }

// decodeNode checks the shape; the values are used when the layers are put together.
func (o *ResilienceOverlay) decodeNode(d *decoder, n *node, path string) {
	o.overlay = overlay{n, path}
	r := builtin("recommended", gateway.APIKey).Resilience
	d.shape(n, reflect.ValueOf(&r).Elem(), path)
}

func (o *TimeoutsOverlay) decodeNode(d *decoder, n *node, path string) {
	o.overlay = overlay{n, path}
	t := defaultTimeouts(gateway.APIKey)
	d.shape(n, reflect.ValueOf(&t).Elem(), path)
}

func (d *decoder) shape(n *node, v reflect.Value, path string) {
	if n.kind != nullNode {
		d.decodeStruct(n, v, path)
	}
}

// layer is one step of the precedence.
type layer struct {
	name       string
	who        string
	resilience overlay
	timeouts   overlay
}

// layers holds the settings of everything, put together once.
type layers struct {
	base        []layer // environment, file, stored
	global      *Settings
	providers   map[gateway.ProviderID]*Settings
	connections map[gateway.ConnectionID]*Settings
}

// Global are the settings before any provider's own, for class apikey.
func (c *Config) Global() *Settings { return c.tunables.global }

// ProviderSettings are the settings of a provider before any connection's own; nil for one that is not configured.
func (c *Config) ProviderSettings(id gateway.ProviderID) *Settings { return c.tunables.providers[id] }

// Settings are the effective settings of a connection; nil for one that is not configured.
func (c *Config) Settings(id gateway.ConnectionID) *Settings { return c.tunables.connections[id] }

// compileLayers puts the layers together for every provider and connection.
func (c *Config) compileLayers(env layer, stored *Config, report func(Problem)) {
	base := []layer{env, {"file", c.File, c.Resilience.overlay, c.Timeouts.overlay}}
	if stored != nil {
		base = append(base, layer{"stored", "settings", stored.Resilience.overlay, stored.Timeouts.overlay})
	}
	c.tunables = &layers{base: base, global: effective(gateway.APIKey, base),
		providers: map[gateway.ProviderID]*Settings{}, connections: map[gateway.ConnectionID]*Settings{}}
	seen := map[Problem]bool{}
	check := func(s *Settings, prefix string) *Settings {
		for _, p := range s.validate(prefix) {
			if !seen[p] {
				seen[p] = true
				report(p)
			}
		}
		return s
	}
	check(c.tunables.global, "")
	chains := map[gateway.ProviderID][]layer{}
	for id, p := range c.Providers {
		chain := append(base[:len(base):len(base)], layer{"provider", string(id), p.Resilience.overlay, p.Timeouts.overlay})
		chains[id] = chain
		c.tunables.providers[id] = check(effective(p.Class, chain), "providers."+string(id))
	}
	for i, conn := range c.Connections {
		p := c.Providers[conn.Provider]
		if p == nil {
			continue
		}
		if !conn.Resilience.Written() && !conn.Timeouts.Written() {
			c.tunables.connections[conn.ID] = c.tunables.providers[conn.Provider]
			continue
		}
		own := layer{"connection", string(conn.ID), conn.Resilience.overlay, conn.Timeouts.overlay}
		chain := append(chains[conn.Provider][:len(chains[conn.Provider]):len(chains[conn.Provider])], own)
		c.tunables.connections[conn.ID] = check(effective(p.Class, chain), fmt.Sprintf("connections[%d]", i))
	}
}

// effective lays the layers over the profile that the last of them names.
func effective(class gateway.Class, chain []layer) *Settings {
	profile := "recommended"
	for _, l := range chain {
		if n := l.resilience.n.field("profile"); n != nil && n.kind == scalarNode && !n.bad {
			profile = n.text
		}
	}
	t := builtin(profile, class)
	s := &Settings{origins: map[string]Origin{}}
	for _, l := range chain {
		d := newDecoder()
		d.quiet = true // every overlay was checked when it was read
		for _, part := range []struct {
			name string
			o    overlay
			v    reflect.Value
		}{{"resilience", l.resilience, reflect.ValueOf(&t.Resilience).Elem()}, {"timeouts", l.timeouts, reflect.ValueOf(&t.Timeouts).Elem()}} {
			if !part.o.Written() {
				continue
			}
			d.onLeaf = func(path string, pos Pos) {
				o := Origin{l.name, l.who, pos, part.o.path + strings.TrimPrefix(path, part.name)}
				if l.name == "environment" {
					o.Name, o.Pos, o.Path = pos.File, Pos{}, ""
				}
				s.origins[path] = o
			}
			d.decodeStruct(part.o.n, part.v, part.name)
		}
	}
	s.Resilience, s.Timeouts = t.Resilience, t.Timeouts
	s.Profile = profile
	return s
}

// Explain lists every effective value with its default and its origin, in the order of the schema.
func (s *Settings) Explain(class gateway.Class) []Setting {
	have, def := reflect.ValueOf(tree{s.Resilience, s.Timeouts}), reflect.ValueOf(builtin(s.Profile, class))
	var out []Setting
	for _, l := range settings() {
		out = append(out, Setting{l.path, plainValue(have.FieldByIndex(l.index)), plainValue(def.FieldByIndex(l.index)), s.Origin(l.path)})
	}
	return out
}

// plainValue is a value as it would be written in the file.
func plainValue(v reflect.Value) any {
	if str, ok := v.Interface().(fmt.Stringer); ok {
		return str.String()
	}
	return v.Interface()
}

// splitErrors lists the lines of joined errors.
func splitErrors(err error) []error {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		var out []error
		for _, e := range many.Unwrap() {
			out = append(out, splitErrors(e)...)
		}
		return out
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func joined(errs []error) error { return errors.Join(errs...) }

func atLeast(fields map[string]int64) error {
	var errs []error
	for name, v := range fields {
		if v < 0 {
			errs = append(errs, fmt.Errorf("%s: must be 0 or more", name))
		}
	}
	return errors.Join(errs...)
}
