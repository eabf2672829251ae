// Package protocol holds the contracts of the four wire protocols. It answers, for one event of a stream or one whole
// answer: is this content, an error, the end, and what did it cost ([Signal]); and it gives errors the shape that the
// SDKs of each protocol understand. The four families live in the folders below, the table of them in families.
//
// Nothing here has state of its own, except [StreamState], which belongs to one stream. It decides nothing about health
// or failover: it says what the bytes say, and resilience/verdict judges it.
//
// It never changes bytes on their way through (ReplaceModel, asked for by name, is the exception), never decodes an
// event into a tree, and never keeps a slice of an event beyond the call.
package protocol

import (
	"net/http"

	"spillway/internal/gateway"
)

// Family is one wire protocol. Its methods are pure and safe for concurrent use.
type Family interface {
	// Protocol names the family.
	Protocol() gateway.Protocol

	// Event reads one server-sent event: its name (may be nil) and its data. The caller resets s before. Slices in s
	// point into data. Plain deltas cost no allocation. Data that is not one JSON object gives the flag Malformed and
	// nothing else.
	Event(name, data []byte, s *Signal)

	// TextMember is the quoted name of the member that holds the text of a plain delta; see Repeat.
	TextMember() string

	// Body reads one whole answer with status 2xx that is not a stream of this protocol: an answer, or an error
	// inside a 200. What is no completion at all (HTML, another shape) gets NotCompletion. An answer that is not a
	// completion by design (embeddings, images) gets that flag as well; errors in it are found all the same.
	Body(contentType string, body []byte, s *Signal)

	// Error renders e as an HTTP answer of the family.
	Error(e *gateway.Error) (status int, body []byte)

	// StreamError appends the events that end a committed stream with e, in the form that SDKs of the family raise on,
	// and advances st. st may be nil when nothing was written yet.
	StreamError(dst []byte, e *gateway.Error, st *StreamState) []byte

	// Comment appends a note that clients ignore, for heartbeats and marks. Where an SDK of the family takes a comment
	// for an error it is an empty event, and the text is lost.
	Comment(dst []byte, text string) []byte

	// Upstream is the URL of the envelope's operation at a candidate; only operations that the family has are asked for.
	// base is what the family's SDK would take as base URL and may have a query, which is kept.
	Upstream(base string, c gateway.Candidate, env *gateway.Envelope) string

	// Authorize sets the headers that carry the key, and those without which the protocol refuses a call.
	Authorize(h http.Header, c gateway.Candidate, key gateway.Secret)

	// ReplaceModel appends data, an event or a body of the family, with the model's name replaced where the family
	// writes it, and every other byte as it was.
	ReplaceModel(dst, data []byte, model string) []byte
}

// Counter is a family that has a call to count tokens.
type Counter interface {
	// AppendCount appends the answer that tells a number of tokens.
	AppendCount(dst []byte, tokens int) []byte
}

// Closer is a family whose streams have a closing mark behind the terminal evidence. An upstream that leaves it out has
// given a whole answer, but strict clients wait for the mark.
type Closer interface {
	// AppendClose appends what is missing at the end of a complete stream and advances st; nothing for one that is
	// closed or not complete.
	AppendClose(dst []byte, st *StreamState) []byte
}
