package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/lab/wire"
)

// The HTTP cases of the Open Responses compliance suite (openresponses.org), in our own words: each request is taken,
// its answer has every member that the specification demands, and a stream tells a story without gaps. Each case is
// asked whole and streamed, of a good source alone and behind sources that fail.

// openCase is one case; body has no `stream`.
type openCase struct {
	id, body string
	output   []string // types of the output items, in order
	text     string   // of the message; "" = there is none
}

const redDot = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="

func openCases() []openCase {
	said := func(prompt string) string { return wire.Text(prompt, 0, answerWords) }
	input := func(items string) string { return `{"model":"smart","input":[` + items + `]}` }
	with := func(body, more string) string { return strings.TrimSuffix(body, "}") + more + "}" }
	user := func(s string) string { return fmt.Sprintf(`{"type":"message","role":"user","content":%q}`, s) }
	message := []string{"message"}
	return []openCase{
		{"basic-response", input(user("Greet me briefly.")), message, said("Greet me briefly.")},
		{"basic-response, text alone", `{"model":"smart","input":"Greet me briefly."}`, message, said("Greet me briefly.")},
		{"streaming-response", input(user("Name the first five primes.")), message, said("Name the first five primes.")},
		{"system-prompt", input(`{"type":"message","role":"system","content":"Talk like a lighthouse keeper."},` + user("Good evening.")), message, said("Good evening.")},
		{"system-prompt, as developer", input(`{"type":"message","role":"developer","content":"Talk like a lighthouse keeper."},` + user("Good evening.")), message, said("Good evening.")},
		{"system-prompt, as instructions", with(input(user("Good evening.")), `,"instructions":"Talk like a lighthouse keeper."`), message, said("Good evening.")},
		{"tool-calling", with(input(user("Will it rain in Bergen? Call the tool.")), responsesTools), []string{"function_call"}, ""},
		{"tool-calling, the result", with(input(user("Will it rain in Bergen?")+`,{"type":"function_call","call_id":"c1","name":"weather","arguments":"{\"city\":\"Bergen\"}"},
			{"type":"function_call_output","call_id":"c1","output":"it will"}`), responsesTools), message, said("Will it rain in Bergen?")},
		{"image-input", input(`{"type":"message","role":"user","content":[{"type":"input_text","text":"Which colour is this?"},{"type":"input_image","image_url":"` + redDot + `"}]}`),
			message, said("Which colour is this?")},
		{"image-input, by address", input(`{"type":"message","role":"user","content":[{"type":"input_text","text":"Which colour is this?"},{"type":"input_image","image_url":"https://example.com/dot.png"}]}`),
			message, said("Which colour is this?")},
		{"multi-turn", input(user("I keep bees.") + `,{"type":"message","role":"assistant","content":"How many hives?"},` + user("What do I keep?")), message, said("What do I keep?")},
		{"reasoning", with(input(user("Think first, then add 2 and 2.")), `,"reasoning":{"effort":"low","summary":"auto"}`), []string{"reasoning", "message"}, said("Think first, then add 2 and 2.")},
	}
}

// openMembers are the members that Open Responses demands of every response, with the JSON kinds that each may have.
var openMembers = map[string]string{
	"id": "string", "object": "string", "created_at": "integer", "completed_at": "integer null", "status": "string",
	"incomplete_details": "object null", "model": "string", "previous_response_id": "string null", "instructions": "string null",
	"output": "array", "error": "object null", "tools": "array", "tool_choice": "string object", "truncation": "string",
	"parallel_tool_calls": "boolean", "text": "object", "top_p": "number integer", "presence_penalty": "number integer",
	"frequency_penalty": "number integer", "top_logprobs": "integer", "temperature": "number integer", "reasoning": "object null",
	"usage": "object null", "max_output_tokens": "integer null", "max_tool_calls": "integer null", "store": "boolean",
	"background": "boolean", "service_tier": "string", "metadata": "object null", "safety_identifier": "string null",
	"prompt_cache_key": "string null",
}

// kindOf names the JSON kind of a value.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// resourceFaults says what is wrong with a response object.
func resourceFaults(r map[string]any) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(openMembers)) {
		v, ok := r[name]
		if !ok || !slices.Contains(strings.Fields(openMembers[name]), kindOf(v)) {
			out = append(out, fmt.Sprintf("%s is %v", name, v))
		}
	}
	if !slices.Contains([]string{"none", "auto", "required"}, text(r, "tool_choice")) && text(r, "tool_choice", "type") == "" {
		out = append(out, fmt.Sprintf("tool_choice is %v", r["tool_choice"]))
	}
	status := text(r, "status")
	if done := kindOf(r["completed_at"]) == "integer"; done != (status == "completed") {
		out = append(out, fmt.Sprintf("status %s, completed at %v", status, r["completed_at"]))
	}
	if (r["error"] != nil) != (status == "failed") || (r["incomplete_details"] != nil) != (status == "incomplete") {
		out = append(out, fmt.Sprintf("status %s, error %v, incomplete_details %v", status, r["error"], r["incomplete_details"]))
	}
	if u := r["usage"]; u != nil && number(u, "input_tokens")+number(u, "output_tokens") != number(u, "total_tokens") {
		out = append(out, fmt.Sprintf("usage does not add up: %v", u))
	}
	return out
}

