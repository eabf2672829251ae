package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// Event is one event of a stream. Name is empty where the protocol does not name its events.
type Event struct {
	Name string
	Data []byte
}

// Usage counts tokens.
type Usage struct{ Input, Output int }

// Finish says why an answer ended, in words of our own; each protocol has its word for it.
type Finish uint8

// The ends.
const (
	Stop Finish = iota
	Length
	ToolUse
	Filtered // cut short by the provider's content filter
)

// Failure is an error as a provider puts it.
type Failure struct {
	Status  int
	Type    string
	Code    string
	Message string
	Param   string
	Retry   time.Duration // Google's RetryInfo; 0 = none
}

// Answer is what one call is answered with. It carries the sequence of a stream, so it serves one call at a time. Its
// events are valid until it begins again.
type Answer struct {
	ID      string
	Model   string // as the provider names the model that served
	At      time.Time
	Call    *Call
	ToolArg string // arguments of the tool call, when the call wants one

	refuses bool
	seq     int
	said    []byte
	out     writer // where the events are written
	events  []Event
}

// NewAnswer begins the answer to a call; n is the number of the request at its source and makes the id unique.
func NewAnswer(c *Call, model string, n int, now time.Time) *Answer {
	a := new(Answer)
	a.Begin(c, model, n, now)
	return a
}

// Begin begins another answer in the memory of the last one.
func (a *Answer) Begin(c *Call, model string, n int, now time.Time) {
	*a = Answer{ID: identity(model, c.Prompt, n, now), Model: model, At: now, Call: c, refuses: c.Refuses(),
		said: a.said[:0], out: writer{a.out.b[:0]}, events: a.events[:0]}
	if c.WantsTool() {
		a.ToolArg = Arguments(c.Tools[0].Schema)
	}
}

// identity is what makes the ids of an answer unlike those of others.
func identity(model, prompt string, n int, now time.Time) string {
	var room [64]byte
	h := sum64(sum64(offset64, model), "|")
	h = sum64(sum64(h, prompt), "|")
	number := append(strconv.AppendInt(room[:0], int64(n), 10), '|')
	h = sum64(h, strconv.AppendInt(number, now.UnixNano(), 10))
	return string(inHex(room[:0], h))
}

// codec is one protocol's way to write an answer. What makes events adds them to the answer.
type codec interface {
	open(*Answer)
	token(a *Answer, text string, first bool)
	tool(*Answer)
	end(*Answer, Finish, Usage)
	done(*Answer)
	ping(*Answer)
	failed(*Answer, Failure)
	whole(w *writer, a *Answer, text string, f Finish, u Usage)
	failure(*writer, Failure)
}

var codecs = [gateway.NumProtocols]codec{
	gateway.OpenAI: chat{}, gateway.Responses: responses{}, gateway.Anthropic: messages{}, gateway.Gemini: gemini{},
}

func (a *Answer) codec() codec {
	if a.Call.Op == Complete {
		return completions{}
	}
	return codecs[a.Call.Protocol]
}

// since are the events from the n-th on.
func (a *Answer) since(n int) []Event { return a.events[n:len(a.events):len(a.events)] }

// block is the size of the pieces of memory that events are written into, and most what nearly every event needs.
const (
	block = 4 << 10
	most  = 512
)

// event adds an event that is an object; f writes its members.
func (a *Answer) event(name string, f func(*writer)) {
	from := a.room()
	a.out.b = append(a.out.b, '{')
	f(&a.out)
	a.out.b = append(a.out.b, '}')
	a.events = append(a.events, Event{Name: name, Data: a.out.b[from:len(a.out.b):len(a.out.b)]})
}

// mark adds an event that is a word and no JSON.
func (a *Answer) mark(word string) {
	from := a.room()
	a.out.b = append(a.out.b, word...)
	a.events = append(a.events, Event{Data: a.out.b[from:len(a.out.b):len(a.out.b)]})
}

// room makes sure that there is room for an event, and returns where it begins.
func (a *Answer) room() int {
	if cap(a.out.b)-len(a.out.b) < most {
		a.out.b = make([]byte, 0, block) // the old one lives in its events
	}
	return len(a.out.b)
}

// Open returns the lifecycle events that come before any content.
func (a *Answer) Open() []Event {
	n := len(a.events)
	a.codec().open(a)
	return a.since(n)
}

// Token returns the events of one piece of text.
func (a *Answer) Token(text string) []Event {
	n, first := len(a.events), len(a.said) == 0
	a.said = append(a.said, text...)
	a.codec().token(a, text, first)
	return a.since(n)
}

// Tool returns the events of the tool call.
func (a *Answer) Tool() []Event {
	n := len(a.events)
	a.codec().tool(a)
	return a.since(n)
}

// End returns the events that end the answer, the terminal one included, the closing mark not.
func (a *Answer) End(f Finish, u Usage) []Event {
	n := len(a.events)
	a.codec().end(a, f, u)
	return a.since(n)
}

// Done returns the closing mark, where the protocol has one behind its terminal event.
func (a *Answer) Done() []Event {
	n := len(a.events)
	a.codec().done(a)
	return a.since(n)
}

// Close returns what End and Done do.
func (a *Answer) Close(f Finish, u Usage) []Event {
	n := len(a.events)
	a.codec().end(a, f, u)
	a.codec().done(a)
	return a.since(n)
}

// Ping returns the protocol's own heartbeat; false where a comment must do.
func (a *Answer) Ping() (Event, bool) {
	n := len(a.events)
	a.codec().ping(a)
	if n == len(a.events) {
		return Event{}, false
	}
	return a.events[n], true
}

// Failed returns the events of an error inside a stream.
func (a *Answer) Failed(f Failure) []Event {
	n := len(a.events)
	a.codec().failed(a, f)
	return a.since(n)
}

// Whole is the body of an answer that is not streamed. It is valid as long as an event.
func (a *Answer) Whole(text string, f Finish, u Usage) []byte {
	w := &a.out
	w.b = slices.Grow(w.b[:0], len(text)+block/4)
	w.object("", func() { a.codec().whole(w, a, text, f, u) })
	return w.b
}

// Body is an error body in a protocol's form.
func (f Failure) Body(p gateway.Protocol) []byte {
	w := writer{make([]byte, 0, most)}
	w.object("", func() { codecs[p].failure(&w, f) })
	return w.b
}

// Append writes the event as server-sent event behind b.
func (e Event) Append(b []byte) []byte {
	if e.Name != "" {
		b = append(append(append(b, "event: "...), e.Name...), '\n')
	}
	return append(append(append(b, "data: "...), e.Data...), "\n\n"...)
}

func (a *Answer) next() int64 {
	a.seq++
	return int64(a.seq - 1)
}

type object = map[string]any

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // the values are built here from strings, numbers and maps
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Arguments builds arguments that satisfy the required part of a tool's schema.
func Arguments(schema json.RawMessage) string {
	v := sample(schema, 0)
	if _, ok := v.(object); !ok {
		v = object{}
	}
	return string(encode(v))
}

func sample(raw json.RawMessage, depth int) any {
	var s struct {
		Type       any                        `json:"type"`
		Enum       []any                      `json:"enum"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(raw, &s) != nil || depth > 8 {
		return "lab"
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	kind, _ := s.Type.(string)
	switch strings.ToLower(kind) {
	case "object":
		out := object{}
		for _, name := range s.Required {
			out[name] = sample(s.Properties[name], depth+1)
		}
		return out
	case "array":
		return []any{}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	return "lab"
}

// half splits tool arguments in two, as providers send them in pieces.
func half(s string) (string, string) { return s[:len(s)/2], s[len(s)/2:] }
