package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// validate checks what the shape alone does not say: names, references, ranges.
func (l *loader) validate() {
	l.checkProcess()
	l.checkProviders()
	l.checkConnections()
	l.checkCombos()
	l.checkAliases()
	l.checkKeys()
	l.checkRules()
	l.checkNumbers()
}

func (l *loader) checkProcess() {
	c := l.cfg
	host, port, err := net.SplitHostPort(c.Listen)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
		l.at("listen", "%s is not an address; write host:port, as in 127.0.0.1:4000", quote(c.Listen))
	} else if c.Keyless() && !Loopback(c.Listen) {
		if host == "" {
			host = "every interface"
		}
		l.at("listen", "%s can be reached from other machines, but no client keys are configured; listen on 127.0.0.1:%s, or create a key with `spillway key` and add it under keys", strings.Trim(quote(host), `"`), port)
	}
	if c.Data == "" {
		l.at("data", "must be a directory")
	}
	if !c.SQLite() {
		l.checkURL("database", c.Database.Reveal(), "sqlite or postgres://user:password@host/name", "postgres", "postgresql")
	}
	if !c.Memory() {
		l.checkURL("state", c.State.Reveal(), "memory or redis://host:6379", "redis", "rediss")
	}
	for i, o := range c.AllowedOrigins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			l.at(fmt.Sprintf("allowed_origins[%d]", i), "%s is not an origin; write scheme://host or scheme://host:port, as in https://app.example (* is not allowed: any web page could spend your keys)", quote(o))
		}
	}
}

// checkURL never shows the URL: it may hold a password.
func (l *loader) checkURL(path, s, example string, schemes ...string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		l.at(path, "expected %s", example)
		return false
	}
	return true
}

func (l *loader) checkProviders() {
	for _, id := range sortedKeys(l.cfg.Providers) {
		p := l.cfg.Providers[id]
		path := join("providers", string(id))
		if !validName(string(id)) {
			l.at(path, "a provider's name is letters, digits, - _ and . only: models are asked for as provider/model")
		}
		if _, written := l.marks[path+".preset"]; written {
			if _, ok := PresetByName(p.Preset); !ok {
				l.at(path+".preset", "unknown preset %s%s", quote(p.Preset), didYouMean(p.Preset, presetNames()))
			}
		}
		if len(p.Protocols) == 0 {
			l.at(path+".protocols", "is missing; write [openai], [responses], [anthropic] or [gemini]%s", presetHint(string(id)))
		}
		if p.BaseURL == "" {
			l.at(path+".base_url", "is missing; write it as the protocol's SDK would take it%s", presetHint(string(id)))
		} else {
			p.BaseURL = l.checkBaseURL(path+".base_url", p.BaseURL)
		}
		for name, value := range p.Headers {
			if !validHeaderName(name) || !headerSafe(value.Reveal()) {
				l.at(join(path+".headers", name), "not a header that can be sent")
			}
		}
		if p.AuthHeader != "" && !validHeaderName(p.AuthHeader) {
			l.at(path+".auth_header", "%s is not the name of a header", quote(p.AuthHeader))
		}
		l.checkStrategy(path+".strategy", p.Strategy)
		l.checkFamilies(path+".quota_families", p)
	}
}

func presetHint(id string) string {
	if n := nearest(id, presetNames()); n != "" && n != id {
		return "; or did you mean the preset " + n + "?"
	}
	return ""
}

// checkBaseURL returns the URL without its trailing slash.
func (l *loader) checkBaseURL(path, s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		l.at(path, "must be a URL that begins with http:// or https://, as in https://api.openai.com/v1")
	case u.User != nil:
		l.at(path, "must not hold a user or password; put the key into a connection")
	case u.RawQuery != "" || u.Fragment != "":
		l.at(path, "must not hold ? or #; the gateway appends the path of the protocol")
	}
	return strings.TrimRight(s, "/")
}

func (l *loader) checkConnections() {
	first := map[gateway.ConnectionID]int{}
	for i, c := range l.cfg.Connections {
		path := fmt.Sprintf("connections[%d]", i)
		switch at, dup := first[c.ID]; {
		case c.ID == "":
			l.at(path+".id", "is missing; it is unique and stable, because health is kept under it")
		case !validName(string(c.ID)):
			l.at(path+".id", "an id is letters, digits, - _ : @ and . only")
		case dup:
			l.at(path+".id", "%s is already the id of connections[%d]; an id is unique", quote(string(c.ID)), at)
		default:
			first[c.ID] = i
		}
		l.checkProviderRef(path, c.Provider)
		l.checkKeyFields(path, c)
		l.checkRange(path+".weight", c.Weight, 1, 1_000_000)
		l.checkRange(path+".max_concurrent", c.MaxConcurrent, 0, 1_000_000)
		for model, n := range c.ModelConcurrency {
			l.checkRange(join(path+".model_concurrency", string(model)), n, 1, 1_000_000)
		}
		l.checkWalls(path, c)
		l.checkRange(path+".rate_limits.rpm", c.RateLimits.RPM, 0, 1_000_000_000)
		l.checkRange(path+".rate_limits.tpm", c.RateLimits.TPM, 0, 1_000_000_000_000)
		if d := c.RateLimits.MinInterval; d < 0 || d > time.Hour {
			l.at(path+".rate_limits.min_interval", "must be between 0s and 1h, is %s", d)
		}
		if c.EgressIP != "" {
			if _, err := netip.ParseAddr(c.EgressIP); err != nil {
				l.at(path+".egress_ip", "%s is not an IP address", quote(c.EgressIP))
			}
		}
		if c.Proxy != "" {
			l.checkURL(path+".proxy", c.Proxy.Reveal(), "http://host:3128, https://host:3128 or socks5://host:1080", "http", "https", "socks5", "socks5h")
		}
	}
}

