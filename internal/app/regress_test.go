package app

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// Regression tests named after public bug reports: P about gateways of others, O about OmniRoute.

const chatBody = `{"model":"smart","messages":[{"role":"user","content":"why is the sky blue"}]}`
const chatStream = `{"model":"smart","stream":true,"messages":[{"role":"user","content":"why is the sky blue"}]}`

// retryAfter reads the bare header in seconds; -1 = none.
func retryAfter(r client.Result) int {
	n, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil {
		return -1
	}
	return n
}

// answersOnce serves `first` to the first n requests and the whole answer "fine" afterwards.
func answersOnce(n int, first http.HandlerFunc) http.HandlerFunc {
	seen := 0
	return func(w http.ResponseWriter, r *http.Request) {
		if seen++; seen <= n { // requests of these tests come one after the other
			first(w, r)
			return
		}
		fine(w, r)
	}
}

// fine answers a chat request with the text "fine".
func fine(w http.ResponseWriter, r *http.Request) {
	if streamed(r) {
		sendEvents(w, chunk("fi"), chunk("ne"), stop)
		return
	}
	answerJSON(w, 200, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
}

func isFine(r client.Result) bool { return r.End == client.Complete && r.Text == "fine" }

func TestP28QuotaHintIsNoOneWayLatch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", answersOnce(1, func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, 429, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":561635}}`)
		}))
		b.Open(providers("a") + combo("a"))
		r := b.Ask(chat(false))
		if r.Status != 429 || retryAfter(r) < 1 || r.EndedAfter > time.Second {
			t.Errorf("%s, Retry-After %d", describe(r), retryAfter(r))
		}
		time.Sleep(time.Hour)
		if r := b.Ask(chat(true)); r.Status != 429 || len(b.Calls("a")) != 1 {
			t.Errorf("after an hour: %s, %d calls", describe(r), len(b.Calls("a")))
		}
		time.Sleep(24 * time.Hour)
		if r := b.Ask(chat(true)); !isFine(r) {
			t.Errorf("after a day: %s\n%s", describe(r), b.Out())
		}
	})
}

func TestP29RetryAfterWithoutBound(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", answersOnce(1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1587827")
			answerJSON(w, 429, `{"error":{"message":"Too many requests","type":"rate_limit_error","code":"rate_limit_exceeded"}}`)
		}))
		b.Open(providers("a") + combo("a"))
		if r := b.Ask(chat(false)); r.Status != 429 {
			t.Errorf("%s", describe(r))
		}
		time.Sleep(16 * time.Minute)
		if r := b.Ask(chat(false)); !isFine(r) {
			t.Errorf("after 16 min: %s\n%s", describe(r), b.Out())
		}
	})
}

func TestP33CallersFaultsHurtNoKey(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"400": func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, 400, `{"error":{"message":"temperature must be at most 2","type":"invalid_request_error","param":"temperature","code":null}}`)
		},
		"404 of a path":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", 404) },
		"413":               func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 413, `{"error":{"message":"too large"}}`) },
		"422 with no words": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422) },
		"unlisted 4xx: 418": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) },
		"499 of an nginx":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) },
		"451 with html words": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>no</html>", http.StatusUnavailableForLegalReasons)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", answersOnce(50, answer))
				b.Open(providers("a") + combo("a"))
				for range 50 {
					if r := b.Ask(chat(false)); r.Status/100 != 4 {
						t.Errorf("%s", describe(r))
					}
				}
				b.NothingOut()
				if r := b.Ask(chat(false)); !isFine(r) {
					t.Errorf("%s", describe(r))
				}
				if n := len(b.Calls("a")); n != 51 {
					t.Errorf("%d attempts for 51 requests", n)
				}
			})
		})
	}
}

func TestP37QuotaIsAskedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Quota, RetryAfter: 10 * time.Hour})
		b.Source("b")
		b.Open(providers("a", "b") + combo("a", "b"))
		b.each(30, time.Second)
		if n := len(b.Calls("a")); n != 1 {
			t.Errorf("the account without quota was asked %d times", n)
		}
	})
}

func TestP40OwnErrorsTeachNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.RateLimit, RetryAfter: 10 * time.Minute, Times: 1})
		b.Open(providers("a") + combo("a"))
		began := time.Now()
		b.Ask(chat(false))
		before := strings.Join(b.Out(), "\n")
		for range 100 {
			r := b.Ask(chat(true))
			if r.Status != 429 || r.ErrorCode != string(gateway.ModelCooldown) || r.Header.Get("X-Spillway-Source") != "gateway" {
				t.Fatalf("%s, source %q", describe(r), r.Header.Get("X-Spillway-Source"))
			}
		}
		if after := strings.Join(b.Out(), "\n"); after != before {
			t.Errorf("own errors changed the state from\n%s\nto\n%s", before, after)
		}
		if n := len(b.Calls("a")); n != 1 {
			t.Errorf("%d attempts", n)
		}
		time.Sleep(10*time.Minute - time.Since(began) + 2*time.Second)
		b.Right(b.Ask(chat(true)), "")
	})
}

func TestP43And44RetryAfterReachesTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.RateLimit, RetryAfter: 100 * time.Second})
		b.Open(providers("a") + combo("a"))
		for i, stream := range []bool{false, true, false} { // the first is the upstream's 429, the others are our own
			r := b.Ask(chat(stream))
			if n := retryAfter(r); r.Status != 429 || n < 98 || n > 112 {
				t.Errorf("request %d: Retry-After %d: %s", i, n, describe(r))
			}
		}
	})
}

func TestP46NoRetryWithoutAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Status, Status: 500})
		b.Open(providers("a") + combo("a"))
		b.Ask(chat(false))
		calls := b.Calls("a")
		for i := 1; i < len(calls); i++ {
			if gap := calls[i].at.Sub(calls[i-1].at); gap < 200*time.Millisecond {
				t.Errorf("attempt %d came %s after the one before", i+1, gap)
			}
		}
	})
}

func TestP48AttemptsAreThoseOfThePlan(t *testing.T) {
	for _, limit := range []int{1, 3, 5} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/stream=%t", limit, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("a", lab.Fault{Kind: fault.Status, Status: 500})
					b.Open(providers("a") + combo("a") + fmt.Sprintf("limits: {attempts: %d}\n", limit))
					if r := b.Ask(chat(stream)); r.End != client.Failed {
						t.Errorf("%s", describe(r))
					}
					if n := len(b.Calls("a")); n != limit {
						t.Errorf("%d attempts, want %d", n, limit)
					}
				})
			})
		}
	}
}

func TestP49RetriesGoElsewhereAndEnd(t *testing.T) {
	for _, f := range []lab.Fault{{Kind: fault.Status, Status: 500}, {Kind: fault.Silence}, {Kind: fault.Cut}, {Kind: fault.Empty}} {
		t.Run(string(f.Kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				names := []string{"a", "b", "c", "d"}
				for _, n := range names {
					b.Source(n, f)
				}
				b.Open(providers(names...) + "combos:\n  - {name: smart, strategy: round-robin, targets: [a/m, b/m, c/m, d/m]}\n")
				if r := b.Ask(chat(true)); r.End != client.Failed {
					t.Errorf("%s", describe(r))
				}
				total := 0
				first := map[string]bool{}
				j := b.Journeys()[0]
				for i, a := range j.Attempts {
					if i < len(names) && first[string(a.Target.Provider)] {
						t.Errorf("attempt %d repeats %s while others are untried", i+1, a.Target.Provider)
					}
					first[string(a.Target.Provider)] = true
					total++
				}
				if total > 10 {
					t.Errorf("%d attempts", total)
				}
			})
		})
	}
}

func TestP51AcceptsAndNeverAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", always(fault.Silence))
		b.Source("b")
		b.Open(providers("a", "b") + combo("a", "b"))
		r := b.Ask(chat(true))
		b.Right(r, "")
		if r.EndedAfter > 12*time.Second {
			t.Errorf("took %s", r.EndedAfter)
		}
	})
}

// An upstream that goes on sending comments and nothing else after its first token is not alive.
func TestP52StallBehindHeartbeats(t *testing.T) {
	for name, beat := range map[string]string{"comments": ": keep-alive\n\n", "empty deltas": chunk(""), "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
					sendEvents(w, chunk("one"))
					for r.Context().Err() == nil {
						select {
						case <-time.After(time.Second):
							sendEvents(w, beat)
						case <-r.Context().Done():
						}
					}
				})
				b.Open(providers("a") + combo("a"))
				r := b.Ask(chat(true))
				if r.End != client.Failed || !r.InStream || r.Text != "one" || r.EndedAfter > 125*time.Second {
					t.Errorf("%s", describe(r))
				}
			})
		})
	}
}

// Proxies in front cut a line on which nothing comes for 60 s: from second 45 on it is kept alive.
func TestP55EarlyCommitKeepsTheLineAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "a", Latency: scenario.Between(100*time.Second, 100*time.Second)})
		b.Open(providers("a") + combo("a"))
		began := time.Now()
		res := b.Post("/v1/chat/completions", chatStream)
		defer res.Body.Close()
		if d := time.Since(began); res.StatusCode != 200 || d < 45*time.Second || d > 47*time.Second {
			t.Errorf("status %d after %s", res.StatusCode, d)
		}
		if n := res.Header.Get("X-Spillway-Attempts"); n != "" {
			t.Errorf("%s attempts are told while they are being made", n)
		}
		last, comments := time.Now(), 0
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if gap := time.Since(last); gap > 16*time.Second {
				t.Errorf("nothing came for %s", gap)
			}
			last = time.Now()
			if strings.HasPrefix(lines.Text(), ":") {
				comments++
			}
		}
		if comments < 3 {
			t.Errorf("%d comments in 55 s", comments)
		}
		b.Right(b.Ask(chat(true)), "")
	})
}

// P55: with an untried candidate left the door stays shut, so that failing over stays possible with a right status.
func TestP55NoEarlyCommitWhenSwitchedOff(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "a", Latency: scenario.Between(100*time.Second, 100*time.Second)})
		b.Open(providers("a") + "combos:\n  - {name: smart, strategy: priority, targets: [a/m], options: {early_commit: off}}\n")
		began := time.Now()
		res := b.Post("/v1/chat/completions", chatStream)
		defer res.Body.Close()
		if d := time.Since(began); d < 100*time.Second {
			t.Errorf("status %d after %s", res.StatusCode, d)
		}
		_, _ = io.Copy(io.Discard, res.Body)
	})
}

// errorForms are errors inside a 200 as providers write them.
var errorForms = map[string]string{
	"P63 error and done":  "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\"}}\n\ndata: [DONE]\n\n",
	"P67 finish reason":   "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"error\":{\"code\":502,\"message\":\"provider_unavailable\"},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n",
	"P67 no choices":      "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"error\":{\"code\":502,\"message\":\"provider_unavailable\"}}\n\n",
	"P19 rate limit":      "data: {\"error\":{\"message\":\"Rate limit reached\",\"code\":\"rate_limit_exceeded\"}}\n\n",
	"bare JSON":           "{\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}",
	"error as event name": "event: error\ndata: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n",
}

func TestP63AndP67ErrorInsideA200(t *testing.T) {
	for name, form := range errorForms {
		t.Run(name+"/before content", func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", func(w http.ResponseWriter, _ *http.Request) { sendEvents(w, chunk(""), form) })
				b.Handle("b", fine)
				b.Open(providers("a", "b") + combo("a", "b"))
				if r := b.Ask(chat(true)); !isFine(r) {
					t.Errorf("%s", describe(r))
				}
			})
		})
		t.Run(name+"/behind content", func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", func(w http.ResponseWriter, _ *http.Request) { sendEvents(w, chunk("fi"), form) })
				b.Open(providers("a") + combo("a"))
				r := b.Ask(chat(true))
				if r.End != client.Failed || !r.InStream || r.Text != "fi" {
					t.Errorf("%s", describe(r))
				}
				if k := b.Journeys()[0].Attempts[0].Kind; k == gateway.Success {
					t.Errorf("recorded as %s", k)
				}
			})
		})
	}
}

func TestP65EmptyAnswerGoesElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			if streamed(r) {
				sendEvents(w, chunk(""), stop)
				return
			}
			answerJSON(w, 200, `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":14903,"completion_tokens":0,"total_tokens":14903}}`)
		})
		b.Handle("b", fine)
		b.Open(providers("a", "b") + combo("a", "b"))
		for _, stream := range []bool{false, true} {
			if r := b.Ask(chat(stream)); !isFine(r) {
				t.Errorf("stream=%t: %s", stream, describe(r))
			}
		}
	})
}

