package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// read is decodeChat by way of encoding/json.
func read(body []byte) (Call, error) {
	c := Call{Op: Generate, InputTokens: len(body)/4 + 1}
	var in struct {
		Model     string     `json:"model"`
		Stream    bool       `json:"stream"`
		Messages  []message  `json:"messages"`
		Tools     []toolSpec `json:"tools"`
		Choice    any        `json:"tool_choice"`
		MaxTokens int        `json:"max_tokens"`
		MaxComp   int        `json:"max_completion_tokens"`
		Options   struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return c, err
	}
	c.Model, c.Stream, c.IncludeUsage = in.Model, in.Stream, in.Options.IncludeUsage
	c.MaxTokens = max(in.MaxTokens, in.MaxComp)
	for _, m := range in.Messages {
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			m.Content, _ = json.Marshal(text)
		}
		c.turn(m)
	}
	c.offer(in.Tools)
	c.choose(in.Choice)
	if c.Model == "" || len(in.Messages) == 0 {
		return c, fmt.Errorf("model or messages missing")
	}
	return c, nil
}

// TestChatIsReadAsByEncodingJSON: the walk over a request takes and refuses what encoding/json would, and reads the same.
func TestChatIsReadAsByEncodingJSON(t *testing.T) {
	quote := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	text := rapid.Map(rapid.OneOf(rapid.SampledFrom([]string{"", "user", "assistant", "system", "tool", "model", "function_call_output"}), rapid.String()), quote)
	scalar := rapid.OneOf(text, rapid.SampledFrom([]string{"null", "true", "false", "0", "7", "-3", "1.5", "1e3", "99999999999999999999", "{}", "[]", `"\ud83d\ude00 \u00e9\/"`, `{"type":"any"}`, `["x"]`}))
	content := rapid.OneOf(scalar, rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf(`[{"type":%s,"text":%s}, {"type":"tool_result","text":"t"}]`, scalar.Draw(t, "type"), scalar.Draw(t, "text"))
	}))
	turn := rapid.OneOf(scalar, rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf(`{"role": %s, "content":%s,"type":%s, "more":{"role":[1]}}`,
			rapid.OneOf(text, scalar).Draw(t, "role"), content.Draw(t, "content"), rapid.OneOf(rapid.Just("null"), scalar).Draw(t, "kind"))
	}))
	turns := rapid.Map(rapid.SliceOfN(turn, 0, 4), func(list []string) string { return "[" + strings.Join(list, " , ") + "]" })
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{`"unknown":{"model":[{"a":1}]}`}
		for _, name := range []string{"model", "stream", "messages", "tools", "tool_choice", "max_tokens", "max_completion_tokens", "stream_options"} {
			var value *rapid.Generator[string]
			switch name {
			case "model":
				value = rapid.OneOf(text, text, scalar)
			case "messages":
				value = rapid.OneOf(turns, turns, turns, scalar)
			case "tools":
				value = rapid.OneOf(rapid.Just(`[{"function":{"name":"f","parameters":{"type":"object"}}},{"name":"g"}]`), scalar)
			case "stream_options":
				value = rapid.OneOf(rapid.Map(scalar, func(s string) string { return `{"include_usage":` + s + `,"x":1}` }), scalar)
			default:
				value = scalar
			}
			if name == "model" || name == "messages" || rapid.IntRange(0, 3).Draw(t, name+"?") == 0 {
				parts = append(parts, quote(name)+":"+value.Draw(t, name))
			}
		}
		body := []byte(" {" + strings.Join(rapid.Permutation(parts).Draw(t, "order"), "\n,") + "} ")
		if cut := rapid.IntRange(0, 10*len(body)).Draw(t, "cut"); cut < len(body) {
			body = body[:cut]
		}
		want, refused := read(body)
		got := Call{Op: Generate}
		err := got.Decode(body)
		if (err == nil) != (refused == nil) {
			t.Fatalf("%s: %v, encoding/json says %v", body, err, refused)
		}
		if err == nil {
			taken++
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s:\n got %+v\nwant %+v", body, got, want)
			}
		}
	})
	if taken == 0 {
		t.Error("no request was taken")
	}
}
