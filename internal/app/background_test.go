package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBackgroundResponses: background: true is answered while the client waits, with a warning, and the response can be
// read by its id as usual.
func TestBackgroundResponses(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.lenient = true // reading a stored response is an attempt, too
		var sent string
		b.Handle("main", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodPost {
				body, _ := io.ReadAll(r.Body)
				sent = string(body)
			}
			io.WriteString(w, `{"id":"resp_1","object":"response","status":"completed","background":false,"output":[{"type":"message","role":"assistant",`+
				`"content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":1,"output_tokens":1}}`)
		})
		b.Open(providers("main") + combo("main"))
		res := b.Post("/v1/responses", `{"model":"smart","background": true,"store":true,"input":"hello"}`)
		defer res.Body.Close()
		var answer struct{ ID, Status string }
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != 200 || answer.Status != "completed" {
			t.Fatalf("status %d, %+v, %v", res.StatusCode, answer, err)
		}
		if warning := res.Header.Get("X-Spillway-Warning"); !strings.Contains(warning, "background") {
			t.Errorf("warning %q", warning)
		}
		if want := `{"model":"m","background": false,"store":true,"input":"hello"}`; sent != want {
			t.Errorf("sent %s, want %s", sent, want)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, gatewayURL+"/v1/responses/"+answer.ID, nil)
		got, err := b.http.Do(req)
		if err != nil || got.StatusCode != 200 {
			t.Fatalf("%v %v", got, err)
		}
		got.Body.Close()
		plain := b.Post("/v1/responses", `{"model":"smart","input":"hello"}`)
		plain.Body.Close()
		if plain.Header.Get("X-Spillway-Warning") != "" {
			t.Error("a warning about nothing")
		}
		time.Sleep(time.Second)
	})
}
