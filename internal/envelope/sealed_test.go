package envelope

import (
	"encoding/json"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

// unsealed decodes a body and applies what Unseal cuts when texts that begin with "x" are foreign.
func unsealed(t testing.TB, p gateway.Protocol, model, body string) (out string, lost []string) {
	t.Helper()
	o := Options{Protocol: p}
	if p == gateway.Gemini {
		o.Model = "m"
	}
	e, gerr := Decode([]byte(body), o)
	if gerr != nil {
		t.Fatalf("%s: %v", body, gerr)
	}
	foreign := map[gateway.Seal]bool{}
	for _, s := range []string{"x", "x1", "x2", "x/3"} {
		foreign[gateway.SealOf(s)] = true
	}
	cuts, lost := Unseal(e, model, func(s gateway.Seal) bool { return foreign[s] })
	edited := Apply(e, Edit{Cuts: cuts})
	if len(edited.Bytes()) != edited.Len() {
		t.Fatalf("%d bytes, want %d", len(edited.Bytes()), edited.Len())
	}
	return string(edited.Bytes()), lost
}

func TestUnseal(t *testing.T) {
	for _, row := range []struct {
		name  string
		p     gateway.Protocol
		model string
		body  string
		want  string // "" = unchanged
		lost  string
	}{
		{"responses: first", gateway.Responses, "", `{"model":"m","input":[ {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"} , {"role":"user","content":"a"} ]}`,
			`{"model":"m","input":[ {"role":"user","content":"a"} ]}`, "input.reasoning"},
		{"responses: between", gateway.Responses, "", `{"model":"m","input":[{"role":"user","content":"a"},{"type":"reasoning","encrypted_content":"x"},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}]}`,
			`{"model":"m","input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}]}`, "input.reasoning"},
		{"responses: last two", gateway.Responses, "", `{"input":[{"role":"user","content":"a"}, {"type":"reasoning","encrypted_content":"x1"}, {"encrypted_content":"x2","type":"reasoning"} ],"model":"m"}`,
			`{"input":[{"role":"user","content":"a"} ],"model":"m"}`, "input.reasoning"},
		{"responses: one's own stays", gateway.Responses, "", `{"model":"m","input":[{"type":"reasoning","encrypted_content":"mine"},{"type":"reasoning","encrypted_content":"x"},{"role":"user","content":"a"}]}`,
			`{"model":"m","input":[{"type":"reasoning","encrypted_content":"mine"},{"role":"user","content":"a"}]}`, "input.reasoning"},
		{"responses: escaped", gateway.Responses, "", `{"model":"m","input":[{"type":"reasoning","encrypted_content":"x\/3"},{"role":"user","content":"a"}]}`,
			`{"model":"m","input":[{"role":"user","content":"a"}]}`, "input.reasoning"},
		{"responses: known by its id", gateway.Responses, "", `{"model":"m","input":[{"type":"reasoning","id":"x1","summary":[]},{"role":"user","content":"a"}]}`,
			`{"model":"m","input":[{"role":"user","content":"a"}]}`, "input.reasoning"},
		{"responses: open reasoning", gateway.Responses, "", `{"model":"m","input":[{"type":"reasoning","id":"x1","content":[{"type":"reasoning_text","text":"t"}]},{"role":"user","content":"a"}]}`, "", ""},
		{"responses: nothing else", gateway.Responses, "", `{"model":"m","input":[{"type":"reasoning","encrypted_content":"x"}]}`, "", ""},
		{"responses: a compaction is no reasoning", gateway.Responses, "", `{"model":"m","input":[{"type":"compaction","encrypted_content":"x"},{"role":"user","content":"a"}]}`, "", ""},
		{"responses: a text", gateway.Responses, "", `{"model":"m","input":"reasoning"}`, "", ""},

		{"anthropic", gateway.Anthropic, "", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`,
			`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`, "messages.thinking"},
		{"anthropic: redacted, and all of one answer", gateway.Anthropic, "", `{"model":"m","messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"thinking","thinking":"t","signature":"mine"},{"type":"text","text":"b"},{"type":"thinking","thinking":"","signature":""}]},{"role":"user","content":"c"}]}`,
			`{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`, "messages.thinking"},
		{"anthropic: a turn of thinking alone goes", gateway.Anthropic, "", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"}]},{"role":"user","content":"c"}]}`,
			`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"c"}]}`, "messages.thinking"},
		{"anthropic: no turn would be left", gateway.Anthropic, "", `{"model":"m","messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"}]}]}`, "", ""},
		{"anthropic: another answer's stays", gateway.Anthropic, "", `{"model":"m","messages":[{"role":"assistant","content":[{"type":"thinking","signature":"x"},{"type":"text","text":"b"}]},{"role":"user","content":"c"},{"role":"assistant","content":[{"type":"thinking","signature":"mine"},{"type":"text","text":"d"}]},{"role":"user","content":"e"}]}`,
			`{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"},{"role":"assistant","content":[{"type":"thinking","signature":"mine"},{"type":"text","text":"d"}]},{"role":"user","content":"e"}]}`, "messages.thinking"},
		{"anthropic: what a user quotes stays", gateway.Anthropic, "", `{"model":"m","messages":[{"role":"user","content":[{"type":"thinking","signature":"x"},{"type":"text","text":"a"}]}]}`, "", ""},
		{"anthropic: a tool is at work", gateway.Anthropic, "", `{"model":"m","thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","signature":"x"},{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`,
			`{"model":"m","thinking":{"type":"disabled"},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`, "messages.thinking thinking"},
		{"anthropic: the answer after that has not thought", gateway.Anthropic, "", `{"model":"m","messages":[{"role":"assistant","content":[{"type":"thinking","signature":"x"},{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]},{"role":"assistant","content":[{"type":"tool_use","id":"u","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"u"}]}],"thinking":{"type":"enabled","budget_tokens":1024},"context_management":{"edits":[{"type":"clear_thinking_20251015"}]}}`,
			`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]},{"role":"assistant","content":[{"type":"tool_use","id":"u","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"u"}]}],"thinking":{"type":"disabled"}}`, "messages.thinking thinking context_management"},
		{"anthropic: adaptive thinking asks for no block", gateway.Anthropic, "", `{"model":"m","thinking":{"type":"adaptive"},"messages":[{"role":"assistant","content":[{"type":"thinking","signature":"x"},{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`,
			`{"model":"m","thinking":{"type":"adaptive"},"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`, "messages.thinking"},

		{"gemini: text", gateway.Gemini, "gemini-3-pro", `{"contents":[{"role":"model","parts":[{"text":"b","thoughtSignature":"x"},{"thoughtSignature":"x1","text":"c"}]},{"role":"user","parts":[{"text":"d"}]}]}`,
			`{"contents":[{"role":"model","parts":[{"text":"b"},{"text":"c"}]},{"role":"user","parts":[{"text":"d"}]}]}`, "contents.thoughtSignature"},
		{"gemini 3: a function call", gateway.Gemini, "gemini-3-pro", `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"n","args":{}},"thoughtSignature":"x"},{"functionCall":{"name":"n","args":{}}}]},{"role":"user","parts":[{"functionResponse":{}}]}]}`,
			`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"n","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"n","args":{}}}]},{"role":"user","parts":[{"functionResponse":{}}]}]}`, "contents.thoughtSignature"},
		{"gemini 2.5: a function call", gateway.Gemini, "gemini-2.5-pro", `{"contents":[{"role":"model","parts":[{"thought_signature":"x","functionCall":{"name":"n"}}]},{"role":"user","parts":[{"functionResponse":{}}]}]}`,
			`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"n"}}]},{"role":"user","parts":[{"functionResponse":{}}]}]}`, "contents.thoughtSignature"},
		{"gemini: parts with nothing else go, then the turn", gateway.Gemini, "gemini-3-pro", `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"","thoughtSignature":"x"},{"thought":true,"thoughtSignature":"x1"}]},{"role":"user","parts":[{"text":"d"}]}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"d"}]}]}`, "contents.thoughtSignature"},
		{"gemini: one's own stays", gateway.Gemini, "gemini-3-pro", `{"contents":[{"role":"model","parts":[{"text":"b","thoughtSignature":"mine"}]}]}`, "", ""},
	} {
		if row.want == "" {
			row.want = row.body
		}
		have, lost := unsealed(t, row.p, row.model, row.body)
		if have != row.want || strings.Join(lost, " ") != row.lost {
			t.Errorf("%s: lost %v\n%s\nwant\n%s", row.name, lost, have, row.want)
		}
	}
}

// Cuts go together with the other edits, whatever their order in the body.
func TestCutsBesideOtherEdits(t *testing.T) {
	e, gerr := Decode([]byte(`{"contents":[{"role":"model","parts":[{"text":"b","thoughtSignature":"x"}]},{"parts":[{"text":"c"}]}],"model":"models/g"}`), Options{Protocol: gateway.Gemini, Model: "g"})
	if gerr != nil {
		t.Fatal(gerr)
	}
	cuts, _ := Unseal(e, "h", func(gateway.Seal) bool { return true })
	b := Apply(e, Edit{Model: "h", Cuts: cuts})
	want := `{"contents":[{"role":"model","parts":[{"text":"b"}]},{"parts":[{"text":"c"}]}],"model":"models/h"}`
	if string(b.Bytes()) != want {
		t.Errorf("%s", b.Bytes())
	}
	var parts strings.Builder
	for i := range 20 {
		if i > 0 {
			parts.WriteByte(',')
		}
		parts.WriteString(`{"type":"reasoning","encrypted_content":"x"},{"role":"user","content":"y"}`)
	}
	e, gerr = Decode([]byte(`{"model":"a","input":[`+parts.String()+`]}`), Options{Protocol: gateway.Responses})
	if gerr != nil {
		t.Fatal(gerr)
	}
	cuts, _ = Unseal(e, "", func(gateway.Seal) bool { return true })
	b = Apply(e, Edit{Model: "bb", Cuts: cuts})
	want = `{"model":"bb","input":[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"y"},`, 20), ",") + `]}`
	var readers Readers
	r := readers.Open(&b)
	defer r.Close()
	read := make([]byte, 0, b.Len())
	for piece := make([]byte, 7); ; {
		n, err := r.Read(piece)
		if read = append(read, piece[:n]...); err != nil {
			break
		}
	}
	if string(b.Bytes()) != want || string(read) != want {
		t.Errorf("%s\n%s", b.Bytes(), read)
	}
}

