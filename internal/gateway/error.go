package gateway

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Code is the error.code of an error that Spillway itself makes.
type Code string

// The codes of spec product.md, "Gateway-made errors".
const (
	InvalidRequest       Code = "invalid_request"
	CapabilityMismatched Code = "capability_mismatch"
	InvalidAPIKey        Code = "invalid_api_key"
	ModelNotAllowed      Code = "model_not_allowed"
	ScopeRequired        Code = "scope_required"
	OriginNotAllowed     Code = "origin_not_allowed"
	NoExecutableTargets  Code = "no_executable_targets"
	ModelNotFound        Code = "model_not_found"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	UnsupportedMediaType Code = "unsupported_media_type"
	RequestTooLarge      Code = "request_too_large"
	RequestTimeout       Code = "request_timeout"
	OwnRateLimited       Code = "rate_limited"
	BudgetExhausted      Code = "budget_exhausted"
	RateLimitQueueFull   Code = "RATE_LIMIT_QUEUE_FULL"
	SemaphoreQueueFull   Code = "SEMAPHORE_QUEUE_FULL"
	LeaseUnavailable     Code = "LEASE_CAPACITY_UNAVAILABLE"
	ModelCooldown        Code = "model_cooldown"
	ProviderCircuitOpen  Code = "provider_circuit_open"
	AllCoolingDown       Code = "all_targets_cooling_down"
	AllSkipped           Code = "ALL_TARGETS_SKIPPED"
	Overloaded           Code = "overloaded"
	Draining             Code = "draining"
	UpstreamError        Code = "upstream_error"
	EmptyResponse        Code = "empty_response"
	UpstreamStreamError  Code = "upstream_stream_error"
	ExecutionTimeout     Code = "RATE_LIMIT_EXECUTION_TIMEOUT"
	QueueWaitTimeout     Code = "QUEUE_WAIT_TIMEOUT"
	SemaphoreTimeout     Code = "SEMAPHORE_TIMEOUT"
	UpstreamTimeout      Code = "upstream_timeout"
	DeadlineExceeded     Code = "deadline_exceeded"
	Internal             Code = "internal_error"
)

var codeStatus = map[Code]int{
	InvalidRequest: 400, CapabilityMismatched: 400, InvalidAPIKey: 401, ModelNotAllowed: 403, ScopeRequired: 403,
	OriginNotAllowed: 403, NoExecutableTargets: 404, ModelNotFound: 404, NotFound: 404, MethodNotAllowed: 405,
	RequestTimeout: 408, RequestTooLarge: 413, UnsupportedMediaType: 415, OwnRateLimited: 429, BudgetExhausted: 429,
	RateLimitQueueFull: 429, SemaphoreQueueFull: 429, LeaseUnavailable: 429, ModelCooldown: 429,
	ProviderCircuitOpen: 503, AllCoolingDown: 503, AllSkipped: 503, Overloaded: 503, Draining: 503,
	UpstreamError: 502, EmptyResponse: 502, UpstreamStreamError: 502, ExecutionTimeout: 504, QueueWaitTimeout: 504,
	SemaphoreTimeout: 504, UpstreamTimeout: 504, DeadlineExceeded: 504, Internal: 500,
}

// Status is the HTTP status of a code; 500 for one that is not in the table.
func (c Code) Status() int {
	if s, ok := codeStatus[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Codes returns the table code -> status, for documentation and tests.
func Codes() map[Code]int {
	out := make(map[Code]int, len(codeStatus))
	maps.Copy(out, codeStatus)
	return out
}

// Error is an error for a client: what happened, where, what to do. It is rendered in the client's own protocol.
type Error struct {
	Code    Code
	Status  int    // 0 = Code.Status(); set when an upstream's own status is kept
	Type    string // the upstream's error type, when it is kept
	Message string
	Param   string // path of the field at fault
	Next    string // what to do next, one sentence
	// RetryAfter is sent as a Retry-After header, rounded up to whole seconds; 0 = no time is known.
	RetryAfter  time.Duration
	Upstream    bool // the words are the upstream's, not ours
	Diagnostics *Diagnostics
	// Verbatim is an upstream's error body, sent to a client of the same protocol unchanged; nil = build one.
	Verbatim     []byte
	VerbatimType string // its content type
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// HTTPStatus is the status to send.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Code.Status()
}

// Diagnostics explain an error of the gateway: what was tried, what was left out and until when.
type Diagnostics struct {
	PoolSize     int            `json:"pool_size"`
	Attempted    int            `json:"attempted"`
	Excluded     []Exclusion    `json:"excluded,omitempty"`
	Counts       map[string]int `json:"excluded_by_layer,omitempty"`
	AttemptOrder []string       `json:"attempt_order,omitempty"`
	Earliest     time.Time      `json:"earliest,omitzero"`
	Next         string         `json:"next,omitzero"`
}

// Quote is what a caller sent as it stands in a message: in quotes, escaped where it is not plain text, and cut to a
// length that people read.
func Quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
	}
	return strconv.Quote(s)
}