func (l *loader) checkProviderRef(path string, id gateway.ProviderID) {
	if id == "" {
		l.at(path+".provider", "is missing")
		return
	}
	if l.cfg.Providers[id] != nil {
		return
	}
	l.at(path+".provider", "unknown provider %s%s", quote(string(id)), l.providerHint(string(id)))
}

func (l *loader) providerHint(id string) string {
	if _, ok := PresetByName(id); ok {
		return "; it is a preset: add `" + id + ": {}` under providers"
	}
	var known []string
	for _, k := range sortedKeys(l.cfg.Providers) {
		known = append(known, string(k))
	}
	if len(known) == 0 {
		return "; no provider is configured"
	}
	return didYouMean(id, known)
}

func (l *loader) checkKeyFields(path string, c *Connection) {
	var set []string
	if c.Key != "" {
		set = append(set, "key")
	}
	if c.KeyFile != "" {
		set = append(set, "key_file")
	}
	if c.KeyCommand != "" {
		set = append(set, "key_command")
	}
	if len(set) > 1 {
		l.at(path+"."+set[1], "%s are both set; keep one", strings.Join(set, " and "))
	}
}

func (l *loader) checkRange(path string, v, lo, hi int) {
	if v < lo || v > hi {
		l.at(path, "%d is out of range; it must be %d to %d", v, lo, hi)
	}
}

func (l *loader) checkKeys() {
	first, hashes := map[gateway.ClientKeyID]int{}, map[[32]byte]int{}
	for i := range l.cfg.Keys {
		k := &l.cfg.Keys[i]
		path := fmt.Sprintf("keys[%d]", i)
		if at, dup := first[k.Name]; k.Name == "" {
			l.at(path+".name", "is missing")
		} else if dup {
			l.at(path+".name", "%s is already the name of keys[%d]", quote(string(k.Name)), at)
		} else {
			first[k.Name] = i
		}
		digits, ok := strings.CutPrefix(k.Hash, "sha256:")
		sum, err := hex.DecodeString(digits)
		if !ok || err != nil || len(sum) != 32 {
			l.at(path+".hash", "expected sha256: and 64 hex digits; `spillway key` makes a key and prints this line (never write the key itself here)")
		} else {
			copy(k.Sum[:], sum)
			if at, dup := hashes[k.Sum]; dup {
				l.at(path+".hash", "this is the same key as keys[%d]; one key has one line", at)
			} else {
				hashes[k.Sum] = i
			}
		}
		for j, s := range k.Scopes {
			if !slices.Contains(Scopes, s) {
				l.at(fmt.Sprintf("%s.scopes[%d]", path, j), "unknown scope %s%s", quote(s), didYouMean(s, Scopes))
			}
		}
		for j, id := range k.AllowedConnections {
			l.checkConnectionRef(fmt.Sprintf("%s.allowed_connections[%d]", path, j), id)
		}
		l.checkRange(path+".rpm", k.RPM, 0, 1_000_000_000)
	}
}

// Scopes are what a client key may be allowed.
var Scopes = []string{"inference", "diagnostics", "management", "lease:exclusive"}

func (l *loader) checkConnectionRef(path string, id gateway.ConnectionID) *Connection {
	var known []string
	for _, c := range l.cfg.Connections {
		if c.ID == id {
			return c
		}
		known = append(known, string(c.ID))
	}
	l.at(path, "unknown connection %s%s", quote(string(id)), didYouMean(string(id), known))
	return nil
}

func (l *loader) checkNumbers() {
	c := l.cfg
	l.checkRange("limits.attempts", c.Limits.Attempts, 1, 100)
	if c.Limits.Body < 1<<10 {
		l.at("limits.body", "must be at least 1KiB")
	}
	if c.Limits.BufferedBytes < c.Limits.Body {
		l.at("limits.buffered_bytes", "must be at least limits.body (%s): one full body has to fit", c.Limits.Body)
	}
	l.checkRange("waits.max_attempts", c.Waits.MaxAttempts, 0, 1000)
	if c.Waits.Enabled && c.Waits.Budget < c.Waits.MaxWait {
		l.at("waits.budget", "must be at least waits.max_wait (%s)", c.Waits.MaxWait)
	}
	if c.Cache.Enabled && c.Cache.TTL <= 0 {
		l.at("cache.ttl", "must be above 0s while the cache is enabled")
	}
	if c.Cache.MaxEntry < 1<<10 {
		l.at("cache.max_entry", "must be at least 1KiB")
	}
	if c.Cache.MaxBytes < 4*c.Cache.MaxEntry {
		l.at("cache.max_bytes", "must be at least four times cache.max_entry (%s)", c.Cache.MaxEntry)
	}
}

// validName refuses what would be ambiguous in provider/model, in paths and in headers.
func validName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:@", r))
	}) < 0
}

func validHeaderName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_!#$%&'*+.^`|~", r))
	}) < 0
}
