package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spillway/internal/config"
	"spillway/internal/gateway"
)

// Snapshot is everything configured, compiled for look-up. It is immutable and safe for concurrent use.
type Snapshot struct {
	// Version tells snapshots apart: it changes when the configuration does.
	Version string

	config      *config.Config
	providers   map[gateway.ProviderID]*gateway.Provider
	connections []*gateway.Connection // in the order of the file
	byID        map[gateway.ConnectionID]*gateway.Connection
	byProvider  map[gateway.ProviderID][]*gateway.Connection // by priority, then the order of the file
	combos      map[string]*gateway.Combo
	aliases     map[string]string
	patterns    []pattern // aliases with * or ?, most specific first
	keys        map[[sha256.Size]byte]*gateway.ClientKey
	upstream    map[gateway.ProviderID][]gateway.ModelID // lists fetched from upstreams

	served map[string]*gateway.Combo // bare model name -> who serves it
	open   []gateway.ProviderID      // serve whatever is asked for, and nobody knows what they have
	auto   map[string]*gateway.Combo // auto and its variants
	models []ModelInfo
}

// Compile builds a snapshot. cfg must come from [config.Load]; an error means that it does not fit together, which
// Load would have refused.
func Compile(cfg *config.Config) (*Snapshot, error) {
	if cfg == nil {
		return nil, errors.New("catalog: no configuration")
	}
	s := &Snapshot{
		Version:    cfg.Version,
		config:     cfg,
		providers:  make(map[gateway.ProviderID]*gateway.Provider, len(cfg.Providers)),
		byID:       make(map[gateway.ConnectionID]*gateway.Connection, len(cfg.Connections)),
		byProvider: map[gateway.ProviderID][]*gateway.Connection{},
		keys:       make(map[[sha256.Size]byte]*gateway.ClientKey, len(cfg.Keys)),
		upstream:   map[gateway.ProviderID][]gateway.ModelID{},
	}
	for id, p := range cfg.Providers {
		s.providers[id] = compileProvider(id, p)
	}
	for _, c := range cfg.Connections {
		if err := s.addConnection(c); err != nil {
			return nil, err
		}
	}
	s.shareRateLimits()
	for _, conns := range s.byProvider {
		slices.SortStableFunc(conns, func(a, b *gateway.Connection) int { return a.Priority - b.Priority })
	}
	if err := s.compileCombos(); err != nil {
		return nil, err
	}
	s.compileAliases()
	for _, k := range cfg.Keys {
		s.keys[k.Sum] = &gateway.ClientKey{Name: k.Name, Hash: k.Sum, Scopes: k.Scopes, Models: k.AllowedModels,
			Connections: k.AllowedConnections, RPM: k.RPM}
	}
	s.index()
	return s, nil
}

func compileProvider(id gateway.ProviderID, p *config.Provider) *gateway.Provider {
	headers := make(map[string]string, len(p.Headers))
	for name, value := range p.Headers {
		headers[name] = value.Reveal()
	}
	return &gateway.Provider{ID: id, Protocols: p.Protocols, BaseURL: p.BaseURL, Class: p.Class, Headers: headers,
		AuthHeader: p.AuthHeader, PerModelQuota: p.PerModelQuota, Strategy: p.Strategy, EgressFamily: p.EgressFamily,
		Quirks: gateway.Quirks{NoStreamOptions: p.NoStreamOptions, NoKey: p.NoKey}, Lab: p.Lab}
}

func (s *Snapshot) addConnection(c *config.Connection) error {
	p := s.providers[c.Provider]
	settings := s.config.Settings(c.ID)
	if p == nil || settings == nil || c.Credential == nil {
		return fmt.Errorf("catalog: connection %q is not complete", c.ID)
	}
	if s.byID[c.ID] != nil {
		return fmt.Errorf("catalog: connection %q is there twice", c.ID)
	}
	key := c.Credential.Value()
	conn := &gateway.Connection{ID: c.ID, Provider: p, Account: c.Account, Credential: c.Credential,
		Identity: string(c.ID) + "#" + digest(p.BaseURL, key.Reveal()),
		EgressIP: c.EgressIP, Meta: c.Meta, Weight: c.Weight, Priority: c.Priority, MaxConcurrent: c.MaxConcurrent,
		ModelConcurrency: c.ModelConcurrency, RateLimits: gateway.RateLimits(c.RateLimits), Models: c.Models,
		LowPriority: c.LowPriorityMode, AutoReset: c.AutoLimitReset,
		Proxy: c.Proxy.Reveal(), DisableCooling: c.DisableCooling, Timeouts: settings.Timeouts.Gateway()}
	if conn.Account == "" {
		conn.Account = gateway.AccountID(string(p.ID) + "#" + digest(string(p.ID), key.Reveal()))
	}
	s.connections = append(s.connections, conn)
	s.byID[c.ID] = conn
	s.byProvider[p.ID] = append(s.byProvider[p.ID], conn)
	return nil
}

