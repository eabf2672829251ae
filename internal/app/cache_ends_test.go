package app

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// Only what has ended for a known good reason, over a connection that was well to its end, is served again. Some
// providers say with a finish reason of their own that they gave up; some put one on every chunk.
func TestCacheKeepsOnlyProperEnds(t *testing.T) {
	chat := func(index int, reason string) string {
		return fmt.Sprintf(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"half"},"finish_reason":"stop"},`+
			`{"index":%d,"message":{"role":"assistant","content":"half"},"finish_reason":%q}]}`, index, reason)
	}
	message := func(reason string) string {
		return fmt.Sprintf(`{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"half"}],"stop_reason":%q,"usage":{"input_tokens":1,"output_tokens":1}}`, reason)
	}
	response := func(status, reason string) string {
		return fmt.Sprintf(`{"id":"x","object":"response","status":%q,"incomplete_details":{"reason":%q},"model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"half"}]}]}`, status, reason)
	}
	google := func(reason string) string {
		return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":"half"}]},"finishReason":%q}]}`, reason)
	}
	for _, c := range []struct {
		question, answer string
		kept             int
		breaks           bool
	}{
		{"openai", chat(1, "stop"), 1, false},
		{"openai", chat(1, "function_call"), 1, false},
		{"openai", chat(1, "insufficient_system_resource"), 0, false},
		{"openai", chat(1, "abort"), 0, false},
		{"openai", chat(64, "stop"), 0, false},
		{"anthropic", message("stop_sequence"), 1, false},
		{"anthropic", message("pause_turn"), 0, false},
		{"responses", response("completed", ""), 1, false},
		{"responses", response("incomplete", "max_tool_calls"), 0, false},
		{"responses", response("incomplete", ""), 0, false},
		{"gemini", google("STOP"), 1, false},
		{"gemini", google("OTHER"), 0, false},
		{"gemini", google("UNEXPECTED_TOOL_CALL"), 0, false},
		{"gemini stream", "data: " + google("STOP") + "\n\n", 1, false},
		{"gemini stream", "data: " + google("STOP") + "\n\n", 0, true},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if c.question == "gemini stream" {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				_, _ = io.WriteString(w, c.answer)
				if c.breaks {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			})
			b.Open(providers("a") + combo("a") + cacheOn)
			if g := b.send(questions[c.question]); g.status != 200 {
				t.Errorf("%s: %d %s", c.question, g.status, g.body)
			}
			if n := b.kept(); n != c.kept {
				t.Errorf("%s: %d are kept, want %d: %s", c.question, n, c.kept, c.answer)
			}
		})
	}
}
