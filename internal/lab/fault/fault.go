// Package fault answers one question: does this request to a fake upstream go wrong, and how? It is keyed by the source
// that was called. It holds the words of a fault script, decides which faults apply to a request, and keeps the token
// buckets that several sources of one account or one address share. It never writes to a socket and never reads a
// clock: the lab plays what it decides over real HTTP, the simulator plays the same in virtual time.
package fault

import (
	"path"
	"slices"
	"time"

	"spillway/internal/gateway"
)

// Kind names a way to fail.
type Kind string

// The kinds. Fields in brackets are the fields of Fault that the kind reads, with their default.
const (
	Status             Kind = "status"               // any status, headers, body [status 500, headers, body, retry_after]
	RateLimit          Kind = "rate_limit"           // 429 [retry_after 0 = no header]
	ResetBeforeHeaders Kind = "reset_before_headers" // the connection is reset before any byte
	ResetAfterHeaders  Kind = "reset_after_headers"  // reset after the response headers
	ResetMidStream     Kind = "reset_mid_stream"     // reset after some tokens [tokens]
	Silence            Kind = "silence"              // accept and never answer [delay 0 = until the client leaves]
	SlowFirstToken     Kind = "slow_first_token"     // [delay 20s, hold_headers]
	Stall              Kind = "stall"                // silence after some tokens, then a cut [tokens, delay 0 = for ever]
	Trickle            Kind = "trickle"              // one token per interval [tokens = from which on, interval 1s]
	Heartbeats         Kind = "heartbeats"           // pings, never content [interval 1s, delay 0 = for ever]
	Cut                Kind = "cut"                  // connection closed without the last chunk [tokens]
	EndEarly           Kind = "end_early"            // the body ends properly, without a terminal event [tokens]
	ErrorFirst         Kind = "error_first"          // 200, and the first event is an error [status, type, code, message]
	ErrorMid           Kind = "error_mid"            // 200, an error after some tokens [tokens, status, type, code, message]
	Malformed          Kind = "malformed"            // a broken extra event is put in before the Nth [event 1]
	NoDone             Kind = "no_done"              // the closing mark is missing [delay = how long the socket stays open]
	Empty              Kind = "empty"                // a complete answer with no content and zero tokens
	MetadataOnly       Kind = "metadata_only"        // lifecycle events, then the end
	WrongContentType   Kind = "wrong_content_type"   // a right body under a wrong name [headers.content-type text/plain]
	HTML               Kind = "html"                 // an HTML page [status 200]
	Gzip               Kind = "gzip"                 // the body is compressed though nobody asked
	CRLF               Kind = "crlf"                 // lines end with CR LF
	ByteSplit          Kind = "byte_split"           // every byte is a write of its own
	Short              Kind = "short"                // a whole answer, but another and short one, at once [tokens 8]
	HugeEvent          Kind = "huge_event"           // one event of many bytes [size 5 MiB, event 1]
	ContentFilter      Kind = "content_filter"       // 400, the provider's content policy
	ContextLength      Kind = "context_length"       // 400, the prompt is too long
	PrefillRefused     Kind = "prefill_refused"      // 400 when the last message is the assistant's
	Flap               Kind = "flap"                 // down for `for`, once per `every` [status 503]
	Quota              Kind = "quota"                // 429 with a quota code until the window ends [retry_after]
	Unauthorized       Kind = "unauthorized"         // 401; with times: 1 it is "401, then fine"
	LyingQuota         Kind = "lying_quota"          // 403 whose text speaks of quota, though it is a refusal
	ModelMissing       Kind = "model_missing"        // 404 that names the model
	ConcurrencyLimit   Kind = "concurrency_limit"    // 429 above `tokens` requests in flight [tokens 1]
	SlowTLS            Kind = "slow_tls"             // the first byte of a new connection is read late [delay 5s]
	ConnectionLimit    Kind = "connection_limit"     // connections above `tokens` are closed at once [tokens 1]
	DNSFailure         Kind = "dns_failure"          // the source's URL has a host name that cannot be resolved
	Refused            Kind = "connection_refused"   // the source's URL has a port on which nobody listens
)

// role says how a kind takes part in a decision.
type role uint8

const (
	ending  role = iota + 1 // decides how the request ends; the first one that applies wins
	shaping                 // changes how a good answer looks; all that apply combine
	network                 // belongs to the listener or the URL, not to a request
)

var roles = map[Kind]role{
	Status: ending, RateLimit: ending, ResetBeforeHeaders: ending, ResetAfterHeaders: ending, ResetMidStream: ending,
	Silence: ending, Stall: ending, Heartbeats: ending, Cut: ending, EndEarly: ending, ErrorFirst: ending,
	ErrorMid: ending, NoDone: ending, Empty: ending, MetadataOnly: ending, HTML: ending, ContentFilter: ending,
	ContextLength: ending, PrefillRefused: ending, Flap: ending, Quota: ending, Unauthorized: ending,
	LyingQuota: ending, ModelMissing: ending, ConcurrencyLimit: ending,
	SlowFirstToken: shaping, Trickle: shaping, Malformed: shaping, WrongContentType: shaping, Gzip: shaping,
	CRLF: shaping, ByteSplit: shaping, HugeEvent: shaping, Short: shaping,
	SlowTLS: network, ConnectionLimit: network, DNSFailure: network, Refused: network,
}

