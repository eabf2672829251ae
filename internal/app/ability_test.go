package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answerer answers chat like a model, unless refuse finds fault with the body.
func answerer(refuse func(body []byte) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if why := refuse(body); why != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error"}}`, why)
			return
		}
		io.WriteString(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}
}

func nothing([]byte) string { return "" }

// told sends one chat body and returns its status and who served.
func (b *bubble) told(body string) string {
	b.t.Helper()
	res := b.Post("/v1/chat/completions", body)
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return fmt.Sprint(res.StatusCode, " ", res.Header.Get("X-Spillway-Provider"))
}

func withTools(n int) string {
	tools := strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f"}},`, n), ",")
	return `{"model":"smart","messages":[{"role":"user","content":"x"}],"tools":[` + tools + `]}`
}

const withoutTools = `{"model":"smart","messages":[{"role":"user","content":"x"}]}`

// TestWhatAModelRefusesRanksLast: after two requests were refused, a third goes elsewhere first, for ten minutes; requests
// without the feature do not, and what refuses is asked when nothing else is there.
func TestWhatAModelRefusesRanksLast(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", answerer(func(body []byte) string {
			if bytes.Contains(body, []byte(`"tools"`)) {
				return "m does not support tools"
			}
			return ""
		}))
		b.Handle("b", answerer(nothing))
		b.Open(providers("a", "b") + combo("a", "b"))
		ask := func(body, want string, calls int) {
			t.Helper()
			before := len(b.Calls("a"))
			if have := b.told(body); have != want || len(b.Calls("a"))-before != calls {
				t.Errorf("%s with %d calls of a, want %s with %d\n%s", have, len(b.Calls("a"))-before, want, calls, b.Story())
			}
		}
		ask(withTools(1), "200 b", 1)
		ask(withTools(1), "200 b", 1)
		ask(withTools(1), "200 b", 0)
		if path := b.Journeys()[0].Path; !strings.Contains(strings.Join(path, "; "), "a/m ranked last, it refuses tools") {
			t.Errorf("the decision log says %q", path)
		}
		ask(withoutTools, "200 a", 1)
		b.NothingOutBut("refuses tools")
		time.Sleep(10 * time.Minute)
		ask(withTools(1), "200 b", 1)
		ask(withTools(1), "200 b", 1)
		ask(strings.Replace(withTools(1), "smart", "a/m", 1), "400 ", 1) // never excluded
	})
}

// NothingOutBut is NothingOut with one exception.
func (b *bubble) NothingOutBut(state string) {
	b.t.Helper()
	for _, line := range b.Out() {
		if !strings.Contains(line, state) {
			b.t.Errorf("isolated: %s", line)
		}
	}
}

// TestToolLimitsAreLearned: who takes fewer tools is left out, once it has said how many; also after a restart. When
// nothing takes them, the provider's own words are the answer.
func TestToolLimitsAreLearned(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		limit := func(most int) http.HandlerFunc {
			return answerer(func(body []byte) string {
				if n := bytes.Count(body, []byte(`{"type":"function"`)); n > most {
					return fmt.Sprintf("Invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", most, n)
				}
				return ""
			})
		}
		b.Handle("a", limit(128))
		b.Handle("b", limit(200))
		b.Open(providers("a", "b") + combo("a", "b"))
		ask := func(tools int, want string, ofA, ofB int) {
			t.Helper()
			beforeA, beforeB := len(b.Calls("a")), len(b.Calls("b"))
			have := b.told(withTools(tools))
			if na, nb := len(b.Calls("a"))-beforeA, len(b.Calls("b"))-beforeB; have != want || na != ofA || nb != ofB {
				t.Errorf("%d tools: %s with %d and %d calls, want %s with %d and %d\n%s", tools, have, na, nb, want, ofA, ofB, b.Story())
			}
		}
		ask(128, "200 a", 1, 0)
		ask(129, "200 b", 1, 1)
		ask(129, "200 b", 0, 1)
		if j := b.Journeys()[0]; j.Reasons["tool_limit"] != 1 || len(j.Excluded) != 1 || j.Excluded[0].Target.Provider != "a" {
			t.Errorf("the decision log leaves out %v", j.Excluded)
		}
		b.Restart(time.Minute)
		ask(150, "200 b", 0, 1)
		ask(10, "200 a", 1, 0)
		ask(201, "400 ", 1, 1) // b says so, and then nobody is known to take them
		ask(201, "400 ", 1, 1) // both are asked, in their own words
		time.Sleep(25 * time.Hour)
		ask(129, "200 b", 1, 1)
	})
}
