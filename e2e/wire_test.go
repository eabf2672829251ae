package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// post sends a chat request by hand and returns the whole answer.
func post(t *testing.T, url, model string, stream bool, prompt string) (*http.Response, string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "stream": stream, "messages": []any{map[string]string{"role": "user", "content": prompt}}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(deadline(t), http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("the body broke off: %v", err)
	}
	return res, string(all)
}

// TestOneEnd looks at what SDKs hide: over all five ways of failing a stream has one finish reason and one closing mark,
// which is its last event, and nothing of an abandoned attempt is in it.
func TestOneEnd(t *testing.T) {
	lab := startLab(t, "five-ways")
	url := startGateway(t, "turns", providerYAML(lab, stubborn, "lab-a", "lab-b")+"combos:\n"+comboYAML("smart", labModel, "lab-a", "lab-b"))
	for i := range 10 {
		prompt := fmt.Sprintf("One end, please: %d", i)
		res, body := post(t, url, "smart", true, prompt)
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			t.Fatalf("%d: status %d, %s: %s", i, res.StatusCode, res.Header.Get("Content-Type"), body)
		}
		if n := strings.Count(body, "data: [DONE]"); n != 1 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("%d: %d closing marks; the end: %q", i, n, body[max(0, len(body)-80):])
		}
		if n := strings.Count(body, `"finish_reason":"`); n != 1 {
			t.Errorf("%d: %d finish reasons", i, n)
		}
		if strings.Contains(body, `"error"`) || res.Header.Get("Retry-After") != "" || res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%d: something of an abandoned attempt is left: %v\n%s", i, res.Header, body)
		}
		if res.Header.Get("X-Spillway-Provider") == "" || res.Header.Get("X-Spillway-Request-Id") == "" {
			t.Errorf("%d: headers are missing: %v", i, res.Header)
		}
	}
}

// TestKnownFailures asks again, with default settings, while everything is known to be out: the answer is an error at
// once, in the gateway's name, that says when to come back, and no attempt is made for it.
func TestKnownFailures(t *testing.T) {
	lab := startLab(t, "failing")
	url := startGateway(t, "known failures", providerYAML(lab, "", "unauthorized-1", "unauthorized-2", "limited-1", "limited-2")+"combos:\n"+
		comboYAML("all-unauthorized", labModel, "unauthorized-1", "unauthorized-2")+comboYAML("all-limited", labModel, "limited-1", "limited-2"))
	for _, x := range []struct {
		kind          string
		first, second int
		code          string
	}{
		{"unauthorized", http.StatusUnauthorized, http.StatusServiceUnavailable, "all_targets_cooling_down"},
		{"limited", http.StatusTooManyRequests, http.StatusTooManyRequests, "model_cooldown"},
	} {
		if res, body := post(t, url, "all-"+x.kind, false, "first"); res.StatusCode != x.first {
			t.Errorf("%s: the first status is %d, must be %d: %s", x.kind, res.StatusCode, x.first, body)
		}
		for _, stream := range []bool{false, true} {
			began := time.Now()
			res, body := post(t, url, "all-"+x.kind, stream, "again")
			var e struct {
				Error struct {
					Code        string
					Diagnostics struct {
						Excluded []struct{ Target, Connection, Layer, Reason string }
					}
				}
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatalf("%s: %v: %s", x.kind, err, body)
			}
			wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
			if res.StatusCode != x.second || e.Error.Code != x.code || err != nil || wait < 1 || res.Header.Get("X-Spillway-Source") != "gateway" {
				t.Errorf("%s again, %s: status %d, Retry-After %q, source %q: %s", x.kind, mode(stream), res.StatusCode,
					res.Header.Get("Retry-After"), res.Header.Get("X-Spillway-Source"), body)
			}
			if list := e.Error.Diagnostics.Excluded; len(list) != 2 || list[0].Target != x.kind+"-1/"+labModel || list[0].Layer != "cooldown" {
				t.Errorf("%s again: diagnostics name %+v", x.kind, list)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("%s again: took %s", x.kind, d)
			}
		}
	}
	asked := map[string]int{}
	for _, a := range lab.log(t, "limited-1") {
		asked[a.Source]++
	}
	for _, s := range []string{"unauthorized-1", "unauthorized-2", "limited-1", "limited-2"} {
		if asked[s] != 1 {
			t.Errorf("%s was asked %d times, must be once", s, asked[s])
		}
	}
}