// P65: what has no text and is an answer all the same stays where it is.
func TestP65NotEmpty(t *testing.T) {
	message := func(m, finish string) string {
		return fmt.Sprintf(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":%s,"finish_reason":%q}],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}`, m, finish)
	}
	for name, body := range map[string]string{
		"tool call": message(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "tool_calls"),
		"refusal":   message(`{"role":"assistant","content":null,"refusal":"I will not."}`, "stop"),
		"reasoning": message(`{"role":"assistant","content":"","reasoning_content":"hm"}`, "stop"),
		"length":    message(`{"role":"assistant","content":""}`, "length"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, body) })
				b.Handle("b", fine)
				b.Open(providers("a", "b") + combo("a", "b"))
				res := b.Post("/v1/chat/completions", chatBody)
				defer res.Body.Close()
				got, _ := io.ReadAll(res.Body)
				if string(got) != body || res.Header.Get("X-Spillway-Provider") != "a" {
					t.Errorf("%s answered %s", res.Header.Get("X-Spillway-Provider"), got)
				}
			})
		})
	}
}

func TestP70StatusIsKept(t *testing.T) {
	for _, p := range []gateway.Protocol{gateway.OpenAI, gateway.Responses, gateway.Anthropic, gateway.Gemini} {
		for _, status := range []int{400, 401, 403, 404, 429} {
			t.Run(fmt.Sprintf("%s/%d", p, status), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("a", lab.Fault{Kind: fault.Status, Status: status, RetryAfter: 90 * time.Second})
					b.Open(providers("a") + combo("a"))
					r := b.Ask(client.Request{Protocol: p, Model: "smart", Stream: status%2 == 0})
					if r.End != client.Failed || r.Status != status {
						t.Errorf("%s", describe(r))
					}
				})
			})
		}
	}
}

