package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// The user whose request pays for a probe loses two seconds, not the time that the slow source takes.
func TestProbeIsRaced(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Status, Status: 503, For: 30 * time.Second}, lab.Fault{Kind: fault.Silence, After: 30 * time.Second})
		b.Source("b")
		b.Open(providers("a", "b") + combo("a", "b"))
		b.each(8, time.Second)
		time.Sleep(40 * time.Second)
		n := len(b.Calls("a"))
		r := b.Ask(chat(true))
		b.Right(r, "")
		if len(b.Calls("a")) != n+1 {
			t.Errorf("no probe was made: %s", b.Story())
		}
		if r.EndedAfter > 4*time.Second {
			t.Errorf("took %s: %s", r.EndedAfter, b.Story())
		}
		j := b.Journeys()[0]
		if len(j.Attempts) != 2 || j.Attempts[0].Kind != gateway.Slow && j.Attempts[1].Kind != gateway.Slow {
			t.Errorf("the losing probe is no failure: %s", b.Story())
		}
	})
}

// With as many request bytes in memory as allowed, new requests are refused before their bodies are read.
func TestBuffersFull(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "a", Latency: scenario.Between(20*time.Second, 20*time.Second)})
		b.Open(providers("a") + combo("a") + "limits: {body: 1MiB, buffered_bytes: 1MiB}\n")
		big := chat(false)
		big.Prompt = strings.Repeat("x", 700<<10)
		b.background(big)
		r := b.Ask(big)
		if r.Status != 503 || r.ErrorCode != string(gateway.Overloaded) || retryAfter(r) < 1 || r.EndedAfter > time.Second {
			t.Errorf("%s, Retry-After %d", describe(r), retryAfter(r))
		}
		b.Right(b.Ask(chat(false)), "") // a small one still fits
		time.Sleep(30 * time.Second)
		b.Right(b.Ask(big), big.Prompt)
	})
}

// A slow reader slows the upstream down; its own slowness is no silence of the upstream, and nothing piles up.
func TestSlowReader(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		sent := 0
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 2000 {
				n, err := io.WriteString(w, chunk(strings.Repeat("x", 4000)))
				sent += n
				if err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
			sendEvents(w, stop)
		})
		b.Open(providers("a") + combo("a"))
		res := b.Post("/v1/chat/completions", chatStream)
		defer res.Body.Close()
		time.Sleep(4 * time.Minute)
		if sent > 1<<20 {
			t.Errorf("%d bytes were taken from the upstream for a client that reads nothing", sent)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || !bytes.HasSuffix(got, []byte("data: [DONE]\n\n")) || len(got) < 8_000_000 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		b.NothingOut()
	})
}

// An upstream that refuses before it has taken the body must not spoil the body for the next candidate.
func TestLargeBodyIsSentWholeTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.hasty["a"] = true
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			answerJSON(w, 503, `{"error":{"message":"busy"}}`)
		})
		var sizes []int
		b.Handle("b", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sizes = append(sizes, len(body))
			fine(w, r)
		})
		b.Open(providers("a", "b") + combo("a", "b"))
		q := chat(false)
		q.Prompt = strings.Repeat("lorem ipsum ", 500_000)
		for range 3 {
			if r := b.Ask(q); !isFine(r) {
				t.Errorf("%s", describe(r))
			}
		}
		for _, n := range sizes {
			if n < len(q.Prompt) || n != sizes[0] {
				t.Errorf("bodies of %v bytes", sizes)
			}
		}
	})
}

// A gateway that has just started knows nothing of its candidates: a herd must not find out at one dead primary.
func TestColdStartWithASilentPrimary(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", always(fault.Silence))
		b.Source("b")
		b.Open(providers("a", "b") + combo("a", "b"))
		slow := 0
		for _, r := range b.atOnce(200, chat(true)) {
			b.Right(r, "")
			if r.EndedAfter > 3*time.Second {
				slow++
			}
		}
		if n := len(b.Calls("a")); n > 4 || slow > 4 {
			t.Errorf("%d of 200 went to the silent primary, %d clients were slow", n, slow)
		}
	})
}

// A herd on a cold gateway with one candidate is not slowed at all.
func TestColdStartAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a"))
		for _, r := range b.atOnce(200, chat(true)) {
			b.Right(r, "")
			if r.EndedAfter > time.Second {
				t.Errorf("took %s", r.EndedAfter)
			}
		}
	})
}

