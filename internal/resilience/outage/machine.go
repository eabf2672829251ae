package outage

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// maxFailures bounds what is remembered per provider; more distinct keys never change an answer.
const maxFailures = 64

// failure is one key's latest failure of one kind.
type failure struct {
	kind gateway.Kind
	key  string
	at   time.Time
}

// endpoint is what is known of one provider. Its methods are pure: they return the next state.
type endpoint struct {
	configured int // connections; 0 = unknown
	failures   []failure
	refusedAt  time.Time // since when every answer was a refusal of a key
}

// suspect reports whether an outcome may be part of an endpoint fault.
func suspect(o gateway.Outcome) bool {
	if o.Scope == gateway.ScopeRequest || o.Scope == gateway.ScopeAttempt || o.Scope == gateway.ScopeModel {
		return false
	}
	return o.Kind == gateway.ServiceError || o.Kind == gateway.Timeout || o.Kind == gateway.AuthError
}

// key is what must be different for two failures to be two: the connection, and for refused keys the credential, since
// one revoked credential behind several connections is one fault of its own.
func key(c *gateway.Connection, k gateway.Kind) string {
	switch {
	case k == gateway.AuthError && c.Account != "":
		return string(c.Account)
	case c.Identity != "":
		return c.Identity
	}
	return string(c.ID)
}

// fail notes a failure: the latest of its key and kind, without those that are too old.
func (e endpoint) fail(cfg Config, f failure) endpoint {
	kept := make([]failure, 0, len(e.failures)+1)
	for _, old := range e.failures {
		if f.at.Sub(old.at) <= cfg.EndpointWindow && (old.key != f.key || old.kind != f.kind) {
			kept = append(kept, old)
		}
	}
	if len(kept) >= maxFailures {
		kept = kept[1:]
	}
	e.failures = append(kept, f)
	if f.kind == gateway.AuthError && e.refusedAt.IsZero() {
		e.refusedAt = f.at
	}
	return e
}

// served forgets refusals: an endpoint that serves one key refuses the others for their own sake. Service errors stay,
// since an endpoint may be half broken.
func (e endpoint) served() endpoint {
	if e.refusedAt.IsZero() {
		return e
	}
	kept := make([]failure, 0, len(e.failures))
	for _, f := range e.failures {
		if f.kind != gateway.AuthError {
			kept = append(kept, f)
		}
	}
	e.failures, e.refusedAt = kept, time.Time{}
	return e
}

// down reports whether the failures of a kind within the window are one fault of the endpoint: EndpointKeys of them, or
// half of the configured connections and at least two. Refused keys always need EndpointKeys.
func (e endpoint) down(cfg Config, k gateway.Kind, now time.Time) bool {
	n := 0
	for _, f := range e.failures {
		if f.kind == k && now.Sub(f.at) <= cfg.EndpointWindow {
			n++
		}
	}
	if k == gateway.AuthError {
		return n >= max(cfg.EndpointKeys, 3) && now.Sub(e.refusedAt) <= cfg.EndpointMaxAuth
	}
	return n >= cfg.EndpointKeys || n >= 2 && e.configured > 0 && 2*n >= e.configured
}

// network is what is known of our own network: which hosts were out of reach lately, with no answer since.
type network struct {
	hosts []unreachable
}

type unreachable struct {
	host string
	at   time.Time
}

// unreached reports whether an attempt never got through to its host.
func unreached(o gateway.Outcome) bool {
	if !o.BelowHTTP || o.Status != 0 {
		return false
	}
	return o.Reason == gateway.ConnectFailed || o.Reason == gateway.DNSFailed || o.Reason == gateway.ConnectTimeout
}

// fail notes a host out of reach.
func (n network) fail(cfg Config, host string, now time.Time) network {
	kept := make([]unreachable, 0, len(n.hosts)+1)
	for _, u := range n.hosts {
		if now.Sub(u.at) <= cfg.NetworkWindow && u.host != host {
			kept = append(kept, u)
		}
	}
	if len(kept) >= maxFailures {
		kept = kept[1:]
	}
	return network{append(kept, unreachable{host, now})}
}

// answered forgets all when the outcome proves that bytes came back, from whomever.
func (n network) answered(o gateway.Outcome) network {
	if o.Status != 0 || o.Content || o.Kind == gateway.Success {
		return network{}
	}
	return n
}

// down reports whether enough different hosts are out of reach at now.
func (n network) down(cfg Config, now time.Time) bool {
	recent := 0
	for _, u := range n.hosts {
		if now.Sub(u.at) <= cfg.NetworkWindow {
			recent++
		}
	}
	return recent >= max(cfg.NetworkHosts, 2)
}

// host is where a connection's bytes go first: its proxy, else its provider. A host on this machine is "": it says
// nothing about the network.
func host(c *gateway.Connection) string {
	raw := c.Proxy
	if raw == "" || raw == "direct" {
		raw = c.Provider.BaseURL
	}
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return ""
	}
	if ip, err := netip.ParseAddr(name); err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return ""
	}
	return name
}