// Whatever a client sends, what is left of it is JSON.
func FuzzUnseal(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","input":[{"type":"reasoning","encrypted_content":"x"},{"role":"user","content":"a"}]}`,
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"thinking","signature":"x"},{"type":"tool_use"}],"content":[]},{}],"thinking":{"type":"enabled"},"context_management":"clear_thinking"}`,
		`{"contents":[{"parts":[{"thoughtSignature":"x"},{"functionCall":{},"thoughtSignature":"x","thoughtSignature":"y"}],"parts":[{"text":"","thought_signature":"x"}]},{"role":"user"}]}`,
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}],"content":[{"type":"redacted_thinking","data":"x"},1]},[],"",{"role":"assistant","content":[ {"type":"thinking","signature":"\u0078"} ]}]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for p := range gateway.NumProtocols {
			o := Options{Protocol: p}
			if p == gateway.Gemini {
				o.Model = "m"
			}
			e, gerr := Decode([]byte(body), o)
			if gerr != nil {
				continue
			}
			for _, model := range []string{"gemini-2.5", "x"} {
				cuts, lost := Unseal(e, model, func(s gateway.Seal) bool { return s != gateway.SealOf("y") })
				b := Apply(e, Edit{Model: model, Cuts: cuts})
				if !json.Valid(b.Bytes()) {
					t.Fatalf("%s: %s\n%s", p, body, b.Bytes())
				}
				if (len(cuts) == 0) != (len(lost) == 0) {
					t.Fatalf("%s: %d cuts, lost %v", p, len(cuts), lost)
				}
			}
		}
	})
}
