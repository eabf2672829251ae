// Package gemini is the wire protocol of Gemini generateContent: candidates made of parts, the model in the path. It
// answers what a chunk or an answer says, where to send a request, and how an error looks to the SDKs. It keeps nothing
// and judges nothing.
package gemini

import (
	"net/http"
	"net/url"
	"strings"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/sse"
)

// Family implements protocol.Family for Gemini.
type Family struct{}

var _ protocol.Family = Family{}

// Protocol implements protocol.Family.
func (Family) Protocol() gateway.Protocol { return gateway.Gemini }

// Event implements protocol.Family. No chunk is Last: some models put a finish reason on every chunk.
func (Family) Event(name, data []byte, s *protocol.Signal) {
	var w walk
	if string(name) == "error" {
		w.fault.Named()
	}
	w.run(data, s)
}

// TextMember implements protocol.Family.
func (Family) TextMember() string { return `"text"` }

// Body implements protocol.Family. An array of chunks (a stream asked for without alt=sse) is an answer too.
func (Family) Body(_ string, body []byte, s *protocol.Signal) {
	var w walk
	w.run(body, s)
	if s.Flags.Has(protocol.Malformed) || !w.answer && !s.Flags.Has(protocol.Error) {
		s.Flags |= protocol.NotCompletion
	}
}

// errorObject is Google's error: the code is the HTTP status, ours stands in details.
type errorObject struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []any  `json:"details,omitempty"`
	protocol.Extra
}

type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

type retryInfo struct {
	Type  string `json:"@type"`
	Delay string `json:"retryDelay"`
}

// words are Google's status words by HTTP status.
var words = protocol.Types{
	ByStatus: map[int]string{
		401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED", 429: "RESOURCE_EXHAUSTED",
		499: "CANCELLED", 501: "UNIMPLEMENTED", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 529: "UNAVAILABLE",
	},
	Caller: "INVALID_ARGUMENT", Server: "INTERNAL",
}

func appendError(dst []byte, e *gateway.Error) []byte {
	x := protocol.ExtraOf(e)
	info := errorInfo{Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: string(e.Code), Domain: "spillway"}
	if e.Param != "" {
		info.Metadata = map[string]string{"param": e.Param}
	}
	o := errorObject{Code: e.HTTPStatus(), Message: protocol.MessageOf(e), Status: protocol.TypeOf(e, words), Details: []any{info}, Extra: x}
	if x.RetryAfter > 0 {
		delay := protocol.Seconds(x.RetryAfter)
		o.Details = append(o.Details, retryInfo{Type: "type.googleapis.com/google.rpc.RetryInfo", Delay: delay})
	}
	return protocol.AppendJSON(dst, map[string]errorObject{"error": o})
}

// Error implements protocol.Family.
func (Family) Error(e *gateway.Error) (status int, body []byte) {
	return e.HTTPStatus(), appendError(nil, e)
}

// StreamError implements protocol.Family: an error object as an event.
func (Family) StreamError(dst []byte, e *gateway.Error, st *protocol.StreamState) []byte {
	if st != nil {
		st.Closed = true
	}
	return sse.AppendEvent(dst, "", appendError(nil, e))
}

// Comment implements protocol.Family. The Go SDK raises on every block that does not begin with data, comments
// included, and splits at two line feeds; so exactly two of them are the one thing that it, too, ignores.
func (Family) Comment(dst []byte, _ string) []byte { return append(dst, "\n\n"...) }

// Upstream implements protocol.Family. The SDK's base URL has no version; one that ends in a version is taken as well.
func (Family) Upstream(base string, c gateway.Candidate, env *gateway.Envelope) string {
	path := "/v1beta"
	if protocol.PathEnds(base, "/v1beta") || protocol.PathEnds(base, "/v1") || protocol.PathEnds(base, "/v1alpha") || protocol.PathEnds(base, "/v1beta1") {
		path = ""
	}
	verb, query := ":generateContent", ""
	switch {
	case env.Operation == gateway.CountTokens:
		verb = ":countTokens"
	case env.Operation == gateway.Embed:
		verb = ":embedContent"
	case env.Operation == gateway.BatchEmbed:
		verb = ":batchEmbedContents"
	case env.Stream:
		verb, query = ":streamGenerateContent", "alt=sse"
	}
	return protocol.JoinURL(base, path+modelPath(string(c.Model))+verb, query)
}

// AppendCount implements protocol.Counter.
func (Family) AppendCount(dst []byte, tokens int) []byte {
	return protocol.AppendJSON(dst, map[string]int{"totalTokens": tokens})
}

// modelPath is the model's resource path: "models/" is put before a bare name.
func modelPath(model string) string {
	model = strings.TrimPrefix(model, "/")
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	parts := strings.Split(model, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/" + strings.Join(parts, "/")
}

// Authorize implements protocol.Family. The key never goes into the URL.
func (Family) Authorize(h http.Header, c gateway.Candidate, key gateway.Secret) {
	header := "X-Goog-Api-Key"
	if c.Connection.Provider.Class == gateway.OAuth {
		header = "Authorization"
	}
	protocol.SetKey(h, c, header, key)
}

// ReplaceModel implements protocol.Family.
func (Family) ReplaceModel(dst, data []byte, model string) []byte {
	dst, _ = protocol.ReplaceString(dst, data, model, "modelVersion")
	return dst
}