// openItem is an output item as a stream builds it.
type openItem struct {
	id, kind string
	text     strings.Builder // of the deltas since the part began
	part     bool            // a content or summary part is open
	done     map[string]any
}

// story follows a stream event by event.
type story struct {
	faults []string
	id     string
	items  []*openItem
	ended  bool
}

func (s *story) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// streamFaults says what is wrong with a stream.
func streamFaults(frames []frame) []string {
	s := &story{}
	if n := len(frames); n > 0 && frames[n-1].done() {
		frames = frames[:n-1]
	}
	if len(frames) < 3 {
		return []string{"no stream of events"}
	}
	for i, f := range frames {
		if err := conforms("ResponseStreamEvent", f.data); err != nil {
			s.fault("event %d: %v", i, err)
			continue
		}
		e := f.parsed()
		if f.name != text(e, "type") {
			s.fault("event %d is named %q and of type %q", i, f.name, text(e, "type"))
		}
		if number(e, "sequence_number") != float64(i) {
			s.fault("event %d has number %v", i, number(e, "sequence_number"))
		}
		if s.ended {
			s.fault("event %d, %s, comes behind the end", i, f.name)
		}
		s.take(i, e)
	}
	if !s.ended {
		s.fault("no end")
	}
	return s.faults
}

// take follows one event.
func (s *story) take(i int, e map[string]any) {
	kind := text(e, "type")
	if (kind == "response.created") != (i == 0) || (kind == "response.in_progress") != (i == 1) {
		s.fault("event %d is %s", i, kind)
	}
	switch kind {
	case "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed":
		s.lifecycle(kind, e)
	case "response.output_item.added":
		if number(e, "output_index") != float64(len(s.items)) {
			s.fault("item %v is added as number %d", number(e, "output_index"), len(s.items))
		}
		s.items = append(s.items, &openItem{id: text(e, "item", "id"), kind: text(e, "item", "type")})
		if st := text(e, "item", "status"); st != "in_progress" && text(e, "item", "type") != "reasoning" {
			s.fault("an item begins as %q", st)
		}
	default:
		s.content(kind, e)
	}
}

func (s *story) lifecycle(kind string, e map[string]any) {
	r, _ := e["response"].(map[string]any)
	for _, f := range resourceFaults(r) {
		s.fault("%s: %s", kind, f)
	}
	if s.id == "" {
		s.id = text(r, "id")
	}
	if text(r, "id") != s.id {
		s.fault("%s: the response is %s, it was %s", kind, text(r, "id"), s.id)
	}
	want := strings.TrimPrefix(kind, "response.")
	if want == "created" {
		want = "in_progress"
	}
	if text(r, "status") != want {
		s.fault("%s with status %s", kind, text(r, "status"))
	}
	if s.ended = want != "in_progress"; !s.ended {
		return
	}
	output, _ := r["output"].([]any)
	if len(output) != len(s.items) {
		s.fault("%d items at the end, %d were told of", len(output), len(s.items))
		return
	}
	for i, it := range s.items {
		if it.done == nil || fmt.Sprint(it.done) != fmt.Sprint(output[i]) {
			s.fault("item %d ended as %v and is %v", i, it.done, output[i])
		}
	}
}

// content follows an event inside an item.
func (s *story) content(kind string, e map[string]any) {
	n := int(number(e, "output_index"))
	if n < 0 || n != len(s.items)-1 || s.items[n].done != nil {
		s.fault("%s for item %d of %d", kind, n, len(s.items))
		return
	}
	it := s.items[n]
	if id := text(e, "item_id"); id != it.id && kind != "response.output_item.done" {
		s.fault("%s for %s in %s", kind, id, it.id)
	}
	whole := func(name string) {
		if text(e, name) != it.text.String() {
			s.fault("%s: %q, the deltas say %q", kind, text(e, name), it.text.String())
		}
	}
	switch {
	case strings.HasSuffix(kind, "_part.added"):
		it.part = true
		it.text.Reset()
	case strings.HasSuffix(kind, ".delta"):
		if !it.part && it.kind != "function_call" {
			s.fault("%s outside a part", kind)
		}
		it.text.WriteString(text(e, "delta"))
	case kind == "response.function_call_arguments.done":
		whole("arguments")
	case kind == "response.refusal.done":
		whole("refusal")
	case strings.HasSuffix(kind, "_text.done"):
		whole("text")
	case strings.HasSuffix(kind, "_part.done"):
		it.part = false
	case kind == "response.output_item.done":
		it.done, _ = e["item"].(map[string]any)
		if it.part || text(it.done, "id") != it.id || text(it.done, "type") != it.kind {
			s.fault("item %s ended as %v", it.id, it.done)
		}
	}
}

