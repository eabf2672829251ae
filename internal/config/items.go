package config

import (
	"time"

	"spillway/internal/gateway"
)

// Provider is an upstream service as configured, preset included.
type Provider struct {
	ID gateway.ProviderID `yaml:"-"`
	// Preset to start from. Default: the provider's own name, when a preset has it.
	Preset string `yaml:"preset"`
	// Wire protocols that it speaks: openai, responses, anthropic, gemini. Required without a preset.
	Protocols []gateway.Protocol `yaml:"protocols"`
	// Base URL as the protocol's SDK would take it, as in https://api.openai.com/v1. Required without a preset.
	BaseURL string `yaml:"base_url"`
	// Kind of credential: oauth, apikey or local. It chooses the default numbers of resilience. Default apikey.
	Class gateway.Class `yaml:"class"`
	// Headers sent upstream with every request.
	Headers map[string]gateway.Secret `yaml:"headers"`
	// Header that carries the key. Default: the protocol's own.
	AuthHeader string `yaml:"auth_header"`
	// A 429 and a quota belong to one model, not to the account. Default false.
	PerModelQuota bool `yaml:"per_model_quota"`
	// Models that share one quota, by a name for it: patterns with * and ?. A quota, 402, 403 or 429 of one then locks
	// them all. The longest pattern that matches decides. Default none: every model has its own.
	QuotaFamilies map[string][]string `yaml:"quota_families"`
	// Strategy that orders this provider's connections. Default health-aware.
	Strategy string `yaml:"strategy"`
	// Providers of one family see the same address limits. Default none.
	EgressFamily string `yaml:"egress_family"`
	// Whether rules without a provider apply to this one. Default true.
	UseGlobalRules bool `yaml:"use_global_rules"`
	// Models that it is known to offer; used when a request names a model without a provider. Default: the preset's.
	Models []gateway.ModelID `yaml:"models"`
	// The upstream refuses stream_options. Default false.
	NoStreamOptions bool `yaml:"no_stream_options"`
	// The upstream needs no key. Default: true for class local.
	NoKey bool `yaml:"no_key"`
	// Settings of resilience for this provider; any field of resilience.
	Resilience ResilienceOverlay `yaml:"resilience"`
	// Clocks for this provider; any field of timeouts.
	Timeouts TimeoutsOverlay `yaml:"timeouts"`

	Lab bool     `yaml:"-"` // served by the built-in lab
	Env []string `yaml:"-"` // well-known variables that hold its key
}

// Connection is one key at a provider, as configured.
type Connection struct {
	// Unique and stable: health is kept under it.
	ID gateway.ConnectionID `yaml:"id"`
	// Provider that the key belongs to.
	Provider gateway.ProviderID `yaml:"provider"`
	// The key, as in ${A1_KEY}. One of key, key_file and key_command.
	Key gateway.Secret `yaml:"key"`
	// File that holds the key; read again when the key is refused.
	KeyFile string `yaml:"key_file"`
	// Command (sh -c) that prints the key within 10 s; run again when the key is refused.
	KeyCommand string `yaml:"key_command"`
	// Connections of one account share 429, quota and rates. Default: connections with the same key.
	Account gateway.AccountID `yaml:"account"`
	// Address that requests leave from, when egress families are used. Default unknown.
	EgressIP string `yaml:"egress_ip"`
	// Accept the slower lane that the provider offers at the usage wall of a subscription. Default false.
	LowPriorityMode bool `yaml:"low_priority_mode"`
	// Claim the reset of the limit that the provider offers at such a wall; needs meta.organization. Default false.
	AutoLimitReset bool `yaml:"auto_limit_reset"`
	// Facts about it: organization is the id by which auto_limit_reset claims; the rest is for people.
	Meta map[string]string `yaml:"meta"`
	// Share under weighted strategies, 1 to 1000000. Default 1.
	Weight int `yaml:"weight"`
	// Lower goes first. Default 0.
	Priority int `yaml:"priority"`
	// Attempts in flight at once; 0 = no cap. Default 0.
	MaxConcurrent int `yaml:"max_concurrent"`
	// Attempts in flight at once for one exact upstream model.
	ModelConcurrency map[gateway.ModelID]int `yaml:"model_concurrency"`
	// Rates that the operator declares for the account; of several connections of an account the smallest hold.
	RateLimits RateLimits `yaml:"rate_limits"`
	// Models that it serves; empty = whatever is asked for.
	Models []gateway.ModelID `yaml:"models"`
	// Proxy for this connection, as in http://host:3128 or socks5://host:1080. Default: the environment's.
	Proxy gateway.Secret `yaml:"proxy"`
	// Never cool this connection (terminal states and lockouts still hold). Default false.
	DisableCooling bool `yaml:"disable_cooling"`
	// Settings of resilience for this connection; any field of resilience.
	Resilience ResilienceOverlay `yaml:"resilience"`
	// Clocks for this connection; any field of timeouts.
	Timeouts TimeoutsOverlay `yaml:"timeouts"`

	// Credential is the key with its reload source; never nil after Load.
	Credential *gateway.Credential `yaml:"-"`
	// Implied is set when the connection was made from a well-known variable, not written by anybody.
	Implied bool `yaml:"-"`
}

