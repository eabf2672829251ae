package envelope

import (
	"testing"

	"spillway/internal/gateway"
)

func TestAsks(t *testing.T) {
	for _, row := range []struct {
		protocol gateway.Protocol
		feature  string
		body     string
		want     bool
	}{
		{gateway.OpenAI, "tools", `{"model":"m","tools":[{"type":"function"}]}`, true},
		{gateway.OpenAI, "tools", `{"model":"m","tools":[]}`, false},
		{gateway.OpenAI, "tools", `{"model":"m","functions":[{"name":"f"}]}`, true},
		{gateway.OpenAI, "vision", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, true},
		{gateway.OpenAI, "vision", `{"model":"m","messages":[{"role":"user","content":"what is \"image_url\"?"}]}`, false},
		{gateway.Anthropic, "vision", `{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, true},
		{gateway.Gemini, "vision", `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png"}}]}],"model":"m"}`, true},
		{gateway.OpenAI, "response_format", `{"model":"m","response_format":{"type":"json_object"}}`, true},
		{gateway.OpenAI, "response_format", `{"model":"m"}`, false},
		{gateway.OpenAI, "reasoning", `{"model":"m","reasoning_effort":"high"}`, true},
		{gateway.OpenAI, "reasoning", `{"model":"m","reasoning_effort":"none"}`, false},
		{gateway.OpenAI, "stream", `{"model":"m","stream":true}`, true},
		{gateway.OpenAI, "temperature", `{"model":"m","temperature":0.5}`, true},
		{gateway.OpenAI, "temperature", `{"model":"m"}`, false},
		{gateway.Anthropic, "prefill", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, true},
		{gateway.Anthropic, "prefill", `{"model":"m","messages":[{"role":"assistant","content":"b"},{ "content":"a", "role" : "user"}]}`, false},
		{gateway.Anthropic, "prefill", `{"model":"m"}`, false},
	} {
		o := Options{Protocol: row.protocol}
		if row.protocol == gateway.Gemini {
			o.Model = "m"
		}
		e, gerr := Decode([]byte(row.body), o)
		if gerr != nil {
			t.Fatal(gerr)
		}
		if have := Asks(e, row.feature); have != row.want {
			t.Errorf("%s in %s: %t", row.feature, row.body, have)
		}
	}
}