func TestFailoverOptions(t *testing.T) {
	options := func(o string) string {
		return providers("a", "b") + "combos:\n  - {name: smart, strategy: priority, targets: [a/m, b/m], options: {failover: " + o + "}}\n"
	}
	for name, c := range map[string]struct {
		options string
		fault   lab.Fault
		right   bool
		a, b    int
	}{
		"excluded status":  {"{exclude_status: [418, 503]}", lab.Fault{Kind: fault.Status, Status: 503}, false, 1, 0},
		"other status":     {"{exclude_status: [503]}", lab.Fault{Kind: fault.Status, Status: 529, Times: 3}, true, 2, 1},
		"one attempt":      {"{mode: max_attempts, max_attempts: 1}", lab.Fault{Kind: fault.Status, Status: 503}, false, 1, 0},
		"three attempts":   {"{mode: max_attempts, max_attempts: 3}", lab.Fault{Kind: fault.Status, Status: 503}, true, 2, 1},
		"rate limits, too": {"{mode: max_attempts, max_attempts: 1}", lab.Fault{Kind: fault.RateLimit, RetryAfter: time.Second}, false, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", c.fault)
				b.Source("b")
				b.Open(options(c.options))
				r := b.Ask(chat(false))
				if (wrong(r, "", 60) == "") != c.right || len(b.Calls("a")) != c.a || len(b.Calls("b")) != c.b {
					t.Errorf("%d and %d attempts: %s\n%s", len(b.Calls("a")), len(b.Calls("b")), describe(r), b.Story())
				}
			})
		})
	}
}

// P11: a 429 inside a stream, with nowhere to go, ends it with one error.
func TestP11RateLimitMidStreamEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.ErrorMid, Tokens: 5, Status: 429, Code: "rate_limit_exceeded", Type: "requests", Message: "Rate limit reached"})
		b.Open(providers("a") + combo("a"))
		r := b.Ask(chat(true))
		if r.End != client.Failed || !r.InStream || len(b.Calls("a")) != 1 || r.EndedAfter > 2*time.Second {
			t.Errorf("%d attempts: %s", len(b.Calls("a")), describe(r))
		}
	})
}

// A client key without the scope diagnostics learns no connection's name, in no form of error.
func TestConnectionNamesStayInside(t *testing.T) {
	const secret, key = "secret-connection", "sk-spw-0123456789abcdef0123456789abcdef"
	sum := sha256.Sum256([]byte(key))
	for name, f := range map[string]lab.Fault{"at once": {Kind: fault.Unauthorized}, "inside a stream": {Kind: fault.Status, Status: 500},
		"out": {Kind: fault.RateLimit, RetryAfter: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", f)
				b.Open("providers:\n" + provider("a") + "connections:\n  - {id: " + secret + ", provider: a, key: upstream-key-1234567890}\n" + combo("a") +
					"keys:\n  - {name: dev, hash: 'sha256:" + hex.EncodeToString(sum[:]) + "', scopes: [inference]}\n")
				for range 2 {
					req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, gatewayURL+"/v1/chat/completions", strings.NewReader(chatStream))
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Authorization", "Bearer "+key)
					res, err := b.http.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					body, _ := io.ReadAll(res.Body)
					res.Body.Close()
					for _, word := range []string{secret, "upstream-key", key} {
						if strings.Contains(string(body), word) || strings.Contains(fmt.Sprint(res.Header), word) {
							t.Errorf("%q is told to the client: %s\n%v", word, body, res.Header)
						}
					}
				}
			})
		})
	}
}

// Headers that are the client's own business never leave.
func TestClientCredentialsNeverLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a"))
		q := chat(true)
		q.Key = "sk-client-secret"
		q.Header = map[string]string{"Cookie": "session=1", "X-Spillway-Session": "s", "X-Session-Id": "s", "X-Spillway-Lease-Owner": "vlo_x",
			"X-Forwarded-For": "10.0.0.1", "Proxy-Authorization": "Basic x", "Anthropic-Beta": "tools-2024"}
		b.Right(b.Ask(q), "")
		head := b.Calls("a")[0].head
		for k, v := range head {
			switch k {
			case "Authorization", "Content-Type", "Content-Length", "Accept", "Accept-Encoding", "User-Agent", "Anthropic-Beta":
			default:
				t.Errorf("sent upstream: %s: %s", k, v)
			}
		}
		if head.Get("Authorization") != "Bearer key-a" {
			t.Errorf("authorization %q", head.Get("Authorization"))
		}
	})
}
