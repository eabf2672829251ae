package view

import (
	"fmt"
	"time"

	"spillway/internal/gateway"
)

// FailoverAttempt is one entry of failover_history, the list of failed attempts under the names that AutoRouter's users
// and scripts know.
type FailoverAttempt struct {
	UpstreamID             string       `json:"upstream_id"`
	UpstreamName           string       `json:"upstream_name"`
	UpstreamProviderType   string       `json:"upstream_provider_type"`
	AttemptedAt            time.Time    `json:"attempted_at"`
	ErrorType              string       `json:"error_type"`
	ErrorMessage           string       `json:"error_message"`
	StatusCode             *int         `json:"status_code"`
	SelectionReason        string       `json:"selection_reason"`
	CircuitBreakerRecorded bool         `json:"circuit_breaker_recorded"`
	MatchedFailureRule     *MatchedRule `json:"matched_failure_rule"`
}

// MatchedRule names the rule that decided.
type MatchedRule struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Scope string `json:"scope"`
}

// RoutingDecision is the plan of a request under AutoRouter's names.
type RoutingDecision struct {
	OriginalModel        string            `json:"original_model"`
	ResolvedModel        string            `json:"resolved_model"`
	ModelRedirectApplied bool              `json:"model_redirect_applied"`
	ProviderType         string            `json:"provider_type"`
	RoutingType          string            `json:"routing_type"`
	Candidates           []RoutedUpstream  `json:"candidates"`
	Excluded             []ExcludedStream  `json:"excluded"`
	CandidateCount       int               `json:"candidate_count"`
	FinalCandidateCount  int               `json:"final_candidate_count"`
	SelectedUpstreamID   *string           `json:"selected_upstream_id"`
	CandidateUpstreamID  *string           `json:"candidate_upstream_id"`
	ActualUpstreamID     *string           `json:"actual_upstream_id"`
	DidSendUpstream      bool              `json:"did_send_upstream"`
	FailureStage         *string           `json:"failure_stage"`
	FinalSelectionReason map[string]string `json:"final_selection_reason,omitempty"`
	SelectionStrategy    string            `json:"selection_strategy"`
}

// RoutedUpstream is a candidate that was tried.
type RoutedUpstream struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Weight       int    `json:"weight"`
	CircuitState string `json:"circuit_state"`
}

// ExcludedStream is a candidate that was left out.
type ExcludedStream struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func failoverHistory(j *gateway.Journey) []FailoverAttempt {
	out := []FailoverAttempt{}
	for i := range j.Attempts {
		a := &j.Attempts[i]
		if a.Kind == gateway.Success || a.EndedAt.IsZero() {
			continue
		}
		f := FailoverAttempt{UpstreamID: string(a.Connection), UpstreamName: a.Target.String(),
			UpstreamProviderType: string(a.Target.Provider), AttemptedAt: a.BeganAt, ErrorType: errorType(a, j.Stream),
			ErrorMessage: a.Message, SelectionReason: a.Why.String(), CircuitBreakerRecorded: recorded(a)}
		if a.Status != 0 {
			f.StatusCode = &a.Status
		}
		if a.Rule != "" {
			f.MatchedFailureRule = &MatchedRule{ID: a.Rule, Name: a.Rule, Scope: a.Scope.String()}
		}
		out = append(out, f)
	}
	return out
}

// recorded reports whether the attempt counted as a failure of its breaker.
func recorded(a *gateway.Attempt) bool {
	switch a.Kind {
	case gateway.ServiceError, gateway.Timeout, gateway.EmptyOutput:
		return !a.Uncounted
	}
	return false
}

// errorType is AutoRouter's word for how an attempt failed.
func errorType(a *gateway.Attempt, stream bool) string {
	switch a.Reason {
	case gateway.FirstContentTimeout, gateway.LeftEarly:
		return "first_byte_timeout"
	case gateway.IdleTimeout:
		return "stream_idle_timeout"
	case gateway.ConnectTimeout, gateway.HeadersTimeout, gateway.TotalTimeout:
		return "timeout"
	case gateway.ConnectFailed, gateway.DNSFailed, gateway.TLSFailed, gateway.ConnectionReset:
		return "connection_error"
	case gateway.Truncated, gateway.ErrorInStream, gateway.TooSlow:
		return "stream_error"
	case gateway.ConcurrencyFull, gateway.QueueFull:
		return "concurrency_full"
	case gateway.CircuitOpen:
		return "circuit_open"
	case gateway.ClientGone:
		return "client_disconnected"
	}
	switch {
	case a.Kind == gateway.EmptyOutput && stream:
		return "upstream_no_content_stream"
	case a.Kind == gateway.EmptyOutput:
		return "upstream_empty_response"
	case a.Status == 429:
		return "http_429"
	case a.Status >= 400:
		return fmt.Sprintf("http_%dxx", a.Status/100)
	}
	return a.Reason.String()
}

func routingDecision(j *gateway.Journey) RoutingDecision {
	d := RoutingDecision{OriginalModel: j.Model, ResolvedModel: j.Model, RoutingType: "combo", SelectionStrategy: j.Strategy,
		CandidateCount: j.PoolSize, FinalCandidateCount: j.PoolSize, Candidates: []RoutedUpstream{},
		Excluded: []ExcludedStream{}, DidSendUpstream: len(j.Attempts) > 0, FailureStage: failureStage(j)}
	if j.Combo == "" {
		d.RoutingType = "none"
	}
	seen := map[gateway.ConnectionID]bool{}
	for i := range j.Attempts {
		a := &j.Attempts[i]
		id := string(a.Connection)
		if i == 0 {
			d.SelectedUpstreamID = &id
		}
		d.CandidateUpstreamID, d.ProviderType, d.ResolvedModel = &id, string(a.Target.Provider), string(a.Target.Model)
		d.FinalSelectionReason = map[string]string{"code": a.Why.String(), "selected_upstream_id": id}
		if !seen[a.Connection] {
			seen[a.Connection] = true
			d.Candidates = append(d.Candidates, RoutedUpstream{id, a.Target.String(), a.Target.Weight, a.Before})
		}
	}
	for _, x := range j.Excluded {
		d.Excluded = append(d.Excluded, ExcludedStream{string(x.Connection), x.Target.String(), x.Reason.String()})
	}
	out := 0
	for _, n := range j.Reasons {
		out += n
	}
	d.FinalCandidateCount = max(0, j.PoolSize-out)
	if j.Served.Provider != "" {
		id := string(j.Connection)
		d.ActualUpstreamID, d.ProviderType, d.ResolvedModel = &id, string(j.Served.Provider), string(j.Served.Model)
	}
	d.ModelRedirectApplied = d.ResolvedModel != d.OriginalModel && d.ProviderType+"/"+d.ResolvedModel != d.OriginalModel
	return d
}

// failureStage is how far a failed request came, in AutoRouter's words; nil for one that was answered or still runs.
func failureStage(j *gateway.Journey) *string {
	s := "upstream_response"
	switch state := State(j); {
	case state == Answered, state == Running:
		return nil
	case len(j.Attempts) == 0 && (j.Status == 401 || j.Status == 403):
		s = "auth_filter"
	case len(j.Attempts) == 0:
		s = "candidate_selection"
	case !j.Committed.IsZero():
		s = "downstream_streaming"
	case j.Attempts[len(j.Attempts)-1].HeadersAt.IsZero():
		s = "upstream_request"
	}
	return &s
}
