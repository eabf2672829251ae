package openai

import (
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
	terminal = protocol.Terminal
	metadata = protocol.Metadata
	seen     = protocol.UsageSeen
)

func chunk(choice string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[` + choice + `],"usage":null,"obfuscation":"abc"}`
}

func delta(d string) string {
	return chunk(`{"index":0,"delta":{` + d + `},"logprobs":null,"finish_reason":null}`)
}

func TestEvent(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		flags      protocol.Flags
		finish     string
	}{
		{"role only", delta(`"role":"assistant","content":"","refusal":null`), metadata, ""},
		{"text", delta(`"content":"hello"`), text, ""},
		{"spaced and reordered", " { \"choices\" : [ { \"finish_reason\" : null , \"delta\" : { \"content\" : \"h\\\"\\u00e9\" } , \"index\" : 0 } ] } ", text, ""},
		{"parts", delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":""}]`), thought, ""},
		{"text parts", delta(`"content":[{"type":"text","text":"hm"}]`), text, ""},
		{"reasoning_content", delta(`"content":null,"reasoning_content":"hm"`), thought, ""},
		{"reasoning null", delta(`"content":"x","reasoning_content":null`), text, ""},
		{"reasoning", delta(`"content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":null,"index":0}]`), thought, ""},
		{"empty reasoning", delta(`"reasoning_content":""`), protocol.Reasoning, ""},
		{"encrypted reasoning", delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"gAAAA","index":0}]`), protocol.Reasoning, ""},
		{"tool name", delta(`"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":""}}]`), tool, ""},
		{"tool arguments", delta(`"tool_calls":[{"index":0,"function":{"arguments":"{\"id\":9007199254740993"}}]`), tool, ""},
		{"tool arguments as an object", delta(`"tool_calls":[{"function":{"arguments":{"a":1}}}]`), tool, ""},
		{"tool without anything", delta(`"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"","arguments":""}}]`), protocol.Tool, ""},
		{"no tools", delta(`"content":"","tool_calls":[]`), metadata, ""},
		{"function call", delta(`"function_call":{"name":"f"}`), tool, ""},
		{"custom tool", delta(`"tool_calls":[{"index":0,"custom":{"name":"c","input":""}}]`), tool, ""},
		{"refusal", delta(`"refusal":"I can't"`), content, ""},
		{"audio", delta(`"audio":{"id":"a","data":"AAAA"}`), content, ""},
		{"audio id", delta(`"audio":{"id":"a","expires_at":1}`), metadata, ""},
		{"image", delta(`"content":"","images":[{"type":"image_url","image_url":{"url":"data:"}}]`), content, ""},
		{"legacy completions", `{"object":"text_completion","choices":[{"text":"hi","index":0,"finish_reason":null}]}`, text, ""},
		{"stop", chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`), terminal, "stop"},
		{"length", chunk(`{"index":0,"delta":{},"finish_reason":"length"}`), terminal | protocol.Length, "length"},
		{"tool_calls", chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`), terminal, "tool_calls"},
		{"content_filter", chunk(`{"index":0,"delta":{},"finish_reason":"content_filter"}`), terminal | protocol.Refused, "content_filter"},
		{"empty finish reason", chunk(`{"index":0,"delta":{"content":"x"},"finish_reason":""}`), text, ""},
		{"done", "[DONE]", protocol.Last, ""},
		{"done with space", " [DONE] ", protocol.Last, ""},
		{"azure prompt filter", `{"choices":[],"prompt_filter_results":[{"prompt_index":0}],"object":""}`, metadata, ""},
		{"usage only", `{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, seen | protocol.UsageOnly, ""},
		{"usage before choices", `{"usage":{"prompt_tokens":5},"choices":[{"delta":{"content":"x"}}]}`, seen | text, ""},
		{"ping", `{"type":"ping"}`, metadata, ""},
		{"error null", `{"error":null,"choices":[{"delta":{"content":"x"}}]}`, text, ""},
		{"error empty beside content", `{"error":{},"choices":[{"delta":{"content":"x"}}]}`, text, ""},
		{"minimax all is well", `{"choices":[{"delta":{"content":"x"}}],"base_resp":{"status_code":0,"status_msg":""}}`, text, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s protocol.Signal
			Family{}.Event(nil, []byte(tc.data), &s)
			if s.Flags != tc.flags || s.Finish != tc.finish {
				t.Errorf("%s %q, want %s %q", s.Flags, s.Finish, tc.flags, tc.finish)
			}
		})
	}
}

type fault struct {
	Status              int
	Code, Type, Message string
}

// TestErrors: P19, P63, P67 and the forms of compatible services, as an event and as a body with 200.
func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		want       fault
	}{
		{"P19 first data", `{"error":{"code":"rate_limit_exceeded"}}`, fault{429, "rate_limit_exceeded", "", ""}},
		{"openai", `{"error":{"message":"slow \"down\"","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, fault{429, "rate_limit_exceeded", "tokens", `slow "down"`}},
		{"quota", `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`, fault{429, "insufficient_quota", "insufficient_quota", "m"}},
		{"server error", `{"error":{"message":"m","type":"server_error","code":null}}`, fault{500, "", "server_error", "m"}},
		{"P67 choices and error", `{"id":"x","object":"chat.completion.chunk","error":{"code":502,"message":"provider_unavailable"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, fault{502, "502", "", "provider_unavailable"}},
		{"P67 finish reason alone", `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, fault{502, "", "", "the stream ended with finish_reason error"}},
		{"P67 empty choices", `{"error":{"code":429,"message":"m"},"choices":[]}`, fault{429, "429", "", "m"}},
		{"choice error", `{"choices":[{"error":{"code":503,"message":"m"},"message":{"content":""}}]}`, fault{503, "503", "", "m"}},
		{"numeric text", `{"error":{"code":"503","message":"m"}}`, fault{503, "503", "", "m"}},
		{"P77 status first", `{"error":{"code":404,"type":"invalid_request_error","message":"m"}}`, fault{404, "404", "invalid_request_error", "m"}},
		{"text", `{"error":"model requires more system memory"}`, fault{502, "", "", "model requires more system memory"}},
		{"empty object", `{"error":{}}`, fault{502, "", "", ""}},
		{"true", `{"error":true,"message":"m","status":503}`, fault{503, "503", "", "m"}},
		{"type error", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, fault{529, "", "overloaded_error", "m"}},
		{"type error flat", `{"type":"error","message":"m","code":"server_error"}`, fault{500, "server_error", "", "m"}},
		{"vllm", `{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`, fault{400, "400", "BadRequestError", "m"}},
		{"fastapi", `{"detail":"Not Found"}`, fault{502, "", "", "Not Found"}},
		{"fastapi list", `{"detail":[{"loc":["body"],"msg":"field required","type":"value_error"}]}`, fault{502, "", "value_error", "field required"}},
		{"google array", `[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`, fault{503, "503", "UNAVAILABLE", "m"}},
		{"google words", `{"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}`, fault{429, "", "RESOURCE_EXHAUSTED", "m"}},
		{"zhipu", `{"error":{"code":"1302","message":"m"}}`, fault{429, "1302", "", "m"}},
		{"minimax", `{"id":"x","choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`, fault{429, "1002", "", "rate limit"}},
		{"minimax balance", `{"base_resp":{"status_code":1008,"status_msg":"m"}}`, fault{402, "1008", "", "m"}},
		{"code and msg", `{"code":500,"msg":"404 NOT_FOUND","success":false}`, fault{500, "500", "", "404 NOT_FOUND"}},
		{"baidu", `{"error_code":17,"error_msg":"m"}`, fault{502, "17", "", "m"}},
		{"nested", `{"error":{"error":{"message":"m","type":"rate_limit_error"}}}`, fault{429, "", "rate_limit_error", "m"}},
		{"groq", `{"choices":[{"delta":{}}],"x_groq":{"id":"r","error":"over capacity"}}`, fault{502, "", "", "over capacity"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for form, read := range map[string]func(*protocol.Signal){
				"event": func(s *protocol.Signal) { Family{}.Event(nil, []byte(tc.data), s) },
				"body":  func(s *protocol.Signal) { Family{}.Body("application/json", []byte(tc.data), s) },
			} {
				var s protocol.Signal
				read(&s)
				if !s.Flags.Has(protocol.Error) || s.Flags.Any(protocol.NotCompletion|protocol.Terminal|protocol.Malformed|protocol.Metadata) || len(s.ErrBody) == 0 {
					t.Errorf("%s: flags %s, body %q", form, s.Flags, s.ErrBody)
				}
				if d := cmp.Diff(tc.want, fault{s.ErrStatus, s.Code, s.Type, s.Message}); d != "" {
					t.Errorf("%s: %s", form, d)
				}
			}
		})
	}
	var s protocol.Signal
	Family{}.Event([]byte("error"), []byte(`{"status":503}`), &s)
	if !s.Flags.Has(protocol.Error) || s.ErrStatus != 503 {
		t.Errorf("an event named error: %s %d", s.Flags, s.ErrStatus)
	}
}

// TestP1MalformedEvent: a broken event says nothing, so that it can be skipped.
func TestP1MalformedEvent(t *testing.T) {
	for _, data := range []string{`{"broken`, `{"choices":[{"delta":{"content":"x"}}]`, `{"choices":[]}{"choices":[]}`, `null`, `"x"`, `[]`, `[{"choices":[]}]`, ``, `<html>`, "{\"error\":{\"code\":429}", `{"choices":[{"delta":{"content":"a` + "\x01" + `"}}]}`} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(data), &s)
		if d := cmp.Diff(protocol.Signal{Flags: protocol.Malformed}, s); d != "" {
			t.Errorf("%q: %s", data, d)
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
		{"answer", `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":3}}}`,
			text | terminal | seen, gateway.Usage{Input: 10, CachedInput: 8, Output: 4, Reasoning: 3}, false},
		{"deepseek usage", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":4}}`,
			text | terminal | seen, gateway.Usage{Input: 10, CachedInput: 6, Output: 4}, false},
		{"P65 empty", `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":14903,"completion_tokens":0,"total_tokens":14903}}`,
			terminal | seen, gateway.Usage{Input: 14903}, true},
		{"P65 tool calls only", `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, tool | terminal, gateway.Usage{}, false},
		{"P65 refusal", `{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}`, content | terminal, gateway.Usage{}, false},
		{"P65 reasoning only", `{"choices":[{"message":{"content":"","reasoning_content":"hm"},"finish_reason":"stop"}]}`, thought | terminal, gateway.Usage{}, false},
		{"length stop", `{"choices":[{"message":{"content":""},"finish_reason":"length"}]}`, terminal | protocol.Length, gateway.Usage{}, false},
		{"filtered", `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`, terminal | protocol.Refused, gateway.Usage{}, false},
		{"no choices", `{"id":"c","choices":[]}`, metadata, gateway.Usage{}, true},
		{"html", `<!DOCTYPE html><html>502</html>`, protocol.Malformed | protocol.NotCompletion, gateway.Usage{}, false},
		{"array", `[1,2]`, protocol.Malformed | protocol.NotCompletion, gateway.Usage{}, false},
		{"nothing", ``, protocol.Malformed | protocol.NotCompletion, gateway.Usage{}, false},
		{"cut", `{"choices":[{"message":{"content":"hi"`, protocol.Malformed | protocol.NotCompletion, gateway.Usage{}, false},
		{"another shape", `{"ok":1}`, protocol.NotCompletion | metadata, gateway.Usage{}, false},
		{"embeddings", `{"object":"list","data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`, protocol.NotCompletion | seen | metadata, gateway.Usage{Input: 3}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s protocol.Signal
			Family{}.Body("application/json", []byte(tc.body), &s)
			if s.Flags != tc.flags || s.Usage != tc.usage || s.Empty() != tc.empty {
				t.Errorf("%s %+v empty %v\nwant %s %+v empty %v", s.Flags, s.Usage, s.Empty(), tc.flags, tc.usage, tc.empty)
			}
		})
	}
}

// TestP60UsageInLastChunk: usage on the chunk with the finish reason, and in the places of compatible services.
func TestP60UsageInLastChunk(t *testing.T) {
	for _, data := range []string{
		`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":3}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":3}}}`,
	} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(data), &s)
		if !s.Flags.Has(seen|terminal) || s.Flags.Has(protocol.UsageOnly) || s.Usage != (gateway.Usage{Input: 7, Output: 3}) {
			t.Errorf("%s: %s %+v", data, s.Flags, s.Usage)
		}
	}
}

// TestManyChoices: with n > 1 the stream is complete when every choice that began has ended.
func TestManyChoices(t *testing.T) {
	var st protocol.StreamState
	for _, step := range []struct {
		data     string
		complete bool
	}{
		{chunk(`{"index":0,"delta":{"content":"a"}}`), false},
		{chunk(`{"index":1,"delta":{"content":"b"}}`), false},
		{chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`), false},
		{chunk(`{"index":1,"delta":{"content":"c"}}`), false},
		{chunk(`{"index":1,"delta":{},"finish_reason":"length"}`), true},
	} {
		var s protocol.Signal
		Family{}.Event(nil, []byte(step.data), &s)
		st.Observe(&s)
		if st.Complete() != step.complete {
			t.Errorf("%s: complete %v", step.data, st.Complete())
		}
	}
	if st.ID != "chatcmpl-1" || st.Model != "gpt-5.1" {
		t.Errorf("%+v", st)
	}
}

func BenchmarkEvent(b *testing.B) {
	data := []byte(delta(`"content":" hello"`))
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	var s protocol.Signal
	for b.Loop() {
		s.Reset()
		Family{}.Event(nil, data, &s)
	}
}
