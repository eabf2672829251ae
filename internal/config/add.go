package config

import (
	"fmt"

	"spillway/internal/gateway"
)

// Add puts a provider and its connections into a configuration that [Load] returned and that nobody else has seen yet:
// the built-in lab at start, or what an embedding program brings. The provider needs ID, Protocols and BaseURL;
// connections need an ID and take Key when they have no Credential. Settings are those of the file. On error nothing was
// added.
func (c *Config) Add(p *Provider, conns ...*Connection) error {
	if p.ID == "" || len(p.Protocols) == 0 || p.BaseURL == "" {
		return fmt.Errorf("provider %q needs a name, protocols and a base URL", p.ID)
	}
	if c.Providers[p.ID] != nil {
		return fmt.Errorf("provider %q is already there", p.ID)
	}
	for i, conn := range conns {
		for _, have := range append(c.Connections[:len(c.Connections):len(c.Connections)], conns[:i]...) {
			if conn.ID == "" || have.ID == conn.ID {
				return fmt.Errorf("connection %q has no id of its own", conn.ID)
			}
		}
	}
	if c.Providers == nil {
		c.Providers = map[gateway.ProviderID]*Provider{}
	}
	if p.Strategy == "" {
		p.Strategy = "health-aware"
	}
	c.Providers[p.ID] = p
	s := effective(p.Class, c.tunables.base)
	c.tunables.providers[p.ID] = s
	for _, conn := range conns {
		conn.Provider, conn.Weight, conn.Implied = p.ID, max(conn.Weight, 1), true
		if conn.Credential == nil {
			conn.Credential = gateway.NewCredential(conn.Key, nil)
		}
		c.Connections = append(c.Connections, conn)
		c.tunables.connections[conn.ID] = s
	}
	return nil
}
