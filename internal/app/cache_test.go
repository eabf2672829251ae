package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
)

const cacheOn = "cache: {enabled: true}\n"

// question is one call as bytes.
type question struct{ path, body string }

var questions = map[string]question{
	"openai":           {"/v1/chat/completions", `{"model":"smart","messages":[{"role":"user","content":"hi"}]}`},
	"openai stream":    {"/v1/chat/completions", `{"model":"smart","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	"responses":        {"/v1/responses", `{"model":"smart","store":false,"input":"hi"}`},
	"responses stream": {"/v1/responses", `{"model":"smart","store":false,"stream":true,"input":"hi"}`},
	"anthropic":        {"/v1/messages", `{"model":"smart","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`},
	"anthropic stream": {"/v1/messages", `{"model":"smart","stream":true,"max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`},
	"gemini":           {"/v1beta/models/smart:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
	"gemini stream":    {"/v1beta/models/smart:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
	"embeddings":       {"/v1/embeddings", `{"model":"smart","input":"hi"}`},
	"count":            {"/v1/messages/count_tokens", `{"model":"smart","messages":[{"role":"user","content":"hi"}]}`},
}

// got is an answer as bytes.
type got struct {
	status int
	head   http.Header
	body   string
	err    error
}

func (g got) source() string { return g.head.Get("X-Spillway-Source") }

// send asks a question, with headers given in pairs, and reads the answer to its end.
func (b *bubble) send(q question, header ...string) got {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, gatewayURL+q.path, strings.NewReader(q.body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.http.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(body), err}
}

// kept is how many answers the cache holds; what is being copied must be nothing.
func (b *bubble) kept() int {
	b.t.Helper()
	synctest.Wait()
	s := b.app.cache.Snapshot()
	if s.Entries == 0 && s.Bytes != 0 {
		b.t.Errorf("an empty cache holds %d bytes", s.Bytes)
	}
	return s.Entries
}

// Every protocol, streamed or not: the same bytes again, without an upstream call and without a token accounted.
func TestCacheServesRepeats(t *testing.T) {
	for name, q := range questions {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a")
				b.Open(providers("a") + combo("a") + cacheOn)
				first := b.send(q)
				time.Sleep(42 * time.Second)
				again := b.send(q)
				if first.status != 200 || first.source() != "upstream" || again.status != 200 || again.source() != "cache" {
					t.Fatalf("%d from %q, then %d from %q: %s", first.status, first.source(), again.status, again.source(), again.body)
				}
				if again.body != first.body || first.body == "" {
					t.Errorf("another answer:\n%s\nfirst:\n%s", again.body, first.body)
				}
				for h, want := range map[string]string{"Age": "42", "X-Spillway-Attempts": "0", "X-Spillway-Provider": "a", "X-Spillway-Model": "m",
					"Content-Type": first.head.Get("Content-Type"), "X-Spillway-Connection": ""} {
					if v := again.head.Get(h); v != want && !(h == "Age" && v == "41") {
						t.Errorf("%s is %q, want %q", h, v, want)
					}
				}
				if n := len(b.Calls("a")); n != 1 {
					t.Errorf("%d upstream calls", n)
				}
				list := b.Journeys()
				hit, run := list[0], list[1]
				if hit.CopyOf != run.ID || hit.Shared || len(hit.Attempts) != 0 || hit.Usage != (gateway.Usage{}) || hit.Code != "" || hit.Connection != "" {
					t.Errorf("the decision log of the repeat: %+v", hit)
				}
				if string(hit.ID) != again.head.Get("X-Spillway-Request-Id") {
					t.Error("the repeat carries the id of another request")
				}
			})
		})
	}
}

