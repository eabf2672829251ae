package anthropic

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

const (
	text     = protocol.Content | protocol.Text
	thought  = protocol.Content | protocol.Reasoning
	tool     = protocol.Content | protocol.Tool
	opened   = protocol.BlockOpen
	metadata = protocol.Metadata
	seen     = protocol.UsageSeen
)

const start = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":10,"cache_read_input_tokens":100,"output_tokens":1}}}`

func TestEvent(t *testing.T) {
	for _, tc := range []struct {
		data   string
		flags  protocol.Flags
		finish string
	}{
		{start, metadata | seen, ""},
		{`{"type": "ping"}`, metadata, ""},
		{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, metadata | opened, ""},
		{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`, text, ""},
		{`{"delta":{"text":"Hi","type":"text_delta"},"index":0,"type":"content_block_delta"}        `, text, ""},
		{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}`, metadata, ""},
		{`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`, protocol.Reasoning | opened, ""},
		{`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`, thought, ""},
		{`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":""}}`, protocol.Reasoning, ""},
		{`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}`, protocol.Reasoning, ""},
		{`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"EqQB"}}`, protocol.Reasoning | opened, ""},
		{`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location"}}}`, metadata, ""},
		{`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"Read","input":{}}}`, tool | opened, ""},
		{`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`, protocol.Tool, ""},
		{`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`, tool, ""},
		{`{"type":"content_block_stop","index":1}`, metadata | protocol.BlockClosed, ""},
		{`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`, protocol.Content | protocol.ToolOpen | opened, ""},
		{`{"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}}`, protocol.Content | protocol.ToolClosed | opened, ""},
		{`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`, protocol.Terminal | seen, "end_turn"},
		{`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, protocol.Terminal | protocol.Length, "max_tokens"},
		{`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, protocol.Terminal | protocol.Refused, "refusal"},
		{`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}`, metadata | seen, ""},
		{`{"type":"message_stop"}`, protocol.Terminal | protocol.Last, ""},
		{`{"type":"something_new","x":1}`, metadata, ""},
		{`{"broken`, protocol.Malformed, ""},
	} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(tc.data), &s)
		if s.Flags != tc.flags || s.Finish != tc.finish {
			t.Errorf("%s\n%s %q, want %s %q", tc.data, s.Flags, s.Finish, tc.flags, tc.finish)
		}
	}
}

// TestP5Overloaded: an error event after 200 is an error with the status it would have had.
func TestP5Overloaded(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		status     int
		typ        string
	}{
		{"error", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, 529, "overloaded_error"},
		{"", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, 529, "overloaded_error"},
		{"error", `{"type":"error","error":{"type":"rate_limit_error","message":"m"},"request_id":"req_1"}`, 429, "rate_limit_error"},
		{"error", `{"type":"error","error":{"type":"api_error","message":"m"}}`, 500, "api_error"},
		{"error", `{"type":"error","error":{"type":"timeout_error","message":"m"}}`, 504, "timeout_error"},
		{"error", `{"message":"m"}`, 502, ""},
		{"", `{"error":{"message":"m","type":"server_error"}}`, 500, "server_error"},
	} {
		var s protocol.Signal
		Family{}.Event([]byte(tc.name), []byte(tc.data), &s)
		if s.Flags != protocol.Error|protocol.Last || s.ErrStatus != tc.status || s.Type != tc.typ || s.Message != "m" {
			t.Errorf("%s: %s %d %q %q", tc.data, s.Flags, s.ErrStatus, s.Type, s.Message)
		}
	}
}

