package envelope

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

func decodeFor(t testing.TB, p gateway.Protocol, body string) *gateway.Envelope {
	t.Helper()
	e, err := Decode([]byte(body), Options{Protocol: p, Model: "m"})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return e
}

// The header that agents send wins over the body, the body's clearest field over the others, and anything over the prompt.
func TestSourcesOfASession(t *testing.T) {
	turn := `"messages":[{"role":"user","content":"hi"}]`
	for _, row := range []struct {
		name, body string
		head       map[string]string
		want       string
		by         Source
	}{
		{"claude code", `{` + turn + `}`, map[string]string{"x-claude-code-session-id": "cc"}, "cc", ByHeader},
		{"codex", `{"prompt_cache_key":"k"}`, map[string]string{"session-id": "cx", "thread-id": "cx"}, "cx", ByHeader},
		{"opencode", `{}`, map[string]string{"x-session-affinity": "oc"}, "oc", ByHeader},
		{"own", `{}`, map[string]string{"x-spillway-session": "s"}, "s", ByHeader},
		{"omniroute", `{}`, map[string]string{"x-omniroute-session": "s"}, "s", ByHeader},
		{"order", `{}`, map[string]string{"session-id": "b", "x-session-id": "a"}, "a", ByHeader},
		{"metadata of claude code", `{"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"s-1\"}"},` + turn + `}`, nil, "s-1", ByField},
		{"metadata of earlier versions", `{"metadata":{"user_id":"user_ab_account_cd_session_ef"}}`, nil, "ef", ByField},
		{"a user is no session", `{"metadata":{"user_id":"bob"},"user":"bob"}`, nil, "", NoSession},
		{"prompt cache key", `{"prompt_cache_key":"k","input":"hi"}`, nil, "k", ByField},
		{"client metadata beside metadata", `{"prompt_cache_key":"k","metadata":{},"client_metadata":{"session_id":"c"}}`, nil, "c", ByField},
		{"conversation", `{"conversation":{"id":"conv_1"},"prompt_cache_key":"k"}`, nil, "conv_1", ByField},
		{"the clearest field", `{"session_id":"s","metadata":{"session_id":"m"},"conversation_id":"c"}`, nil, "s", ByField},
		{"numbers are none", `{"session_id":7,"prompt_cache_key":[],"metadata":"x"}`, nil, "", NoSession},
		{"nothing", `{"messages":[]}`, nil, "", NoSession},
		{"no turn of a user", `{"messages":[{"role":"system","content":"s"}]}`, nil, "", NoSession},
	} {
		h := http.Header{}
		for k, v := range row.head {
			h.Set(k, v)
		}
		if name, by := SessionOf(decodeFor(t, gateway.OpenAI, row.body), h); name != row.want || by != row.by {
			t.Errorf("%s: %q by %d, want %q by %d", row.name, name, by, row.want, row.by)
		}
	}
}

// Each row is the turns of one conversation; the marks of prompt caches move as clients move them.
var conversations = map[string][]string{
	"chat": {
		`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"tools":[{"name":"t"}]}`,
		`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"x"}],"tools":[{"name":"t"}]}`,
		`{"messages":[{"content":"be brief","role":"system"},{"content":"hi","role":"user"},{"role":"assistant","tool_calls":[{"id":"c","input":{"file_id":"no"}}]},{"role":"tool","content":"r"}],"tools":[{"name":"t"}]}`,
	},
	"anthropic": {
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}],"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":"ho"},{"role":"user","content":[{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]}],"system":[{"type":"text","text":"be brief"}]}`,
	},
	"responses": {
		`{"instructions":"be brief","input":[{"type":"message","role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`,
		`{"instructions":"be brief","input":[{"type":"message","role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"reasoning","summary":[]},{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"x"}]}`,
	},
	"gemini": {
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[{"text":"be brief"}]}}`,
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"ho"}]},{"parts":[{"text":"x"}]}],"systemInstruction":{"parts":[{"text":"be brief"}]}}`,
	},
}