// faults says what is wrong with the answer to a case.
func (c openCase) faults(x exchange) []string {
	if x.status != 200 {
		return []string{fmt.Sprintf("status %d: %s", x.status, x.body)}
	}
	var out []string
	if x.frames != nil {
		out = streamFaults(x.frames)
	} else if err := conforms("Response", x.body); err != nil {
		out = append(out, err.Error())
	}
	r := x.final()
	out = append(out, resourceFaults(r)...)
	if text(r, "status") != "completed" {
		out = append(out, "status "+text(r, "status"))
	}
	var kinds []string
	var said strings.Builder
	items, _ := r["output"].([]any)
	for _, it := range items {
		kinds = append(kinds, text(it, "type"))
		said.WriteString(text(it, "content", 0, "text"))
		if text(it, "type") == "function_call" && (text(it, "name") != "weather" || text(it, "call_id") == "" || text(it, "arguments") != `{"city":"lab"}`) {
			out = append(out, fmt.Sprintf("the call is %v", it))
		}
	}
	if !slices.Equal(kinds, c.output) || said.String() != c.text {
		out = append(out, fmt.Sprintf("items %v saying %q, want %v saying %q", kinds, said.String(), c.output, c.text))
	}
	return out
}

func TestOpenResponsesCases(t *testing.T) {
	for where, first := range firsts {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.openBehind(first)
				for _, c := range openCases() {
					for _, stream := range []bool{false, true} {
						body := fmt.Sprintf(`%s,"stream":%t}`, strings.TrimSuffix(c.body, "}"), stream)
						x := b.Exchange("POST", "/v1/responses", body)
						if stream != (x.frames != nil) {
							t.Errorf("%s: content type %s", c.id, x.head.Get("Content-Type"))
						}
						for _, f := range c.faults(x) {
							t.Errorf("%s, stream %t: %s", c.id, stream, f)
						}
						b.attempts(x, first != nil)
						time.Sleep(time.Hour) // what failed is tried first again
					}
				}
			})
		})
	}
}

// A broken answer is noticed: every case of damage to a good one fails its test.
func TestBrokenResponsesAreNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.openBehind(nil)
		c := openCases()[0]
		whole := b.Exchange("POST", "/v1/responses", c.body)
		if f := c.faults(whole); f != nil {
			t.Fatal(f)
		}
		for name := range openMembers {
			r := whole.parsed()
			delete(r, name)
			if resourceFaults(r) == nil {
				t.Errorf("%s is missed by nobody", name)
			}
			r[name] = []any{map[string]any{}}
			if name != "output" && name != "tools" && resourceFaults(r) == nil {
				t.Errorf("%s may be anything", name)
			}
		}
		stream := b.Exchange("POST", "/v1/responses", strings.TrimSuffix(c.body, "}")+inStream+"}").frames
		if f := streamFaults(stream); f != nil {
			t.Fatal(f)
		}
		for i, f := range stream {
			if streamFaults(slices.Delete(slices.Clone(stream), i, i+1)) == nil {
				t.Errorf("event %d, %s, is missed by nobody", i, f.name)
			}
			if streamFaults(slices.Insert(slices.Clone(stream), i, f)) == nil {
				t.Errorf("event %d, %s, may come twice", i, f.name)
			}
			renamed := slices.Clone(stream)
			renamed[i].name = "response.other"
			if streamFaults(renamed) == nil {
				t.Errorf("event %d may have any name", i)
			}
		}
		for _, damage := range [][2]string{
			{`"delta":"token-001`, `"delta":"token-002`}, {`"logprobs":[]`, `"logprobs":null`}, {`"output_index":0`, `"output_index":1`},
			{`"item_id":"msg_`, `"item_id":"other_`}, {`"status":"completed"`, `"status":"finished"`}, {`"role":"assistant"`, `"role":"user"`},
			{`"type":"output_text"`, `"type":"text"`}, {`"sequence_number":3`, `"sequence_number":2`}, {`"total_tokens":`, `"total_tokens":1`},
			{`"id":"resp_`, `"id":"other_`}, {`"object":"response"`, `"object":"answer"`}, {`"annotations":[]`, `"annotations":{}`},
		} {
			hit := false
			for i, f := range stream {
				if !strings.Contains(string(f.data), damage[0]) {
					continue
				}
				hit = true
				broken := slices.Clone(stream)
				broken[i].data = []byte(strings.Replace(string(f.data), damage[0], damage[1], 1))
				if streamFaults(broken) == nil {
					t.Errorf("event %d with %s is taken", i, damage[1])
				}
			}
			if !hit {
				t.Errorf("no event has %s", damage[0])
			}
		}
	})
}
