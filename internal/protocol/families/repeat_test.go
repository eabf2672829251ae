package families

import (
	"fmt"
	"strings"
	"testing"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// plain are deltas of each family with a place for the text.
var plain = []struct {
	protocol gateway.Protocol
	name     string
	data     string
	repeats  bool // two in a row differ in nothing but the text
}{
	{gateway.OpenAI, "", `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}`, true},
	{gateway.OpenAI, "", `{"id": "c", "choices": [{"index": 1, "delta": {"role": "assistant", "content": "%s"}, "finish_reason": null}], "usage": null}`, true},
	{gateway.OpenAI, "", `{"choices":[{"index":0,"delta":{"content":"%s","x":{"content":"no"}},"finish_reason":null}]}`, false},
	{gateway.OpenAI, "", `{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":"stop"}]}`, false},
	{gateway.OpenAI, "", `{"choices":[{"index":0,"delta":{"reasoning_content":"%s"},"finish_reason":null}]}`, false},
	{gateway.Anthropic, "content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`, true},
	{gateway.Responses, "response.output_text.delta", `{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"%s"}`, true},
	{gateway.Gemini, "", `{"candidates":[{"content":{"parts":[{"text":"%s"}],"role":"model"},"index":0}]}`, true},
}

func TestRepeatRecognisesPlainDeltas(t *testing.T) {
	for _, c := range plain {
		family := For(c.protocol)
		var r protocol.Repeat
		var s protocol.Signal
		first := fmt.Appendf(nil, c.data, "one")
		family.Event([]byte(c.name), first, &s)
		r.Learn([]byte(c.name), first, family.TextMember(), &s)
		if got := r.Match([]byte(c.name), fmt.Appendf(nil, c.data, " two, é")); got != c.repeats {
			t.Errorf("%s: %s matches: %v", c.protocol, c.data, got)
		}
		for what, other := range map[string]string{"an empty text": "", "an escape": `\n`, "more members": `x","finish_reason":"stop`, "a control character": "\x01"} {
			if r.Match([]byte(c.name), fmt.Appendf(nil, c.data, other)) {
				t.Errorf("%s: %s was taken for plain text", c.protocol, what)
			}
		}
		if c.repeats && r.Match([]byte("other"), fmt.Appendf(nil, c.data, "two")) {
			t.Errorf("%s: an event of another name matches", c.protocol)
		}
	}
}

// FuzzRepeat: what matches is read by the family as nothing but one more piece of text, whatever the bytes are.
func FuzzRepeat(f *testing.F) {
	for i, c := range plain {
		f.Add(i, fmt.Appendf(nil, c.data, "a"), fmt.Appendf(nil, c.data, "b"))
		f.Add(i, fmt.Appendf(nil, c.data, "a"), []byte(strings.Replace(fmt.Sprintf(c.data, "b"), "null", `"stop"`, 1)))
	}
	f.Fuzz(func(t *testing.T, which int, first, second []byte) {
		c := plain[uint(which)%uint(len(plain))]
		family := For(c.protocol)
		var r protocol.Repeat
		var a, b protocol.Signal
		family.Event([]byte(c.name), first, &a)
		r.Learn([]byte(c.name), first, family.TextMember(), &a)
		if !r.Match([]byte(c.name), second) {
			return
		}
		family.Event([]byte(c.name), second, &b)
		if b.Flags != protocol.Content|protocol.Text || b.Choices != a.Choices || b.Finished != a.Finished {
			t.Fatalf("%q was learned as %v, %q matches and is %v", first, a.Flags, second, b.Flags)
		}
	})
}

func BenchmarkRepeat(b *testing.B) {
	c := plain[0]
	family := For(c.protocol)
	var r protocol.Repeat
	var s protocol.Signal
	first, second := fmt.Appendf(nil, c.data, "one"), fmt.Appendf(nil, c.data, " and another")
	family.Event(nil, first, &s)
	r.Learn(nil, first, family.TextMember(), &s)
	b.ReportAllocs()
	for b.Loop() {
		if !r.Match(nil, second) {
			b.Fatal("no match")
		}
	}
}
