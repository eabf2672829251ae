package gateway

import "slices"

import "time"

// Provider is an upstream service: where it is, what it speaks, how its faults are read.
type Provider struct {
	ID            ProviderID
	Protocols     []Protocol        // the protocols it speaks; never empty
	BaseURL       string            // as the protocol's SDK would take it, without a trailing slash
	Class         Class             //
	Headers       map[string]string // sent upstream as they are
	AuthHeader    string            // header that carries the key; "" = the protocol's own
	PerModelQuota bool              // 429 and quota belong to one model, not to the account
	Strategy      string            // orders this provider's connections inside a target
	EgressFamily  string
	Quirks        Quirks
	Lab           bool // served by the built-in lab
}

// Speaks reports whether the provider offers protocol p.
func (p *Provider) Speaks(want Protocol) bool {
	return slices.Contains(p.Protocols, want)
}

// Quirks are deviations of a provider from its protocol, as data.
type Quirks struct {
	NoStreamOptions bool // refuses stream_options
	NoKey           bool // needs no credential
}

// Connection is one key at a provider, with its own gates and health.
type Connection struct {
	ID               ConnectionID
	Provider         *Provider
	Account          AccountID // equal for connections that share a credential
	Identity         string    // connection id + hash(base URL, credential): the key of everything learned about it
	Credential       *Credential
	EgressIP         string
	Meta             map[string]string
	Weight           int // for weighted strategies; 0 is read as 1 by configuration
	Priority         int // lower first
	MaxConcurrent    int // 0 = no cap
	ModelConcurrency map[ModelID]int
	RateLimits       RateLimits
	Models           []ModelID // empty = whatever is asked for
	Proxy            string
	DisableCooling   bool
	LowPriority      bool     // accepts the slower lane that the provider offers at a usage wall
	AutoReset        bool     // claims a reset of the limit that it offers there
	Timeouts         Timeouts // effective: defaults < profile < file < provider < connection
}

// RateLimits are operator-declared limits of an account; zero fields are off.
type RateLimits struct {
	RPM         int
	TPM         int
	MinInterval time.Duration
}

// Timeouts are the clocks of one attempt; see spec streaming.md section 5. Zero means the documented default, which
// configuration has already filled in, except for Total where zero is "off".
type Timeouts struct {
	Connect      time.Duration
	FirstContent time.Duration // the floor that replaces 10 s
	LastChance   time.Duration
	Idle         time.Duration
	Headers      time.Duration
	Total        time.Duration
	StreamTotal  time.Duration
	Request      time.Duration // deadline of the whole request; only the global value counts
}

// Target is what a combo lists: provider + model, optionally pinned to a connection.
type Target struct {
	Provider   ProviderID
	Model      ModelID
	Connection ConnectionID // "" = any connection of the provider
	Weight     int
}

// String is the form used in configuration and in people's eyes: provider/model.
func (t Target) String() string { return string(t.Provider) + "/" + string(t.Model) }

// Candidate is a target bound to one concrete connection; what an attempt is made on.
type Candidate struct {
	Connection *Connection
	Model      ModelID
}

// Target returns the provider/model pair of the candidate.
func (c Candidate) Target() Target {
	return Target{Provider: c.Connection.Provider.ID, Model: c.Model}
}
