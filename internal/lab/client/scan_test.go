package client

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type failer interface{ Errorf(string, ...any) }

// same fails unless a body is read as encoding/json reads it.
func same[T any](t failer, read func([]byte, *words) (T, error), b string) {
	got, err := read([]byte(b), new(words))
	want, wantErr := decode[T]([]byte(b))
	if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
		t.Errorf("%q is read as %+v (%v), encoding/json reads %+v (%v)", b, got, err, want, wantErr)
	}
}

// readers are what is read, each by both ways.
var readers = []func(failer, string){
	func(t failer, b string) { same(t, readChat, b) },
	func(t failer, b string) { same(t, readMessages, b) },
	func(t failer, b string) { same(t, readMessagesEvent, b) },
	func(t failer, b string) { same(t, readResponse, b) },
	func(t failer, b string) { same(t, readResponseEvent, b) },
	func(t failer, b string) { same(t, readGemini, b) },
	func(t failer, b string) { // what is skipped must be JSON
		s := scan{b: []byte(b)}
		if s.skip(); s.whole() && !json.Valid([]byte(b)) {
			t.Errorf("%q is not JSON, and passes", b)
		}
	},
}

func sameAll(t failer, b string) {
	for _, read := range readers {
		read(t, b)
	}
}

const plainChat = `{"id":"c-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a b","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":20,"total_tokens":23,"details":{"x":[1,-2.5e+3,true,false,"y",{}]}},"error":null}`

