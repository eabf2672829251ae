package protocol

import (
	"strings"

	"spillway/internal/gateway"
	"spillway/internal/protocol/jsonscan"
)

// Flags is what one event, or one whole answer, says.
type Flags uint32

// The flags. Content is what a client has been waiting for and what commits a stream; the others refine it.
const (
	Content       Flags = 1 << iota // non-empty text, refusal, reasoning text, tool name or arguments, audio, image
	Text                            // a plain text delta: counts for throughput, can be continued elsewhere
	Reasoning                       // any frame of reasoning, also an empty or signature-only one
	Tool                            // a call of a client's tool, or a piece of one
	ToolOpen                        // a tool that runs at the server has begun; silence is normal now
	ToolClosed                      // such a tool gave its result
	BlockOpen                       // Signal.Block was opened
	BlockClosed                     // Signal.Block was closed
	Terminal                        // terminal evidence: the answer is complete
	Last                            // nothing follows: [DONE], message_stop, response.completed, an error event
	Error                           // an error, whatever the HTTP status was
	Refused                         // stopped by a content filter or safety block
	Length                          // stopped by a token limit
	UsageSeen                       // Usage was filled
	UsageOnly                       // a chat chunk without choices that only tells usage
	Malformed                       // not one JSON object
	NotCompletion                   // well formed or not, but no completion
	Metadata                        // nothing of the above: lifecycle, role-only delta, ping
	Odd                             // its end is in doubt: a reason that is neither being done nor a filter nor a limit
)

// Has reports whether all flags of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Any reports whether one of the flags of want is set.
func (f Flags) Any(want Flags) bool { return f&want != 0 }

var flagNames = [...]string{"content", "text", "reasoning", "tool", "tool_open", "tool_closed", "block_open", "block_closed",
	"terminal", "last", "error", "refused", "length", "usage", "usage_only", "malformed", "not_completion", "metadata", "odd"}

// String lists the flags, for tests and logs.
func (f Flags) String() string {
	var names []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "|")
}

// Signal is what one event or one whole answer says. Byte slices point into the event and live as long as it does.
type Signal struct {
	Flags Flags

	// For Error: an HTTP status worked out from codes and types, what the upstream wrote, and the error object (the
	// whole event when the error is not an object of its own).
	ErrStatus           int
	Code, Type, Message string
	ErrBody             []byte

	Usage  gateway.Usage // for UsageSeen
	Finish string        // finish reason as the upstream wrote it

	ID, Model []byte // of the answer, JSON escapes as written; nil when the event does not say
	Block     int    // for BlockOpen and BlockClosed
	// NextSequence is the sequence number after this event's own, 0 when the protocol has none.
	NextSequence int64
	// Choices and Finished are sets of choice indexes below 64 seen in this event, and of those that ended with it.
	Choices, Finished uint64
	// Objects are what the answer has made that lives at its account; nil in nearly all events.
	Objects []Object
}

// Object is something that an answer has made and that only the account that made it has.
type Object struct {
	Kind ObjectKind
	ID   []byte // or the encrypted text itself; escapes as written
}

// ObjectKind says what an object is, and so how long it lives.
type ObjectKind uint8

// The kinds of objects.
const (
	StoredItem  ObjectKind = iota // an item of the answer, stored unless the request forbids it
	KeptObject                    // a container, a file, a conversation: stored whatever the request says
	SealedText                    // encrypted reasoning: other accounts cannot read it, and can do without
	SealedState                   // an encrypted conversation: there is no going on without it
)

// Made notes an object; an empty id is none.
func (s *Signal) Made(kind ObjectKind, id []byte) {
	const most = 256
	if len(id) > 0 && len(s.Objects) < most {
		s.Objects = append(s.Objects, Object{kind, id})
	}
}

// ReadID consumes a reference to an object, its id alone or {"id": ...}, and returns the id; nil = none.
func ReadID(c *jsonscan.Cursor) (id []byte) {
	if c.Kind() != jsonscan.Object {
		return c.Text()
	}
	c.Object()
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) == "id" {
			id = c.Text()
		} else {
			c.Skip()
		}
	}
	return id
}

// Reset makes s ready for the next event.
func (s *Signal) Reset() { *s = Signal{} }

// Empty reports, for a whole answer (or the sum of a stream's events), that it is an answer without anything in it: no
// content, no completion tokens, and neither a refusal nor a token limit that would explain it.
func (s *Signal) Empty() bool {
	return !s.Flags.Any(Content|Refused|Length|Error|NotCompletion|Malformed) && s.Usage.Output == 0
}

// Add folds an event's signal into s, the sum of a stream: flags are united, usage fields grow, the first error and the
// last finish reason are kept. The slices of e are not kept.
func (s *Signal) Add(e *Signal) {
	if e.Flags.Has(Error) && !s.Flags.Has(Error) {
		s.ErrStatus, s.Code, s.Type, s.Message = e.ErrStatus, e.Code, e.Type, e.Message
	}
	s.Flags |= e.Flags
	if e.Flags.Has(UsageSeen) {
		s.Usage = MergeUsage(s.Usage, e.Usage)
	}
	if e.Finish != "" {
		s.Finish = e.Finish
	}
	s.Choices |= e.Choices
	s.Finished |= e.Finished
}

// Settle completes a signal after a walk over its text: what was not well formed says nothing but that, and an event
// that says nothing else is metadata.
func (s *Signal) Settle(wellFormed bool) {
	if !wellFormed {
		*s = Signal{Flags: Malformed}
		return
	}
	if !s.Flags.Any(Content | Reasoning | Tool | ToolOpen | ToolClosed | Terminal | Last | Error | UsageOnly) {
		s.Flags |= Metadata
	}
}

// Mark notes that choice i was seen, and whether it ended.
func (s *Signal) Mark(i int, ended bool) {
	if uint(i) >= 64 { // not followed: nobody can say that all of them have ended
		s.Flags |= Odd
		return
	}
	s.Choices |= 1 << i
	if ended {
		s.Finished |= 1 << i
	}
}

// MergeUsage joins two readings of one answer's running totals. Totals never shrink, so the larger one is newer.
func MergeUsage(a, b gateway.Usage) gateway.Usage {
	return gateway.Usage{
		Input: max(a.Input, b.Input), CachedInput: max(a.CachedInput, b.CachedInput),
		Output: max(a.Output, b.Output), Reasoning: max(a.Reasoning, b.Reasoning),
		Estimated: a.Estimated && b.Estimated,
	}
}
