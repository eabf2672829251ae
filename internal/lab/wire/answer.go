package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
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

// Answer is what one call is answered with. It carries the sequence of a stream, so it serves one call only.
type Answer struct {
	ID      string
	Model   string // as the provider names the model that served
	At      time.Time
	Call    *Call
	ToolArg string // arguments of the tool call, when the call wants one

	seq  int
	text strings.Builder
	rest []byte // of each chunk of a chat, behind its finish reason
}

// NewAnswer begins the answer to a call; n is the number of the request at its source and makes the id unique.
func NewAnswer(c *Call, model string, n int, now time.Time) *Answer {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s|%s|%d|%d", model, c.Prompt, n, now.UnixNano())
	a := &Answer{ID: fmt.Sprintf("%016x", h.Sum64()), Model: model, At: now, Call: c}
	if c.WantsTool() {
		a.ToolArg = Arguments(c.Tools[0].Schema)
	}
	return a
}

// codec is one protocol's way to write an answer.
type codec interface {
	open(*Answer) []Event
	token(a *Answer, text string) []Event
	tool(*Answer) []Event
	end(*Answer, Finish, Usage) []Event
	done(*Answer) []Event
	ping(*Answer) (Event, bool)
	failed(*Answer, Failure) []Event
	whole(*Answer, string, Finish, Usage) any
	failure(Failure) any
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

// Open returns the lifecycle events that come before any content.
func (a *Answer) Open() []Event { return a.codec().open(a) }

// Token returns the events of one piece of text.
func (a *Answer) Token(text string) []Event {
	first := a.text.Len() == 0
	a.text.WriteString(text)
	if s, ok := a.codec().(interface{ openText(*Answer) []Event }); ok && first {
		return append(s.openText(a), a.codec().token(a, text)...)
	}
	return a.codec().token(a, text)
}

// Tool returns the events of the tool call.
func (a *Answer) Tool() []Event { return a.codec().tool(a) }

// End returns the events that end the answer, the terminal one included, the closing mark not.
func (a *Answer) End(f Finish, u Usage) []Event { return a.codec().end(a, f, u) }

// Done returns the closing mark, where the protocol has one behind its terminal event.
func (a *Answer) Done() []Event { return a.codec().done(a) }

// Ping returns the protocol's own heartbeat; false where a comment must do.
func (a *Answer) Ping() (Event, bool) { return a.codec().ping(a) }

// Failed returns the events of an error inside a stream.
func (a *Answer) Failed(f Failure) []Event { return a.codec().failed(a, f) }

// Whole is the body of an answer that is not streamed.
func (a *Answer) Whole(text string, f Finish, u Usage) []byte {
	return encode(a.codec().whole(a, text, f, u))
}

// Body is an error body in a protocol's form.
func (f Failure) Body(p gateway.Protocol) []byte { return encode(codecs[p].failure(f)) }

// Encode writes the event as server-sent event.
func (e Event) Encode(b *bytes.Buffer) {
	if e.Name != "" {
		b.WriteString("event: ")
		b.WriteString(e.Name)
		b.WriteByte('\n')
	}
	b.WriteString("data: ")
	b.Write(e.Data)
	b.WriteString("\n\n")
}

func (a *Answer) next() int {
	a.seq++
	return a.seq - 1
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

func event(name string, v any) Event { return Event{Name: name, Data: encode(v)} }

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
