package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"spillway/internal/gateway"
)

// FuzzDecode holds the scanner to encoding/json: what one takes the other takes, except for what is refused on purpose.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"model":"m"}`, `{"model":"m","a":[1,2.5e-3,true,null,"\u00e9\n"]}`, `{"a":{"b":[{}]},"model":"x"}`,
		`{"model":"m","x":"` + strings.Repeat("long text ", 40) + `"}`, "{\"model\":\"m\",\"x\":\"\x01\"}", `{"model":"m"`, `{"model":01}`,
		`{"model":"m","x":"` + strings.Repeat(`\"`, 60) + `"}`, "{\"model\":\"\xff\"}", `{"model":"m","model":"n"}`, `{"mod\u0065l":"n"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"},"y",{"file":{"file_id":"f"}}]},{}],"tools":[{"container":{}}],"system":[]}`,
		`{"messages":[{"role":}],"input":[[]],"contents":{"a":[}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, gerr := Decode(b, Options{Protocol: gateway.OpenAI, Model: "given"})
		if gerr == nil {
			if !json.Valid(b) {
				t.Fatalf("accepted what is no JSON: %q", b)
			}
			if string(e.Raw) != string(b) {
				t.Fatal("the client's bytes changed")
			}
			got := Apply(e, Edit{Model: "other", IncludeUsage: true})
			if !json.Valid(got.Bytes()) {
				t.Fatalf("surgery made %q of %q", got.Bytes(), b)
			}
			return
		}
		if gerr.Code != gateway.InvalidRequest || gerr.Message == "" {
			t.Fatalf("unclear refusal %v", gerr)
		}
		var m map[string]json.RawMessage
		if utf8.Valid(b) && json.Unmarshal(b, &m) == nil && m != nil && !refusedOnPurpose(b, gerr) {
			t.Fatalf("refused valid JSON %q: %v", b, gerr)
		}
	})
}

// refusedOnPurpose: names that appear twice, deep nesting, and known members of the wrong type.
func refusedOnPurpose(b []byte, e *gateway.Error) bool {
	return strings.Contains(e.Message, "twice") || strings.Contains(e.Message, "nested deeper") || e.Param != ""
}

func TestPlainFindsEveryControlCharacter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(0x20 + r.IntN(0xe0))
		}
		wantHigh := bytes.ContainsFunc(b, func(r rune) bool { return r >= 0x80 || r == utf8.RuneError })
		if at, high := plain(b); at != -1 || high != wantHigh {
			t.Fatalf("plain(%q) = %d, %v", b, at, high)
		}
		for at := range b {
			old := b[at]
			b[at] = byte(r.IntN(0x20))
			if got, _ := plain(b); got != at {
				t.Fatalf("control character at %d of %q found at %d", at, b, got)
			}
			b[at] = old
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ body, want, param string }{
		{``, "empty", ""},
		{`   `, "empty", ""},
		{`[]`, "an array", ""},
		{`"x"`, "a string", ""},
		{`null`, "null", ""},
		{`{"model":"m"`, "truncated", ""},
		{`{"model":"m","messages":[{"role":"us`, "truncated", ""},
		{`{"model":"m",}`, "member name", ""},
		{`{"model":"m"} x`, "after the JSON object", ""},
		{`{"model":"m" "x":1}`, "expected ','", ""},
		{`{"model" "m"}`, "expected ':'", ""},
		{`{'model':'m'}`, "double quotes", ""},
		{`{"model":"m","x":nul}`, "unknown word", ""},
		{`{"model":"m","x":01}`, "must not begin with 0", ""},
		{`{"model":"m","x":1.}`, "digits after the point", ""},
		{`{"model":"m","x":1e}`, "exponent", ""},
		{`{"model":"m","x":-}`, "needs digits", ""},
		{`{"model":"m","x":"\q"}`, "unknown escape", ""},
		{`{"model":"m","x":"\u12g4"}`, "hexadecimal", ""},
		{"{\"model\":\"m\",\"x\":\"a\nb\"}", "control character (0x0a)", ""},
		{"{\"model\":\"m\",\"x\":\"\xff\"}", "not valid UTF-8", ""},
		{`{"model":"m","x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "nested deeper", ""},
		{`{}`, "names no model", "model"},
		{`{"model":null}`, "non-empty string, not null", "model"},
		{`{"model":""}`, "non-empty string", "model"},
		{`{"model":7}`, "not a number", "model"},
		{`{"model":"a","model":"b"}`, "twice", "model"},
		{`{"model":"a","mod\u0065l":"b"}`, "twice", "model"},
		{`{"model":"a","x":1,"x":2}`, "twice", "x"},
		{`{"model":"a","stream":"yes"}`, "true or false", "stream"},
		{`{"model":"a","stream_options":7}`, "an object", "stream_options"},
		{`{"model":"a","stream_options":{"include_usage":3}}`, "true or false", "stream_options.include_usage"},
	} {
		_, err := Decode([]byte(c.body), Options{})
		if err == nil {
			t.Errorf("%.60q was accepted", c.body)
			continue
		}
		if !strings.Contains(err.Message, c.want) || err.Param != c.param || err.HTTPStatus() != 400 {
			t.Errorf("%.60q: %d %q (param %q), want %q (param %q)", c.body, err.HTTPStatus(), err.Message, err.Param, c.want, c.param)
		}
	}
}

func TestPlaceIsNamedAsPeopleCount(t *testing.T) {
	_, err := Decode([]byte("{\n  \"model\": \"m\",\n  \"x\": tru\n}"), Options{})
	if err == nil || !strings.Contains(err.Message, "line 3 column 8 (byte 25)") {
		t.Fatalf("got %v", err)
	}
}

func TestFactsAreRead(t *testing.T) {
	e, err := Decode([]byte(`{ "messages":[{"role":"user","content":"é"}], "max_tokens":10, "max_completion_tokens":99, "temperature":0.0,
		"tools":[{"type":"function"}], "stream":true, "stream_options":{"include_usage":true},
		"response_format":{"type":"json_schema"}, "reasoning_effort":"high", "model":"a\/b"}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Model != "a/b" || !e.Stream || !e.IncludeUsage || e.MaxTokens != 99 || !e.Deterministic ||
		!e.Needs.Has(gateway.NeedTools|gateway.NeedSchema|gateway.NeedReasoning) {
		t.Fatalf("%+v", e)
	}
}

func TestReasoningIsRecognised(t *testing.T) {
	for body, want := range map[string]bool{
		`"reasoning_effort":"none"`: false, `"reasoning_effort":"low"`: true, `"reasoning":{"effort":"minimal"}`: false,
		`"reasoning":{"enabled":false}`: false, `"reasoning":{"summary":"auto"}`: true, `"thinking":{"type":"disabled"}`: false,
		`"thinking":{"type":"adaptive"}`: true, `"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`: false,
		`"generationConfig":{"thinkingConfig":{}}`: true, `"generationConfig":{"maxOutputTokens":5}`: false,
	} {
		e, err := Decode([]byte(`{"model":"m",`+body+`}`), Options{})
		if err != nil || e.Needs.Has(gateway.NeedReasoning) != want {
			t.Errorf("%s: %v %v, want %v", body, e, err, want)
		}
	}
}

// TestP118NumbersAndEscapesSurvive: what is not named in the edit goes upstream byte for byte.
func TestP118NumbersAndEscapesSurvive(t *testing.T) {
	body := `{"x":9007199254740993 , "y":1e400,"z":-0,"w":1.0,"s":"\u00e9\/","model":"alias","messages":[ ]}`
	e, err := Decode([]byte(body), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := Apply(e, Edit{Model: "real", IncludeUsage: true})
	if want := strings.Replace(body, `"alias"`, `"real"`, 1); string(got.Bytes()) != want {
		t.Fatalf("got %s", got.Bytes())
	}
}

func TestUsageIsAskedFor(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","stream":true}`:                                         `{"stream_options":{"include_usage":true},"model":"u","stream":true}`,
		`{ "stream_options" : {"x":1} ,"model":"m","stream":true}`:            `{ "stream_options":{"include_usage":true,"x":1} ,"model":"u","stream":true}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`: `{"model":"u","stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","stream":false}`:                                        `{"model":"u","stream":false}`,
		`{"model":"m","stream":true,"stream_options":null}`:                   `{"model":"u","stream":true,"stream_options":{"include_usage":true}}`,
	} {
		e, err := Decode([]byte(body), Options{Protocol: gateway.OpenAI})
		if err != nil {
			t.Fatal(err)
		}
		b := Apply(e, Edit{Model: "u", IncludeUsage: true})
		if string(b.Bytes()) != want {
			t.Errorf("%s\n got %s\nwant %s", body, b.Bytes(), want)
		}
		var readers Readers
		r := readers.Open(&b)
		var out bytes.Buffer
		if n, err := r.WriteTo(&out); err != nil || int(n) != b.Len() || out.String() != want {
			t.Errorf("written %q (%d, %v)", out.String(), n, err)
		}
		if readers.Idle() {
			t.Error("an open reader does not count")
		}
		r.Close()
		r.Close()
		if !readers.Idle() {
			t.Error("a closed reader still counts")
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		body := fmt.Appendf(nil, `{"model":"m","stream":true,"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("some text with words, ", size/22))
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(body, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
