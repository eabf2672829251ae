package config

import (
	"net"
	"net/url"
	"strings"

	"spillway/internal/gateway"
)

// automatic configures providers from well-known variables when nothing else does.
func (l *loader) automatic() {
	c := l.cfg
	if len(c.Providers) > 0 || len(c.Connections) > 0 {
		return
	}
	c.Providers = map[gateway.ProviderID]*Provider{}
	for _, preset := range Presets() {
		if !preset.Auto || l.presetKey(preset.Env) == "" && l.variable(preset.BaseEnv) == "" {
			continue
		}
		p := &Provider{}
		p.prefill(preset.Name, nil)
		c.Providers[p.ID] = p
	}
	c.Automatic = len(c.Providers) > 0
	c.LabOnly = !c.Automatic && len(l.problems) == 0
}

// presetKey is the name of the first well-known variable that is set.
func (l *loader) presetKey(env []string) string {
	for _, name := range env {
		if strings.TrimSpace(l.variable(name)) != "" {
			return name
		}
	}
	return ""
}

// imply gives every provider without a connection the one that its well-known variable, or its needing no key, implies.
func (l *loader) imply() {
	has, taken := map[gateway.ProviderID]bool{}, map[gateway.ConnectionID]bool{}
	for _, c := range l.cfg.Connections {
		has[c.Provider], taken[c.ID] = true, true
	}
	for _, id := range sortedKeys(l.cfg.Providers) {
		p := l.cfg.Providers[id]
		if p == nil || has[id] {
			continue
		}
		variable := l.presetKey(p.Env)
		if variable == "" && !p.NoKey {
			continue
		}
		c := &Connection{Provider: id, Implied: true}
		c.prefill("", nil)
		if c.ID = gateway.ConnectionID(id); taken[c.ID] {
			c.ID += "-env"
		}
		if variable != "" {
			c.Key = gateway.Secret(l.variable(variable))
			l.secrets = append(l.secrets, c.Key.Reveal())
		}
		l.cfg.Connections = append(l.cfg.Connections, c)
	}
}

// expandPresets fills the parts of a preset's base URL that differ per user, and takes local addresses from their
// variables.
func (l *loader) expandPresets() {
	for _, id := range sortedKeys(l.cfg.Providers) {
		p := l.cfg.Providers[id]
		path := join("providers", string(id))
		if _, written := l.marks[path+".base_url"]; written {
			continue
		}
		preset, ok := PresetByName(p.Preset)
		if !ok {
			continue
		}
		if host := l.variable(preset.BaseEnv); preset.BaseEnv != "" && host != "" {
			p.BaseURL = localURL(host, preset.BaseURL)
		}
		if strings.Contains(p.BaseURL, "${") {
			pos := l.marks[path]
			x := &expander{env: l.src.Env, preset: true}
			p.BaseURL = x.expand(&node{kind: scalarNode, raw: p.BaseURL, pos: pos}, path+".base_url")
			l.problems = append(l.problems, x.problems...)
		}
	}
}

// localURL reads a host variable as local servers do: host, host:port or a URL; what is missing comes from the preset.
func localURL(host, preset string) string {
	def, err := url.Parse(preset)
	if err != nil {
		return host
	}
	if !strings.Contains(host, "://") {
		host = def.Scheme + "://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" {
		return host
	}
	name, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() { // an address to listen on, not to call
		name = "127.0.0.1"
	}
	if port == "" && u.Scheme == def.Scheme {
		port = def.Port()
	}
	u.Host = name
	if port != "" {
		u.Host = net.JoinHostPort(name, port)
	} else if strings.Contains(name, ":") {
		u.Host = "[" + name + "]"
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = def.Path
	}
	return u.String()
}
