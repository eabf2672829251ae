package app

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
)

// A stream is closed by its last event, but complete only with a finish reason for every choice that began: without one
// the client gets an error instead of a clean end, nothing is kept, and the source has failed.
func TestDoneIsNoEnd(t *testing.T) {
	const half = `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]}` + "\n\n"
	const other = `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":1,"delta":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}` + "\n\n"
	for name, body := range map[string]string{"one choice": half, "one of two choices": half + other} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, body+"data: [DONE]\n\n")
			})
			b.Open(providers("a") + combo("a") + cacheOn)
			r := b.Ask(chat(true))
			if r.End == client.Complete || r.End == client.Truncated || !strings.Contains(describe(r), "the answer broke off: truncated") {
				t.Errorf("%s: %s", name, describe(r))
			}
			if n := b.kept(); n != 0 {
				t.Errorf("%s: %d answers are kept", name, n)
			}
			if a := b.Journeys()[0].Attempts; len(a) != 1 || a[0].Kind != gateway.ServiceError || a[0].Reason != gateway.Truncated {
				t.Errorf("%s: %+v", name, a)
			}
		})
	}
}

// A stream that is closed with nothing in it and no finish reason is no empty answer, also where those are answers.
func TestDoneAloneFailsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		})
		b.Source("b")
		b.Open(providers("a", "b") + combo("a", "b") + "resilience: {streams: {refuse_empty: false}}\n")
		if r := b.Ask(chat(true)); r.End != client.Complete || r.Text == "" {
			t.Error(describe(r), b.Story())
		}
	})
}
