package config

import (
	"fmt"
	"maps"
	"strings"

	"spillway/internal/gateway"
)

// readStored adds what the management API created to what the file says.
func (l *loader) readStored() {
	l.stored = &Config{}
	l.read("stored settings", l.src.Stored, l.stored, "stored.")
	c, s := l.cfg, l.stored
	for id, p := range s.Providers {
		if c.Providers[id] != nil {
			l.at("stored.providers."+string(id), "the file already has a provider of this name")
			continue
		}
		if c.Providers == nil {
			c.Providers = map[gateway.ProviderID]*Provider{}
		}
		c.Providers[id] = p
		l.alias("stored.providers."+string(id), "providers."+string(id))
	}
	for name, to := range s.Aliases {
		if _, dup := c.Aliases[name]; dup {
			l.at(join("stored.aliases", name), "the file already has an alias of this name")
			continue
		}
		if c.Aliases == nil {
			c.Aliases = map[string]string{}
		}
		c.Aliases[name] = to
		l.alias(join("stored.aliases", name), join("aliases", name))
	}
	l.renumber("connections", len(c.Connections), len(s.Connections))
	l.renumber("combos", len(c.Combos), len(s.Combos))
	l.renumber("keys", len(c.Keys), len(s.Keys))
	l.renumber("rules", len(c.Rules), len(s.Rules))
	c.Connections = append(c.Connections, s.Connections...)
	c.Combos = append(c.Combos, s.Combos...)
	c.Keys = append(c.Keys, s.Keys...)
	c.Rules = append(c.Rules, s.Rules...)
}

// renumber gives the stored items of a list, and their fields, their place behind the file's own.
func (l *loader) renumber(list string, offset, n int) {
	for i := range n {
		l.alias(fmt.Sprintf("stored.%s[%d]", list, i), fmt.Sprintf("%s[%d]", list, offset+i))
	}
}

// alias makes the places below one path known below another.
func (l *loader) alias(from, to string) {
	found := map[string]Pos{}
	for path, pos := range l.marks {
		if rest, ok := strings.CutPrefix(path, from); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			found[to+rest] = pos
		}
	}
	maps.Copy(l.marks, found)
}