func TestP92CommentsAreNoData(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			sendEvents(w, ": OPENROUTER PROCESSING\n\n", chunk(""), ": ping - 2\n\n", chunk("fi"), ": OPENROUTER PROCESSING\n\n", ":\n\n", chunk("ne"), ": ping\n\n", stop)
		})
		b.Open(providers("a") + combo("a"))
		if r := b.Ask(chat(true)); !isFine(r) {
			t.Errorf("%s", describe(r))
		}
	})
}

func TestP97StaleContentEncoding(t *testing.T) {
	zipped := func(w http.ResponseWriter, status int, body string) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, body)
		_ = z.Close()
	}
	const refusal = `{"error":{"message":"temperature must be at most 2","type":"invalid_request_error"}}`
	for _, status := range []int{200, 400, 401, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
					if status == 200 {
						zipped(w, 200, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`)
						return
					}
					zipped(w, status, refusal)
				})
				b.Open(providers("a") + combo("a") + "limits: {attempts: 2}\n")
				res := b.Post("/v1/chat/completions", chatBody)
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != status || res.Header.Get("Content-Encoding") != "" {
					t.Errorf("status %d, content-encoding %q, %v", res.StatusCode, res.Header.Get("Content-Encoding"), err)
				}
				if s := string(got); !strings.Contains(s, "fine") && !strings.Contains(s, "temperature must be at most 2") {
					t.Errorf("body %q", s)
				}
			})
		})
	}
}

func TestP99BodyInTwoPieces(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		const body = `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body[:40])
			_ = http.NewResponseController(w).Flush()
			time.Sleep(3 * time.Second)
			_, _ = io.WriteString(w, body[40:])
		})
		b.Open(providers("a") + combo("a"))
		if r := b.Ask(chat(false)); !isFine(r) {
			t.Errorf("%s", describe(r))
		}
	})
}

