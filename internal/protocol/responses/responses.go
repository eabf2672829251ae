// Package responses is the wire protocol of OpenAI responses: numbered, typed events around output items. It answers
// what an event or an answer says, where to send a request, and how an error looks to the SDKs and to Codex. It keeps
// nothing and judges nothing.
package responses

import (
	"net/http"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/protocol/openai"
	"spillway/internal/sse"
)

// Family implements protocol.Family for OpenAI responses.
type Family struct{}

var _ protocol.Family = Family{}

// Protocol implements protocol.Family.
func (Family) Protocol() gateway.Protocol { return gateway.Responses }

// Event implements protocol.Family. The type inside the data counts, the event's name only where it is missing.
func (Family) Event(name, data []byte, s *protocol.Signal) {
	if openai.Done(data) {
		s.Flags = protocol.Last
		return
	}
	var e event
	e.read(name, data, s)
}

// TextMember implements protocol.Family.
func (Family) TextMember() string { return `"delta"` }

// Body implements protocol.Family.
func (Family) Body(_ string, body []byte, s *protocol.Signal) {
	var a answer
	a.run(body, s)
	if s.Flags.Has(protocol.Malformed) || !a.looksLikeOne() && !s.Flags.Has(protocol.Error) {
		s.Flags |= protocol.NotCompletion
	}
}

// Error implements protocol.Family; the form is that of chat completions.
func (Family) Error(e *gateway.Error) (status int, body []byte) { return openai.Family{}.Error(e) }

// failed is the event response.failed. The top-level error is what makes the SDKs raise while they iterate; Codex and
// the AI SDK read response.error.
type failed struct {
	Type     string               `json:"type"`
	Sequence int64                `json:"sequence_number"`
	Response failedResponse       `json:"response"`
	Error    protocol.ErrorObject `json:"error"`
}

type failedResponse struct {
	ID                string         `json:"id"`
	Object            string         `json:"object"`
	CreatedAt         int64          `json:"created_at"`
	Status            string         `json:"status"`
	Error             failedError    `json:"error"`
	IncompleteDetails *struct{}      `json:"incomplete_details"`
	Instructions      *string        `json:"instructions"`
	Metadata          map[string]any `json:"metadata"`
	Model             string         `json:"model"`
	Output            []any          `json:"output"`
	ParallelToolCalls bool           `json:"parallel_tool_calls"`
	Temperature       *float64       `json:"temperature"`
	ToolChoice        string         `json:"tool_choice"`
	Tools             []any          `json:"tools"`
	TopP              *float64       `json:"top_p"`
	Usage             *struct{}      `json:"usage"`
}

type failedError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// StreamError implements protocol.Family: response.failed, numbered on from the last event.
func (Family) StreamError(dst []byte, e *gateway.Error, st *protocol.StreamState) []byte {
	if st == nil {
		st = &protocol.StreamState{}
	}
	object := protocol.NewErrorObject(e, true)
	ev := failed{Type: "response.failed", Sequence: st.NextSequence, Error: object, Response: failedResponse{
		ID: st.ID, Object: "response", CreatedAt: st.Created, Status: "failed",
		Error:    failedError{Code: object.Code, Message: object.Message},
		Metadata: map[string]any{}, Model: st.Model, Output: []any{}, ParallelToolCalls: true, ToolChoice: "auto", Tools: []any{},
	}}
	st.NextSequence++
	st.Closed = true
	return sse.AppendEvent(dst, ev.Type, protocol.AppendJSON(nil, ev))
}

// Comment implements protocol.Family.
func (Family) Comment(dst []byte, text string) []byte { return sse.AppendComment(dst, text) }

// Upstream implements protocol.Family; base ends where the SDK's base URL ends, at /v1 as a rule.
func (Family) Upstream(base string, _ gateway.Candidate, env *gateway.Envelope) string {
	path := "/responses"
	if env.Operation == gateway.Compact {
		path += "/compact"
	}
	return protocol.JoinURL(base, path, "")
}

// Authorize implements protocol.Family.
func (Family) Authorize(h http.Header, c gateway.Candidate, key gateway.Secret) {
	protocol.SetKey(h, c, "Authorization", key)
}

// ReplaceModel implements protocol.Family: response.model in events, model in an answer.
func (Family) ReplaceModel(dst, data []byte, model string) []byte {
	from := len(dst)
	if dst, ok := protocol.ReplaceString(dst, data, model, "response", "model"); ok {
		return dst
	}
	dst, _ = protocol.ReplaceString(dst[:from], data, model, "model")
	return dst
}
