package auth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
)

// Scopes of client keys.
const (
	Inference      = "inference"
	Diagnostics    = "diagnostics"
	Management     = "management"
	LeaseExclusive = "lease:exclusive"
)

// maxSent bounds what is hashed per request; a key of ours has 50 letters.
const maxSent = 4096

// Identify finds who asks. Where the protocols put keys is looked at in turn: Authorization: Bearer, x-api-key,
// x-goog-api-key, ?key=; the first that is known wins, because some clients send a dummy in one of them. Without client
// keys everybody is anonymous and sees diagnostics. query may be nil.
func Identify(snap *catalog.Snapshot, header http.Header, query url.Values) (gateway.Principal, *gateway.Error) {
	if snap.Keyless() {
		return gateway.Principal{Anonymous: true, Diagnostics: true}, nil
	}
	for _, sent := range [...]string{bearer(first(header, "Authorization")), first(header, "X-Api-Key"),
		first(header, "X-Goog-Api-Key"), query.Get("key")} {
		if sent == "" || len(sent) > maxSent {
			continue
		}
		if k, ok := snap.Key(sumOf(sent)); ok {
			return principal(k), nil
		}
	}
	return gateway.Principal{}, invalidKey()
}

func principal(k *gateway.ClientKey) gateway.Principal {
	return gateway.Principal{Key: k.Name, Models: k.Models, Connections: k.Connections, Scopes: k.Scopes, RPM: k.RPM, KeyHash: k.Hash,
		Diagnostics: slices.Contains(k.Scopes, Diagnostics), Management: slices.Contains(k.Scopes, Management)}
}

// invalidKey is the one answer to every failed identification.
func invalidKey() *gateway.Error {
	return &gateway.Error{Code: gateway.InvalidAPIKey, Message: "The API key is missing or not valid.",
		Next: "Send a client key of this gateway as Authorization: Bearer, x-api-key or x-goog-api-key."}
}

// first is the first value of a header whose name is in canonical form.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// bearer takes the key out of an Authorization header; the scheme's case does not matter (RFC 9110).
func bearer(v string) string {
	const scheme = "bearer "
	if len(v) <= len(scheme) || !strings.EqualFold(v[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimSpace(v[len(scheme):])
}

// Require refuses a principal whose key lacks a scope. Anonymous principals, which exist only on loopback without keys,
// have inference, diagnostics and leases; management always needs its own token.
func Require(p *gateway.Principal, scope string) *gateway.Error {
	if p.Anonymous && scope != Management || slices.Contains(p.Scopes, scope) {
		return nil
	}
	return &gateway.Error{Code: gateway.ScopeRequired, Message: "This key does not have the scope " + scope + ".",
		Next: "Use a key with that scope, or add it to this key."}
}

// AllowModel refuses a model that the principal's key may not ask for. The allow-list's names and globs may mean the name
// as asked, the combo it resolved to, or the targets: then every one of them must be allowed. combo may be nil.
func AllowModel(p *gateway.Principal, asked string, combo *gateway.Combo) *gateway.Error {
	if len(p.Models) == 0 || anyGlob(p.Models, asked) || combo != nil && allows(p.Models, combo) {
		return nil
	}
	return &gateway.Error{Code: gateway.ModelNotAllowed, Message: "This key may not use the model " + printable(asked) + ".",
		Param: "model", Next: "Ask for one of the models that GET /v1/models lists for this key."}
}

func allows(list []string, combo *gateway.Combo) bool {
	if anyGlob(list, combo.Name) {
		return true
	}
	for _, t := range combo.Targets {
		if !anyGlob(list, string(t.Model)) && !anyGlob(list, t.String()) {
			return false
		}
	}
	return len(combo.Targets) > 0
}

func anyGlob(list []string, name string) bool {
	for _, pattern := range list {
		if config.Glob(pattern, name) {
			return true
		}
	}
	return false
}

// printable shortens a name that a client sent for a message.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return -1
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 100 {
		s = string(r[:100]) + "..."
	}
	return s
}
