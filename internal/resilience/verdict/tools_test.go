package verdict

import (
	"encoding/json"
	"testing"

	"spillway/internal/gateway"
)

// TestTooManyTools: the number is read from the words of many providers, and from nothing else.
func TestTooManyTools(t *testing.T) {
	for text, want := range map[string]int{
		"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead.": 128,
		"Invalid 'functions': array too long. Expected an array with maximum length 64, but got an array with length 65.":       64,
		"'tools' : maximum number of items is 128":                                                    128,
		"tools: List should have at most 128 items after validation, not 200":                         128,
		"tools.0.function_declarations: List should have at most 512 items after validation, not 600": 512,
		"Cannot have more than 128 tools per request.":                                                128,
		"A maximum of 128 functions can be provided":                                                  128,
		"At most 100 function declarations are supported in a request.":                               100,
		"The maximum number of tools is 128, got 140":                                                 128,
		"Maximum tools allowed: 20":                                                                   20,
		"Too many tools: 129 (max 128)":                                                               128,
		"Too many tools provided. The limit is 64.":                                                   64,
		"The number of function declarations exceeds the limit of 512.":                               512,
		"number of tools 140 exceeds maximum 128":                                                     128,
		"This model supports up to 16 tools":                                                          16,

		"Invalid 'tools[3].function.name': string too long. Expected a string with maximum length 64, but got a string with length 70.": 0,
		"tools.0.function.description: String should have at most 1024 characters":                                                      0,
		"Invalid 'tools': empty array. Expected an array with minimum length 1.":                                                        0,
		"tools.0.name: at most 64 characters":                                                                                           0,
		"tools.0.name: String should have at most 64 characters":                                                                        0,
		"tools is not supported": 0,
		"This model's maximum context length is 8192 tokens, tools included": 0,
		"max_tokens must be at most 4096":                                    0,
		"messages: at most 100 images are allowed":                           0,
		"Rate limit reached: 20 requests per minute, limit 20":               0,
	} {
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error"}})
		e := evidence(func(e *Evidence) { e.Status, e.Body = 400, body })
		o := mustCompile(t, nil).Judge(e)
		if o.ToolLimit != want {
			t.Errorf("%q: limit %d, want %d", text, o.ToolLimit, want)
		}
		if isIt := o.Reason == gateway.CapabilityRefused && o.Quirk == TooManyTools && o.Kind == gateway.Alive; isIt != (want > 0) {
			t.Errorf("%q: %s %s %s", text, o.Kind, o.Reason, o.Quirk)
		}
		e.RequestText = func() []byte { return []byte(`{"messages":[{"content":` + string(mustJSON(text)) + `}]}`) }
		if o := mustCompile(t, nil).Judge(e); o.ToolLimit != 0 {
			t.Errorf("%q stands in the request and teaches a limit", text)
		}
	}
}

func mustJSON(v any) []byte { b, _ := json.Marshal(v); return b }
