package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/lab"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/lab/wire"
)

// The answers of the whole gateway against OpenAI's published schemas: what a strict client of OpenAI's API would
// refuse fails here. Sources are the lab's.

const weatherTool = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`

// chatAsks is a chat request; extra is more members of the body.
func chatAsks(prompt, extra string) string {
	return fmt.Sprintf(`{"model":"smart","messages":[{"role":"user","content":%q}]%s}`, prompt, extra)
}

// responsesAsks is a responses request.
func responsesAsks(prompt, extra string) string {
	return fmt.Sprintf(`{"model":"smart","input":%q%s}`, prompt, extra)
}

const (
	chatTools      = `,"tools":[{"type":"function","function":{"name":"weather","description":"d","parameters":` + weatherTool + `}}]`
	responsesTools = `,"tools":[{"type":"function","name":"weather","description":"d","strict":true,"parameters":` + weatherTool + `}]`
	inStream       = `,"stream":true`
	withUsage      = `,"stream":true,"stream_options":{"include_usage":true}`
)

// asking is one request and what its answer must be beside valid.
type asking struct {
	name, path, body string
	schema           string // of the body, or of each event
	holds            func(x exchange) bool
}

// completes reports whether the answer is a text or a tool call.
func (a asking) completes() bool {
	return a.path == "/v1/chat/completions" || a.path == "/v1/responses"
}

// last is the last event with data in JSON.
func (x exchange) last() map[string]any {
	for i := len(x.frames) - 1; i >= 0; i-- {
		if !x.frames[i].done() {
			return x.frames[i].parsed()
		}
	}
	return nil
}

// finish is the finish reason of a chat answer, whole or inStream.
func (x exchange) finish() string {
	if x.frames == nil {
		return text(x.parsed(), "choices", 0, "finish_reason")
	}
	why := ""
	for _, f := range x.frames {
		why = cmp.Or(text(f.parsed(), "choices", 0, "finish_reason"), why)
	}
	return why
}

// joined puts the pieces of a chat stream together: content, refusal, or the arguments of the tool call.
func (x exchange) joined(path ...any) string {
	var s strings.Builder
	for _, f := range x.frames {
		s.WriteString(text(f.parsed(), append([]any{"choices", 0, "delta"}, path...)...))
	}
	return s.String()
}

// final is the response object of a responses answer, whole or inStream.
func (x exchange) final() map[string]any {
	if x.frames == nil {
		return x.parsed()
	}
	r, _ := at(x.last(), "response").(map[string]any)
	return r
}

func chatRows() []asking {
	const path, whole, chunk = "/v1/chat/completions", "CreateChatCompletionResponse", "CreateChatCompletionStreamResponse"
	full := wire.Text("hi", 0, answerWords)
	return []asking{
		{"chat", path, chatAsks("hi", ""), whole, func(x exchange) bool {
			return x.finish() == "stop" && text(x.parsed(), "choices", 0, "message", "content") == full && number(x.parsed(), "usage", "completion_tokens") == answerWords
		}},
		{"chat stream", path, chatAsks("hi", inStream), chunk, func(x exchange) bool {
			return x.finish() == "stop" && x.joined("content") == full && at(x.last(), "usage") == nil
		}},
		{"chat stream with usage", path, chatAsks("hi", withUsage), chunk, func(x exchange) bool {
			return x.finish() == "stop" && x.joined("content") == full && number(x.last(), "usage", "completion_tokens") == answerWords &&
				len(at(x.last(), "choices").([]any)) == 0
		}},
		{"chat tool", path, chatAsks("call the tool", chatTools), whole, func(x exchange) bool {
			return x.finish() == "tool_calls" && at(x.parsed(), "choices", 0, "message", "content") == nil &&
				text(x.parsed(), "choices", 0, "message", "tool_calls", 0, "function", "arguments") == `{"city":"lab"}`
		}},
		{"chat tool stream", path, chatAsks("call the tool", chatTools+withUsage), chunk, func(x exchange) bool {
			return x.finish() == "tool_calls" && x.joined("tool_calls", 0, "function", "name") == "weather" &&
				x.joined("tool_calls", 0, "function", "arguments") == `{"city":"lab"}`
		}},
		{"chat tool required", path, chatAsks("hi", chatTools+`,"tool_choice":"required"`), whole, func(x exchange) bool { return x.finish() == "tool_calls" }},
		{"chat tool forbidden", path, chatAsks("call the tool", chatTools+`,"tool_choice":"none"`), whole, func(x exchange) bool { return x.finish() == "stop" }},
		{"chat refusal", path, chatAsks("refuse this", ""), whole, func(x exchange) bool {
			return at(x.parsed(), "choices", 0, "message", "content") == nil && text(x.parsed(), "choices", 0, "message", "refusal") == wire.Text("refuse this", 0, answerWords)
		}},
		{"chat refusal stream", path, chatAsks("refuse this", inStream), chunk, func(x exchange) bool {
			return x.joined("content") == "" && x.joined("refusal") == wire.Text("refuse this", 0, answerWords)
		}},
		{"chat content filter", path, chatAsks("filter the answer", ""), whole, func(x exchange) bool { return x.finish() == "content_filter" }},
		{"chat content filter stream", path, chatAsks("filter the answer", inStream), chunk, func(x exchange) bool { return x.finish() == "content_filter" }},
		{"chat length", path, chatAsks("hi", `,"max_tokens":5`), whole, func(x exchange) bool { return x.finish() == "length" }},
		{"chat length stream", path, chatAsks("hi", `,"max_completion_tokens":5`+withUsage), chunk, func(x exchange) bool {
			return x.finish() == "length" && number(x.last(), "usage", "completion_tokens") == 5
		}},
	}
}

func responsesRows() []asking {
	const path = "/v1/responses"
	full := wire.Text("hi", 0, answerWords)
	reasoning := `,"reasoning":{"effort":"low","summary":"auto"}`
	// each row asks twice, whole and inStream: the final response is the same
	twice := func(name, body string, holds func(r map[string]any) bool) []asking {
		check := func(x exchange) bool { return holds(x.final()) }
		return []asking{
			{name, path, body, "Response", check},
			{name + " stream", path, strings.TrimSuffix(body, "}") + inStream + "}", "ResponseStreamEvent", check},
		}
	}
	var out []asking
	for _, pair := range [][]asking{
		twice("responses", responsesAsks("hi", ""), func(r map[string]any) bool {
			return text(r, "status") == "completed" && text(r, "output", 0, "content", 0, "text") == full && number(r, "usage", "output_tokens") == answerWords
		}),
		twice("responses that repeats the request", responsesAsks("hi", `,"instructions":"be brief","temperature":0.5,"metadata":{"a":"b"},"max_output_tokens":500,"text":{"verbosity":"low"}`),
			func(r map[string]any) bool {
				return text(r, "instructions") == "be brief" && number(r, "temperature") == 0.5 && text(r, "metadata", "a") == "b" &&
					text(r, "text", "verbosity") == "low" && text(r, "text", "format", "type") == "text"
			}),
		twice("responses tool", responsesAsks("call the tool", responsesTools), func(r map[string]any) bool {
			return text(r, "output", 0, "type") == "function_call" && text(r, "output", 0, "arguments") == `{"city":"lab"}` && text(r, "tools", 0, "name") == "weather"
		}),
		twice("responses tool by choice", responsesAsks("hi", responsesTools+`,"tool_choice":{"type":"function","name":"weather"}`), func(r map[string]any) bool {
			return text(r, "output", 0, "type") == "function_call"
		}),
		twice("responses tool result", `{"model":"smart","input":[{"role":"user","content":"call the tool"},
			{"type":"function_call","call_id":"c1","name":"weather","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"rain"}]`+responsesTools+`}`,
			func(r map[string]any) bool { return text(r, "output", 0, "type") == "message" }),
		twice("responses reasoning", responsesAsks("think first", reasoning), func(r map[string]any) bool {
			return text(r, "output", 0, "type") == "reasoning" && text(r, "output", 1, "content", 0, "text") != "" &&
				number(r, "usage", "output_tokens_details", "reasoning_tokens") > 0 && text(r, "reasoning", "effort") == "low"
		}),
		twice("responses reasoning and tool", responsesAsks("think first, then call the tool", reasoning+responsesTools), func(r map[string]any) bool {
			return text(r, "output", 0, "type") == "reasoning" && text(r, "output", 1, "type") == "function_call"
		}),
		twice("responses refusal", responsesAsks("refuse this", ""), func(r map[string]any) bool {
			return text(r, "output", 0, "content", 0, "type") == "refusal" && text(r, "output", 0, "content", 0, "refusal") != ""
		}),
		twice("responses content filter", responsesAsks("filter the answer", ""), func(r map[string]any) bool {
			return text(r, "status") == "incomplete" && text(r, "incomplete_details", "reason") == "content_filter"
		}),
		twice("responses length", responsesAsks("hi", `,"max_output_tokens":5`), func(r map[string]any) bool {
			return text(r, "status") == "incomplete" && text(r, "incomplete_details", "reason") == "max_output_tokens"
		}),
	} {
		out = append(out, pair...)
	}
	return out
}