// A probe that hangs, and one whose client leaves, must not keep the breaker half-open: the next request probes.
func TestO1ProbeThatNeverSettles(t *testing.T) {
	for _, pool := range []int{1, 2} {
		t.Run(fmt.Sprintf("pool of %d", pool), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", lab.Fault{Kind: fault.Status, Status: 503, For: 15 * time.Second},
					lab.Fault{Kind: fault.Silence, After: 15 * time.Second, For: time.Minute})
				b.Source("b")
				names := []string{"a", "b"}[:pool]
				b.Open(providers(names...) + combo(names...))
				for range 8 { // opens the breaker
					ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
					b.AskCtx(ctx, chat(true))
					cancel()
				}
				for range 6 { // probes, and leaves
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					b.AskCtx(ctx, chat(true))
					cancel()
					time.Sleep(5 * time.Second)
				}
				b.running.Go(func() { b.Ask(chat(true)) }) // hangs on its probe
				time.Sleep(2 * time.Minute)
				began := time.Now()
				for range 6 {
					b.Right(b.Ask(chat(true)), "")
					time.Sleep(10 * time.Second)
				}
				served := false
				for _, a := range b.ups["a"].source.Attempts(time.Now()) {
					served = served || a.At.After(began) && a.Whole
				}
				if !served {
					t.Errorf("the recovered source is not used again: %s", b.Out())
				}
			})
		})
	}
}

