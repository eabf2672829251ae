// Package anthropic is the wire protocol of Anthropic messages: content blocks that open, grow and close. It answers
// what an event or an answer says, where to send a request, and how an error looks to the SDKs. It keeps nothing and
// judges nothing.
package anthropic

import (
	"net/http"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/sse"
)

// Version is the API version sent when the client named none. Keys go into x-api-key up to this version and into
// Authorization from the next one on, as the SDKs do it.
const Version = "2023-06-01"

// Family implements protocol.Family for Anthropic messages.
type Family struct{}

var _ protocol.Family = Family{}

// Protocol implements protocol.Family.
func (Family) Protocol() gateway.Protocol { return gateway.Anthropic }

// Event implements protocol.Family. The type inside the data counts, the event's name only where it is missing.
func (Family) Event(name, data []byte, s *protocol.Signal) {
	var e event
	e.read(name, data, s)
}

// TextMember implements protocol.Family.
func (Family) TextMember() string { return `"text"` }

// Body implements protocol.Family.
func (Family) Body(_ string, body []byte, s *protocol.Signal) {
	var m message
	m.run(body, s)
	if s.Flags.Has(protocol.Malformed) || !m.looksLikeOne() && !s.Flags.Has(protocol.Error) {
		s.Flags |= protocol.NotCompletion
	}
}

// types are Anthropic's error types by status.
var types = protocol.Types{
	ByStatus: map[int]string{
		401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
	},
	Caller: "invalid_request_error", Server: "api_error",
}

// envelope is the form of every error, in answers and in streams.
type envelope struct {
	Type  string      `json:"type"`
	Error errorObject `json:"error"`
}

type errorObject struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code"`
	Param   string `json:"param,omitzero"`
	Status  int    `json:"status,omitzero"` // in streams
	// Details has the code once more, where the SDKs of the API's second version look for one.
	Details errorDetails `json:"details"`
	protocol.Extra
}

type errorDetails struct {
	Code string `json:"error_code"`
}

func appendError(dst []byte, e *gateway.Error, inStream bool) []byte {
	o := errorObject{Type: protocol.TypeOf(e, types), Message: protocol.MessageOf(e), Code: string(e.Code), Param: e.Param,
		Details: errorDetails{string(e.Code)}, Extra: protocol.ExtraOf(e)}
	if inStream {
		o.Status = e.HTTPStatus()
	}
	return protocol.AppendJSON(dst, envelope{Type: "error", Error: o})
}

// Error implements protocol.Family.
func (Family) Error(e *gateway.Error) (status int, body []byte) {
	return e.HTTPStatus(), appendError(nil, e, false)
}

type blockStop struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
}

// StreamError implements protocol.Family: open blocks are closed, then the event error. No message_stop follows, since
// that would look like a clean end.
func (Family) StreamError(dst []byte, e *gateway.Error, st *protocol.StreamState) []byte {
	if st != nil {
		dst = closeBlocks(dst, st)
		st.Closed = true
	}
	return sse.AppendEvent(dst, "error", appendError(nil, e, true))
}

func closeBlocks(dst []byte, st *protocol.StreamState) []byte {
	for st.Open > 0 {
		st.Open--
		stop := blockStop{Type: "content_block_stop", Index: st.Blocks[st.Open]}
		dst = sse.AppendEvent(dst, stop.Type, protocol.AppendJSON(nil, stop))
	}
	return dst
}

// AppendClose implements protocol.Closer: the stop reason has been told, message_stop is missing.
func (Family) AppendClose(dst []byte, st *protocol.StreamState) []byte {
	if st.Closed || !st.Complete() {
		return dst
	}
	st.Closed = true
	return sse.AppendEvent(closeBlocks(dst, st), "message_stop", []byte(`{"type":"message_stop"}`))
}

// Comment implements protocol.Family.
func (Family) Comment(dst []byte, text string) []byte { return sse.AppendComment(dst, text) }

// Upstream implements protocol.Family. The SDK's base URL has no version; one that ends in /v1 is taken as well.
func (Family) Upstream(base string, _ gateway.Candidate, env *gateway.Envelope) string {
	path := "/v1/messages"
	if env.Operation == gateway.CountTokens {
		path += "/count_tokens"
	}
	if protocol.PathEnds(base, "/v1") {
		path = path[len("/v1"):]
	}
	return protocol.JoinURL(base, path, "")
}

// AppendCount implements protocol.Counter.
func (Family) AppendCount(dst []byte, tokens int) []byte {
	return protocol.AppendJSON(dst, map[string]int{"input_tokens": tokens})
}

// Authorize implements protocol.Family. A version that the client asked for is kept. Versions after 2023-06-01 and
// credentials of class oauth take the key as a bearer token.
func (Family) Authorize(h http.Header, c gateway.Candidate, key gateway.Secret) {
	if h.Get("anthropic-version") == "" {
		h.Set("anthropic-version", Version)
	}
	header := "X-Api-Key"
	if h.Get("anthropic-version") > Version || c.Connection.Provider.Class == gateway.OAuth {
		header = "Authorization"
	}
	protocol.SetKey(h, c, header, key)
}

// ReplaceModel implements protocol.Family: message.model in message_start, model in an answer.
func (Family) ReplaceModel(dst, data []byte, model string) []byte {
	from := len(dst)
	if dst, ok := protocol.ReplaceString(dst, data, model, "message", "model"); ok {
		return dst
	}
	dst, _ = protocol.ReplaceString(dst[:from], data, model, "model")
	return dst
}
