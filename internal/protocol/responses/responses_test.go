package responses

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

const (
	content  = protocol.Content
	text     = protocol.Content | protocol.Text
	thought  = protocol.Content | protocol.Reasoning
	tool     = protocol.Content | protocol.Tool
	end      = protocol.Terminal | protocol.Last
	failure  = protocol.Error | protocol.Last
	metadata = protocol.Metadata
	seen     = protocol.UsageSeen
)

func TestEvent(t *testing.T) {
	for _, tc := range []struct {
		data   string
		flags  protocol.Flags
		finish string
	}{
		{`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","error":null,"output":[],"usage":null,"model":"m"}}`, metadata, ""},
		{`{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","status":"in_progress","error":null,"output":[]}}`, metadata, ""},
		{`{"type":"response.queued","sequence_number":1,"response":{"id":"resp_1","status":"queued"}}`, metadata, ""},
		{`{"type":"keepalive","sequence_number":3}`, metadata, ""},
		{`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]},"sequence_number":2}`, protocol.Reasoning, ""},
		{`{"type":"response.reasoning_summary_part.added","item_id":"rs_1","summary_index":0,"part":{"type":"summary_text","text":""}}`, protocol.Reasoning, ""},
		{`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","summary_index":0,"delta":"hm"}`, thought, ""},
		{`{"type":"response.reasoning_text.delta","item_id":"rs_1","delta":"hm"}`, thought, ""},
		{`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}`, metadata, ""},
		{`{"type":"response.content_part.added","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`, metadata, ""},
		{`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"hello","logprobs":[],"sequence_number":7,"obfuscation":"x"}`, text, ""},
		{`{"delta":"hello","type":"response.output_text.delta"}`, text, ""},
		{`{"type":"response.output_text.delta","delta":""}`, metadata, ""},
		{`{"type":"response.output_text.done","text":"hello"}`, content, ""},
		{`{"type":"response.refusal.delta","delta":"no"}`, content, ""},
		{`{"type":"response.audio.delta","delta":"AAAA"}`, content, ""},
		{`{"type":"response.audio.transcript.delta","delta":"a"}`, content, ""},
		{`{"type":"response.image_generation_call.partial_image","partial_image_b64":"AAAA","partial_image_index":0}`, content, ""},
		{`{"type":"response.output_item.added","item":{"type":"function_call","id":"fc","call_id":"c","name":"read","arguments":""}}`, tool, ""},
		{`{"type":"response.output_item.added","item":{"type":"function_call","id":"fc","name":"","arguments":""}}`, protocol.Tool, ""},
		{`{"type":"response.function_call_arguments.delta","delta":"{\"a\""}`, tool, ""},
		{`{"type":"response.function_call_arguments.done","arguments":"{}"}`, tool, ""},
		{`{"type":"response.custom_tool_call_input.delta","delta":"x"}`, tool, ""},
		{`{"type":"response.output_item.added","item":{"type":"web_search_call","id":"ws","status":"in_progress"}}`, content | protocol.ToolOpen, ""},
		{`{"type":"response.web_search_call.searching","item_id":"ws"}`, metadata, ""},
		{`{"type":"response.output_item.done","item":{"type":"web_search_call","id":"ws","status":"completed"}}`, content | protocol.ToolClosed, ""},
		{`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"hello"}]}}`, content, ""},
		{`{"type":"response.output_text.annotation.added","annotation":{"type":"url_citation"}}`, metadata, ""},
		{`{"type":"response.completed","response":{"id":"resp_1","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"hello"}]}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}}`, content | end | seen, "completed"},
		{`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`, end | protocol.Length, "max_output_tokens"},
		{`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}}`, end | protocol.Refused, "content_filter"},
		{`[DONE]`, protocol.Last, ""},
		{`{"broken`, protocol.Malformed, ""},
	} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(tc.data), &s)
		if s.Flags != tc.flags || s.Finish != tc.finish {
			t.Errorf("%s\n%s %q, want %s %q", tc.data, s.Flags, s.Finish, tc.flags, tc.finish)
		}
	}
	var s protocol.Signal
	Family{}.Event([]byte("response.output_text.delta"), []byte(`{"delta":"x"}`), &s)
	if s.Flags != text {
		t.Errorf("the name of the event is not used: %s", s.Flags)
	}
}

