package envelope

import (
	"fmt"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

// What a request refers to at one account, wherever it stands.
func TestRefs(t *testing.T) {
	sealed := gateway.SealOf("abc").ObjectID()
	for _, row := range []struct {
		p      gateway.Protocol
		op     gateway.Operation
		body   string
		want   string
		sealed bool
	}{
		{gateway.Responses, gateway.Generate, `{"model":"m","input":[{"type":"item_reference","id":"msg_1"},{"id":"rs_2"},{"id":"msg_3","role":"user","content":"x"},{"id":"fc_4","type":"function_call"}]}`, "item_reference=msg_1 item_reference=rs_2", false},
		{gateway.Responses, gateway.Compact, `{"model":"m","previous_response_id":"resp_1","input":[{"type":"compaction","encrypted_content":"abc"},{"type":"compaction"}]}`, "previous_response_id=resp_1 input=" + sealed + "~", false},
		{gateway.Responses, gateway.Generate, `{"model":"m","input":[{"type":"reasoning","encrypted_content":"abc"}],"tools":[{"type":"code_interpreter","container":"cntr_1"},{"type":"code_interpreter","container":{"type":"auto","file_ids":["file_1","file_2"]}}]}`, "container=cntr_1 file_id=file_1 file_id=file_2", true},
		{gateway.OpenAI, gateway.Generate, `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file_1"}},{"type":"text","text":"x","signature":"y"}]}]}`, "file_id=file_1", false},
		{gateway.Anthropic, gateway.Generate, `{"model":"m","container":{"id":"container_1"},"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_1"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":""}]}]}`, "container=container_1 file_id=file_1", false},
		{gateway.Anthropic, gateway.Generate, `{"model":"m","messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}]}`, "", true},
		{gateway.Anthropic, gateway.CountTokens, `{"model":"m","messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`, "file_id=file_1", false},
		{gateway.Gemini, gateway.Generate, `{"cachedContent":"cachedContents/1","tools":[{"fileSearch":{"fileSearchStoreNames":["fileSearchStores/1"]}}],"contents":[{"role":"model","parts":[{"text":"x","thoughtSignature":"y"}]}]}`, "cachedContent=cachedContents/1 fileSearchStoreNames=fileSearchStores/1", true},
	} {
		o := Options{Protocol: row.p, Operation: row.op}
		if row.p == gateway.Gemini {
			o.Model = "m"
		}
		e, gerr := Decode([]byte(row.body), o)
		if gerr != nil {
			t.Fatal(gerr)
		}
		var have []string
		for _, r := range e.Refs {
			loose := ""
			if r.Loose {
				loose = "~"
			}
			have = append(have, fmt.Sprintf("%s=%s%s", r.Param, r.ID, loose))
		}
		if strings.Join(have, " ") != row.want || e.Sealed != row.sealed {
			t.Errorf("%s\n%v, sealed %t", row.body, have, e.Sealed)
		}
	}
}