// What is not one whole good answer is never served again.
func TestCacheKeepsOnlyWholeAnswers(t *testing.T) {
	lengthy := func(stream bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if !stream {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"half"},"finish_reason":"length"}]}`)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":"length"}]}`+"\n\ndata: [DONE]\n\n")
		}
	}
	faults := map[string][]lab.Fault{
		"good": nil, "error": {{Kind: fault.Status, Status: 500}}, "bad request": {{Kind: fault.Status, Status: 400}}, "empty": {always(fault.Empty)},
		"metadata only": {always(fault.MetadataOnly)}, "truncated": {{Kind: fault.Cut, Tokens: 20}}, "ended early": {{Kind: fault.EndEarly, Tokens: 20}},
		"reset": {{Kind: fault.ResetMidStream, Tokens: 20}}, "stalled": {{Kind: fault.Stall, Tokens: 20}}, "silent": {always(fault.Silence)},
		"refused": {always(fault.ContentFilter)}, "error inside": {{Kind: fault.ErrorMid, Tokens: 20}}, "html": {always(fault.HTML)},
		"events missing": {{Kind: fault.Malformed, Event: 10}},
	}
	for name, script := range faults {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%t", name, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("a", script...)
					b.Open(providers("a") + combo("a") + cacheOn)
					r := b.Ask(chat(stream))
					want := 0
					if name == "good" || name == "events missing" && !stream && r.End == client.Complete {
						want = 1
					}
					if n := b.kept(); n != want {
						t.Errorf("%d answers are kept, want %d: %s", n, want, describe(r))
					}
				})
			})
		}
	}
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("token limit/stream=%t", stream), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", lengthy(stream))
				b.Open(providers("a") + combo("a") + cacheOn)
				if r := b.Ask(chat(stream)); r.Text != "half" {
					t.Fatal(describe(r))
				}
				if n := b.kept(); n != 0 {
					t.Errorf("%d answers are kept", n)
				}
			})
		})
		t.Run(fmt.Sprintf("client left/stream=%t", stream), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", lab.Fault{Kind: fault.Trickle, Interval: time.Second})
				b.Open(providers("a") + combo("a") + cacheOn)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				b.AskCtx(ctx, chat(stream))
				time.Sleep(time.Second)
				if n := b.kept(); n != 0 {
					t.Errorf("%d answers are kept", n)
				}
			})
		})
	}
}

// An answer that came after a failover is whole and the right one.
func TestCacheKeepsWhatFailoverBrought(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", always(fault.Empty))
		b.Source("b")
		b.Open(providers("a", "b") + combo("a", "b") + cacheOn)
		b.Right(b.Ask(chat(true)), "")
		r := b.Ask(chat(true))
		b.Right(r, "")
		if r.Header.Get("X-Spillway-Source") != "cache" || r.Header.Get("X-Spillway-Provider") != "b" {
			t.Errorf("from %s of %s", r.Header.Get("X-Spillway-Source"), r.Header.Get("X-Spillway-Provider"))
		}
	})
}

// The answer of an emergency combo is not what the name stands for.
func TestCacheLeavesEmergencyAnswersOut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Status, Status: 500})
		b.Source("b")
		b.Open(providers("a", "b") + combo("a") + "  - {name: spare, targets: [b/m]}\nemergency_fallback: spare\n" + cacheOn)
		b.Right(b.Ask(chat(true)), "")
		if n := b.kept(); n != 0 {
			t.Errorf("%d answers are kept", n)
		}
	})
}

func TestCacheTimeToLive(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a") + "cache: {enabled: true, ttl: 1m}\n")
		q := questions["openai"]
		sources := []string{}
		for _, gap := range []time.Duration{0, 30 * time.Second, 29 * time.Second, 2 * time.Second, 59 * time.Second} {
			time.Sleep(gap)
			sources = append(sources, b.send(q).source())
		}
		if s := strings.Join(sources, " "); s != "upstream cache cache upstream cache" {
			t.Errorf("got %s", s)
		}
	})
}

func TestCacheIsPerClientKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		var keys strings.Builder
		keys.WriteString("keys:\n")
		for _, k := range []string{"one", "two"} {
			sum := sha256.Sum256([]byte("sk-spw-" + k))
			fmt.Fprintf(&keys, "  - {name: %s, hash: 'sha256:%s', scopes: [inference]}\n", k, hex.EncodeToString(sum[:]))
		}
		b.Open(providers("a") + combo("a") + cacheOn + keys.String())
		q := questions["openai"]
		var sources []string
		for _, k := range []string{"one", "two", "two", "one"} {
			sources = append(sources, b.send(q, "Authorization", "Bearer sk-spw-"+k).source())
		}
		if s := strings.Join(sources, " "); s != "upstream upstream cache cache" {
			t.Errorf("got %s", s)
		}
		if g := b.send(q, "Authorization", "Bearer sk-spw-none"); g.status != 401 {
			t.Errorf("a wrong key got %d from %q", g.status, g.source())
		}
	})
}

func TestCacheControl(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a") + "cache: {enabled: true, deduplicate: true}\n")
		q := questions["openai"]
		for i, step := range []struct{ control, want string }{
			{"no-store", "upstream"}, {"", "upstream"}, {"no-store", "upstream"}, {"", "cache"}, {"no-cache", "upstream"}, {"", "cache"},
			{"max-age=3600", "cache"}, {"max-age=0", "upstream"},
		} {
			var h []string
			if step.control != "" {
				h = []string{"Cache-Control", step.control}
			}
			if g := b.send(q, h...); g.source() != step.want {
				t.Errorf("step %d, %q: from %q, want %q", i, step.control, g.source(), step.want)
			}
		}
		time.Sleep(10 * time.Second)
		if g := b.send(q, "Cache-Control", "max-age=5"); g.source() != "upstream" {
			t.Errorf("an answer of 10 s was served to one that takes 5 s")
		}
	})
}

// A name that leads elsewhere after a reload is another question; switched off, nothing is held.
func TestCacheAndReload(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Source("b")
		base := providers("a", "b")
		q := question{"/v1/chat/completions", `{"model":"named","messages":[{"role":"user","content":"hi"}]}`}
		b.Open(base + "aliases: {named: a/m}\n" + cacheOn)
		b.send(q)
		b.Reload(base + "aliases: {named: b/m}\n" + cacheOn)
		if g := b.send(q); g.source() != "upstream" || g.head.Get("X-Spillway-Provider") != "b" {
			t.Errorf("from %s of %s", g.source(), g.head.Get("X-Spillway-Provider"))
		}
		if g := b.send(q); g.source() != "cache" || g.head.Get("X-Spillway-Provider") != "b" {
			t.Errorf("from %s of %s", g.source(), g.head.Get("X-Spillway-Provider"))
		}
		b.Reload(base + "aliases: {named: b/m}\n")
		if n := b.kept(); n != 0 {
			t.Errorf("%d answers are kept by a cache that is off", n)
		}
		if g := b.send(q); g.source() != "upstream" {
			t.Errorf("from %s", g.source())
		}
	})
}

// A cache of few bytes stays within them and keeps what is used.
func TestCacheIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a") + "cache: {enabled: true, max_bytes: 128KiB, max_entry: 32KiB}\n")
		for i := range 60 {
			q := chat(i%2 == 0)
			q.Prompt = fmt.Sprint("question ", i)
			b.Right(b.Ask(q), q.Prompt)
			q.Prompt = "question 0"
			q.Stream = true
			if r := b.Ask(q); r.Header.Get("X-Spillway-Source") != "cache" && i > 0 {
				t.Errorf("round %d: what is used all the time was dropped", i)
			}
			if s := b.app.cache.Snapshot(); s.Bytes > 128<<10 {
				t.Fatalf("%d bytes are held", s.Bytes)
			}
		}
		if s := b.app.cache.Snapshot(); s.Evicted == 0 {
			t.Error("nothing was dropped: the test proves nothing")
		}
	})
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a") + "cache: {enabled: true, max_entry: 1KiB}\n")
		b.Right(b.Ask(chat(true)), "")
		if n := b.kept(); n != 0 {
			t.Error("an answer above max_entry is kept")
		}
	})
}