// TestErrors: P2, P68, P73: every form of failure is an error with a status of its own.
func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		name, data          string
		status              int
		code, typ, messsage string
	}{
		{"error", `{"type":"error","error":{"code":"insufficient_quota"}}`, 429, "insufficient_quota", "", ""},
		{"error", `{"type":"error","sequence_number":3,"code":"server_error","message":"m","param":null}`, 500, "server_error", "", "m"},
		{"", `{"type":"error","status":400,"error":{"type":"invalid_request_error","code":"previous_response_not_found","message":"m"}}`, 400, "previous_response_not_found", "invalid_request_error", "m"},
		{"", `{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"invalid_prompt","message":"m"}}}`, 400, "invalid_prompt", "", "m"},
		{"", `{"type":"response.failed","response":{"status":"failed","error":{"code":"image_parse_error","message":"m"}}}`, 400, "image_parse_error", "", "m"},
		{"", `{"type":"response.failed","response":{"status":"failed","error":{"code":"vector_store_timeout","message":"m"}}}`, 504, "vector_store_timeout", "", "m"},
		{"", `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}}`, 429, "rate_limit_exceeded", "", "m"},
		{"", `{"type":"response.failed","response":{"status":"failed","error":null}}`, 500, "server_error", "", "the response ended as failed"},
		{"", `{"type":"response.completed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}`, 500, "server_error", "", "m"},
		{"", `{"error":{"message":"m","type":"server_error"}}`, 500, "", "server_error", "m"},
		{"error", `{"message":"m"}`, 502, "", "", "m"},
	} {
		var s protocol.Signal
		Family{}.Event([]byte(tc.name), []byte(tc.data), &s)
		if s.Flags.Any(metadata|protocol.Terminal) || !s.Flags.Has(failure) || s.ErrStatus != tc.status || s.Code != tc.code || s.Type != tc.typ || s.Message != tc.messsage || len(s.ErrBody) == 0 {
			t.Errorf("%s: %s %d %q %q %q", tc.data, s.Flags, s.ErrStatus, s.Code, s.Type, s.Message)
		}
	}
}

func TestBody(t *testing.T) {
	for _, tc := range []struct {
		body  string
		flags protocol.Flags
		usage gateway.Usage
		empty bool
	}{
		{`{"id":"r","object":"response","status":"completed","error":null,"output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":3,"output_tokens":2}}`,
			content | protocol.Reasoning | protocol.Terminal | seen, gateway.Usage{Input: 3, Output: 2}, false},
		{`{"object":"response","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{}"}]}`, tool | protocol.Terminal, gateway.Usage{}, false},
		{`{"object":"response","status":"completed","output":[]}`, protocol.Terminal, gateway.Usage{}, true},
		{`{"object":"response","status":"in_progress","output":[]}`, metadata, gateway.Usage{}, true},
		{`{"object":"response","status":"failed","error":{"code":"server_error","message":"m"},"output":[]}`, protocol.Error, gateway.Usage{}, false},
		{`{"object":"response","status":"failed","output":[]}`, protocol.Error, gateway.Usage{}, false},
		{`{"error":{"message":"m"}}`, protocol.Error, gateway.Usage{}, false},
		{`{"object":"list","data":[]}`, protocol.NotCompletion | metadata, gateway.Usage{}, false},
		{`<html>`, protocol.NotCompletion | protocol.Malformed, gateway.Usage{}, false},
	} {
		var s protocol.Signal
		Family{}.Body("", []byte(tc.body), &s)
		if s.Flags != tc.flags || s.Usage != tc.usage || s.Empty() != tc.empty {
			t.Errorf("%s\n%s %+v %v, want %s", tc.body, s.Flags, s.Usage, s.Empty(), tc.flags)
		}
	}
}

// TestFailedIsNumberedOn: the failure event carries id, model and the next sequence number, and reads as an error.
func TestFailedIsNumberedOn(t *testing.T) {
	var st protocol.StreamState
	for _, data := range []string{
		`{"type":"response.created","sequence_number":0,"response":{"id":"resp_\u0031","model":"m","output":[]}}`,
		`{"type":"response.output_text.delta","sequence_number":41,"delta":"x"}`,
	} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(data), &s)
		st.Observe(&s)
	}
	out := string(Family{}.StreamError(nil, &gateway.Error{Code: gateway.UpstreamStreamError, Message: "m"}, &st))
	data, ok := strings.CutPrefix(out, "event: response.failed\ndata: ")
	if !ok || !strings.Contains(data, `"sequence_number":42,`) || !strings.Contains(data, `"id":"resp_1"`) || !st.Closed || st.NextSequence != 43 {
		t.Fatal(out, st)
	}
	var s protocol.Signal
	Family{}.Event([]byte("response.failed"), []byte(data), &s)
	if !s.Flags.Has(failure) || s.Code != string(gateway.UpstreamStreamError) || s.ErrStatus != 502 || s.NextSequence != 43 {
		t.Errorf("%s %+v", s.Flags, s)
	}
}

func TestReplaceModel(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"response.created","response":{"id":"r", "model" : "up\"x" ,"output":[]}}`: `{"type":"response.created","response":{"id":"r", "model" : "smart" ,"output":[]}}`,
		`{"object":"response","model":"up"}`:                                                `{"object":"response","model":"smart"}`,
		`{"type":"response.output_text.delta","delta":"\"model\":\"up\""}`:                  `{"type":"response.output_text.delta","delta":"\"model\":\"up\""}`,
	} {
		if d := cmp.Diff("x"+want, string(Family{}.ReplaceModel([]byte("x"), []byte(in), "smart"))); d != "" {
			t.Error(d)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	data := []byte(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":" hello","logprobs":[],"sequence_number":7,"obfuscation":"abcdef"}`)
	name := []byte("response.output_text.delta")
	b.ReportAllocs()
	var s protocol.Signal
	for b.Loop() {
		s.Reset()
		Family{}.Event(name, data, &s)
	}
}
