package wire

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

func TestRoute(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         Call
		ok           bool
	}{
		{"POST", "/v1/chat/completions", Call{Op: Generate}, true},
		{"POST", "/some/prefix/v1/chat/completions", Call{Op: Generate}, true},
		{"POST", "/v1/responses", Call{Op: Generate, Protocol: gateway.Responses}, true},
		{"POST", "/v1/messages", Call{Op: Generate, Protocol: gateway.Anthropic}, true},
		{"POST", "/v1/v1/messages/count_tokens", Call{Op: CountTokens, Protocol: gateway.Anthropic}, true},
		{"POST", "/v1beta/models/g-1:generateContent", Call{Op: Generate, Protocol: gateway.Gemini, Model: "g-1"}, true},
		{"POST", "/v1/models/g-1:streamGenerateContent", Call{Op: Generate, Protocol: gateway.Gemini, Model: "g-1", Stream: true, JSONList: true}, true},
		{"POST", "/v1beta/models/a/b:countTokens", Call{Op: CountTokens, Protocol: gateway.Gemini, Model: "a/b"}, true},
		{"POST", "/v1beta/models/e:embedContent", Call{Op: Embed, Protocol: gateway.Gemini, Model: "e"}, true},
		{"POST", "/v1beta/models/e:batchEmbedContents", Call{Op: EmbedBatch, Protocol: gateway.Gemini, Model: "e"}, true},
		{"POST", "/v1/embeddings", Call{Op: Embed}, true},
		{"POST", "/v1/completions", Call{Op: Complete}, true},
		{"POST", "/v1/moderations", Call{Op: Moderate}, true},
		{"POST", "/v1/rerank", Call{Op: Rerank}, true},
		{"POST", "/v1/images/edits", Call{Op: Image}, true},
		{"POST", "/v1/audio/speech", Call{Op: Speak}, true},
		{"POST", "/v1/audio/translations", Call{Op: Transcribe}, true},
		{"POST", "/v1/audio/nothing", Call{}, false},
		{"GET", "/v1/models", Call{Op: ListModels}, true},
		{"GET", "/v1beta/models", Call{Op: ListModels, Protocol: gateway.Gemini}, true},
		{"GET", "/v1/models/m", Call{Op: GetModel, Model: "m"}, true},
		{"POST", "/v1/nothing", Call{}, false},
		{"DELETE", "/v1/responses", Call{}, false},
		{"POST", "/v1beta/models/g:other", Call{}, false},
	} {
		got, err := Route(c.method, c.path, url.Values{}, false)
		if (err == nil) != c.ok || c.ok && (got.Op != c.want.Op || got.Protocol != c.want.Protocol || got.Model != c.want.Model || got.JSONList != c.want.JSONList) {
			t.Errorf("%s %s: %+v %v", c.method, c.path, got, err)
		}
	}
	if c, _ := Route("POST", "/v1beta/models/g:streamGenerateContent", url.Values{"alt": {"sse"}}, false); c.JSONList {
		t.Error("alt=sse is a stream of events")
	}
	if c, _ := Route("GET", "/v1/models", nil, true); c.Protocol != gateway.Anthropic {
		t.Error("the version header tells the list of models apart")
	}
}

func TestDecodeReadsWhatTheAnswerDependsOn(t *testing.T) {
	for name, c := range map[string]struct {
		call Call
		body string
		want func(Call) bool
	}{
		"chat prefill": {Call{Op: Generate}, `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":"a b"}],"max_completion_tokens":7}`,
			func(c Call) bool { return c.Prompt == "q" && c.HasPrefill && c.Prefill == "a b" && c.MaxTokens == 7 }},
		"chat tool result": {Call{Op: Generate}, `{"model":"m","messages":[{"role":"user","content":"call the tool"},{"role":"assistant","tool_calls":[]},{"role":"tool","content":"r"}],"tools":[{"function":{"name":"f"}}]}`,
			func(c Call) bool { return c.ToolResult && !c.HasPrefill && !c.WantsTool() }},
		"anthropic tool result": {Call{Op: Generate, Protocol: gateway.Anthropic}, `{"model":"m","messages":[{"role":"user","content":"call the tool"},{"role":"user","content":[{"type":"tool_result"}]}],"tools":[{"name":"f"}]}`,
			func(c Call) bool { return c.Prompt == "call the tool" && !c.WantsTool() }},
		"responses items": {Call{Op: Generate, Protocol: gateway.Responses}, `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}]}`,
			func(c Call) bool { return c.Prompt == "q" && c.Prefill == "x" }},
		"gemini": {Call{Op: Generate, Protocol: gateway.Gemini, Model: "g"}, `{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":5}}`,
			func(c Call) bool { return c.Prompt == "q" && c.Prefill == "x" && c.MaxTokens == 5 }},
		"gemini as Google's Python SDK writes it": {Call{Op: Generate, Protocol: gateway.Gemini, Model: "g"}, `{"contents":[{"role":"user","parts":[{"text":"call the tool"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters_json_schema":{"type":"object"}}]}]}`,
			func(c Call) bool { return c.WantsTool() && len(c.Tools[0].Schema) > 0 }},
		"gemini as LiteLLM writes it": {Call{Op: Generate, Protocol: gateway.Gemini, Model: "g"}, `{"contents":[{"role":"user","parts":[{"text":"call the tool"}]},{"parts":[{"function_response":{"name":"f"}}]}],"tools":[{"function_declarations":[{"name":"f"}]}]}`,
			func(c Call) bool { return c.ToolResult && len(c.Tools) == 1 && c.Prompt == "call the tool" }},
		"embeddings": {Call{Op: Embed}, `{"model":"e","input":["a","b"],"encoding_format":"base64"}`,
			func(c Call) bool { return len(c.Inputs) == 2 && c.Base64 }},
	} {
		got := c.call
		if err := got.Decode([]byte(c.body)); err != nil || !c.want(got) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	for _, body := range []string{`{`, `{"messages":[{"role":"user","content":"x"}]}`, `{"model":"m"}`} {
		c := Call{Op: Generate}
		if c.Decode([]byte(body)) == nil {
			t.Errorf("%s was taken", body)
		}
	}
}

// TestPrefillRoundTrip: whatever part of an answer is given as prefill, the rest completes it.
func TestPrefillRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := Say(rapid.String().Draw(t, "prompt"), rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 80).Draw(t, "n"))
		text := line.Piece(0, line.Len())
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		rest, got := line.After(text[:cut]), text[:cut]
		for i := range rest.Len() {
			if rest.Piece(i, i+1) == "" {
				t.Fatalf("token %d is empty behind %q", i, text[:cut])
			}
			got += rest.Piece(i, i+1)
		}
		if got != text {
			t.Fatalf("%q", got)
		}
	})
	line := Say("p", 1, 10)
	for _, foreign := range []string{"something else", Text("p", 1, 11)} {
		if got := line.After(foreign); got != line {
			t.Errorf("a foreign prefill is continued: %q", got.Piece(0, got.Len()))
		}
	}
	if rest := line.First(4).After(line.Piece(0, 2)); rest.Len() != 2 || rest.Piece(0, 2) != line.Piece(2, 4) {
		t.Errorf("%+v", rest)
	}
}