func otherRows() []asking {
	const embeddings, list = "/v1/embeddings", "CreateEmbeddingResponse"
	return []asking{
		{"embedding", embeddings, `{"model":"smart","input":"hi"}`, list, func(x exchange) bool { return number(x.parsed(), "data", 0, "embedding", 0) != -1 }},
		{"embeddings", embeddings, `{"model":"smart","input":["hi","ho"]}`, list, func(x exchange) bool { return number(x.parsed(), "data", 1, "index") == 1 }},
		{"embedding in base64", embeddings, `{"model":"smart","input":"hi","encoding_format":"base64"}`, list, func(x exchange) bool {
			return text(x.parsed(), "data", 0, "embedding") != ""
		}},
		{"compaction", "/v1/responses/compact", responsesAsks("hi", ""), "CompactResource", func(x exchange) bool {
			return text(x.parsed(), "output", 1, "type") == "compaction"
		}},
	}
}

// invalid says what is wrong with an answer by its schema.
func (a asking) invalid(x exchange) error {
	if x.status != http.StatusOK {
		return fmt.Errorf("status %d: %s", x.status, x.body)
	}
	isStream := strings.Contains(a.body, inStream)
	if isStream != (x.frames != nil) {
		return fmt.Errorf("content type %s", x.head.Get("Content-Type"))
	}
	if !isStream {
		return conforms(a.schema, x.body)
	}
	for i, f := range x.frames {
		if f.done() && i == len(x.frames)-1 {
			break
		}
		if err := conforms(a.schema, f.data); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		if f.name != "" && f.name != text(f.parsed(), "type") {
			return fmt.Errorf("event %d is named %s and says %s", i, f.name, f.data)
		}
	}
	return nil
}