// The time in the queue and the time of execution are two clocks.
func TestO7QueueWaitLimitsNoRunningCall(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "a", Latency: scenario.Between(50*time.Second, 50*time.Second)})
		b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a, provider: a, key: k, max_concurrent: 1}\n" + combo("a") +
			"resilience: {pacing: {queue: {max_wait: 2s}}}\n")
		var first, second client.Result
		b.running.Go(func() { first = b.Ask(chat(false)) })
		time.Sleep(time.Second)
		b.running.Go(func() { second = b.Ask(chat(false)) })
		b.running.Wait()
		b.Right(first, "")
		if second.Status != 504 || second.EndedAfter > 3*time.Second || second.EndedAfter < 2*time.Second {
			t.Errorf("want a time-out of the queue after 2 s: %s", describe(second))
		}
	})
}

func TestO13StreamWithoutTerminalEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) { sendEvents(w, chunk("fi"), chunk("ne")) })
		b.Open(providers("a") + combo("a"))
		r := b.Ask(chat(true))
		if r.End != client.Failed || !r.InStream {
			t.Errorf("%s", describe(r))
		}
		a := b.Journeys()[0].Attempts[0]
		if a.Kind != gateway.ServiceError || a.Reason != gateway.Truncated {
			t.Errorf("recorded as %s (%s)", a.Kind, a.Reason)
		}
	})
}

