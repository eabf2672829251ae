package config

import (
	"net"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/verdict"
)

// Config is everything that was configured, with every default filled in. It is immutable once [Load] returned it,
// except through [Config.Add], and safe for concurrent reading.
type Config struct {
	// Address to listen on. Without client keys it must be a loopback address. Default 127.0.0.1:4000.
	Listen string `yaml:"listen"`
	// Directory of the SQLite file and the key file. Default ~/.local/share/spillway.
	Data string `yaml:"data"`
	// Where durable objects live: sqlite (a file below data) or a postgres:// URL. Default sqlite.
	Database gateway.Secret `yaml:"database"`
	// Where run-time state lives: memory or a redis:// URL. Default memory.
	State gateway.Secret `yaml:"state"`
	// Upstream services by name. The name of a preset brings its base URL, protocols and class; fields override it.
	Providers map[gateway.ProviderID]*Provider `yaml:"providers"`
	// Keys at providers. A preset provider without a connection takes the key of its well-known environment variable.
	Connections []*Connection `yaml:"connections"`
	// Named virtual models: ordered targets, a strategy, options.
	Combos []*Combo `yaml:"combos"`
	// Model names that stand for a combo, a provider/model or another alias. A name may hold * and ?; the exact name
	// wins, then the most specific pattern. A * in the value takes what the * of the name matched.
	Aliases map[string]string `yaml:"aliases"`
	// Keys that Spillway issues to its own clients. Without any, only loopback clients are served.
	Keys []Key `yaml:"keys"`
	// Rules that correct and classify upstream errors; asked before the built-in ones.
	Rules []Rule `yaml:"rules"`
	// Settings of resilience for every connection; providers and connections override them.
	Resilience ResilienceOverlay `yaml:"resilience"`
	// Clocks of an attempt; providers and connections override them.
	Timeouts TimeoutsOverlay `yaml:"timeouts"`
	// Bounds on size and work.
	Limits Limits `yaml:"limits"`
	// Whether and how long a request waits when every candidate is out for a short transient reason.
	Waits Waits `yaml:"waits"`
	// Origins of web pages that may call a gateway without client keys, as in https://app.example. Default none.
	AllowedOrigins []string `yaml:"allowed_origins"`
	// Combo that is tried when everything else failed. Default none.
	EmergencyFallback string `yaml:"emergency_fallback"`
	// Exact response cache, per client key.
	Cache Cache `yaml:"cache"`
	// What is logged, and for how long it is kept.
	Log Log `yaml:"log"`
	// How Responses API state is kept for upstreams that have none.
	Responses ResponsesStore `yaml:"responses"`
	// How long running streams may go on after a stop was asked for. Default 30s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// batch: usage survives a killed process; always: it survives a power loss, at the price of one fsync per request.
	// Default batch.
	JournalSync string `yaml:"journal_sync" enum:"batch,always"`

	// File is the path of the file that was read; "" when there was none.
	File string `yaml:"-"`
	// Version is a short hash of what was read; it changes when the file or the stored settings do.
	Version string `yaml:"-"`
	// Warnings are things that are probably not meant; they stop nothing.
	Warnings []Problem `yaml:"-"`
	// LabOnly is set when neither a file nor a well-known variable configures a provider.
	LabOnly bool `yaml:"-"`
	// Automatic is set when there was no file and well-known variables configured the providers.
	Automatic bool `yaml:"-"`

	rules    *verdict.Rules
	where    map[string]Pos // place of every field that was written
	tunables *layers
}

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
	// Facts for the upstream or for people, as in organization.
	Meta map[string]string `yaml:"meta"`
	// Share under weighted strategies, 1 to 1000000. Default 1.
	Weight int `yaml:"weight"`
	// Lower goes first. Default 0.
	Priority int `yaml:"priority"`
	// Attempts in flight at once; 0 = no cap. Default 0.
	MaxConcurrent int `yaml:"max_concurrent"`
	// Attempts in flight at once for one exact upstream model.
	ModelConcurrency map[gateway.ModelID]int `yaml:"model_concurrency"`
	// Rates that the operator declares for the account.
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
	// Requests per minute; 0 = off.
	RPM int `yaml:"rpm"`
	// Tokens per minute; 0 = off.
	TPM int `yaml:"tpm"`
	// Shortest time between two requests; 0s = off.
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
	// Requests that stay on one target before the strategy moves on; 0 = off. Default 0.
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
	// Requests per minute; 0 = no limit.
	RPM int `yaml:"rpm"`

	Sum [32]byte `yaml:"-"` // Hash, decoded
}