// firsts are the sources that come before the one that answers; nil = none.
var firsts = map[string]*lab.Fault{
	"alone": nil, "behind a 503": {Kind: fault.Status, Status: 503}, "behind an error event": {Kind: fault.ErrorFirst},
	"behind a stream without content": {Kind: fault.MetadataOnly}, "behind a reset": {Kind: fault.ResetAfterHeaders}, "behind silence": {Kind: fault.Silence},
}

// answerWords is the length of the answers here: each event is validated, and one is like the other.
const answerWords = 8

// openBehind opens a gateway over a good source with a first one before it.
func (b *bubble) openBehind(first *lab.Fault) {
	b.SourceOf(scenario.Source{Name: "good", Tokens: answerWords})
	if first == nil {
		b.Open(providers("good") + combo("good"))
		return
	}
	b.Source("bad", *first)
	b.Open(providers("bad", "good") + combo("bad", "good"))
}

// attempts checks that a request met the source before the good one, or none.
func (b *bubble) attempts(x exchange, behind bool) {
	b.t.Helper()
	if n := x.head.Get("X-Spillway-Attempts"); (n == "1") == behind {
		b.t.Errorf("%s attempts", n)
	}
}

func TestAnswersFitOpenAISchemas(t *testing.T) {
	rows := append(append(chatRows(), responsesRows()...), otherRows()...)
	for where, first := range firsts {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.openBehind(first)
				for _, row := range rows {
					x := b.Exchange("POST", row.path, row.body)
					if err := row.invalid(x); err != nil {
						t.Errorf("%s: %v", row.name, err)
					} else if !row.holds(x) {
						t.Errorf("%s: valid, but not the answer: %s", row.name, x.body)
					}
					// What is no completion has no way to be without content.
					b.attempts(x, first != nil && (first.Kind != fault.MetadataOnly || row.completes()))
					time.Sleep(time.Hour) // what failed is tried first again
				}
			})
		})
	}
}

