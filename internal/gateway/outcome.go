package gateway

import (
	"fmt"
	"time"
)

// Kind is what an attempt's end means. The table of who learns what from each kind is in spec resilience.md section 1
// and, as code, in attempt/effect.go.
type Kind uint8

// The kinds of outcome. The zero value is LocalError, from which nothing learns, so a forgotten field is harmless.
const (
	LocalError       Kind = iota // our own fault: host error, own queue, a rule with count: false
	Success                      // a complete valid answer
	Alive                        // the caller's fault, which proves the service healthy
	ContentRefused               // content policy, safety block
	InvalidResult                // 2xx that fails the client's schema
	ServiceError                 // 5xx, refused, reset, TLS, DNS, truncated, non-completion body with 200
	Timeout                      // ran into connect, last_chance, idle, total, stream_total
	Slow                         // left early because somewhere better was free
	Stall                        // throughput watchdog, start guard
	EmptyOutput                  // no content at all
	RateLimited                  // 429, 425, restated
	QuotaExhausted               // quota code, header or text
	CreditsExhausted             // structured code, 402 by rule; terminal
	AuthError                    // 401, 403
	RequestRejected              // per-request refusal by the account
	Banned                       // ban code or text; terminal
	ModelUnavailable             // 404/410 that names the model; retired
	Canceled                     // the client left, or a race was lost
	NumKinds
)

var kindNames = [NumKinds]string{"local_error", "success", "alive", "content_refused", "invalid_result", "service_error",
	"timeout", "slow", "stall", "empty_output", "rate_limited", "quota_exhausted", "credits_exhausted", "auth_error",
	"request_rejected", "banned", "model_unavailable", "canceled"}

func (k Kind) String() string { return enumName(kindNames[:], uint8(k), "kind") }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(b []byte) error {
	i, err := enumParse(kindNames[:], string(b), "outcome kind")
	*k = Kind(i)
	return err
}

// Scope is the blast radius of an outcome. It is an output of classification, never derived from a provider's name.
type Scope uint8

// The scopes, from the smallest to the largest.
const (
	ScopeRequest Scope = iota
	ScopeAttempt
	ScopeModel // this model at this account; for ModelUnavailable the raw model of the provider's connection
	ScopeFamily
	ScopeConnection
	ScopeAccount
	ScopeProvider
	numScopes
)

var scopeNames = [numScopes]string{"request", "attempt", "model", "family", "connection", "account", "provider"}

func (s Scope) String() string { return enumName(scopeNames[:], uint8(s), "scope") }

// MarshalText implements encoding.TextMarshaler.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Scope) UnmarshalText(b []byte) error {
	i, err := enumParse(scopeNames[:], string(b), "scope")
	*s = Scope(i)
	return err
}

// HintSource says where a retry hint came from. Structured fields outrank headers, headers outrank prose.
type HintSource uint8

// The sources of a retry hint, weakest first.
const (
	HintNone HintSource = iota
	HintRule            // a rule's declared cooldown
	HintProse
	HintHeader
	HintStructured
	numHintSources
)

var hintNames = [numHintSources]string{"none", "rule", "prose", "header", "structured"}

func (h HintSource) String() string { return enumName(hintNames[:], uint8(h), "hint") }

// MarshalText implements encoding.TextMarshaler.
func (h HintSource) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *HintSource) UnmarshalText(b []byte) error {
	i, err := enumParse(hintNames[:], string(b), "hint source")
	*h = HintSource(i)
	return err
}

// Usage is what an answer cost in tokens. Estimated is set when the upstream did not say.
type Usage struct {
	Input       int  `json:"input,omitzero"`
	CachedInput int  `json:"cached_input,omitzero"`
	Output      int  `json:"output,omitzero"`
	Reasoning   int  `json:"reasoning,omitzero"`
	Estimated   bool `json:"estimated,omitzero"`
}

// Outcome is the classified end of one attempt. It is made once, in one place (resilience/verdict), and every
// mechanism learns from it alone.
type Outcome struct {
	Kind   Kind
	Scope  Scope
	Reason Reason
	Status int // upstream HTTP status after restatement; 0 when there was none

	// RetryAfter is how long the upstream (or a rule) asked to be left alone, counted from EndedAt; 0 = no hint.
	RetryAfter time.Duration
	Hint       HintSource

	// What the provider wrote, cleaned of secrets and of text that also stands in the request, for people.
	Code, Type, Message string

	Rule       string // id of the rule that decided, "" = built-in status table
	Uncounted  bool   // a rule said count: false; nothing learns
	Structured bool   // backed by status 401/402/403 or a structured code: may count as evidence for a terminal state
	BelowHTTP  bool   // connect, TLS, DNS, or reset before headers
	Endpoint   bool   // part of an endpoint fault: many keys of one provider failed alike; levels do not rise
	Content    bool   // content was seen before the end
	Retired    bool   // ModelUnavailable: the model is gone for good
	Quirk      string // capability refusal: the feature that was named

	Usage Usage

	Request   RequestID
	ClientKey ClientKeyID
	BeganAt   time.Time // dispatch
	EndedAt   time.Time

	// TellAfter is told to the client as Retry-After when RetryAfter is 0: a restatement's default, which nothing learns.
	TellAfter time.Duration

	ToolLimit int // capability refusal for too many tools: how many the provider said that it takes; 0 = it was none
}

// Failed reports whether the outcome is anything but an answer: neither success nor a fault of the caller or of ours.
func (o Outcome) Failed() bool {
	switch o.Kind {
	case Success, Alive, ContentRefused, InvalidResult, Canceled, LocalError:
		return false
	}
	return true
}

func enumName(names []string, i uint8, what string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}

func enumParse(names []string, s, what string) (uint8, error) {
	for i, n := range names {
		if n == s {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q", what, s)
}