// P13 and P14: what a broken head has said does not leak into the answer of the next candidate.
func TestP14HeadOfAFailedAttemptDoesNotLeak(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			sendEvents(w, chunk(""), "data: {\"id\":\"leaked\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
		})
		b.Handle("b", fine)
		b.Open(providers("a", "b") + combo("a", "b"))
		res := b.Post("/v1/chat/completions", chatStream)
		defer res.Body.Close()
		got, _ := io.ReadAll(res.Body)
		if strings.Contains(string(got), "leaked") || strings.Count(string(got), "[DONE]") != 1 {
			t.Errorf("got %s", got)
		}
	})
}

func TestO16ClientAbortsTeachNothing(t *testing.T) {
	for name, f := range map[string]lab.Fault{"mid-stream": {Kind: fault.Trickle, Interval: time.Second}, "before headers": {Kind: fault.Silence}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				f.For = 5 * time.Minute
				b.Source("a", f)
				b.Source("b")
				b.Open(providers("a", "b") + combo("a", "b"))
				for range 60 {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					b.AskCtx(ctx, chat(true))
					cancel()
				}
				b.NothingOut()
				time.Sleep(3 * time.Minute)
				r := b.Ask(chat(true))
				b.Right(r, "")
				if got := r.Header.Get("X-Spillway-Provider"); got != "a" {
					t.Errorf("%s answered", got)
				}
			})
		})
	}
}

func TestO17FirstReadHasALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			sendEvents(w, "")
			<-r.Context().Done()
		})
		b.Handle("b", fine)
		b.Open(providers("a", "b") + combo("a", "b"))
		if r := b.Ask(chat(true)); !isFine(r) || r.EndedAfter > 12*time.Second {
			t.Errorf("%s", describe(r))
		}
	})
}

func TestO19HungTargetsCostBoundedTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		for _, n := range []string{"a", "b", "c"} {
			b.Source(n, always(fault.Silence))
		}
		b.Source("d")
		b.Open(providers("a", "b", "c", "d") + combo("a", "b", "c", "d"))
		for range 3 {
			r := b.Ask(chat(true))
			b.Right(r, "")
			if r.EndedAfter > 90*time.Second {
				t.Errorf("took %s\n%s", r.EndedAfter, b.Story())
			}
		}
	})
}

// dialTimeout is the error of a net.Dialer whose time is up.
type dialTimeout struct{}

func (dialTimeout) Error() string     { return "i/o timeout" }
func (dialTimeout) Timeout() bool     { return true }
func (dialTimeout) Temporary() bool   { return true }
func (dialTimeout) Is(err error) bool { return err == context.DeadlineExceeded }

// A host that swallows every packet is found out and left alone, however short the connect limit is.
func TestBlackHoledHostIsLearned(t *testing.T) {
	for _, limit := range []time.Duration{400 * time.Millisecond, 10 * time.Second} {
		t.Run(limit.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.lenient = true // a probe that loses its race has not reached the upstream
				b.Source("a")
				b.Source("b")
				dials := 0
				b.net.Break("a.test", func(ctx context.Context) error {
					dials++
					time.Sleep(limit)
					return &net.OpError{Op: "dial", Net: "tcp", Err: dialTimeout{}}
				})
				b.Open(providers("a", "b") + combo("a", "b"))
				b.each(20, time.Second)
				if dials > 10 {
					t.Errorf("%d attempts on a black hole for 20 requests", dials)
				}
				for _, j := range b.Journeys() {
					if a := j.Attempts[0]; a.Target.Provider == "a" && a.Reason != gateway.ConnectTimeout && a.Reason != gateway.RaceLost {
						t.Errorf("the attempt ended as %s (%s)", a.Kind, a.Reason)
					}
				}
				r := b.Ask(client.Request{Protocol: gateway.OpenAI, Model: "a/m"})
				if r.Status != 504 {
					t.Errorf("alone: %s\n%s", describe(r), b.Story())
				}
			})
		})
	}
}