func TestModelListsFitOpenAISchemas(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "good", Models: []string{"m", "other"}})
		b.Open(providers("good") + combo("good") + "aliases: {gpt-4o: smart}\n")
		x := b.Exchange("GET", "/v1/models", "")
		if err := conforms("ListModelsResponse", x.body); err != nil {
			t.Error(err)
		}
		list, _ := at(x.parsed(), "data").([]any)
		if len(list) < 2 {
			t.Fatalf("%s", x.body)
		}
		for _, m := range list {
			one := b.Exchange("GET", "/v1/models/"+text(m, "id"), "")
			if err := conforms("Model", one.body); err != nil || one.status != 200 {
				t.Error(one.status, err)
			}
		}
		if x = b.Exchange("GET", "/v1/models/none-such", ""); x.status != 404 || conforms("ErrorResponse", x.body) != nil {
			t.Errorf("%d %s", x.status, x.body)
		}
	})
}

// shelf is a lab source that keeps the responses it made, as the service does, so that they can be asked for again.
type shelf struct {
	source http.Handler
	mu     sync.Mutex
	made   map[string]json.RawMessage // id -> response
	input  map[string]string          // id -> prompt
}

// tee copies what is written. Unwrap lets the source flush.
type tee struct {
	http.ResponseWriter
	copy bytes.Buffer
}

func (t *tee) Write(p []byte) (int, error) {
	t.copy.Write(p)
	return t.ResponseWriter.Write(p)
}

func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.make(w, r)
		return
	}
	_, rest, _ := strings.Cut(r.URL.Path, "/responses/")
	id, what, _ := strings.Cut(rest, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.made[id]
	switch {
	case !ok:
		answerJSON(w, 404, `{"error":{"message":"Response not found.","type":"invalid_request_error","param":null,"code":null}}`)
	case what == "input_items":
		answerJSON(w, 200, fmt.Sprintf(`{"object":"list","data":[{"id":"msg_1","type":"message","role":"user","status":"completed",
			"content":[{"type":"input_text","text":%q}]}],"has_more":false,"first_id":"msg_1","last_id":"msg_1"}`, s.input[id]))
	default:
		answerJSON(w, 200, string(made))
	}
}

func (s *shelf) make(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	out := &tee{ResponseWriter: w}
	s.source.ServeHTTP(out, r)
	response := out.copy.Bytes()
	if i := bytes.LastIndex(response, []byte("data: ")); i >= 0 {
		var last struct{ Response json.RawMessage }
		_ = json.Unmarshal(bytes.TrimSpace(response[i+len("data: "):]), &last)
		response = last.Response
	}
	id := text(frame{data: response}.parsed(), "id")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[id], s.input[id] = response, text(frame{data: body}.parsed(), "input")
}

