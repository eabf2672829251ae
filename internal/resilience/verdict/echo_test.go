package verdict

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

// phrases are all words of all built-in patterns: what a hostile or unlucky client would write.
func phrases() []string {
	rules, restate := Builtin()
	var out []string
	add := func(pattern string) {
		for _, p := range alternatives(pattern) {
			out = append(out, strings.NewReplacer(`\`, "", "(", "", ")", "", "?", "").Replace(p))
		}
	}
	for _, r := range rules {
		for _, p := range []string{r.Text, r.Code, r.ErrorType} {
			if p != "" {
				add(strings.ReplaceAll(p, "*", "x"))
			}
		}
	}
	for _, r := range restate {
		for _, p := range r.TextAny {
			add(p)
		}
	}
	return append(out, "try again in 3 days", "resets at 2026-03-20T00:00:00Z", "wait 5s", "retry in 9m", "2小时后", "does not support tools", "unsupported parameter: 'stream_options'")
}

func judgeEcho(status int, message, request string, provider string) gateway.Outcome {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error"}})
	e := evidence(func(e *Evidence) {
		e.Candidate = candidate(provider, "https://upstream.test/v1", "the-model-of-this-test")
		e.Status, e.Body, e.Header = status, body, http.Header{}
		e.RequestText = func() []byte { return []byte(request) }
	})
	return builtinRules.Judge(e)
}

// TestClientTextChangesNothing is invariant 12: a provider that repeats any part of the request, of any length, gets the
// verdict that it would get without the repetition.
func TestClientTextChangesNothing(t *testing.T) {
	all := phrases()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(all), rapid.StringMatching(`[a-z \n"]{1,12}`)), 1, 6).Draw(t, "words")
		text := strings.Join(words, rapid.SampledFrom([]string{" ", "\n", ": ", " \" "}).Draw(t, "glue"))
		request, err := json.Marshal(map[string]any{"model": "x", "messages": []any{map[string]string{"role": "user", "content": text}}})
		if err != nil {
			t.Fatal(err)
		}
		runes := []rune(text)
		from := rapid.IntRange(0, len(runes)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(runes)).Draw(t, "to")
		echo := string(runes[from:to])
		if rapid.Bool().Draw(t, "raw") { // the provider quotes the JSON, not the text
			quoted, _ := json.Marshal(echo)
			echo = string(quoted[1 : len(quoted)-1])
		}
		status := rapid.SampledFrom([]int{400, 401, 402, 403, 404, 408, 409, 410, 413, 422, 425, 429, 451, 500, 502, 503, 529}).Draw(t, "status")
		provider := rapid.SampledFrom([]string{"p", "agentrouter", "opencode", "openrouter", "gemini", "glm", "anthropic"}).Draw(t, "provider")
		with := judgeEcho(status, "Bad value «"+echo+"» given.", string(request), provider)
		without := judgeEcho(status, "Bad value «» given.", string(request), provider)
		with.Message, without.Message = "", ""
		if with != without {
			t.Fatalf("echo %q of %q:\nwith    %+v\nwithout %+v", echo, text, with, without)
		}
	})
}

func TestMessageHidesTheRequest(t *testing.T) {
	const user = "my grandmother's maiden name is Wolkenstein"
	o := judgeEcho(400, "Invalid content: "+user+" (at index 3)", `{"messages":[{"content":"`+user+`"}]}`, "p")
	if o.Message != "Invalid content: […](at index 3)" && o.Message != "Invalid content: […] (at index 3)" {
		t.Errorf("message %q", o.Message)
	}
}

// The model's own name stands in every request; a provider that names it says something all the same.
func TestModelNameIsNoEcho(t *testing.T) {
	const model = "the-model-of-this-test"
	o := judgeEcho(404, "The model `"+model+"` does not exist", `{"model":"`+model+`","messages":[]}`, "p")
	if o.Kind != gateway.ModelUnavailable || !strings.Contains(o.Message, model) {
		t.Errorf("%v, message %q", o.Kind, o.Message)
	}
	// A sentence of the user that merely holds the name is an echo.
	sentence := "why was " + model + " retired"
	o = judgeEcho(404, "No thread: "+sentence, `{"model":"x","messages":[{"content":"`+sentence+`"}]}`, "p")
	if o.Kind != gateway.Alive {
		t.Errorf("%v, want alive", o.Kind)
	}
	// A model whose name is a phrase of ours.
	e := evidence(func(e *Evidence) {
		e.Candidate.Model = "account_deactivated"
		e.Status, e.Body = 403, []byte(`{"error":{"message":"unknown model account_deactivated"}}`)
	})
	if o := builtinRules.Judge(e); o.Kind == gateway.Banned {
		t.Error("a model's name banned the account")
	}
}

func TestEscapedEcho(t *testing.T) {
	for _, text := range []string{"账户已被锁定 — 账号已被封禁", "line one\nyour account has been deactivated \"now\"", "emoji 😀 your account has been suspended"} {
		var ascii strings.Builder // as Python's json.dumps writes it
		ascii.WriteString(`{"content":"`)
		for _, r := range text {
			switch {
			case r == '"':
				ascii.WriteString(`\"`)
			case r == '\n':
				ascii.WriteString(`\n`)
			case r > unicode.MaxASCII && r < 0x10000:
				ascii.WriteString(`\u` + strings.ToLower(hex(r)))
			case r >= 0x10000:
				r -= 0x10000
				ascii.WriteString(`\u` + hex(0xd800+r>>10) + `\u` + hex(0xdc00+r&0x3ff))
			default:
				ascii.WriteRune(r)
			}
		}
		ascii.WriteString(`"}`)
		if o := judgeEcho(403, "rejected: "+text, ascii.String(), "p"); o.Kind != gateway.AuthError {
			t.Errorf("%q: %v, want auth_error", text, o.Kind)
		}
		// The same words from the provider alone are believed.
		if o := judgeEcho(403, "rejected: "+text, `{"content":"hello"}`, "p"); o.Kind != gateway.Banned {
			t.Errorf("%q: %v, want banned", text, o.Kind)
		}
	}
}

func hex(r rune) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}

func TestSecretsNeverShow(t *testing.T) {
	for _, text := range []string{
		"Incorrect API key provided: sk-proj-abcd1234efgh5678", "key=AIzaSyA1234567890abcdefghijklmnop in URL", "got Bearer abcdef0123456789abcdef",
		"https://x.test/v1beta/models?key=supersecretvalue&alt=sse", "api_key: 'supersecretvalue'", "your test-credential-0123456789 is wrong",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc", "gsk_abcdefghijklmnop1234", "x-goog-api-key=supersecretvalue",
	} {
		o := judgeEcho(401, text, `{}`, "p")
		for _, secret := range []string{"abcd1234", "AIzaSyA1", "abcdef0123456789", "supersecretvalue", "test-credential-0123456789", "eyJhbGci", "abcdefghijklmnop1234"} {
			if strings.Contains(o.Message, secret) {
				t.Errorf("%q shows %q", o.Message, secret)
			}
		}
		if !strings.Contains(o.Message, redacted) {
			t.Errorf("%q: nothing was redacted", o.Message)
		}
	}
	for in, want := range map[string]string{
		"Rate limit on tokens per min (TPM): Limit 30000": "Rate limit on tokens per min (TPM): Limit 30000",
		"request id: req_011CSHoEeqs5C35K2UUqR7Fy":        "request id: req_011CSHoEeqs5C35K2UUqR7Fy",
		"a\x00b\x1b[31m\nc\t d\u202e":                     "a b [31m c d",
	} {
		if got := clean(in, "", maxMessage); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := clean(strings.Repeat("é", 400), "", maxMessage); len([]rune(got)) != maxMessage {
		t.Errorf("%d characters", len([]rune(got)))
	}
	if got := clean("model x is not x-ray", "x", maxMessage); got != "model [redacted] is not [redacted]-ray" {
		t.Errorf("short key: %q", got)
	}
}