// O20: a client that sends no session id is recognised by what every turn begins with.
func TestO20FingerprintIsTheSameOnEveryTurn(t *testing.T) {
	seen := map[string]string{}
	for name, turns := range conversations {
		var first string
		for i, body := range turns {
			e := decodeFor(t, gateway.OpenAI, body)
			id, by := SessionOf(e, nil)
			want := ByPrompt
			if i == 0 {
				first, want = id, FirstPrompt
			}
			if id != first || by != want || len(id) != 16 {
				t.Errorf("%s, turn %d: %x by %d, the first turn was %x", name, i+1, id, by, first)
			}
			if len(e.Refs) > 0 {
				t.Errorf("%s, turn %d: refers to %v", name, i+1, e.Refs)
			}
		}
		if other := seen[first]; other != "" {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[first] = name
		for _, swap := range [][2]string{{`"hi"`, `"hi!"`}, {"be brief", "be long"}} {
			id, _ := SessionOf(decodeFor(t, gateway.OpenAI, strings.ReplaceAll(turns[1], swap[0], swap[1])), nil)
			if id == first {
				t.Errorf("%s: %s for %s changes nothing", name, swap[1], swap[0])
			}
		}
	}
}

// The fingerprint is kept: another value would forget every session at an upgrade.
func TestFingerprintStaysWhatItIs(t *testing.T) {
	id, _ := SessionOf(decodeFor(t, gateway.OpenAI, conversations["chat"][1]), nil)
	if have := fmt.Sprintf("%x", id); have != "770d5096d5f484d05ab1f28ff84b2bea" {
		t.Errorf("it is %s now", have)
	}
}

func TestFingerprintSeesEveryByte(t *testing.T) {
	b := []byte(strings.Repeat("abcdefgh", 40))
	all := []gateway.Span{{Start: 0, End: len(b)}}
	seen := map[string]int{fingerprint(b, all): -1}
	for i := range b {
		b[i] ^= 1
		if at, ok := seen[fingerprint(b, all)]; ok {
			t.Fatalf("bytes %d and %d count alike", i, at)
		}
		seen[fingerprint(b, all)] = i
		b[i] ^= 1
	}
	for cut := range b {
		if _, ok := seen[fingerprint(b, []gateway.Span{{Start: 0, End: cut}, {Start: cut, End: len(b)}})]; ok {
			t.Fatalf("a border at %d does not count", cut)
		}
	}
}

func TestReferences(t *testing.T) {
	for _, row := range []struct{ body, want string }{
		{`{"previous_response_id":"resp_1","input":"x"}`, "previous_response_id=resp_1"},
		{`{"previous_response_id":null,"conversation":"conv_1"}`, "conversation=conv_1"},
		{`{"conversation":{"id":"conv_2"}}`, "conversation=conv_2"},
		{`{"container":"cntr_1"}`, "container=cntr_1"},
		{`{"container":{"skills":[]}}`, ""},
		{`{"cachedContent":"cachedContents/1"}`, "cachedContent=cachedContents/1"},
		{`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}`, "file_id=file-1"},
		{`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_2"}}]}]}`, "file_id=file_2"},
		{`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-3"},{"type":"input_image","file_id":"file-4"}]}]}`, "file_id=file-3 file_id=file-4"},
		{`{"contents":[{"parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/f"}}]}]}`, "file_uri=https://generativelanguage.googleapis.com/v1beta/files/f"},
		{`{"contents":[{"parts":[{"file_data":{"file_uri":"https://youtu.be/x"}}]}]}`, ""},
		{`{"tools":[{"type":"code_interpreter","container":"cntr_2"},{"type":"code_interpreter","container":{"type":"auto"}},{"type":"file_search","vector_store_ids":["vs_1"]}],"input":"x"}`,
			"container=cntr_2 vector_store_ids=vs_1"},
		// What a tool is called with refers to nothing of ours.
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"file_id":"f","file":{"file_id":"f"}}}]}],"tools":[{"input_schema":{"properties":{"file_id":{"type":"string"}}}}]}`, ""},
		{`{"file_id":"x","metadata":{"container":"y"}}`, ""},
	} {
		e := decodeFor(t, gateway.OpenAI, row.body)
		var have []string
		for _, r := range e.Refs {
			have = append(have, r.Param+"="+r.ID)
		}
		if strings.Join(have, " ") != row.want || (len(have) > 0) != e.Needs.Has(gateway.NeedStateful) {
			t.Errorf("%s: %v, needs %b, want %s", row.body, have, e.Needs, row.want)
		}
	}
	if !decodeFor(t, gateway.Responses, `{"store":false}`).Unstored || decodeFor(t, gateway.Responses, `{"store":true}`).Unstored {
		t.Error("store is misread")
	}
}

// agentBody is a first request of a coding agent, of about 76 KB: a long system prompt, two dozen tools, a few turns.
func agentBody() []byte {
	var tools, turns strings.Builder
	for i := range 24 {
		fmt.Fprintf(&tools, `,{"name":"tool_%d","description":"%s","input_schema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}}`,
			i, strings.Repeat("what this tool does and when to use it; ", 40))
	}
	for i := range 4 {
		fmt.Fprintf(&turns, `,{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"tool_1","input":{"path":"/a"}}]},{"role":"user","content":[{"type":"tool_result","content":"%s"}]}`,
			i, strings.Repeat("a line of a file\\n", 60))
	}
	return fmt.Appendf(nil, `{"model":"m","max_tokens":32000,"messages":[{"role":"user","content":[{"type":"text","text":"%s"}]}%s],"system":[{"type":"text","text":"%s"}],"tools":[%s],"stream":true}`,
		strings.Repeat("context of the project ", 200), turns.String(), strings.Repeat("You are an agent that works on code. ", 680), tools.String()[1:])
}

func BenchmarkSession(b *testing.B) {
	body := agentBody()
	e, err := Decode(body, Options{Protocol: gateway.Anthropic})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = Decode(body, Options{Protocol: gateway.Anthropic})
		}
	})
	b.Run("scan alone", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			s := scanner{b: body}
			_, _ = s.value(0, 0)
		}
	})
	b.Run("fingerprint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = SessionOf(e, nil)
		}
	})
}
