package wire

import (
	"encoding/json"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// The lab answers what a client of responses/compact reads: the object, an opaque item, usage.
func TestCompact(t *testing.T) {
	c, err := Route("POST", "/any/v1/responses/compact", nil, false)
	if err != nil || c.Op != Compact || c.Protocol != gateway.Responses || c.Completes() {
		t.Fatalf("%+v %v", c, err)
	}
	if err := c.Decode([]byte(`{"model":"m","input":[{"role":"user","content":"hi"}],"instructions":"be brief"}`)); err != nil || c.Prompt != "hi" {
		t.Fatalf("%+v %v", c, err)
	}
	var out struct {
		Object string
		Output []struct {
			Type, ID  string
			Encrypted string `json:"encrypted_content"`
		}
		Usage struct {
			Input int `json:"input_tokens"`
		}
	}
	if err := json.Unmarshal(Other(&c, nil, time.Unix(1, 0)), &out); err != nil {
		t.Fatal(err)
	}
	if out.Object != "response.compaction" || len(out.Output) != 2 || out.Output[1].Type != "compaction" || out.Output[1].Encrypted == "" || out.Usage.Input == 0 {
		t.Errorf("%+v", out)
	}
}
