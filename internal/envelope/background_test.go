package envelope

import (
	"strings"
	"testing"

	"spillway/internal/gateway"
)

func TestBackgroundGoesUpstreamAsFalse(t *testing.T) {
	for _, row := range []struct {
		protocol gateway.Protocol
		body     string
		want     string // "" = as it came
	}{
		{gateway.Responses, `{"model":"a","background":true,"input":"x"}`, `{"model":"bb","background":false,"input":"x"}`},
		{gateway.Responses, `{ "background" : true , "input":"background: true", "model":"a"}`, `{ "background" : false , "input":"background: true", "model":"bb"}`},
		{gateway.Responses, `{"model":"a","background":false,"input":"x"}`, ""},
		{gateway.Responses, `{"model":"a","background":null,"input":"x"}`, ""},
		{gateway.Responses, `{"model":"a","background":"yes","input":"x"}`, ""},
		{gateway.Responses, `{"model":"a","input":"x"}`, ""},
		{gateway.OpenAI, `{"model":"a","background":true,"messages":[]}`, ""},
	} {
		e, gerr := Decode([]byte(row.body), Options{Protocol: row.protocol})
		if gerr != nil {
			t.Fatal(gerr)
		}
		want := row.want
		if want == "" {
			want = strings.Replace(row.body, `"model":"a"`, `"model":"bb"`, 1)
		}
		b := Apply(e, Edit{Model: "bb"})
		if have := string(b.Bytes()); have != want || e.Background.Set() != (row.want != "") {
			t.Errorf("%s\nhave %s\nwant %s", row.body, have, want)
		}
	}
}

func TestToolsAreCounted(t *testing.T) {
	for _, row := range []struct {
		protocol gateway.Protocol
		tools    string
		want     int
	}{
		{gateway.OpenAI, `[]`, 0},
		{gateway.OpenAI, `null`, 0},
		{gateway.OpenAI, `[{"type":"function","function":{"name":"a","parameters":{"properties":{"tools":[1,2]}}}},{"type":"function"}]`, 2},
		{gateway.Responses, `[{"type":"web_search"},{"type":"function"},{"type":"mcp"}]`, 3},
		{gateway.Anthropic, `[{"name":"a"}]`, 1},
		{gateway.Gemini, `[{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"googleSearch":{}}]`, 3},
		{gateway.Gemini, `[{"function_declarations":[{"name":"a"}]}]`, 1},
		{gateway.Gemini, `[{"functionDeclarations":null}]`, 1},
	} {
		e, gerr := Decode([]byte(`{"model":"m","tools":`+row.tools+`}`), Options{Protocol: row.protocol})
		if gerr != nil {
			t.Fatal(gerr)
		}
		if e.Tools != row.want {
			t.Errorf("%s: %d tools, want %d", row.tools, e.Tools, row.want)
		}
	}
}