// RateLimits are rates of an account; zero fields are off.
type RateLimits struct {
	// Requests in any minute, 0 to 1000000000; 0 = off. Default 0.
	RPM int `yaml:"rpm"`
	// Tokens of prompts and answers in any minute, 0 to 1000000000000; 0 = off. Default 0.
	TPM int `yaml:"tpm"`
	// Shortest time between two requests, 0s to 1h; 0s = off. Default 0s.
	MinInterval time.Duration `yaml:"min_interval"`
}

// Combo is a named virtual model, as configured.
type Combo struct {
	// Name that clients ask for.
	Name string `yaml:"name"`
	// Rule that orders the targets. Default priority.
	Strategy string `yaml:"strategy"`
	// What is tried: provider/model, {target: provider/model, weight: 2, connection: id} or {combo: name}.
	Targets []Target `yaml:"targets"`
	// Options of this combo.
	Options ComboOptions `yaml:"options"`
}

// Target is one line of a combo: a provider/model, optionally pinned and weighted, or another combo.
type Target struct {
	// provider/model; the model may contain slashes.
	Target string `yaml:"target"`
	// Connection that serves it. Default: any of the provider.
	Connection gateway.ConnectionID `yaml:"connection"`
	// Share under weighted strategies, 1 to 1000000. Default 1.
	Weight int `yaml:"weight"`
	// Another combo, whose targets take this place.
	Combo string `yaml:"combo"`

	Provider gateway.ProviderID `yaml:"-"`
	Model    gateway.ModelID    `yaml:"-"`
}

// ComboOptions tune one combo; fields that are not written take the global behaviour.
type ComboOptions struct {
	// What happens when a committed stream breaks: off, prefill or text. Default prefill.
	Continuation string `yaml:"continuation" enum:"off,prefill,text"`
	// complete = collect the whole answer before the first byte is sent. Default none.
	StreamGuarantee string `yaml:"stream_guarantee" enum:"none,complete"`
	// Whether a refusal by content policy goes to the next target: stop or failover. Default stop.
	ContentRefused string `yaml:"content_refused" enum:"stop,failover"`
	// How far failover goes.
	Failover Failover `yaml:"failover"`
	// Requests that stay on one target before the strategy moves on, under weighted and round-robin; 0 or 1 = off. Default 0.
	StickyLimit int `yaml:"sticky_limit"`
	// An empty answer with a 2xx is an answer. Default false.
	AllowEmpty bool `yaml:"allow_empty"`
	// Whether a streaming client gets its 200 before content: auto, off or on. Default auto.
	EarlyCommit string `yaml:"early_commit" enum:"auto,off,on"`
}

// Failover bounds the walk over a combo's targets.
type Failover struct {
	// exhaust_all = until the attempt budget; max_attempts = at most that many attempts. Default exhaust_all.
	Mode string `yaml:"mode" enum:"exhaust_all,max_attempts"`
	// Attempts with mode max_attempts, 1 to 100.
	MaxAttempts int `yaml:"max_attempts"`
	// Upstream statuses that are returned at once.
	ExcludeStatus []int `yaml:"exclude_status"`
}

// Key is a client key: what Spillway issued and what it may do. The key itself is never stored.
type Key struct {
	// Name of the key in logs and usage; unique.
	Name gateway.ClientKeyID `yaml:"name"`
	// sha256: and the SHA-256 of the key in hex; spillway key prints it.
	Hash string `yaml:"hash"`
	// inference, diagnostics, management, lease:exclusive. Default [inference].
	Scopes []string `yaml:"scopes"`
	// Models it may ask for, as names or globs; empty = all.
	AllowedModels []string `yaml:"allowed_models"`
	// Connections it may use; empty = all.
	AllowedConnections []gateway.ConnectionID `yaml:"allowed_connections"`
	// Requests that it may make in any minute, 0 to 1000000000; 0 = no limit. Default 0.
	RPM int `yaml:"rpm"`

	Sum [32]byte `yaml:"-"` // Hash, decoded
}

func (p *Provider) prefill(key string, n *node) {
	p.ID, p.UseGlobalRules, p.Strategy = gateway.ProviderID(key), true, "health-aware"
	name := key
	if ref := n.field("preset"); ref != nil && ref.kind == scalarNode {
		name = ref.text
	}
	if preset, ok := PresetByName(name); ok {
		preset.fill(p)
	}
	if class := n.field("class"); class != nil && class.kind == scalarNode {
		p.NoKey = class.text == gateway.Local.String()
	}
}

func (c *Connection) prefill(string, *node) { c.Weight = 1 }

func (c *Combo) prefill(string, *node) { c.Strategy = "priority" }

func (k *Key) prefill(string, *node) { k.Scopes = []string{"inference"} }

// decodeNode reads the short form provider/model and the long form.
func (t *Target) decodeNode(d *decoder, n *node, path string) {
	t.Weight = 1
	switch n.kind {
	case scalarNode:
		t.Target = n.text
	case mapNode:
		type plain Target
		p := (*plain)(t)
		d.decodeInto(n, p, path)
	case nullNode:
	default:
		d.problem(n.pos, path, "expected provider/model, {target: provider/model, weight: 2} or {combo: name}")
	}
}
