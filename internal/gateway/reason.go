package gateway

// Reason says why something was decided: why a candidate is out, why it waited, what an outcome was. Every decision
// carries one; it is logged, counted, shown and tested.
type Reason uint8

// Reasons of exclusion and delay, then of outcomes, then of the walk.
const (
	ReasonNone Reason = iota

	// A candidate is out or must wait.
	CircuitOpen
	ProviderCooldown
	ConnectionCooldown
	ModelLockout
	Terminal
	Leased
	Paced
	QueueFull
	Unproven
	ProtocolMismatch
	CapabilityMismatch
	Unavailable
	ProbeBusy // half-open, and every probe permit is out
	Returning // the ramp of a connection that comes back
	ConcurrencyFull
	NotBefore // a Retry-After on 503/529

	// An outcome.
	Answered
	CallerFault
	ContextTooLong
	ContentPolicy
	SchemaMismatch
	UpstreamStatus
	ConnectFailed
	DNSFailed
	TLSFailed
	ConnectionReset
	Truncated
	NotACompletion
	ErrorInStream
	ConnectTimeout
	HeadersTimeout
	FirstContentTimeout
	IdleTimeout
	TotalTimeout
	LeftEarly
	TooSlow
	NoContent
	RateLimitHit
	QuotaHit
	CreditsGone
	KeyRefused
	RejectedByAccount
	AccountBanned
	ModelMissing
	ModelRetired
	ClientGone
	RaceLost
	HostFault
	OwnNetwork
	RuleMatched
	CapabilityRefused

	// The walk.
	FirstChoice
	NextCandidate
	SameAgain
	PreferredBack
	ProbeRace
	AttemptsSpent
	DeadlinePassed
	StallWindow
	RetryBudget
	NothingRunnable
	WaitForSlot
	WaitForProbe
	WaitForReturn
	StatusExcluded
	StopHere

	// Sessions and stored objects.
	SessionBound    // the session's own connection
	SessionReturned // the session went back to a higher target
	ObjectPinned    // what the request refers to is stored there
	ObjectElsewhere // what the request refers to is stored at another connection

	// Emergency, what models can do, usage walls.
	EmergencyFallback // the pool that was asked for has failed; the emergency combo goes on
	ToolLimit         // the model takes fewer tools than the request has
	UsageWall         // a usage wall that the attempt was about to pass by the lane or by a reset
	LaneBusy          // no slot is free in the slow lane
	WaitForLane
	SlowLane   // again at once, in the slow lane that was offered
	LimitReset // again at once: the account's limit was reset

	// Pacing.
	QuotaPreflight // the upstream's own headers say that nothing is left until their reset
	numReasons
)

var reasonNames = [numReasons]string{
	"none",
	"circuit_open", "provider_cooldown", "connection_cooldown", "model_lockout", "terminal", "leased", "paced",
	"queue_full", "unproven", "protocol_mismatch", "capability_mismatch", "unavailable", "probe_busy", "returning",
	"concurrency_full", "not_before",
	"answered", "caller_fault", "context_too_long", "content_policy", "schema_mismatch", "upstream_status",
	"connect_failed", "dns_failed", "tls_failed", "connection_reset", "truncated", "not_a_completion",
	"error_in_stream", "connect_timeout", "headers_timeout", "first_content_timeout", "idle_timeout", "total_timeout",
	"left_early", "too_slow", "no_content", "rate_limited", "quota_exhausted", "credits_exhausted", "key_refused",
	"rejected_by_account", "account_banned", "model_missing", "model_retired", "client_gone", "race_lost",
	"host_fault", "own_network", "rule_matched", "capability_refused",
	"first_choice", "next_candidate", "same_again", "preferred_back", "probe_race", "attempts_spent",
	"deadline_passed", "stall_window", "retry_budget", "nothing_runnable", "wait_for_slot", "wait_for_probe",
	"wait_for_return", "status_excluded", "stop_here",
	"session_bound", "session_returned", "object_pinned", "object_elsewhere",
	"emergency_fallback", "tool_limit", "usage_wall", "lane_busy", "wait_for_lane", "slow_lane", "limit_reset",
	"quota_preflight",
}

func (r Reason) String() string { return enumName(reasonNames[:], uint8(r), "reason") }

// MarshalText implements encoding.TextMarshaler.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Reason) UnmarshalText(b []byte) error {
	i, err := enumParse(reasonNames[:], string(b), "reason")
	*r = Reason(i)
	return err
}

// Layer names the mechanism that said no. The order is the order in which layers are asked.
type Layer uint8

// The layers of spec resilience.md section 0.
const (
	LayerNone Layer = iota
	LayerBreaker
	LayerCooldown
	LayerLockout
	LayerLease
	LayerPacing
	LayerRoute // never asked: the target cannot serve this request
	NumLayers
)

var layerNames = [NumLayers]string{"none", "breaker", "cooldown", "lockout", "lease", "pacing", "route"}

func (l Layer) String() string { return enumName(layerNames[:], uint8(l), "layer") }

// MarshalText implements encoding.TextMarshaler.
func (l Layer) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Layer) UnmarshalText(b []byte) error {
	i, err := enumParse(layerNames[:], string(b), "layer")
	*l = Layer(i)
	return err
}
