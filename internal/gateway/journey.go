package gateway

import "time"

// Journey is the decision log of one request: append-only, written by the goroutine that runs the request, read by
// people once it is closed.
type Journey struct {
	ID        RequestID   `json:"id"`
	At        time.Time   `json:"at"`
	ClientKey ClientKeyID `json:"client_key,omitzero"`
	Protocol  Protocol    `json:"protocol"`
	Operation Operation   `json:"operation,omitzero"`
	Model     string      `json:"model"` // as asked
	Combo     string      `json:"combo,omitzero"`
	Strategy  string      `json:"strategy,omitzero"`
	Path      []string    `json:"path,omitempty"` // how the model was resolved
	Stream    bool        `json:"stream,omitzero"`
	Tokens    int         `json:"prompt_tokens_estimated,omitzero"`

	Session string       `json:"session,omitzero"` // a short hash; "" = the request names none
	Bound   ConnectionID `json:"bound,omitzero"`   // the connection that the session was bound to when it came
	Moved   Reason       `json:"moved,omitzero"`   // why another one answered; 0 = it did not

	PoolSize  int            `json:"pool_size"`
	Excluded  []Exclusion    `json:"excluded,omitempty"` // the first 16
	Reasons   map[string]int `json:"excluded_by_reason,omitempty"`
	Waits     []Wait         `json:"waits,omitempty"`
	Attempts  []Attempt      `json:"attempts,omitempty"`
	Committed time.Time      `json:"committed_at,omitzero"`
	EndedAt   time.Time      `json:"ended_at,omitzero"`

	// CopyOf is the request whose answer this one got, without an attempt of its own; "" = none. Shared tells that it was
	// still being answered, else it came from the cache.
	CopyOf RequestID `json:"copy_of,omitzero"`
	Shared bool      `json:"shared,omitzero"`

	Served     Target       `json:"served,omitzero"` // who gave the answer
	Connection ConnectionID `json:"connection,omitzero"`
	Status     int          `json:"status"`         // what the client saw
	Code       string       `json:"code,omitzero"`  // error.code, "" = answered
	Error      string       `json:"error,omitzero"` // message given to the client
	Usage      Usage        `json:"usage,omitzero"`
	Overhead   int64        `json:"overhead_us"` // time not spent waiting for an upstream
}

// MaxExcluded is how many exclusions a journey keeps by name; the rest is counted per reason.
const MaxExcluded = 16

// Exclude appends an exclusion, keeping the first MaxExcluded and counting all.
func (j *Journey) Exclude(e Exclusion) {
	if len(j.Excluded) < MaxExcluded {
		j.Excluded = append(j.Excluded, e)
	}
	if j.Reasons == nil {
		j.Reasons = make(map[string]int, 4)
	}
	j.Reasons[e.Reason.String()]++
}

// Wait is one pause of a request and why.
type Wait struct {
	At     time.Time     `json:"at"`
	Reason Reason        `json:"reason"`
	For    time.Duration `json:"for_ns"`
}

// Attempt is one upstream call as the decision log shows it. Instants that never came are zero.
type Attempt struct {
	N          int          `json:"n"` // from 1
	Target     Target       `json:"target"`
	Connection ConnectionID `json:"connection"`
	Why        Reason       `json:"why"` // why this candidate, now
	Probe      bool         `json:"probe,omitzero"`
	BeganAt    time.Time    `json:"began_at"`
	HeadersAt  time.Time    `json:"headers_at,omitzero"`
	ContentAt  time.Time    `json:"first_content_at,omitzero"`
	EndedAt    time.Time    `json:"ended_at,omitzero"`
	Bytes      int64        `json:"bytes,omitzero"`
	Kind       Kind         `json:"kind"`
	Scope      Scope        `json:"scope"`
	Reason     Reason       `json:"reason"`
	Status     int          `json:"status,omitzero"`
	Rule       string       `json:"rule,omitzero"`
	Message    string       `json:"message,omitzero"`
	RetryAfter float64      `json:"retry_after_s,omitzero"`
	Before     string       `json:"breaker_before,omitzero"`
	After      string       `json:"breaker_after,omitzero"`
	Usage      Usage        `json:"usage,omitzero"`
	Uncounted  bool         `json:"uncounted,omitzero"`
}
