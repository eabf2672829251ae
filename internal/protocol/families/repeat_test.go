package families

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/sse"
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

// block writes an event as upstreams do.
func block(name string, data []byte) (raw, in []byte) {
	if name != "" {
		raw = fmt.Appendf(raw, "event: %s\n", name)
	}
	raw = append(raw, "data: "...)
	at := len(raw)
	raw = append(raw, data...)
	raw = append(raw, "\n\n"...)
	return raw, raw[at : at+len(data)]
}

func TestRepeatRecognisesPlainDeltas(t *testing.T) {
	for _, c := range plain {
		family := For(c.protocol)
		var r protocol.Repeat
		var s protocol.Signal
		raw, first := block(c.name, fmt.Appendf(nil, c.data, "one"))
		family.Event([]byte(c.name), first, &s)
		r.Learn(raw, first, family.TextMember(), &s)
		match := func(name, text string) (whole bool, n int) {
			raw, data := block(name, fmt.Appendf(nil, c.data, text))
			n, count := r.Match(append(raw, "data: {"...))
			if n > 0 && (n != len(raw) || count != len(text) || string(r.Data(raw)) != string(data)) {
				t.Errorf("%s: %d bytes of %d, %d of text, data %q", c.protocol, n, len(raw), count, r.Data(raw))
			}
			return n > 0, n
		}
		if got, _ := match(c.name, " two, é"); got != c.repeats {
			t.Errorf("%s: %s matches: %v", c.protocol, c.data, got)
		}
		for what, other := range map[string]string{"an empty text": "", "an escape": `\n`, "more members": `x","finish_reason":"stop`, "a control character": "\x01"} {
			if got, _ := match(c.name, other); got {
				t.Errorf("%s: %s was taken for plain text", c.protocol, what)
			}
		}
		if got, _ := match("other", "two"); got {
			t.Errorf("%s: an event of another name matches", c.protocol)
		}
		for cut := range raw {
			if n, _ := r.Match(raw[:cut]); n != 0 {
				t.Errorf("%s: %d of %d bytes match", c.protocol, cut, len(raw))
			}
		}
	}
}

// FuzzRepeat: what matches is split off by the reader as one event, and read by the family as nothing but one more piece
// of text, whatever the bytes are.
func FuzzRepeat(f *testing.F) {
	for i, c := range plain {
		one, _ := block(c.name, fmt.Appendf(nil, c.data, "a"))
		two, _ := block(c.name, fmt.Appendf(nil, c.data, "b"))
		f.Add(i, one, two)
		f.Add(i, one, []byte(strings.Replace(string(two), "null", `"stop"`, 1)))
	}
	f.Fuzz(func(t *testing.T, which int, first, second []byte) {
		family := For(plain[uint(which)%uint(len(plain))].protocol)
		var r protocol.Repeat
		var a, b protocol.Signal
		ev, ok := only(first)
		if !ok || ev.Comment || ev.Stray {
			return
		}
		family.Event(ev.Name, ev.Data, &a)
		r.Learn(ev.Raw, ev.Data, family.TextMember(), &a)
		n, _ := r.Match(second)
		if n == 0 {
			return
		}
		ev, ok = only(second)
		if !ok || len(ev.Raw) != n || string(r.Data(second[:n])) != string(ev.Data) {
			t.Fatalf("%q was learned, %d bytes of %q match, the reader says %q", first, n, second, ev.Raw)
		}
		family.Event(ev.Name, ev.Data, &b)
		if b.Flags != protocol.Content|protocol.Text || b.Choices != a.Choices || b.Finished != a.Finished {
			t.Fatalf("%q was learned as %v, %q matches and is %v", first, a.Flags, second, b.Flags)
		}
	})
}

// only is the first event of a stream.
func only(stream []byte) (sse.Event, bool) {
	r := sse.NewReader(bytes.NewReader(stream), 0)
	for {
		_, err := r.Fill()
		if ev, ok, _ := r.Next(); ok || err != nil {
			return ev, ok
		}
	}
}

func BenchmarkRepeat(b *testing.B) {
	c := plain[0]
	family := For(c.protocol)
	var r protocol.Repeat
	var s protocol.Signal
	raw, first := block(c.name, fmt.Appendf(nil, c.data, "one"))
	second, _ := block(c.name, fmt.Appendf(nil, c.data, " and another"))
	family.Event(nil, first, &s)
	r.Learn(raw, first, family.TextMember(), &s)
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := r.Match(second); n == 0 {
			b.Fatal("no match")
		}
	}
}