func TestBody(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		flags      protocol.Flags
		usage      gateway.Usage
		empty      bool
	}{
		{"answer", `{"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":2}}`,
			text | protocol.Terminal | seen, gateway.Usage{Input: 10, CachedInput: 7, Output: 2}, false},
		{"tools", `{"type":"message","content":[{"type":"server_tool_use","name":"web_search"},{"type":"tool_use","name":"f","input":{}}],"stop_reason":"tool_use"}`, tool | protocol.Terminal, gateway.Usage{}, false},
		{"O14 filtered without a block", `{"type":"message","content":[],"stop_reason":"content_filter","usage":{"input_tokens":3,"output_tokens":0}}`, protocol.Terminal | protocol.Refused | seen, gateway.Usage{Input: 3}, false},
		{"empty", `{"type":"message","content":[],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":0}}`, protocol.Terminal | seen, gateway.Usage{Input: 3}, true},
		{"error", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, protocol.Error, gateway.Usage{}, false},
		{"error without an object", `{"type":"error","message":"m"}`, protocol.Error, gateway.Usage{}, false},
		{"chat", `{"choices":[]}`, protocol.NotCompletion | metadata, gateway.Usage{}, false},
		{"html", `<html>`, protocol.NotCompletion | protocol.Malformed, gateway.Usage{}, false},
	} {
		var s protocol.Signal
		Family{}.Body("", []byte(tc.body), &s)
		if s.Flags != tc.flags || s.Usage != tc.usage || s.Empty() != tc.empty {
			t.Errorf("%s: %s %+v %v, want %s", tc.name, s.Flags, s.Usage, s.Empty(), tc.flags)
		}
	}
}

// TestP61UsageAtTheEnd: the totals of message_delta replace those of message_start.
func TestP61UsageAtTheEnd(t *testing.T) {
	var sum protocol.Signal
	for _, data := range []string{start, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":25,"cache_creation_input_tokens":10,"cache_read_input_tokens":300,"output_tokens":40}}`} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(data), &s)
		sum.Add(&s)
	}
	if want := (gateway.Usage{Input: 335, CachedInput: 300, Output: 40}); sum.Usage != want || sum.Finish != "end_turn" {
		t.Errorf("%+v", sum.Usage)
	}
}

// TestP76ErrorAfterContent: blocks that are open are closed, then comes the error event that P74 asks for, and nothing
// that looks like an end.
func TestP76ErrorAfterContent(t *testing.T) {
	var st protocol.StreamState
	for _, data := range []string{start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, `{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x"}}`} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(data), &s)
		st.Observe(&s)
	}
	out := string(Family{}.StreamError(nil, &gateway.Error{Code: gateway.UpstreamStreamError, Status: 529, Message: "m"}, &st))
	want := "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n" +
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\",\"code\":\"upstream_stream_error\",\"status\":529,\"details\":{\"error_code\":\"upstream_stream_error\"}}}\n\n"
	if d := cmp.Diff(want, out); d != "" || st.Open != 0 || !st.Closed {
		t.Error(d)
	}
	if again := string(Family{}.StreamError(nil, &gateway.Error{Code: gateway.Internal}, nil)); strings.Contains(again, "content_block") {
		t.Error(again)
	}
}

func TestServerToolsAreCounted(t *testing.T) {
	var st protocol.StreamState
	for i, data := range []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","name":"a"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"mcp_tool_use","name":"b"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","content":[]}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"mcp_tool_result","content":[]}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"mcp_tool_result","content":[]}}`,
	} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(data), &s)
		st.Observe(&s)
		if want := []int{1, 2, 1, 0, 0}[i]; st.ServerTools != want {
			t.Errorf("after %s: %d", data, st.ServerTools)
		}
	}
}

func TestAuthorize(t *testing.T) {
	cand := func(class gateway.Class, header string) gateway.Candidate {
		return gateway.Candidate{Connection: &gateway.Connection{Provider: &gateway.Provider{Class: class, AuthHeader: header}}}
	}
	for _, tc := range []struct {
		version string
		cand    gateway.Candidate
		want    http.Header
	}{
		{"", cand(gateway.APIKey, ""), http.Header{"Anthropic-Version": {Version}, "X-Api-Key": {"k"}}},
		{"2026-10-21", cand(gateway.APIKey, ""), http.Header{"Anthropic-Version": {"2026-10-21"}, "Authorization": {"Bearer k"}}},
		{"", cand(gateway.OAuth, ""), http.Header{"Anthropic-Version": {Version}, "Authorization": {"Bearer k"}}},
		{"", cand(gateway.APIKey, "api-key"), http.Header{"Anthropic-Version": {Version}, "Api-Key": {"k"}}},
	} {
		h := http.Header{}
		if tc.version != "" {
			h.Set("anthropic-version", tc.version)
		}
		Family{}.Authorize(h, tc.cand, "k")
		if d := cmp.Diff(tc.want, h); d != "" {
			t.Error(d)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	data := []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" hello"}}`)
	name := []byte("content_block_delta")
	b.ReportAllocs()
	var s protocol.Signal
	for b.Loop() {
		s.Reset()
		Family{}.Event(name, data, &s)
	}
}
