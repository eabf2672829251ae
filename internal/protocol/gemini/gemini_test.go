package gemini

import (
	"testing"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

const (
	text     = protocol.Content | protocol.Text
	thought  = protocol.Content | protocol.Reasoning
	tool     = protocol.Content | protocol.Tool
	terminal = protocol.Terminal
	metadata = protocol.Metadata
	seen     = protocol.UsageSeen
)

func parts(p string) string {
	return `{"candidates":[{"content":{"parts":[` + p + `],"role":"model"},"index":0}],"modelVersion":"gemini-3","responseId":"r"}`
}

func TestEvent(t *testing.T) {
	for _, tc := range []struct {
		data   string
		flags  protocol.Flags
		finish string
	}{
		{parts(`{"text":"hi"}`), text, ""},
		{parts(`{"text":""}`), metadata, ""},
		{parts(`{"text":"hm","thought":true}`), thought, ""},
		{parts(`{"thought":true,"text":""}`), protocol.Reasoning, ""},
		{parts(`{"text":"","thoughtSignature":"CiQ"}`), protocol.Reasoning, ""},
		{parts(`{"text":"hm","thought":true},{"text":"hi"}`), thought | text, ""},
		{parts(`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"CiQ"}`), tool | protocol.Reasoning, ""},
		{parts(`{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`), protocol.Content, ""},
		{parts(`{"executableCode":{"language":"PYTHON","code":"1"}}`), protocol.Content | protocol.ToolOpen, ""},
		{parts(`{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}`), protocol.Content | protocol.ToolClosed, ""},
		{parts(`{"executableCode":{"code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}`), protocol.Content, ""},
		{`{"candidates":[{"content":{"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3}}`, terminal | seen, "STOP"},
		{`{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}`, text | terminal, "STOP"},
		{`{"candidates":[{"finishReason":"MAX_TOKENS"}]}`, terminal | protocol.Length, "MAX_TOKENS"},
		{`{"candidates":[{"finishReason":"SAFETY","safetyRatings":[]}]}`, terminal | protocol.Refused, "SAFETY"},
		{`{"candidates":[{"finishReason":"IMAGE_SAFETY"}]}`, terminal | protocol.Refused, "IMAGE_SAFETY"},
		{`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, terminal | protocol.Odd, "MALFORMED_FUNCTION_CALL"},
		{`{"candidates":[{"finishReason":"FINISH_REASON_UNSPECIFIED"}]}`, metadata, ""},
		{`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":3}}`, terminal | protocol.Refused | seen, "PROHIBITED_CONTENT"},
		{`{"promptFeedback":{"safetyRatings":[]},"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`, text, ""},
		{`{"usageMetadata":{"promptTokenCount":3}}`, metadata | seen, ""},
		{`{"response":{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}}`, text, ""},
		{`{"broken`, protocol.Malformed, ""},
		{`[]`, protocol.Malformed, ""},
		{`"x"`, protocol.Malformed, ""},
	} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(tc.data), &s)
		if s.Flags != tc.flags || s.Finish != tc.finish {
			t.Errorf("%s\n%s %q, want %s %q", tc.data, s.Flags, s.Finish, tc.flags, tc.finish)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		data      string
		status    int
		code, typ string
	}{
		{`{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]}}`, 429, "429", "RESOURCE_EXHAUSTED"},
		{`[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`, 503, "503", "UNAVAILABLE"},
		{"{\n  \"error\": {\n    \"message\": \"m\",\n    \"status\": \"INTERNAL\"\n  }\n}\n", 500, "", "INTERNAL"},
		{`{"error":{"message":"m","status":"INVALID_ARGUMENT"}}`, 400, "", "INVALID_ARGUMENT"},
	} {
		for _, read := range []func(*protocol.Signal){
			func(s *protocol.Signal) { Family{}.Event(nil, []byte(tc.data), s) },
			func(s *protocol.Signal) { Family{}.Body("", []byte(tc.data), s) },
		} {
			var s protocol.Signal
			read(&s)
			if s.Flags != protocol.Error || s.ErrStatus != tc.status || s.Code != tc.code || s.Type != tc.typ || s.Message != "m" || len(s.ErrBody) == 0 {
				t.Errorf("%s: %s %d %q %q %q", tc.data, s.Flags, s.ErrStatus, s.Code, s.Type, s.Message)
			}
		}
	}
	var s protocol.Signal
	Family{}.Event(nil, []byte(`{"error":{}}`), &s)
	if s.Flags != protocol.Error || s.ErrStatus != 502 {
		t.Errorf("%s %d", s.Flags, s.ErrStatus)
	}
}

func TestBody(t *testing.T) {
	for _, tc := range []struct {
		body  string
		flags protocol.Flags
		usage gateway.Usage
	}{
		{`{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":6,"candidatesTokenCount":4,"thoughtsTokenCount":20,"toolUsePromptTokenCount":5,"totalTokenCount":39}}`,
			text | terminal | seen, gateway.Usage{Input: 15, CachedInput: 6, Output: 24, Reasoning: 20}},
		{`[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}]`, text | terminal, gateway.Usage{}},
		{`{"candidates":[]}`, metadata, gateway.Usage{}},
		{`{"embedding":{"values":[0.1]}}`, metadata | protocol.NotCompletion, gateway.Usage{}},
		{`<html>`, protocol.Malformed | protocol.NotCompletion, gateway.Usage{}},
	} {
		var s protocol.Signal
		Family{}.Body("", []byte(tc.body), &s)
		if s.Flags != tc.flags || s.Usage != tc.usage {
			t.Errorf("%s\n%s %+v, want %s", tc.body, s.Flags, s.Usage, tc.flags)
		}
	}
}

func TestUpstream(t *testing.T) {
	for _, tc := range []struct {
		base, model string
		stream      bool
		want        string
	}{
		{"https://g", "gemini-2.5-flash", true, "https://g/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"},
		{"https://g/v1/", "models/gemini 3", false, "https://g/v1/models/gemini%203:generateContent"},
		{"https://g/v1beta?x=1", "tunedModels/t", true, "https://g/v1beta/tunedModels/t:streamGenerateContent?x=1&alt=sse"},
	} {
		c := gateway.Candidate{Model: gateway.ModelID(tc.model)}
		if got := (Family{}).Upstream(tc.base, c, &gateway.Envelope{Stream: tc.stream}); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	data := []byte(`{"candidates":[{"content":{"parts":[{"text":" hello"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7},"modelVersion":"gemini-3","responseId":"r"}`)
	b.ReportAllocs()
	var s protocol.Signal
	for b.Loop() {
		s.Reset()
		Family{}.Event(nil, data, &s)
	}
}