// digest is a short one-way name for a secret together with where it is used: enough to tell two apart, not enough to
// find a random key.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// shareRateLimits gives every connection of an account the smallest of the account's declared limits.
func (s *Snapshot) shareRateLimits() {
	type account struct {
		of gateway.ProviderID
		id gateway.AccountID
	}
	least := map[account]gateway.RateLimits{}
	for _, c := range s.connections {
		key := account{c.Provider.ID, c.Account}
		have, mine := least[key], c.RateLimits
		have.RPM, have.TPM = smaller(have.RPM, mine.RPM), smaller(have.TPM, mine.TPM)
		have.MinInterval = max(have.MinInterval, mine.MinInterval)
		least[key] = have
	}
	for _, c := range s.connections {
		c.RateLimits = least[account{c.Provider.ID, c.Account}]
	}
}

// smaller is the lesser of two limits, of which 0 means none.
func smaller(a, b int) int {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// Config is the configuration that the snapshot was compiled from.
func (s *Snapshot) Config() *config.Config { return s.config }

// Provider finds a provider.
func (s *Snapshot) Provider(id gateway.ProviderID) (*gateway.Provider, bool) {
	p, ok := s.providers[id]
	return p, ok
}

// Providers lists every provider by name.
func (s *Snapshot) Providers() []*gateway.Provider {
	out := make([]*gateway.Provider, 0, len(s.providers))
	for _, id := range slices.Sorted(maps.Keys(s.providers)) {
		out = append(out, s.providers[id])
	}
	return out
}

// Connection finds a connection.
func (s *Snapshot) Connection(id gateway.ConnectionID) (*gateway.Connection, bool) {
	c, ok := s.byID[id]
	return c, ok
}

// AllConnections lists every connection in the order of the file. The caller must not change the slice.
func (s *Snapshot) AllConnections() []*gateway.Connection { return s.connections }

// Connections lists a provider's connections, lower priority first, then in the order of the file. The caller must not
// change the slice.
func (s *Snapshot) Connections(provider gateway.ProviderID) []*gateway.Connection {
	return s.byProvider[provider]
}

// Serving lists the connections that a target is to be tried on, in the order of [Snapshot.Connections]: the pinned one,
// or those that list the model or serve whatever is asked for. When none does, every connection of the provider is
// returned: an explicit provider/model always goes through.
func (s *Snapshot) Serving(t gateway.Target) []*gateway.Connection {
	all := s.byProvider[t.Provider]
	if t.Connection != "" {
		for i, c := range all {
			if c.ID == t.Connection {
				return all[i : i+1 : i+1]
			}
		}
		return nil
	}
	lists := func(c *gateway.Connection) bool { return len(c.Models) == 0 || slices.Contains(c.Models, t.Model) }
	n := 0
	for _, c := range all {
		if lists(c) {
			n++
		}
	}
	if n == len(all) || n == 0 {
		return all
	}
	out := make([]*gateway.Connection, 0, n)
	for _, c := range all {
		if lists(c) {
			out = append(out, c)
		}
	}
	return out
}

// Settings are the effective settings of a connection; nil for one that is not in the snapshot.
func (s *Snapshot) Settings(id gateway.ConnectionID) *config.Settings { return s.config.Settings(id) }

// Key finds a client key by the SHA-256 of what the client sent.
func (s *Snapshot) Key(sum [sha256.Size]byte) (*gateway.ClientKey, bool) {
	k, ok := s.keys[sum]
	return k, ok
}

// Keyless reports whether no client key is configured.
func (s *Snapshot) Keyless() bool { return len(s.keys) == 0 }

// Combo finds a configured combo by its exact name.
func (s *Snapshot) Combo(name string) (*gateway.Combo, bool) {
	c, ok := s.combos[name]
	return c, ok
}

// Combos lists every configured combo by name.
func (s *Snapshot) Combos() []*gateway.Combo {
	out := make([]*gateway.Combo, 0, len(s.combos))
	for _, name := range slices.Sorted(maps.Keys(s.combos)) {
		out = append(out, s.combos[name])
	}
	return out
}