func TestStoredResponsesFitOpenAISchemas(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.lenient = true // the harness counts calls with a body only
		good := lab.NewSource(scenario.Source{Name: "good"})
		good.Reset(time.Now())
		b.Source("bad", lab.Fault{Kind: fault.Status, Status: 503})
		b.Handle("good", (&shelf{source: good, made: map[string]json.RawMessage{}, input: map[string]string{}}).ServeHTTP)
		b.Open(providers("bad", "good") + combo("bad", "good"))
		for _, extra := range []string{`,"store":true`, `,"store":true,"stream":true`} {
			made := b.Exchange("POST", "/v1/responses", responsesAsks("hi", extra)).final()
			at := "/v1/responses/" + text(made, "id")
			x := b.Exchange("GET", at, "")
			if err := conforms("Response", x.body); err != nil || text(x.parsed(), "id") != text(made, "id") || text(x.parsed(), "status") != "completed" {
				t.Errorf("GET %s: %d %v %s", at, x.status, err, x.body)
			}
			if x = b.Exchange("GET", at+"/input_items", ""); x.status != 200 || conforms("ResponseItemList", x.body) != nil {
				t.Errorf("GET %s/input_items: %d %v %s", at, x.status, conforms("ResponseItemList", x.body), x.body)
			}
		}
		for _, id := range []string{"resp_none", "resp_none/input_items"} {
			if x := b.Exchange("GET", "/v1/responses/"+id, ""); x.status != 404 || conforms("ErrorResponse", x.body) != nil {
				t.Errorf("%s: %d %s", id, x.status, x.body)
			}
		}
	})
}

// paths are the calls of OpenAI's API whose errors are looked at.
var erring = map[string]string{
	"/v1/chat/completions": chatAsks("hi", ""), "/v1/responses": responsesAsks("hi", ""), "/v1/embeddings": `{"model":"smart","input":"hi"}`,
}

func TestErrorBodiesFitOpenAISchemas(t *testing.T) {
	for _, row := range []struct {
		name   string
		source lab.Fault
		more   string   // of the configuration
		body   string   // instead of a good one
		head   []string // of the request
		method string
		status int // 0 = any error
	}{
		{name: "not JSON", body: `{"model":`, status: 400},
		{name: "no model", body: `{"x":1}`, status: 400},
		{name: "no such model", body: `{"model":"none-such","input":"hi","messages":[{"role":"user","content":"hi"}]}`, status: 404},
		{name: "too large", more: "limits: {body: 64KiB}\n", body: `{"model":"smart","input":"` + strings.Repeat("x", 70<<10) + `"}`, status: 413},
		{name: "not by this method", method: "DELETE", status: 405},
		{name: "not of this type", head: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "no key", more: clientKeys("dev"), status: 401},
		{name: "model not allowed", more: strings.Replace(clientKeys("dev"), "scopes:", "allowed_models: [other], scopes:", 1),
			head: []string{"Authorization", "Bearer sk-dev"}, status: 403},
		{name: "scope", more: strings.Replace(clientKeys("dev"), "[inference]", "[diagnostics]", 1), head: []string{"Authorization", "Bearer sk-dev"}, status: 403},
		{name: "another origin", head: []string{"Origin", "http://evil.test"}, status: 403},
		{name: "all sources fail", source: always(fault.Status)},
		{name: "limited upstream", source: lab.Fault{Kind: fault.RateLimit, RetryAfter: time.Hour}, status: 429},
		{name: "refused key", source: always(fault.Unauthorized)},
		{name: "a page", source: always(fault.HTML)},
		{name: "empty", source: always(fault.Empty)},
		{name: "reset", source: always(fault.ResetBeforeHeaders)},
		{name: "the provider's filter", source: always(fault.ContentFilter), status: 400},
		{name: "too long a prompt", source: always(fault.ContextLength), status: 400},
		{name: "an error in a 200", source: always(fault.ErrorFirst)},
		{name: "silence", source: always(fault.Silence), status: 504},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				if row.source.Kind == "" {
					b.Source("a")
				} else {
					b.Source("a", row.source)
				}
				b.lenient = true
				b.Open(providers("a") + combo("a") + row.more)
				for path, body := range erring {
					if path == "/v1/embeddings" && row.source.Kind == fault.Empty {
						continue // no completion: it has no way to be empty
					}
					asked := []string{cmp.Or(row.body, body)}
					if row.body == "" && path != "/v1/embeddings" {
						asked = append(asked, strings.TrimSuffix(body, "}")+inStream+"}")
					}
					for _, body := range asked {
						x := b.Exchange(cmp.Or(row.method, "POST"), path, body, row.head...)
						if x.frames != nil { // heartbeats were sent while it was waited for
							x.endsInError(t, path)
						} else if x.status < 400 || row.status != 0 && x.status != row.status {
							t.Errorf("%s: status %d, want %d: %s", path, x.status, row.status, x.body)
						} else if err := conforms("ErrorResponse", x.body); err != nil {
							t.Errorf("%s: %v", path, err)
						}
						time.Sleep(time.Hour)
					}
				}
			})
		})
	}
}

