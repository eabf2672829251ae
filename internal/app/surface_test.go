package app

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
)

// Regression tests of the client surfaces, named after public bug reports as those of regress_test.go.

// everySurface runs a test for every protocol, streamed and not.
func everySurface(t *testing.T, test func(t *testing.T, b *bubble, q client.Request)) {
	for p := range gateway.NumProtocols {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", p, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					test(t, b, client.Request{Protocol: p, Model: "smart", Stream: stream})
				})
			})
		}
	}
}

// What a client key may use holds for streams as for anything else: it fails over among its own connections.
func TestP6PolicyOfAKeyHoldsForStreams(t *testing.T) {
	sum := sha256.Sum256([]byte("sk-one"))
	everySurface(t, func(t *testing.T, b *bubble, q client.Request) {
		b.Source("a")
		b.Source("b", always(fault.Status))
		b.Source("c")
		b.Open(providers("a", "b", "c") + combo("a", "b", "c") +
			fmt.Sprintf("keys:\n  - {name: one, hash: 'sha256:%s', scopes: [inference], allowed_connections: [b, c]}\n", hex.EncodeToString(sum[:])))
		q.Key = "sk-one"
		r := b.Ask(q)
		if r.End != client.Complete || r.Header.Get("X-Spillway-Provider") != "c" || len(b.Calls("a")) != 0 || len(b.Calls("b")) == 0 {
			t.Errorf("%s\n%s", describe(r), b.Story())
		}
	})
}

// One attempt is one attempt, also when it fails inside a stream.
func TestP7OptOutHoldsInsideStreams(t *testing.T) {
	everySurface(t, func(t *testing.T, b *bubble, q client.Request) {
		b.Source("a", always(fault.ErrorFirst))
		b.Source("b")
		b.Open(providers("a", "b") + strings.Replace(combo("a", "b"), "strategy: priority,", "strategy: priority, options: {failover: {mode: max_attempts, max_attempts: 1}},", 1))
		r := b.Ask(q)
		if r.End != client.Failed || r.InStream || len(b.Calls("a")) != 1 || len(b.Calls("b")) != 0 {
			t.Errorf("%s, %d and %d calls\n%s", describe(r), len(b.Calls("a")), len(b.Calls("b")), b.Story())
		}
	})
}

// Trying again and going elsewhere are one plan: with one target, an error inside a stream is tried again before content.
func TestP12ErrorsInsideStreamsAreTriedAgain(t *testing.T) {
	everySurface(t, func(t *testing.T, b *bubble, q client.Request) {
		b.Source("a", lab.Fault{Kind: fault.ErrorFirst, Times: 1})
		b.Open(providers("a") + combo("a"))
		b.Right(b.Ask(q), "")
		if n := len(b.Calls("a")); n != 2 {
			t.Errorf("%d calls\n%s", n, b.Story())
		}
	})
}

// A stream that is cut before its first content is no end of anything.
func TestP22CutBeforeContentIsTriedAgain(t *testing.T) {
	for name, head := range map[string]string{
		"/v1/responses":        "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"in_progress\",\"output\":[]}}\n\n",
		"/v1/messages":         "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}}\n\n",
		"/v1/chat/completions": chunk(""),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				good := lab.NewSource(lab.SourceConfig{})
				b.Handle("a", answersTo(1, func(w http.ResponseWriter, _ *http.Request) {
					sendEvents(w, head)
					panic(http.ErrAbortHandler)
				}, good))
				b.Open(providers("a") + combo("a"))
				p := map[string]gateway.Protocol{"/v1/responses": gateway.Responses, "/v1/messages": gateway.Anthropic}[name]
				r := b.Ask(client.Request{Protocol: p, Model: "smart", Stream: true})
				if r.End != client.Complete || len(b.Calls("a")) != 2 {
					t.Errorf("%s, %d calls\n%s", describe(r), len(b.Calls("a")), b.Story())
				}
			})
		})
	}
}

// answersTo serves first to the first n requests and rest to those that follow.
func answersTo(n int, first http.HandlerFunc, rest http.Handler) http.HandlerFunc {
	left := n
	return func(w http.ResponseWriter, r *http.Request) {
		if left--; left >= 0 {
			first(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	}
}

// A line that breaks late is an error of the client's protocol with a code, not a broken line.
func TestP23LateTransportErrorsHaveAForm(t *testing.T) {
	everySurface(t, func(t *testing.T, b *bubble, q client.Request) {
		b.Source("a", lab.Fault{Kind: fault.ResetMidStream, Tokens: 12})
		b.Open(providers("a") + combo("a") + "limits: {attempts: 1}\n")
		r := b.Ask(q)
		if r.End != client.Failed || r.ErrorMessage == "" || r.InStream != q.Stream {
			t.Errorf("%s: %q %q\n%s", describe(r), r.ErrorCode, r.ErrorMessage, b.Story())
		}
		if j := b.Journeys()[0]; q.Stream && j.Code != string(gateway.UpstreamStreamError) || !q.Stream && j.Code != string(gateway.UpstreamError) {
			t.Errorf("code %q", j.Code)
		}
	})
}

// A 200 whose only event is an error has answered nothing.
func TestP25AnErrorAsTheOnlyEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			sendEvents(w, "data: {\"error\":{\"message\":\"The model does not exist\",\"type\":\"invalid_request_error\",\"code\":404}}\n\n")
		})
		b.Handle("b", fine)
		b.Open(providers("a", "b") + combo("a", "b"))
		if r := b.Ask(chat(true)); !isFine(r) || r.Header.Get("X-Spillway-Provider") != "b" {
			t.Errorf("%s\n%s", describe(r), b.Story())
		}
	})
}

// Tokens are counted behind the compression.
func TestP62UsageOfCompressedMessages(t *testing.T) {
	const whole = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"fine"}],"stop_reason":"end_turn","usage":{"input_tokens":11,"cache_read_input_tokens":30,"output_tokens":7}}`
	const events = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":11,\"cache_read_input_tokens\":30,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"fine\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	for _, stream := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
				body, kind := whole, "application/json"
				if stream {
					body, kind = events, "text/event-stream"
				}
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, body)
				_ = z.Close()
			})
			b.Open(providers("a") + combo("a"))
			r := b.Ask(client.Request{Protocol: gateway.Anthropic, Model: "smart", Stream: stream})
			u := b.Journeys()[0].Usage
			if r.End != client.Complete || r.Text != "fine" || u.Input != 41 || u.CachedInput != 30 || u.Output != 7 || u.Estimated {
				t.Errorf("stream %t: %s, %+v", stream, describe(r), u)
			}
		})
	}
}
