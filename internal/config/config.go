package config

import (
	"net"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/verdict"
)

// Config is everything that was configured, with every default filled in. It is immutable once [Load] returned it,
// except through [Config.Add] before it is shared, and safe for concurrent reading.
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
	// Serve an answer again when exactly the same request of the same client key comes back. Default false.
	Enabled bool `yaml:"enabled"`
	// How long an answer may be served again. Default 10m.
	TTL time.Duration `yaml:"ttl"`
	// Equal requests of a client key that are in flight at once share one run. Default false.
	Deduplicate bool `yaml:"deduplicate"`
	// Memory for answers; the least recently used go first. Default 64MiB.
	MaxBytes Size `yaml:"max_bytes"`
	// Larger answers are not kept. It is also how far a client may be behind others that share an answer. At most a
	// quarter of max_bytes. Default 1MiB.
	MaxEntry Size `yaml:"max_entry"`
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
		Cache:        Cache{TTL: 10 * time.Minute, MaxBytes: 64 << 20, MaxEntry: 1 << 20},
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