// endsInError checks a stream that ends in an error in the form of its API.
func (x exchange) endsInError(t *testing.T, path string) {
	t.Helper()
	if path == "/v1/chat/completions" {
		n := len(x.frames) - 2
		if n < 0 || !x.frames[n+1].done() {
			t.Errorf("chat: an error and [DONE] end a stream: %s", x.body)
			return
		}
		if err := conforms("ErrorResponse", x.frames[n].data); err != nil {
			t.Errorf("chat: %v", err)
		}
		x.frames = x.frames[:n]
		if err := (asking{body: inStream, schema: "CreateChatCompletionStreamResponse"}).invalid(x); err != nil {
			t.Errorf("chat: %v", err)
		}
		return
	}
	if err := (asking{body: inStream, schema: "ResponseStreamEvent"}).invalid(x); err != nil {
		t.Errorf("responses: %v", err)
	}
	if text(x.last(), "type") != "response.failed" || text(x.final(), "status") != "failed" || text(x.final(), "error", "message") == "" {
		t.Errorf("responses: %s", x.body)
	}
	for i, f := range x.frames {
		if number(f.parsed(), "sequence_number") != float64(i) {
			t.Errorf("responses: event %d has number %v", i, number(f.parsed(), "sequence_number"))
		}
	}
}

// An error behind the commit ends the stream in the caller's own protocol.
func TestErrorsInStreamsFitOpenAISchemas(t *testing.T) {
	for _, kind := range []fault.Kind{fault.ErrorMid, fault.Cut, fault.ResetMidStream, fault.EndEarly, fault.Stall} {
		for _, tokens := range []int{1, 20} {
			t.Run(fmt.Sprintf("%s after %d", kind, tokens), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("a", lab.Fault{Kind: kind, Tokens: tokens})
					b.Open(providers("a") + combo("a"))
					x := b.Exchange("POST", "/v1/chat/completions", chatAsks("hi", inStream))
					x.endsInError(t, "/v1/chat/completions")
					if x.joined("content") == "" {
						t.Errorf("chat: no content before the error: %s", x.body)
					}
					time.Sleep(time.Hour)
					x = b.Exchange("POST", "/v1/responses", responsesAsks("hi", inStream))
					x.endsInError(t, "/v1/responses")
					if len(x.frames) < 5 {
						t.Errorf("responses: no content before the error: %s", x.body)
					}
				})
			})
		}
	}
}