// Fault is one line of a fault script: what goes wrong and when. A zero condition always holds.
type Fault struct {
	Kind Kind `yaml:"kind"`

	After     time.Duration      `yaml:"after"`     // begin of the window, from the source's start; default 0
	For       time.Duration      `yaml:"for"`       // length of the window; 0 = for ever
	Every     time.Duration      `yaml:"every"`     // the window comes again after this time; 0 = once
	Skip      int                `yaml:"skip"`      // matching requests that are let through first; default 0
	Times     int                `yaml:"times"`     // matching requests that are hit; 0 = all
	Turn      int                `yaml:"turn"`      // with of: the place in the rotation, from 0
	Of        int                `yaml:"of"`        // hit only requests whose number modulo of is turn; 0 = no rotation
	Prob      float64            `yaml:"prob"`      // 0-1, seeded; 0 is read as 1
	Models    []string           `yaml:"models"`    // model names or globs; empty = all
	Protocols []gateway.Protocol `yaml:"protocols"` // empty = all
	Keys      []string           `yaml:"keys"`      // credentials; empty = all
	Stream    string             `yaml:"stream"`    // only | never; empty = both

	Status      int               `yaml:"status"`       // HTTP status, 100-599
	Headers     map[string]string `yaml:"headers"`      // response headers
	Body        string            `yaml:"body"`         // response body, as it is
	RetryAfter  time.Duration     `yaml:"retry_after"`  // Retry-After, whole seconds; 0 = not sent
	Tokens      int               `yaml:"tokens"`       // tokens that are sent before it happens
	Event       int               `yaml:"event"`        // number of the event, from 1
	Delay       time.Duration     `yaml:"delay"`        // how long
	Interval    time.Duration     `yaml:"interval"`     // gap
	HoldHeaders bool              `yaml:"hold_headers"` // the delay comes before the headers
	Size        int               `yaml:"size"`         // bytes
	Type        string            `yaml:"type"`         // error type
	Code        string            `yaml:"code"`         // error code
	Message     string            `yaml:"message"`      // error text

	role role // of the kind, once the fault is in a script; 0 = not looked up yet
}

// part is how the fault takes part in a decision.
func (f *Fault) part() role {
	if f.role != 0 {
		return f.role
	}
	return roles[f.Kind]
}

// Ask is what a fault script sees of a request.
type Ask struct {
	Model    string
	Protocol gateway.Protocol
	Stream   bool
	Prefill  bool // the last message is the assistant's
	Key      string
	InFlight int // requests that the source is serving, this one not counted
}

// Network reports whether the fault belongs to the listener or the URL rather than to a request.
func (f *Fault) Network() bool { return f.part() == network }

// Ends reports whether the fault decides how a request ends (as against changing what a good answer looks like).
func (f *Fault) Ends() bool { return f.part() == ending }

// Fatal reports whether a request that is hit can have no whole answer. Where only the closing mark is missing, the client
// holds one.
func (f *Fault) Fatal() bool { return f.Ends() && f.Kind != NoDone }

// Sure reports whether the fault ends every request badly that comes now, whatever luck, turn or load.
func (f *Fault) Sure() bool {
	return f.Fatal() && (f.Prob <= 0 || f.Prob >= 1) && f.Times == 0 && f.Of == 0 && f.Kind != ConcurrencyLimit
}

// ShortTokens is the length of the answers of a Short fault.
func (f *Fault) ShortTokens() int {
	if f.Tokens > 0 {
		return f.Tokens
	}
	return 8
}

// Active reports whether the window of the fault is open at a time since the source's start.
func (f *Fault) Active(elapsed time.Duration) bool {
	t := elapsed - f.After
	if t < 0 {
		return false
	}
	if f.Every > 0 {
		t %= f.Every
	}
	return f.For == 0 || t < f.For
}

// Left is how long the open window stays open; 0 when it has no end or is not open.
func (f *Fault) Left(elapsed time.Duration) time.Duration {
	if f.For == 0 || !f.Active(elapsed) {
		return 0
	}
	t := elapsed - f.After
	if f.Every > 0 {
		t %= f.Every
	}
	return f.For - t
}

// matches looks at the request alone, not at time or count.
func (f *Fault) matches(a Ask) bool {
	switch {
	case f.Kind == PrefillRefused && !a.Prefill,
		f.Kind == ConcurrencyLimit && a.InFlight < max(f.Tokens, 1),
		f.Stream == "only" && !a.Stream,
		f.Stream == "never" && a.Stream:
		return false
	}
	return anyOf(f.Models, func(g string) bool { return matchModel(g, a.Model) }) &&
		anyOf(f.Protocols, func(p gateway.Protocol) bool { return p == a.Protocol }) &&
		anyOf(f.Keys, func(k string) bool { return k == a.Key })
}

func matchModel(glob, model string) bool {
	if glob == model {
		return true
	}
	ok, err := path.Match(glob, model)
	return err == nil && ok
}

func anyOf[T any](list []T, is func(T) bool) bool {
	if slices.ContainsFunc(list, is) {
		return true
	}
	return len(list) == 0
}
