package verdict

import (
	"net/http"
	"time"

	"spillway/internal/gateway"
)

// Phase is the part of an attempt in which a transport error or a clock struck.
type Phase uint8

// The phases, in the order in which an attempt passes through them.
const (
	PhaseUnknown Phase = iota // worked out from the rest of the evidence
	PhaseConnect              // dial and TLS
	PhaseHeaders              // request sent, no response yet
	PhaseFirstContent
	PhaseStream // content was seen
	PhaseBody   // a body that is not a stream
)

// Clock names the clock that ended an attempt; spec streaming.md section 5.
type Clock uint8

// The clocks.
const (
	ClockNone Clock = iota
	ClockConnect
	ClockHeaders
	ClockFirstContent // left early: slow, unless Evidence.LastChance is set
	ClockLastChance
	ClockIdle
	ClockTotal
	ClockStreamTotal
	ClockDeadline // the request's own deadline
	ClockStall    // throughput watchdog or start guard
)

// Evidence is everything known about the end of one attempt. Judge only reads it.
type Evidence struct {
	Candidate gateway.Candidate
	Operation gateway.Operation
	Request   gateway.RequestID
	ClientKey gateway.ClientKeyID
	BeganAt   time.Time
	EndedAt   time.Time

	// Status is the HTTP status; 0 = no response. With InStream it may be the status that the protocol family worked out
	// of the error, or the stream's own 200.
	Status   int
	Header   http.Header // response headers; may be nil
	Body     []byte      // up to 64 KiB of an error body, or the JSON of the error found inside a 200
	InStream bool        // an error was found inside a 200: Body is the event, the error object in it, or the whole body

	// Code, Type and Message as the protocol family read them from Body; what is empty is read from Body here.
	Code, Type, Message string

	Transport error // connect, TLS, DNS, reset or EOF error
	Phase     Phase // where Transport or Clock struck
	Clock     Clock // the clock that fired

	ClientGone bool
	RaceLost   bool
	HostFault  bool // our own fault: buffers full, own stream life cycle, a bug

	Content  bool // content was seen
	Terminal bool // the protocol's terminal evidence was seen; for a body that is not streamed: it is a whole answer
	Empty    bool // complete, but nothing in it
	Refused  bool // ended by a content filter or safety block with no content
	Invalid  bool // complete, but it fails the client's schema

	NotCompletion bool // 200, but the body is no answer of its protocol: HTML, wrong content type, garbage
	Usage         gateway.Usage

	// RequestText is the client's raw body. It is asked for only when a text is judged or shown; nil = unknown.
	RequestText func() []byte
	LastChance  bool // there was nowhere better to go
}

func (e *Evidence) provider() *gateway.Provider {
	if e.Candidate.Connection == nil {
		return nil
	}
	return e.Candidate.Connection.Provider
}

func (e *Evidence) secret() string {
	if e.Candidate.Connection == nil {
		return ""
	}
	return e.Candidate.Connection.Credential.Value().Reveal()
}