// A broken answer is noticed: every case of damage to a good one is no longer valid.
func TestBrokenAnswersAreNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.openBehind(nil)
		bodies := map[string][]byte{
			"CreateChatCompletionResponse":       b.Exchange("POST", "/v1/chat/completions", chatAsks("call the tool", chatTools)).body,
			"CreateChatCompletionStreamResponse": b.Exchange("POST", "/v1/chat/completions", chatAsks("hi", inStream)).frames[3].data,
			"Response":                           b.Exchange("POST", "/v1/responses", responsesAsks("call the tool", responsesTools)).body,
			"CreateEmbeddingResponse":            b.Exchange("POST", "/v1/embeddings", `{"model":"smart","input":"hi"}`).body,
			"ListModelsResponse":                 b.Exchange("GET", "/v1/models", "").body,
			"ErrorResponse":                      b.Exchange("GET", "/v1/models/none-such", "").body,
		}
		for _, c := range []struct {
			schema string
			path   []any
			want   any // instead of what is there; nil = nothing is
		}{
			{"CreateChatCompletionResponse", []any{"id"}, nil},
			{"CreateChatCompletionResponse", []any{"object"}, "chat.completion.chunk"},
			{"CreateChatCompletionResponse", []any{"created"}, "now"},
			{"CreateChatCompletionResponse", []any{"choices", 0, "index"}, nil},
			{"CreateChatCompletionResponse", []any{"choices", 0, "logprobs"}, nil},
			{"CreateChatCompletionResponse", []any{"choices", 0, "finish_reason"}, "tool_use"},
			{"CreateChatCompletionResponse", []any{"choices", 0, "message", "role"}, "model"},
			{"CreateChatCompletionResponse", []any{"choices", 0, "message", "refusal"}, nil},
			{"CreateChatCompletionResponse", []any{"choices", 0, "message", "tool_calls", 0, "type"}, "tool"},
			{"CreateChatCompletionResponse", []any{"choices", 0, "message", "tool_calls", 0, "function", "arguments"}, map[string]any{}},
			{"CreateChatCompletionResponse", []any{"usage", "total_tokens"}, nil},
			{"CreateChatCompletionStreamResponse", []any{"choices", 0, "delta"}, "text"},
			{"CreateChatCompletionStreamResponse", []any{"choices", 0, "delta", "content"}, 1.0},
			{"CreateChatCompletionStreamResponse", []any{"choices", 0, "finish_reason"}, ""},
			{"CreateChatCompletionStreamResponse", []any{"model"}, nil},
			{"Response", []any{"created_at"}, nil},
			{"Response", []any{"status"}, "done"},
			{"Response", []any{"output", 0, "type"}, "tool_call"},
			{"Response", []any{"output", 0, "type"}, "message"},
			{"Response", []any{"output", 0, "arguments"}, map[string]any{}},
			{"Response", []any{"output", 0, "call_id"}, nil},
			{"Response", []any{"tools", 0, "name"}, nil},
			{"Response", []any{"tool_choice"}, "maybe"},
			{"Response", []any{"error"}, "none"},
			{"Response", []any{"usage", "input_tokens_details"}, nil},
			{"CreateEmbeddingResponse", []any{"data", 0, "embedding", 0}, "0.5"},
			{"CreateEmbeddingResponse", []any{"data", 0, "index"}, nil},
			{"CreateEmbeddingResponse", []any{"usage"}, nil},
			{"ListModelsResponse", []any{"data", 0, "created"}, "2026-01-01"},
			{"ListModelsResponse", []any{"data", 0, "owned_by"}, nil},
			{"ErrorResponse", []any{"error"}, "broken"},
			{"ErrorResponse", []any{"error", "message"}, nil},
			{"ErrorResponse", []any{"error", "param"}, nil},
		} {
			if err := conforms(c.schema, bodies[c.schema]); err != nil {
				t.Fatal(err)
			}
			if err := conforms(c.schema, damaged(t, bodies[c.schema], c.want, c.path...)); err == nil {
				t.Errorf("%s with %v = %v is taken", c.schema, c.path, c.want)
			}
		}
	})
}

// damaged is a JSON text with the value at a path replaced, or taken away when want is nil.
func damaged(t *testing.T, body []byte, want any, path ...any) []byte {
	t.Helper()
	root := frame{data: body}.parsed()
	last := len(path) - 1
	switch v := at(root, path[:last]...).(type) {
	case map[string]any:
		if want == nil && !has(v, path[last].(string)) {
			t.Fatalf("nothing at %v in %s", path, body)
		}
		v[path[last].(string)] = want
		if want == nil {
			delete(v, path[last].(string))
		}
	case []any:
		v[path[last].(int)] = want
	default:
		t.Fatalf("nothing at %v in %s", path, body)
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func has(m map[string]any, name string) bool {
	_, ok := m[name]
	return ok
}
