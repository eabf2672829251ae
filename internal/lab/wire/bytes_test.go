package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/golden"
)

// everything is all that the lab can write in answer to one prompt: by protocol and operation, streamed, whole and
// failed, one body or event a line.
func everything(t interface{ Fatal(...any) }, prompt, text, message string) string {
	var out strings.Builder
	now := time.Unix(1_700_000_000, 5)
	use := Usage{Input: 11, Output: 60}
	for _, q := range []struct {
		what string
		call Call
		body string
	}{
		{"chat", Call{Op: Generate, Protocol: gateway.OpenAI}, `{"model":"m","messages":[{"role":"user","content":%s}],"tools":[{"function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}]}`},
		{"chat with usage", Call{Op: Generate, Protocol: gateway.OpenAI}, `{"model":"m","messages":[{"role":"user","content":%s}],"tools":[{"function":{"name":"f"}}],"stream_options":{"include_usage":true}}`},
		{"responses", Call{Op: Generate, Protocol: gateway.Responses}, `{"model":"m","input":%s,"reasoning":{"effort":"low"},"tools":[{"name":"f","description":"d","parameters":{"a": 1, "b":[]}},{"name":"g","strict":true}],"metadata":{"a": "1",  "z":"<2>"},"temperature":0.50,"user":null,"text":{"verbosity":"low"}}`},
		{"messages", Call{Op: Generate, Protocol: gateway.Anthropic}, `{"model":"m","messages":[{"role":"user","content":%s}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]}`},
		{"gemini", Call{Op: Generate, Protocol: gateway.Gemini, Model: "m"}, `{"contents":[{"role":"user","parts":[{"text":%s}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`},
		{"completions", Call{Op: Complete, Protocol: gateway.OpenAI}, `{"model":"m","prompt":%s}`},
		{"completions with usage", Call{Op: Complete, Protocol: gateway.OpenAI}, `{"model":"m","prompt":%s,"stream_options":{"include_usage":true}}`},
	} {
		quoted, _ := json.Marshal(prompt)
		if err := q.call.Decode(fmt.Appendf(nil, q.body, quoted)); err != nil {
			t.Fatal(err)
		}
		show := func(what string, events ...Event) {
			for _, e := range events {
				fmt.Fprintf(&out, "%s, %s, %s: %s\n", q.what, what, e.Name, e.Data)
			}
		}
		for _, f := range []Finish{Stop, Length, ToolUse, Filtered} {
			if f == ToolUse && !q.call.WantsTool() {
				continue
			}
			a := NewAnswer(&q.call, "model <1>", 7, now)
			show("open", a.Open()...)
			if f == ToolUse {
				show("tool", a.Tool()...)
			} else {
				one, two := half(text)
				show("text", a.Token(one)...)
				show("text", a.Token(two)...)
			}
			if e, ok := a.Ping(); ok {
				show("ping", e)
			}
			show("end", a.End(f, use)...)
			show("done", a.Done()...)
			fmt.Fprintf(&out, "%s, whole: %s\n", q.what, NewAnswer(&q.call, "model", 7, now).Whole(text, f, use))
		}
		for _, f := range []Failure{{Status: 503, Message: message}, {Status: 400, Code: "c", Type: "t", Message: message}} {
			show("failed", NewAnswer(&q.call, "m", 7, now).Failed(f)...)
		}
		a := NewAnswer(&q.call, "m", 8, now)
		show("nothing", append(a.Open(), a.End(Stop, Usage{})...)...)
		fmt.Fprintf(&out, "%s, nothing: %s\n", q.what, NewAnswer(&q.call, "m", 8, now).Whole("", Stop, Usage{}))
	}
	for p := range gateway.Protocol(gateway.NumProtocols) {
		for _, f := range []Failure{{Status: 429, Code: "c", Message: message, Retry: 1500 * time.Millisecond}, {Status: 401, Message: message, Param: "p", Type: "t"}} {
			fmt.Fprintf(&out, "%s, failure: %s\n", p, f.Body(p))
		}
	}
	return out.String()
}

// TestBytes holds every answer to testdata, byte by byte, so that a change of how answers are written is a change of
// what they say only where it is meant to be.
func TestBytes(t *testing.T) {
	golden.Scripts(t, 2, golden.Driver{Name: "wire", Play: func(t *testing.T, text string) string {
		prompt, rest, _ := strings.Cut(text, "\n")
		answer, message, _ := strings.Cut(rest, "\n")
		return everything(t, prompt, answer, message)
	}})
}

// TestBytesAreThoseOfEncodingJSON: what the lab writes is what encoding/json writes of the same values: strings are
// escaped alike, no member comes twice, and the members are in the order of their names.
func TestBytesAreThoseOfEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("a\"\\/<>&\x00\x1f\x7f\n\t\r\b\f\u2028\u2029é🐎\ufffd")), 0, 40, -1),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		// What is no UTF-8 becomes the sign for that, escaped, and cannot be told from the sign itself.
		same := func(s string) string { return strings.ReplaceAll(s, `\ufffd`, "\ufffd") }
		wish := rapid.SampledFrom([]string{"", "call the tool", "think first", "refuse this", "think first and call the tool"}).Draw(t, "wish")
		lines := everything(t, said.Draw(t, "prompt")+wish, said.Draw(t, "text"), said.Draw(t, "message"))
		for line := range strings.Lines(lines) {
			head, data, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			if data == "[DONE]" {
				continue
			}
			d := json.NewDecoder(strings.NewReader(data))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil || d.More() {
				t.Fatalf("%s: %v\n%s", head, err, data)
			}
			var want bytes.Buffer
			e := json.NewEncoder(&want)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil {
				t.Fatal(err)
			}
			if got, want := same(data)+"\n", same(want.String()); got != want {
				t.Fatalf("%s:\n got %s\nwant %s", head, got, want)
			}
		}
	})
}

// TestPlainTextNeedsNoEscapes: a text is taken as it is if and only if encoding/json would write it so.
func TestPlainTextNeedsNoEscapes(t *testing.T) {
	same := func(s string) bool {
		b := encode(s)
		return string(b[1:len(b)-1]) == s
	}
	for at := range 20 {
		for c := range 256 {
			s := "0123456789abcdefghij"
			s = s[:at] + string([]byte{byte(c)}) + s[at+1:]
			if got := plain(s); got != (same(s) && c < 0x80) {
				t.Errorf("%q: plain %v", s, got)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		if plain(s) && !same(s) {
			t.Fatalf("%q", s)
		}
	})
}
