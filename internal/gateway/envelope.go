package gateway

import "time"

// Span is a half-open byte range of an Envelope's Raw.
type Span struct{ Start, End int }

// Set reports whether the span points at anything.
func (s Span) Set() bool { return s.End > s.Start }

// Needs is a set of abilities that a request asks of its target.
type Needs uint16

// The abilities.
const (
	NeedTools Needs = 1 << iota
	NeedVision
	NeedAudio
	NeedSchema    // structured output
	NeedReasoning // reasoning_effort, reasoning, thinking, thinkingConfig
	NeedStateful  // refers to an object stored at one account
)

// Has reports whether all of want is in the set.
func (n Needs) Has(want Needs) bool { return n&want == want }

// Envelope is a request body read from the outside: what routing needs, taken from the raw JSON without decoding it.
type Envelope struct {
	Protocol  Protocol
	Operation Operation
	Raw       []byte // the client's bytes, never changed
	FormType  string // content type of a body that is a form, with its boundary; "" = the body is JSON

	Model     string // as asked
	ModelSpan Span   // the JSON string of the model, quotes included (in a form: its text); unset where the path names it
	Repeats   []Span // JSON strings that repeat the model of the path, as Gemini's batch requests do, in order

	Stream        bool
	StreamSpan    Span // the whole member stream_options: value; unset when absent
	IncludeUsage  bool // the client asked for usage in its stream
	InsertAt      int  // offset just behind the opening brace, where a member may be inserted
	Empty         bool // the top-level object has no member
	Needs         Needs
	MaxTokens     int // output tokens asked for; 0 = not given
	Deterministic bool
	Tokens        int // estimated prompt tokens

	Session  Session
	Refs     []Ref // objects stored at one account
	Sealed   bool  // there is encrypted reasoning in the conversation
	Unstored bool  // the answer is not to be stored (store: false)

	Tools      int  // tools that the request offers to the model
	Background Span // the value of background: true (Responses), which goes upstream as false; unset when not asked for
}

// Principal is who asks.
type Principal struct {
	Key         ClientKeyID
	Anonymous   bool // no client keys are configured
	Diagnostics bool // may see connection names
	Management  bool
	Models      []string       // allow-list of names or globs; empty = all
	Connections []ConnectionID // allow-list; empty = all
	Scopes      []string       // of the key; nil when anonymous
	RPM         int            // requests per minute that the key may make; 0 = no limit
	KeyHash     [32]byte       // of the key, for what is counted per key; zero when anonymous
}

// ClientKey is a key that Spillway issued: a name and what it may do. The key itself is never kept, only its hash.
type ClientKey struct {
	Name        ClientKeyID
	Hash        [32]byte
	Scopes      []string
	Models      []string
	Connections []ConnectionID
	RPM         int
}

// Combo is a named virtual model: ordered targets, a strategy, options.
type Combo struct {
	Name     string
	Strategy string
	Targets  []Target // nested combos already expanded
	Options  ComboOptions
}

// Failover modes.
const (
	ExhaustAll      = "exhaust_all"
	MaxAttemptsMode = "max_attempts"
)

// ComboOptions tune one combo; zero fields take the global setting.
type ComboOptions struct {
	Continuation    string // off | prefill | text
	StreamGuarantee string // none | complete
	ContentRefused  string // stop | failover
	FailoverMode    string // exhaust_all | max_attempts
	MaxAttempts     int
	ExcludeStatus   []int
	StickyLimit     int
	AllowEmpty      bool // an empty 2xx is an answer
	EarlyCommit     string
}

// Route is a request's model resolved to targets.
type Route struct {
	Combo    *Combo // never nil: a plain provider/model request is a combo of one target
	Pool     string // names the pool whose queue, retry budget and stall clock the request shares
	Ordered  bool   // the strategy is ordered (priority, fill-first, lkgp)
	Path     []string
	Excluded []Exclusion // targets that can never serve this request, with the reason
}

// Exclusion says why a candidate is not (or not now) part of a plan. A zero Until means no time is known.
type Exclusion struct {
	Target     Target       `json:"target"`
	Connection ConnectionID `json:"connection,omitzero"`
	Layer      Layer        `json:"layer"`
	Reason     Reason       `json:"reason"`
	Until      time.Time    `json:"until,omitzero"`
}
