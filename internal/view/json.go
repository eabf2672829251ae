// Package view answers one question: how does a person read what was decided? It turns a [gateway.Journey] into a
// timeline in plain text (spillway explain), into JSON with stable names (GET /api/requests/{id}), and into the part
// of it that a client without the scope diagnostics may see.
//
// It only reads: it fetches nothing, decides nothing, and never changes the journey that it is given.
package view

import (
	"strings"
	"time"

	"spillway/internal/gateway"
)

// States of a request.
const (
	Running     = "running"
	Answered    = "answered"
	Failed      = "failed"
	Stopped     = "interrupted"
	interrupted = "interrupted" // error.code of a request that the process did not live to end
)

// State says how far a request came.
func State(j *gateway.Journey) string {
	switch {
	case j.Code == interrupted:
		return Stopped
	case j.EndedAt.IsZero():
		return Running
	case j.Code != "":
		return Failed
	}
	return Answered
}

// Request is the JSON form of a decision log. Names are stable; fields may be added.
type Request struct {
	ID         gateway.RequestID   `json:"id"`
	State      string              `json:"state"`
	At         time.Time           `json:"at"`
	EndedAt    time.Time           `json:"ended_at,omitzero"`
	DurationMS float64             `json:"duration_ms,omitzero"`
	OverheadUS int64               `json:"overhead_us"`
	ClientKey  gateway.ClientKeyID `json:"client_key,omitzero"`
	Protocol   gateway.Protocol    `json:"protocol"`
	Operation  gateway.Operation   `json:"operation,omitzero"` // missing = generate
	Model      string              `json:"model"`
	Combo      string              `json:"combo,omitzero"`
	Strategy   string              `json:"strategy,omitzero"`
	Path       []string            `json:"path,omitempty"`
	Stream     bool                `json:"stream"`
	Estimated  int                 `json:"prompt_tokens_estimated,omitzero"`

	Session string               `json:"session,omitzero"` // a short hash
	Bound   gateway.ConnectionID `json:"bound,omitzero"`   // that the session was bound to when it came
	Moved   gateway.Reason       `json:"moved,omitzero"`   // why another one answered

	CopyOf gateway.RequestID `json:"copy_of,omitzero"` // the request whose answer this one got
	Shared bool              `json:"shared,omitzero"`  // while that was still being answered; else from the cache

	PoolSize    int            `json:"pool_size"`
	Excluded    []Exclusion    `json:"excluded,omitempty"`
	Reasons     map[string]int `json:"excluded_by_reason,omitempty"`
	Waits       []Wait         `json:"waits,omitempty"`
	Attempts    []Attempt      `json:"attempts"`
	CommittedAt time.Time      `json:"committed_at,omitzero"`

	Served     string               `json:"served,omitzero"`
	Connection gateway.ConnectionID `json:"connection,omitzero"`
	Status     int                  `json:"status"`
	Code       string               `json:"code,omitzero"`
	Error      string               `json:"error,omitzero"`
	Usage      Usage                `json:"usage"`
	Next       string               `json:"next,omitzero"`

	FailoverHistory []FailoverAttempt `json:"failover_history"`
	RoutingDecision RoutingDecision   `json:"routing_decision"`
}

// Exclusion is a candidate that was left out.
type Exclusion struct {
	Target     string               `json:"target"`
	Connection gateway.ConnectionID `json:"connection,omitzero"`
	Layer      gateway.Layer        `json:"layer"`
	Reason     gateway.Reason       `json:"reason"`
	Until      time.Time            `json:"until,omitzero"`
}

// Wait is one pause.
type Wait struct {
	At     time.Time      `json:"at"`
	Reason gateway.Reason `json:"reason"`
	ForMS  float64        `json:"for_ms"`
}

// Attempt is one upstream call. The _ms fields count from the attempt's begin and are absent for what never came.
type Attempt struct {
	N              int                  `json:"n"`
	Target         string               `json:"target"`
	Provider       gateway.ProviderID   `json:"provider"`
	Model          gateway.ModelID      `json:"model"`
	Connection     gateway.ConnectionID `json:"connection,omitzero"`
	Why            gateway.Reason       `json:"why"`
	Probe          bool                 `json:"probe"`
	BeganAt        time.Time            `json:"began_at"`
	HeadersAt      time.Time            `json:"headers_at,omitzero"`
	FirstContentAt time.Time            `json:"first_content_at,omitzero"`
	EndedAt        time.Time            `json:"ended_at,omitzero"`
	HeadersMS      float64              `json:"headers_ms,omitzero"`
	FirstContentMS float64              `json:"first_content_ms,omitzero"`
	DurationMS     float64              `json:"duration_ms,omitzero"`
	Bytes          int64                `json:"bytes"`
	Kind           gateway.Kind         `json:"kind"`
	Scope          gateway.Scope        `json:"scope"`
	Reason         gateway.Reason       `json:"reason"`
	Status         int                  `json:"status,omitzero"`
	Rule           string               `json:"rule,omitzero"`
	Message        string               `json:"message,omitzero"`
	RetryAfterS    float64              `json:"retry_after_s,omitzero"`
	BreakerBefore  string               `json:"breaker_before,omitzero"`
	BreakerAfter   string               `json:"breaker_after,omitzero"`
	Counted        bool                 `json:"counted"`
	Usage          Usage                `json:"usage"`
}