const sharing = "cache: {deduplicate: true}\n"

// Many equal requests at once are one upstream call, whatever their clients do, and each that stays has the whole answer.
func TestSharedByAHundredOfWhomManyLeave(t *testing.T) {
	for seed := range uint64(6) {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/stream=%t", seed, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					rng := rand.New(rand.NewPCG(seed, 1))
					b.Source("a", lab.Fault{Kind: fault.Trickle, Interval: 100 * time.Millisecond})
					b.Open(providers("a") + combo("a") + sharing)
					const n = 100
					results := make([]client.Result, n)
					stays := make([]bool, n)
					for i := range n {
						ctx, cancel := context.WithCancelCause(t.Context())
						// The first one, who leads, leaves in half of the runs.
						if stays[i] = i == 1 || i > 0 && rng.IntN(2) == 0 || i == 0 && seed%2 == 0; !stays[i] {
							time.AfterFunc(time.Duration(1+rng.IntN(5000))*time.Millisecond, func() { cancel(errGaveUp) })
						}
						late := time.Duration(rng.IntN(800)) * time.Millisecond
						if i == 0 {
							late = 0
						}
						b.running.Go(func() {
							time.Sleep(late)
							results[i] = b.AskCtx(ctx, chat(stream))
							cancel(nil)
						})
					}
					b.running.Wait()
					for i, r := range results {
						if why := wrong(r, "", 60); stays[i] && why != "" {
							t.Errorf("client %d: %s", i, why)
						}
					}
					if calls := len(b.Calls("a")); calls != 1 {
						t.Errorf("%d upstream calls", calls)
					}
					usage := 0
					for _, j := range b.Journeys() {
						if j.CopyOf == "" && j.Usage.Output > 0 {
							usage++
						}
						if j.CopyOf != "" && (j.Usage != (gateway.Usage{}) || len(j.Attempts) > 0 || !j.Shared) {
							t.Errorf("a copy has a bill: %+v", j)
						}
					}
					if usage != 1 {
						t.Errorf("%d requests have used tokens", usage)
					}
				})
			})
		}
	}
}

// When everybody has left, the upstream call ends with the last one.
func TestSharedRunEndsWithItsLastClient(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Trickle, Interval: time.Second})
		b.Open(providers("a") + combo("a") + sharing)
		for i := range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+i)*time.Second)
			defer cancel()
			b.running.Go(func() { b.AskCtx(ctx, chat(true)) })
		}
		time.Sleep(8500 * time.Millisecond)
		synctest.Wait()
		if n := b.ups["a"].source.InFlight(); n != 1 {
			t.Errorf("%d calls are running while somebody reads", n)
		}
		b.running.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := b.ups["a"].source.InFlight(); n != 0 || len(b.Calls("a")) != 1 {
			t.Errorf("%d calls are running when nobody reads, of %d", n, len(b.Calls("a")))
		}
		b.NothingOut()
	})
}

// A run that fails is taken over by exactly one; a second failure is everybody's, and so is the caller's own fault.
func TestSharedFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status, times int // the first calls get this
		calls, right  int
	}{
		"once": {500, 1, 2, 9}, "twice": {500, 2, 2, 0}, "always": {503, 99, 2, 0}, "refused key": {401, 99, 1, 0}, // the second run finds the key cooling down

		"caller's fault": {400, 99, 1, 0}, "empty once": {200, 1, 2, 9}, "empty": {200, 99, 2, 0},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%t", name, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Handle("a", failingFirst(c.status, c.times, stream))
					b.Open(providers("a") + combo("a") + sharing + "limits: {attempts: 1}\nwaits: {enabled: false}\n")
					right, fail := 0, 0
					for _, r := range b.atOnce(10, chat(stream)) {
						switch {
						case r.End == client.Complete && r.Text == "sky":
							right++
						case r.End == client.Failed:
							fail++
						default:
							t.Error(describe(r))
						}
					}
					if calls := len(b.Calls("a")); right != c.right || right+fail != 10 || calls != c.calls {
						t.Errorf("%d right, %d failed, %d calls; want %d, %d, %d\n%s", right, fail, calls, c.right, 10-c.right, c.calls, b.Story())
					}
				})
			})
		}
	}
}