// TestTokensAreOfTheTextThatIsCutWhereTheyEnd: the places where tokens end are reckoned, not kept.
func TestTokensAreOfTheTextThatIsCutWhereTheyEnd(t *testing.T) {
	for _, n := range []int{0, 1, 2, 99, 100, 999, 1000, 1001, 10_001} {
		line := Say("a prompt", 7, n)
		words := strings.SplitAfter(Text("a prompt", 7, n), " ")
		if n == 0 {
			words = nil
		}
		if line.Len() != len(words) || Text("a prompt", 7, n) != line.Piece(0, n) {
			t.Fatalf("%d tokens: %d in the text", n, len(words))
		}
		for i, w := range words {
			want := strings.TrimSuffix(w, " ")
			if i > 0 {
				want = " " + want
			}
			if got := line.Piece(i, i+1); got != want {
				t.Fatalf("token %d of %d: %q, want %q", i, n, got, want)
			}
		}
	}
	if got, want := Text(" hi\n", 42, 3), "token-001-9382 token-002-ea33 token-003-60e0"; got != want {
		t.Errorf("answers have changed: %q, want %q", got, want)
	}
}

func TestAnswersDifferByPromptAndSeed(t *testing.T) {
	if Text("a", 1, 60) == Text("b", 1, 60) || Text("a", 1, 60) == Text("a", 2, 60) || Text("a", 1, 60) != Text(" a\n", 1, 60) {
		t.Error("an answer is a function of the prompt, trimmed, and of the seed")
	}
	if strings.HasPrefix(Text("a", 1, 60), Text("a", 1^ShortSeed, 8)) {
		t.Error("a short answer looks like a cut-off one")
	}
}

func TestArgumentsFitTheSchema(t *testing.T) {
	got := Arguments(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","enum":["x","y"]},"b":{"type":"array"},"c":{"type":"object","properties":{"d":{"type":"boolean"}},"required":["d"]},"e":{"type":"number"}},"required":["a","b","c"]}`))
	if got != `{"a":"x","b":[],"c":{"d":true}}` {
		t.Error(got)
	}
	for _, odd := range []string{``, `null`, `"x"`, `{"type":["string","null"]}`} {
		if !strings.HasPrefix(Arguments(json.RawMessage(odd)), "{") {
			t.Errorf("%s", odd)
		}
	}
}

func TestOther(t *testing.T) {
	now := time.Unix(1, 0)
	for name, c := range map[string]struct {
		call Call
		want string
	}{
		"anthropic count": {Call{Op: CountTokens, Protocol: gateway.Anthropic, InputTokens: 5}, `{"input_tokens":5}`},
		"gemini count":    {Call{Op: CountTokens, Protocol: gateway.Gemini, InputTokens: 5}, `{"totalTokens":5}`},
		"models":          {Call{Op: ListModels}, `{"data":[{"created":1,"id":"m","object":"model","owned_by":"lab"}],"object":"list"}`},
	} {
		if got := string(Other(&c.call, []string{"m"}, now)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	var in struct {
		Data []struct{ Embedding any }
	}
	for _, packed := range []bool{true, false} {
		b := Other(&Call{Op: Embed, Inputs: []string{"a", "b"}, Base64: packed}, nil, now)
		if err := json.Unmarshal(b, &in); err != nil || len(in.Data) != 2 {
			t.Fatal(err)
		}
		_, text := in.Data[0].Embedding.(string)
		if text != packed {
			t.Errorf("%s", b)
		}
	}
}

func TestErrorBodies(t *testing.T) {
	f := Failure{Status: 429, Code: "rate_limit_exceeded", Message: "slow down", Retry: 2 * time.Second}
	for p, want := range map[gateway.Protocol]string{
		gateway.OpenAI:    `{"error":{"code":"rate_limit_exceeded","message":"slow down","param":null,"type":"requests"}}`,
		gateway.Anthropic: `{"error":{"message":"slow down","type":"rate_limit_error"},"request_id":"req_lab","type":"error"}`,
		gateway.Gemini:    `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2s"}],"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`,
	} {
		if got := string(f.Body(p)); got != want {
			t.Errorf("%s: %s", p, got)
		}
	}
}