// Limits bound size and work.
type Limits struct {
	// Largest request body. Default 64MiB.
	Body Size `yaml:"body"`
	// All request bodies and held streams together; above it new requests get 503. Default 512MiB.
	BufferedBytes Size `yaml:"buffered_bytes"`
	// Attempts per request, 1 to 100. Default 10.
	Attempts int `yaml:"attempts"`
}

// Waits say whether a request waits when every candidate is out for a short transient reason.
type Waits struct {
	// Whether to wait at all. Default true.
	Enabled bool `yaml:"enabled"`
	// Longest single wait. Default 65s.
	MaxWait time.Duration `yaml:"max_wait"`
	// Waits per request. Default 5.
	MaxAttempts int `yaml:"max_attempts"`
	// All waits of one request together. Default 300s.
	Budget time.Duration `yaml:"budget"`
	// Free attempts (429) end after this long without a success on any candidate of the pool. Default 120s.
	StallWindow time.Duration `yaml:"stall_window"`
	// How long to wait for the preferred target before the next one is tried. Default 3s.
	PreferWait time.Duration `yaml:"prefer_wait"`
}

// Cache is the exact response cache.
type Cache struct {
	// Default false.
	Enabled bool `yaml:"enabled"`
	// How long an answer may be served again. Default 10m.
	TTL time.Duration `yaml:"ttl"`
	// Equal requests in flight share one attempt. Default false.
	Deduplicate bool `yaml:"deduplicate"`
}

// Log says what is logged.
type Log struct {
	// debug, info, warn or error. Default info.
	Level string `yaml:"level" enum:"debug,info,warn,error"`
	// Keep a decision log of every request. Default on.
	Decisions bool `yaml:"decisions"`
	// Keep request and answer bodies. Default off.
	Bodies bool `yaml:"bodies"`
	// How long logs are kept. Default 720h.
	Retention time.Duration `yaml:"retention"`
}

// ResponsesStore says how Responses API state is kept.
type ResponsesStore struct {
	// off, memory or disk (encrypted). Default memory.
	Store string `yaml:"store" enum:"off,memory,disk"`
}

// Default is the configuration of an empty file: everything at its documented default, no providers.
func Default() *Config {
	return &Config{
		Listen: "127.0.0.1:4000", Data: "~/.local/share/spillway", Database: "sqlite", State: "memory",
		Limits: Limits{Body: 64 << 20, BufferedBytes: 512 << 20, Attempts: 10},
		Waits: Waits{Enabled: true, MaxWait: 65 * time.Second, MaxAttempts: 5, Budget: 300 * time.Second,
			StallWindow: 120 * time.Second, PreferWait: 3 * time.Second},
		Cache:        Cache{TTL: 10 * time.Minute},
		Log:          Log{Level: "info", Decisions: true, Retention: 720 * time.Hour},
		Responses:    ResponsesStore{Store: "memory"},
		DrainTimeout: 30 * time.Second,
		JournalSync:  "batch",
	}
}

// SQLite reports whether durable objects live in the built-in database.
func (c *Config) SQLite() bool { return c.Database == "sqlite" }

// Memory reports whether run-time state lives in this process alone.
func (c *Config) Memory() bool { return c.State == "memory" }

// Keyless reports whether no client key is configured: then only loopback clients are served.
func (c *Config) Keyless() bool { return len(c.Keys) == 0 }

// Where is the place of a field in the file, as in Where("connections[0].key"); zero when it was not written.
func (c *Config) Where(path string) Pos { return c.where[path] }

// Loopback reports whether an address to listen on is reachable from this machine only.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
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
