// Package outage answers: is this failure the key's own, or part of something larger? Two things are larger: an
// endpoint that fails for many keys of one provider at once, and our own network, which fails for several hosts at
// once. The room sees every outcome before anybody learns from it and says so in the outcome.
//
// Keys: the provider for endpoint faults; the process for the own network.
//
// What it never does: forbid or delay anything, or make a success of a failure. It hands out no permits and keeps
// nothing over a restart: what it knows is seconds old.
package outage

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"spillway/internal/gateway"
)

// Config tunes the room; it is global.
type Config struct {
	// EndpointWindow is the time within which keys of one provider must fail alike. Default 10s; at least 1ms.
	EndpointWindow time.Duration `yaml:"endpoint_window"`
	// EndpointKeys is how many keys make an endpoint fault, whatever the number configured. Default 3; at least 2.
	EndpointKeys int `yaml:"endpoint_keys"`
	// EndpointMaxAuth ends the benefit of the doubt: when all keys have been refused alike for so long and none was
	// served, the refusals count for each key again. Default 2m; at least endpoint_window.
	EndpointMaxAuth time.Duration `yaml:"endpoint_max_auth"`
	// NetworkWindow is the time within which hosts must be out of reach. Default 5s; at least 1ms.
	NetworkWindow time.Duration `yaml:"network_window"`
	// NetworkHosts is how many different hosts it takes. Default 2; at least 2.
	NetworkHosts int `yaml:"network_hosts"`
}

// Default returns the profile `recommended`.
func Default() Config {
	return Config{EndpointWindow: 10 * time.Second, EndpointKeys: 3, EndpointMaxAuth: 2 * time.Minute,
		NetworkWindow: 5 * time.Second, NetworkHosts: 2}
}

// Validate reports every problem of the configuration, each with the name of its field first.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.EndpointWindow < time.Millisecond {
		bad("endpoint_window: must be at least 1ms")
	}
	if c.EndpointKeys < 2 {
		bad("endpoint_keys: must be at least 2")
	}
	if c.EndpointMaxAuth < c.EndpointWindow {
		bad("endpoint_max_auth: must be at least endpoint_window")
	}
	if c.NetworkWindow < time.Millisecond {
		bad("network_window: must be at least 1ms")
	}
	if c.NetworkHosts < 2 {
		bad("network_hosts: must be at least 2")
	}
	return errors.Join(errs...)
}

// Room watches all outcomes of the process. It is safe for concurrent use.
type Room struct {
	cfg Config

	mu        sync.Mutex
	network   network
	providers map[gateway.ProviderID]*endpoint
	hosts     map[*gateway.Connection]string // "" = on this machine
	reachable int                            // different hosts off this machine
}

// New returns a room that knows no connections yet: until Retain it only counts what it sees.
func New(c Config) *Room {
	return &Room{cfg: c, providers: map[gateway.ProviderID]*endpoint{}, hosts: map[*gateway.Connection]string{}}
}

// Retain tells the room which connections are configured now.
func (r *Room) Retain(live []*gateway.Connection) {
	hosts := make(map[*gateway.Connection]string, len(live))
	distinct := map[string]bool{}
	count := map[gateway.ProviderID]int{}
	for _, c := range live {
		h := host(c)
		hosts[c] = h
		if h != "" {
			distinct[h] = true
		}
		count[c.Provider.ID]++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts, r.reachable = hosts, len(distinct)
	for id := range r.providers {
		if count[id] == 0 {
			delete(r.providers, id)
		}
	}
	for id, n := range count {
		r.provider(id).configured = n
	}
}

// provider finds or makes the memory of one provider; r.mu is held.
func (r *Room) provider(id gateway.ProviderID) *endpoint {
	e := r.providers[id]
	if e == nil {
		e = &endpoint{}
		r.providers[id] = e
	}
	return e
}

// Observe notes an outcome and returns it as the rooms should learn it: unchanged, with Endpoint set, or as a local
// error of our own network. It must see successes too.
func (r *Room) Observe(c gateway.Candidate, o gateway.Outcome, now time.Time) gateway.Outcome {
	if o.Kind == gateway.LocalError || o.Kind == gateway.Canceled {
		return o
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.host(c.Connection)
	if unreached(o) {
		if at != "" {
			r.network = r.network.fail(r.cfg, at, now)
		}
		if at != "" && r.reachable > 1 && r.network.down(r.cfg, now) {
			o.Kind, o.Scope, o.Reason = gateway.LocalError, gateway.ScopeRequest, gateway.OwnNetwork
			return o
		}
	} else if at != "" {
		r.network = r.network.answered(o)
	}
	if o.Uncounted {
		return o
	}
	e := r.provider(c.Connection.Provider.ID)
	if o.Kind == gateway.Success {
		*e = e.served()
		return o
	}
	if suspect(o) {
		*e = e.fail(r.cfg, failure{kind: o.Kind, key: key(c.Connection, o.Kind), at: now})
		o.Endpoint = o.Endpoint || e.down(r.cfg, o.Kind, now)
	}
	return o
}

// Alive notes first content: the network and the endpoint work.
func (r *Room) Alive(c gateway.Candidate, _ time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.host(c.Connection) != "" {
		r.network = network{}
	}
	e := r.provider(c.Connection.Provider.ID)
	*e = e.served()
}

// OwnNetworkDown reports whether several hosts are out of reach right now and none has answered since.
func (r *Room) OwnNetworkDown(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reachable > 1 && r.network.down(r.cfg, now)
}

// host is where a connection's bytes go first; "" = nowhere off this machine. r.mu is held.
func (r *Room) host(c *gateway.Connection) string {
	if h, ok := r.hosts[c]; ok {
		return h
	}
	return host(c)
}
