// Package openai is the wire protocol of OpenAI chat completions (and legacy completions, whose chunks carry text), with
// the dialects of the many services that call themselves compatible. It answers what a chunk or an answer says, where
// to send a request, and how an error looks to the SDKs. It keeps nothing and judges nothing.
package openai

import (
	"bytes"
	"net/http"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/sse"
)

// Family implements protocol.Family for OpenAI chat completions.
type Family struct{}

var _ protocol.Family = Family{}

// Protocol implements protocol.Family.
func (Family) Protocol() gateway.Protocol { return gateway.OpenAI }

// Done reports whether data is the end mark of OpenAI streams.
func Done(data []byte) bool {
	return len(data) >= 6 && string(bytes.TrimSpace(data)) == "[DONE]"
}

// Event implements protocol.Family. [DONE] is Last but not Terminal: a finish reason is what makes an answer complete.
func (Family) Event(name, data []byte, s *protocol.Signal) {
	if Done(data) {
		s.Flags = protocol.Last
		return
	}
	w := walk{s: s, delta: true}
	if string(name) == "error" {
		w.fault.Named()
	}
	w.run(data)
}

// TextMember implements protocol.Family.
func (Family) TextMember() string { return `"content"` }

// Body implements protocol.Family.
func (Family) Body(_ string, body []byte, s *protocol.Signal) {
	w := walk{s: s}
	w.run(body)
	if s.Flags.Has(protocol.Malformed) || !w.choices && !s.Flags.Has(protocol.Error) {
		s.Flags |= protocol.NotCompletion
	}
}

// Error implements protocol.Family.
func (Family) Error(e *gateway.Error) (status int, body []byte) {
	return e.HTTPStatus(), appendError(nil, e, false)
}

// StreamError implements protocol.Family: an error object, on which SDKs raise, then [DONE].
func (Family) StreamError(dst []byte, e *gateway.Error, st *protocol.StreamState) []byte {
	if st != nil {
		st.Closed = true
	}
	dst = sse.AppendEvent(dst, "", appendError(nil, e, true))
	return sse.AppendEvent(dst, "", []byte("[DONE]"))
}

// AppendClose implements protocol.Closer.
func (Family) AppendClose(dst []byte, st *protocol.StreamState) []byte {
	if st.Closed || !st.Complete() {
		return dst
	}
	st.Closed = true
	return sse.AppendEvent(dst, "", []byte("[DONE]"))
}

func appendError(dst []byte, e *gateway.Error, inStream bool) []byte {
	return protocol.AppendJSON(dst, map[string]protocol.ErrorObject{"error": protocol.NewErrorObject(e, inStream)})
}

// Comment implements protocol.Family.
func (Family) Comment(dst []byte, text string) []byte { return sse.AppendComment(dst, text) }

// paths are the calls of the API by operation.
var paths = [gateway.NumOperations]string{
	gateway.Generate: "/chat/completions", gateway.Complete: "/completions", gateway.Embed: "/embeddings",
	gateway.Moderate: "/moderations", gateway.Rerank: "/rerank", gateway.MakeImage: "/images/generations",
	gateway.EditImage: "/images/edits", gateway.VaryImage: "/images/variations", gateway.Speak: "/audio/speech",
	gateway.Transcribe: "/audio/transcriptions", gateway.TranslateAudio: "/audio/translations",
}

// Upstream implements protocol.Family; base ends where the SDK's base URL ends, at /v1 as a rule.
func (Family) Upstream(base string, _ gateway.Candidate, env *gateway.Envelope) string {
	return protocol.JoinURL(base, paths[env.Operation], "")
}

// Authorize implements protocol.Family.
func (Family) Authorize(h http.Header, c gateway.Candidate, key gateway.Secret) {
	protocol.SetKey(h, c, "Authorization", key)
}

// ReplaceModel implements protocol.Family.
func (Family) ReplaceModel(dst, data []byte, model string) []byte {
	dst, _ = protocol.ReplaceString(dst, data, model, "model")
	return dst
}