func TestScanReadsWhatJSONReads(t *testing.T) {
	content := func(literal string) string { return strings.Replace(plainChat, `"a b"`, literal, 1) }
	for _, b := range []string{plainChat, " \t\r\n" + plainChat + "\n ", plainChat + "x", plainChat + plainChat, plainChat + "\x00", "", "null", "[]", "1", `"x"`, "{}", "{", "{,}",
		content(`"\n\"\\\/\b\f\r\té\u00e9"`), content(`"\ud83d\ude00 \ud83d \ude00"`), content("\"\xff\xc3\""), content(`"\x"`), content(`"\u12g4"`), content(`"\u12"`), content(`"é"`),
		content(`"\`), content(`"a` + "\n" + `"`), content(`null`), content(`1`), content(`{}`), content(`[]`), content(`true`), content(`nul`), content(`nulll`),
		content(`"x","content":null`), content(`null,"content":"x"`), content(`"x","Content":"y"`), content(`"x","CONTENT":null`), content(`"x","c\u006fntent":"y"`), content("\"x\",\"\u212aind\":1"),
		content(`"x","tool_calls":null`), content(`"x","tool_calls":[{"index":0,"function":{"arguments":"{}"}}]`), content(`"x",`), content(`"x":"y"`), content(`"x" "y":1`),
		strings.Replace(plainChat, `:20,`, `:020,`, 1), strings.Replace(plainChat, `:20,`, `:-20,`, 1), strings.Replace(plainChat, `:20,`, `:20.0,`, 1), strings.Replace(plainChat, `:20,`, `:2e1,`, 1),
		strings.Replace(plainChat, `:20,`, `:0,`, 1), strings.Replace(plainChat, `:20,`, `:null,`, 1), strings.Replace(plainChat, `:20,`, `:"20",`, 1), strings.Replace(plainChat, `:20,`, `:9223372036854775807,`, 1),
		strings.Replace(plainChat, `:20,`, `:9223372036854775808,`, 1), strings.Replace(plainChat, `:20,`, `:,`, 1), strings.Replace(plainChat, `-2.5e+3`, `-`, 1), strings.Replace(plainChat, `-2.5e+3`, `-2.`, 1),
		strings.Replace(plainChat, `-2.5e+3`, `-2.5e`, 1), strings.Replace(plainChat, `-2.5e+3`, `+1`, 1), strings.Replace(plainChat, `-2.5e+3`, `.5`, 1), strings.Replace(plainChat, `-2.5e+3`, `-00`, 1), strings.Replace(plainChat, `-2.5e+3`, `1,`, 1),
		strings.Replace(plainChat, `"error":null`, `"error":{"message":"boom","type":1,"code":["x"]}`, 1), strings.Replace(plainChat, `"error":null`, `"error":"x"`, 1),
		strings.Replace(plainChat, `"error":null`, `"usage":{"prompt_tokens":7}`, 1), strings.Replace(plainChat, `"error":null`, `"usage":null`, 1), strings.Replace(plainChat, `"error":null`, `"choices":[{},{"finish_reason":"x"}]`, 1),
		strings.Replace(plainChat, `"error":null`, `"choices":null`, 1), strings.Replace(plainChat, `"error":null`, `"choices":[]`, 1), strings.Replace(plainChat, `"error":null`, `"model":null`, 1), strings.Replace(plainChat, `"error":null`, `"model":"n"`, 1),
		`{"choices":[]}`, `{"choices":[null]}`, `{"choices":[{}]}`, `{"choices":[{"delta":{"content":"a"},"delta":{}}]}`, `{"choices":[{"delta":null}]}`, `{"choices":[{},]}`, `{"choices":[{} {}]}`, `{"choices":{}}`, `{"choices":[}`, `{"choices":]}`,
		`{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, `{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, `{"x":[1}`, `{"x":{"y"]}`, `{"x":{1:2}}`, "{\"x\":\"\xff\"}", "{\"x\xff\":1}",
	} {
		sameAll(t, b)
	}
}

const (
	plainMessage   = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"a b"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":20}}`
	plainStart     = `{"type":"message_start","message":{"id":"m","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":0}}}`
	plainDelta     = `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a b"}}`
	plainStop      = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":20}}`
	plainResponse  = `{"id":"r","object":"response","status":"completed","model":"m","error":null,"output":[{"type":"message","id":"x","content":[{"type":"output_text","text":"a b","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":20}}`
	plainPiece     = `{"type":"response.output_text.delta","sequence_number":4,"item_id":"x","output_index":0,"delta":"a b"}`
	plainCompleted = `{"type":"response.completed","sequence_number":9,"response":` + plainResponse + `}`
	plainGemini    = `{"candidates":[{"content":{"role":"model","parts":[{"text":"a b"}]},"finishReason":"STOP","index":0}],"modelVersion":"m","usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":20,"totalTokenCount":23}}`
)

// TestScanOfHurtAnswers cuts the answers of every protocol at every byte, and changes every byte.
func TestScanOfHurtAnswers(t *testing.T) {
	for b, reader := range map[string]int{plainChat: 0, plainMessage: 1, plainStart: 2, plainDelta: 2, plainStop: 2, plainPiece: 4, plainCompleted: 4, plainGemini: 5} {
		same := readers[reader]
		for i := range b {
			same(t, b[:i])
			same(t, b[i:])
			for _, c := range "\"\\{}[],:0-.eEnN \x00\x1f\x7f\xff" {
				same(t, b[:i]+string(c)+b[i:])
				same(t, b[:i]+string(c)+b[i+1:])
				readers[len(readers)-1](t, b[:i]+string(c)+b[i+1:])
			}
		}
		for _, text := range []string{`null`, `1`, `{}`, `"\u00e9\ud83d\n"`, "\"\xff\"", `"x","text":"y"`, `"x","Text":"y"`, `"x","TEXT":1`, `"x","functionCall":{"args":{}}`, `"x","functioncall":null`,
			`"x","input":{}`, `"x","arguments":"y"`, `"x","delta":null`, `"x","error":null`, `"x","ERROR":1`} {
			sameAll(t, strings.Replace(b, `"a b"`, text, 1))
		}
		for _, member := range []string{`"error":null`, `"error":{"message":"boom","code":7}`, `"code":"x"`, `"code":null`, `"usage":null`, `"usage":{}`, `"usage":{"input_tokens":-1}`, `"content":[{}]`,
			`"output":[{"content":[{}],"content":[]}]`, `"candidates":[{"content":{"parts":[{}]}}]`, `"Candidates":[]`, `"usageMetadata":null`, `"modelversion":"n"`, `"message":{}`, `"message":"x"`,
			`"response":{}`, `"sequence_number":null`, `"sequence_number":7`, `"sequence_number":-7`, `"index":2`, `"index":null`, `"delta":{"text":"z"}`, `"delta":{"stop_reason":null}`} {
			sameAll(t, "{"+member+","+b[1:])
			sameAll(t, b[:len(b)-1]+","+member+"}")
		}
	}
}

// TestScanReadsWhatIsPlain: what most answers are is read without encoding/json, with few allocations.
func TestScanReadsWhatIsPlain(t *testing.T) {
	for b, to := range map[string]interface{ scan(*scan) }{plainChat: new(chatBody), plainMessage: new(messagesBody), plainStart: new(messagesEvent), plainDelta: new(messagesEvent),
		plainStop: new(messagesEvent), plainResponse: new(responseBody), plainPiece: new(responseEvent), plainCompleted: new(responseEvent), plainGemini: new(geminiBody)} {
		for _, b := range []string{b, strings.Replace(b, `"a b"`, `"é \n \u00e9"`, 1), strings.ReplaceAll(b, ",", " ,\n")} {
			reflect.ValueOf(to).Elem().SetZero()
			s := scan{b: []byte(b), words: new(words)}
			if to.scan(&s); !s.whole() {
				t.Errorf("%s: odd at byte %d", b, s.at)
			}
		}
	}
	b, w := []byte(plainChat), new(words)
	if n := testing.AllocsPerRun(100, func() { readChat(b, w) }); n > 6 {
		t.Errorf("%.0f allocations", n)
	}
}

// jsonOf draws a value that is JSON, near-JSON in few places, and full of what readers disagree about.
func jsonOf(deep int) *rapid.Generator[string] {
	names := rapid.SampledFrom([]string{"id", "object", "model", "choices", "delta", "message", "content", "finish_reason", "usage", "prompt_tokens", "completion_tokens",
		"error", "tool_calls", "type", "text", "input", "index", "stop_reason", "input_tokens", "output", "response", "sequence_number", "code", "arguments", "status",
		"candidates", "parts", "finishReason", "FinishReason", "functionCall", "modelVersion", "usageMetadata", "usagemetadata", "promptTokenCount", "partial_json", "x", "é", "Choices", "OBJECT", "u\u017fage", `cont\u0065nt`, "", "to\u212aens"})
	scalars := rapid.SampledFrom([]string{"null", "true", "false", "0", "7", "-1", "1.5", "1e2", "12345678901234567890", "01", `""`, `"a"`, `"a b"`, `"\n"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`,
		`"é"`, "\"\xff\"", `"\q"`, `"chat.completion"`, "tru", "{}", "[]"})
	space := rapid.SampledFrom([]string{"", "", "", "", " ", "\n\t", "\r"})
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 3).Draw(t, "kind")
		if deep == 0 || kind == 0 {
			return space.Draw(t, "space") + scalars.Draw(t, "scalar") + space.Draw(t, "space")
		}
		list := rapid.SliceOfN(jsonOf(deep-1), 0, 4).Draw(t, "list")
		if kind == 1 {
			return "[" + strings.Join(list, ",") + "]"
		}
		for i := range list {
			list[i] = space.Draw(t, "space") + `"` + names.Draw(t, "name") + `"` + space.Draw(t, "space") + ":" + list[i]
		}
		return "{" + strings.Join(list, ",") + "}"
	})
}

func TestScanAgreesWithJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := jsonOf(4).Draw(t, "value")
		if rapid.Bool().Draw(t, "inside") {
			around := rapid.SampledFrom([][2]string{{`{"object":"o","choices":[`, `]}`}, {`{"content":[`, `]}`}, {`{"output":[{"content":[`, `]}]}`},
				{`{"candidates":[{"content":{"parts":[`, `]}}]}`}, {`{"response":{"output":[`, `]}}`}, {`{"delta":`, `}`}, {`{"message":`, `}`}, {`{"usage":`, `}`}}).Draw(t, "around")
			b = around[0] + b + around[1]
		}
		if rapid.IntRange(0, 3).Draw(t, "hurt") == 0 && b != "" {
			i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b = b[:i] + rapid.SampledFrom([]string{"", ",", `"`, "}", "]", `\`, " ", "1", "{"}).Draw(t, "by") + b[i+rapid.IntRange(0, 1).Draw(t, "over"):]
		}
		sameAll(t, b)
	})
}