// Usage is tokens.
type Usage struct {
	Input       int  `json:"input"`
	CachedInput int  `json:"cached_input"`
	Output      int  `json:"output"`
	Reasoning   int  `json:"reasoning"`
	Estimated   bool `json:"estimated"`
}

// JSON is the form of a journey that GET /api/requests/{id} answers with. The result shares no memory with j that a
// later change could reach, except the names themselves.
func JSON(j *gateway.Journey) Request {
	r := Request{ID: j.ID, State: State(j), At: j.At, EndedAt: j.EndedAt, DurationMS: between(j.At, j.EndedAt),
		OverheadUS: j.Overhead, ClientKey: j.ClientKey, Protocol: j.Protocol, Operation: j.Operation, Model: j.Model, Combo: j.Combo,
		Strategy: j.Strategy, Path: append([]string(nil), j.Path...), Stream: j.Stream, Estimated: j.Tokens,
		PoolSize: j.PoolSize, CommittedAt: j.Committed, Connection: j.Connection, Status: j.Status, Code: j.Code,
		Error: j.Error, Usage: Usage(j.Usage), Next: next(j), Attempts: []Attempt{},
		Session: j.Session, Bound: j.Bound, Moved: j.Moved, CopyOf: j.CopyOf, Shared: j.Shared}
	if j.Served.Provider != "" {
		r.Served = j.Served.String()
	}
	for _, x := range j.Excluded {
		r.Excluded = append(r.Excluded, Exclusion{x.Target.String(), x.Connection, x.Layer, x.Reason, x.Until})
	}
	for name, n := range j.Reasons {
		if r.Reasons == nil {
			r.Reasons = map[string]int{}
		}
		r.Reasons[name] = n
	}
	for _, w := range j.Waits {
		r.Waits = append(r.Waits, Wait{w.At, w.Reason, float64(w.For) / float64(time.Millisecond)})
	}
	for i := range j.Attempts {
		r.Attempts = append(r.Attempts, attempt(&j.Attempts[i]))
	}
	r.FailoverHistory, r.RoutingDecision = failoverHistory(j), routingDecision(j)
	return r
}

func attempt(a *gateway.Attempt) Attempt {
	return Attempt{N: a.N, Target: a.Target.String(), Provider: a.Target.Provider, Model: a.Target.Model,
		Connection: a.Connection, Why: a.Why, Probe: a.Probe, BeganAt: a.BeganAt, HeadersAt: a.HeadersAt,
		FirstContentAt: a.ContentAt, EndedAt: a.EndedAt, HeadersMS: between(a.BeganAt, a.HeadersAt),
		FirstContentMS: between(a.BeganAt, a.ContentAt), DurationMS: between(a.BeganAt, a.EndedAt), Bytes: a.Bytes,
		Kind: a.Kind, Scope: a.Scope, Reason: a.Reason, Status: a.Status, Rule: a.Rule, Message: a.Message,
		RetryAfterS: a.RetryAfter, BreakerBefore: a.Before, BreakerAfter: a.After, Counted: !a.Uncounted, Usage: Usage(a.Usage)}
}

// between is the distance in milliseconds, 0 if either instant never came.
func between(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return float64(to.Sub(from).Microseconds()) / 1000
}

// Redact returns a copy for clients without the scope diagnostics: no connection names, exclusions as counts only, and
// no words of a provider about the account. Targets, outcomes and times stay.
func Redact(j *gateway.Journey) *gateway.Journey {
	c := *j
	c.Connection, c.Served.Connection, c.Bound, c.Excluded = "", "", "", nil
	c.Attempts = append([]gateway.Attempt(nil), j.Attempts...)
	for i := range c.Attempts {
		a := &c.Attempts[i]
		a.Connection, a.Target.Connection, a.Message, a.Rule = "", "", "", ""
	}
	c.Path = nil
	for _, p := range j.Path {
		if !mentions(j, p) {
			c.Path = append(c.Path, p)
		}
	}
	if mentions(j, c.Error) {
		c.Error = ""
	}
	return &c
}

// mentions reports whether a text holds the name of a connection that the journey knows.
func mentions(j *gateway.Journey, text string) bool {
	has := func(c gateway.ConnectionID) bool { return c != "" && strings.Contains(text, string(c)) }
	if has(j.Connection) || has(j.Served.Connection) || has(j.Bound) {
		return true
	}
	for _, x := range j.Excluded {
		if has(x.Connection) || has(x.Target.Connection) {
			return true
		}
	}
	for _, a := range j.Attempts {
		if has(a.Connection) || has(a.Target.Connection) {
			return true
		}
	}
	return false
}