// failingFirst takes a second for each call; the first ones end in a status, the others in an answer.
func failingFirst(status, times int, stream bool) http.HandlerFunc {
	var calls atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		n := int(calls.Add(1))
		time.Sleep(time.Second)
		text := "sky"
		if n <= times {
			if status != http.StatusOK {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"error":{"message":"no","type":"some_error","code":null,"param":null}}`)
				return
			}
			text = ""
		}
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":%q},"finish_reason":null}]}`+"\n\n", text)
			fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
	}
}

// A stream that breaks ends in one clear error for all that have a part of it.
func TestSharedStreamBreaks(t *testing.T) {
	for _, p := range []gateway.Protocol{gateway.OpenAI, gateway.Anthropic} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Source("a", lab.Fault{Kind: fault.Cut, Tokens: 30})
			b.Open(providers("a") + combo("a") + sharing)
			q := chat(true)
			q.Protocol = p
			for _, r := range b.atOnce(10, q) {
				if r.End != client.Failed || !r.InStream || r.Text == "" {
					t.Errorf("%s: %s", p, describe(r))
				}
			}
			if n := len(b.Calls("a")); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// Each request keeps its own deadline: one that came later goes on when the leader's is over.
func TestSharedDeadlines(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", always(fault.Silence))
		b.Open(providers("a") + combo("a") + sharing + "timeouts: {request: 30s, last_chance: 5m}\n")
		var early, late client.Result
		b.running.Go(func() { early = b.Ask(chat(false)) })
		time.Sleep(20 * time.Second)
		b.running.Go(func() { late = b.Ask(chat(false)) })
		b.running.Wait()
		for _, r := range []client.Result{early, late} {
			if r.End != client.Failed || r.EndedAfter > 31*time.Second || r.EndedAfter < 29*time.Second {
				t.Error(describe(r))
			}
		}
	})
}

// A client that reads nothing holds nobody up, and does not make the gateway hold the answer for it.
func TestSharedWithAClientThatReadsNothing(t *testing.T) {
	for _, leads := range []bool{true, false} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.lenient = true
			b.Source("a", lab.Fault{Kind: fault.Trickle, Interval: 50 * time.Millisecond})
			b.Open(providers("a") + combo("a") + "cache: {deduplicate: true, max_entry: 2KiB}\n")
			q := question{"/v1/chat/completions", `{"model":"smart","stream":true,"messages":[{"role":"user","content":"x"}]}`}
			read := make(chan got, 3)
			fast := func() {
				began := time.Now()
				g := b.send(q)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("a client that reads waited %s", took)
				}
				read <- g
			}
			if !leads {
				b.running.Go(fast)
				time.Sleep(10 * time.Millisecond)
			}
			// One that takes the head and then nothing.
			stuck := b.Post(q.path, q.body)
			b.running.Go(fast)
			b.running.Go(fast)
			b.running.Wait()
			close(read)
			for g := range read {
				if g.status != 200 || !strings.HasSuffix(g.body, "data: [DONE]\n\n") {
					t.Errorf("leads %t: status %d, %d bytes, %v", leads, g.status, len(g.body), g.err)
				}
			}
			stuck.Body.Close()
		})
	}
}

// Both together: what is shared is kept, and what is kept is served.
func TestSharedAnswersAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a") + "cache: {enabled: true, deduplicate: true}\n")
		for _, r := range b.atOnce(20, chat(true)) {
			b.Right(r, "")
		}
		r := b.Ask(chat(true))
		b.Right(r, "")
		if n := len(b.Calls("a")); n != 1 || r.Header.Get("X-Spillway-Source") != "cache" {
			t.Errorf("%d calls, the last answer from %s", n, r.Header.Get("X-Spillway-Source"))
		}
	})
}
