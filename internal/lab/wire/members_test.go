package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
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
	text := rapid.Map(rapid.String(), quote)
	scalar := rapid.OneOf(text, rapid.SampledFrom([]string{"null", "true", "false", "0", "7", "-3", "1.5", "1e3", "99999999999999999999",
		"{}", "[]", `"\ud83d\ude00 \u00e9\/"`, `{"type":"any"}`, `["x"]`}))
	mostly := func(right *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			if rapid.IntRange(0, 29).Draw(t, "odd") == 17 {
				return scalar.Draw(t, "value")
			}
			return right.Draw(t, "value")
		})
	}
	role := mostly(rapid.SampledFrom([]string{`"user"`, `"assistant"`, `"system"`, `"tool"`, `"model"`, `"us\u0065r"`}))
	kind := mostly(rapid.SampledFrom([]string{`"message"`, `"function_call_output"`, "null"}))
	content := mostly(rapid.OneOf(text, rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf(`[{"type":"text","text":%s}, {"type":%s,"text":"t"}]`, mostly(text).Draw(t, "text"), quote(rapid.SampledFrom([]string{"tool_result", "text"}).Draw(t, "type")))
	})))
	turn := mostly(rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf(`{"role": %s, "content":%s,"type":%s, "more":{"role":[1]}}`, role.Draw(t, "role"), content.Draw(t, "content"), kind.Draw(t, "kind"))
	}))
	turns := rapid.Map(rapid.SliceOfN(turn, 0, 4), func(list []string) string { return "[" + strings.Join(list, " , ") + "]" })
	flag, count := rapid.SampledFrom([]string{"true", "false", "null"}), rapid.SampledFrom([]string{"0", "12", "512", "null"})
	members := map[string]*rapid.Generator[string]{
		"model": mostly(text), "stream": mostly(flag), "messages": mostly(turns), "max_tokens": mostly(count), "max_completion_tokens": mostly(count),
		"tools":          mostly(rapid.Just(`[{"function":{"name":"f","parameters":{"type":"object"}}},{"name":"g"}]`)),
		"tool_choice":    scalar,
		"stream_options": mostly(rapid.Map(mostly(flag), func(s string) string { return `{"include_usage":` + s + `,"x":1}` })),
	}
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{`"unknown":{"model":[{"a":1}]}`}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if rapid.IntRange(0, 9).Draw(t, name+"?") != 7 {
				parts = append(parts, quote(name)+":"+members[name].Draw(t, name))
			}
		}
		body := []byte(" {" + strings.Join(rapid.Permutation(parts).Draw(t, "order"), "\n,") + "} ")
		if cut := rapid.IntRange(-20*len(body), len(body)).Draw(t, "cut"); cut > 0 {
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
