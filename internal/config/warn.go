package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"spillway/internal/gateway"
)

// warnings notes what is allowed but probably not meant: what matches nothing, what can never be reached.
func (l *loader) warnings() {
	l.warnUnbuilt()
	l.warnProviders()
	l.warnConnections()
	l.warnCombos()
	for _, name := range sortedKeys(l.cfg.Aliases) {
		if l.combo(name) != nil {
			l.warn(join("aliases", name), "is never used: a combo of this name comes first")
		}
	}
	for i, k := range l.cfg.Keys {
		for j, pattern := range k.AllowedModels {
			if !l.openEnded() && !l.matchesAnything(pattern) {
				l.warn(fmt.Sprintf("keys[%d].allowed_models[%d]", i, j), "%s matches no combo, alias or model that is configured", quote(pattern))
			}
		}
		if slices.Contains(k.Scopes, "lease:exclusive") && len(k.AllowedConnections) == 0 {
			l.warn(fmt.Sprintf("keys[%d]", i), "has scope lease:exclusive without allowed_connections: it may lease every connection")
		}
	}
}

// unbuilt are settings that are read and checked, but that nothing in this version acts on, with what holds instead.
// Whoever sets one must hear of it: a limit that is silently not enforced is worse than none.
var unbuilt = []struct{ path, instead string }{
	{"responses", "no Responses API state is kept"},
	{"log.bodies", "bodies are never kept"},
	{"combos[].options.continuation", "a broken stream ends in an error"},
	{"combos[].options.stream_guarantee", "streams go out as they come"},
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// warnUnbuilt notes every setting that was written and does nothing.
func (l *loader) warnUnbuilt() {
	for _, path := range sortedKeys(l.marks) {
		plain := listIndex.ReplaceAllString(path, "[]")
		for _, u := range unbuilt {
			if plain == u.path {
				l.warn(path, "does nothing in this version: %s", u.instead)
			}
		}
	}
}

func (l *loader) warnProviders() {
	has := map[gateway.ProviderID]bool{}
	for _, c := range l.cfg.Connections {
		has[c.Provider] = true
	}
	for _, id := range sortedKeys(l.cfg.Providers) {
		p, path := l.cfg.Providers[id], join("providers", string(id))
		if !has[id] {
			hint := "add one under connections"
			if len(p.Env) > 0 {
				hint = "set " + p.Env[0] + " or add one under connections"
			}
			l.warn(path, "has no connection, so nothing is ever sent to it; %s", hint)
		}
		if u, err := url.Parse(p.BaseURL); err == nil && u.Scheme == "http" && !p.NoKey && !privateHost(u.Hostname()) {
			l.warn(path+".base_url", "sends the key unencrypted over http; use https")
		}
	}
}

func privateHost(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal") ||
		strings.HasSuffix(host, ".localhost")
}

func (l *loader) warnConnections() {
	for i, c := range l.cfg.Connections {
		path, p := fmt.Sprintf("connections[%d]", i), l.cfg.Providers[c.Provider]
		if c.Key == "" && c.KeyFile == "" && c.KeyCommand == "" && p != nil && !p.NoKey {
			l.warn(path, "has no key; requests go upstream without one")
		}
		for model := range c.ModelConcurrency {
			if len(c.Models) > 0 && !slices.Contains(c.Models, model) {
				l.warn(join(path+".model_concurrency", string(model)), "matches nothing: the connection's models do not list it")
			}
		}
	}
}

func (l *loader) warnCombos() {
	for i, c := range l.cfg.Combos {
		if c.Options.StickyLimit > 1 && c.Strategy != "weighted" && c.Strategy != "round-robin" {
			l.warn(fmt.Sprintf("combos[%d].options.sticky_limit", i), "does nothing under strategy %s: only weighted and round-robin move on", c.Strategy)
		}
		for j, t := range c.Targets {
			if t.Provider == "" {
				continue
			}
			serves := slices.ContainsFunc(l.cfg.Connections, func(c *Connection) bool {
				return c.Provider == t.Provider && (t.Connection == "" || c.ID == t.Connection) &&
					(len(c.Models) == 0 || slices.Contains(c.Models, t.Model))
			})
			if !serves {
				l.warn(fmt.Sprintf("combos[%d].targets[%d]", i, j), "no connection lists this model, so it is asked of the provider without knowing that it is there")
			}
		}
	}
}

// matchesAnything reports whether a model pattern matches a name that clients can ask for.
func (l *loader) matchesAnything(pattern string) bool {
	if slices.ContainsFunc(l.comboNames(), func(n string) bool { return Glob(pattern, n) }) {
		return true
	}
	for name := range l.cfg.Aliases {
		if name == pattern || Glob(pattern, name) || Glob(name, pattern) {
			return true
		}
	}
	match := func(p gateway.ProviderID, m gateway.ModelID) bool {
		return Glob(pattern, string(m)) || Glob(pattern, string(p)+"/"+string(m))
	}
	for _, c := range l.cfg.Connections {
		for _, m := range c.Models {
			if match(c.Provider, m) {
				return true
			}
		}
	}
	return false
}
