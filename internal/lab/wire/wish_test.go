package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

func TestToolChoiceAndTheWordsOfThePrompt(t *testing.T) {
	chat, responses := Call{Op: Generate}, Call{Op: Generate, Protocol: gateway.Responses}
	tools := `"tools":[{"type":"function","name":"f","function":{"name":"f"}}]`
	ask := func(prompt, more string) string {
		return `{"model":"m","input":"` + prompt + `","messages":[{"role":"user","content":"` + prompt + `"}],` + tools + more + `}`
	}
	for _, c := range []struct {
		call Call
		body string
		want bool // a tool call
	}{
		{chat, ask("Call the tool.", ""), true},
		{chat, ask("hi", ""), false},
		{chat, ask("hi", `,"tool_choice":"required"`), true},
		{chat, ask("hi", `,"tool_choice":{"type":"function","function":{"name":"f"}}`), true},
		{chat, ask("hi", `,"tool_choice":{"type":"any"}`), true},
		{chat, ask("hi", `,"tool_choice":{"type":"auto"}`), false},
		{chat, ask("call the tool", `,"tool_choice":"none"`), false},
		{chat, ask("call the tool", `,"tool_choice":{"type":"none"}`), false},
		{responses, ask("hi", `,"tool_choice":{"type":"function","name":"f"}`), true},
		{responses, ask("call the tool", `,"tool_choice":"none"`), false},
	} {
		if err := c.call.Decode([]byte(c.body)); err != nil || c.call.WantsTool() != c.want {
			t.Errorf("%s: tool %t %v", c.body, c.call.WantsTool(), err)
		}
	}
	c := responses
	if err := c.Decode([]byte(ask("Think first, then filter the answer and refuse this.", `,"reasoning":{"effort":"low"}`))); err != nil || !c.Thinks() || !c.Filters() || !c.Refuses() {
		t.Errorf("%+v %v", c, err)
	}
	c = responses
	if err := c.Decode([]byte(ask("think first", `,"reasoning":{"effort":"none"}`))); err != nil || c.Thinks() {
		t.Errorf("it thinks though it should not: %v", err)
	}
}

// What streams say in pieces is what the whole answer says, whatever kind of answer was asked for.
func TestStreamAndWholeAgree(t *testing.T) {
	for _, prompt := range []string{"hi", "think first", "refuse this", "filter the answer", "think first and call the tool"} {
		c := Call{Op: Generate, Protocol: gateway.Responses}
		if err := c.Decode([]byte(`{"model":"m","input":"` + prompt + `","reasoning":{},"instructions":"i","tools":[{"name":"f"}]}`)); err != nil {
			t.Fatal(err)
		}
		stream, whole := NewAnswer(&c, "m", 1, time.Unix(1, 0)), NewAnswer(&c, "m", 1, time.Unix(1, 0))
		finish, text := Stop, "some text"
		events := stream.Open()
		switch {
		case c.WantsTool():
			finish, text = ToolUse, ""
			events = append(events, stream.Tool()...)
		case c.Filters():
			finish = Filtered
			fallthrough
		default:
			events = append(append(events, stream.Token("some")...), stream.Token(" text")...)
		}
		events = append(events, stream.End(finish, Usage{Input: 1, Output: 2})...)
		var last struct{ Response json.RawMessage }
		if err := json.Unmarshal(events[len(events)-1].Data, &last); err != nil {
			t.Fatal(err)
		}
		if want := string(whole.Whole(text, finish, Usage{Input: 1, Output: 2})); string(last.Response) != want {
			t.Errorf("%s: the stream ends with\n%s, the whole is\n%s", prompt, last.Response, want)
		}
		if !strings.Contains(string(last.Response), `"instructions":"i"`) {
			t.Errorf("the request is not repeated: %s", last.Response)
		}
	}
}
