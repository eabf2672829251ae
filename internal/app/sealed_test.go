package app

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// sealers are upstreams whose accounts seal their reasoning: each reads its own and refuses any other, as the real ones do.
type sealers struct {
	talkers
	n    int
	seen []string // bodies, newest last
}

var sealedText = regexp.MustCompile(`sealed/(key-\d)/\d+==`)

func (u *sealers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	body, key := string(raw), bearer(r)
	u.mu.Lock()
	status := u.fails[key]
	u.n++
	n := u.n
	u.seen = append(u.seen, body)
	u.mu.Unlock()
	if status != 0 {
		answerJSON(w, status, `{"error":{"message":"not now","type":"server_error"}}`)
		return
	}
	for _, m := range sealedText.FindAllStringSubmatch(body, -1) {
		if m[1] != key {
			answerJSON(w, 400, `{"type":"error","error":{"type":"invalid_request_error","code":"invalid_encrypted_content","message":"The encrypted content could not be verified."}}`)
			return
		}
	}
	seal := fmt.Sprintf("sealed/%s/%d==", key, n)
	dialectOf(r.URL.Path).answer(w, key, seal, strings.Contains(body, `"stream":true`) || strings.Contains(r.URL.Path, ":stream"))
}

func (u *sealers) last() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[len(u.seen)-1]
}

// speech is how a conversation with sealed reasoning looks in one protocol.
type speech struct {
	path   string // of a call that is not streamed
	body   string // with the turns for %s, and stream for the second %s
	user   string
	model  string // a turn of the model: seal, text
	whole  string // an answer: seal, text
	events []string
	lost   string
}

var speeches = map[string]speech{
	"responses": {
		path: "/v1/responses", body: `{"model":"smart","store":false,"session_id":"s","input":[%s]%s}`,
		user:  `{"role":"user","content":"go on"}`,
		model: `{"type":"reasoning","summary":[],"encrypted_content":%q},{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}`,
		whole: `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":%q},{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}]}`,
		events: []string{"event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":%q}}\n\n",
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":%q}\n\n",
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"output\":[]}}\n\n"},
		lost: "input.reasoning",
	},
	"anthropic": {
		path: "/v1/messages", body: `{"model":"smart","max_tokens":9,"session_id":"s","messages":[%s]%s}`,
		user:  `{"role":"user","content":"go on"}`,
		model: `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":%q},{"type":"text","text":%q}]}`,
		whole: `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":%q},{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
		events: []string{"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":%q}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n",
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		lost: "messages.thinking",
	},
	"gemini": {
		path: "/v1beta/models/smart:generateContent", body: `{"session_id":"s","contents":[%s]%s}`,
		user:  `{"role":"user","parts":[{"text":"go on"}]}`,
		model: `{"role":"model","parts":[{"thoughtSignature":%q,"text":%q}]}`,
		whole: `{"candidates":[{"content":{"role":"model","parts":[{"thoughtSignature":%q,"text":%q}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`,
		events: []string{"data: {\"candidates\":[{\"content\":{\"parts\":[{\"thoughtSignature\":%q,\"text\":\"\"}]}}]}\n\n",
			"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%q}]}}]}\n\n",
			"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\"}]}\n\n"},
		lost: "contents.thoughtSignature",
	},
}

func dialectOf(path string) speech {
	for name, s := range speeches {
		switch {
		case name == "responses" && strings.HasSuffix(path, "/responses"), name == "anthropic" && strings.HasSuffix(path, "/messages"),
			name == "gemini" && strings.Contains(path, ":"):
			return s
		}
	}
	panic("no protocol has the path " + path)
}

func (s speech) answer(w http.ResponseWriter, key, seal string, stream bool) {
	if stream {
		sendEvents(w, fmt.Sprintf(s.events[0], seal), fmt.Sprintf(s.events[1], "by "+key), s.events[2])
		return
	}
	answerJSON(w, 200, fmt.Sprintf(s.whole, seal, "by "+key))
}

// thread is a client's conversation: it sends back all that it has got.
type thread struct {
	b      *bubble
	s      speech
	stream bool
	turns  []string
}

// say sends one turn more and returns who answered, what the body was and what was dropped.
func (c *thread) say() (by, sent, dropped string) {
	c.b.t.Helper()
	c.turns = append(c.turns, c.s.user)
	path, more := c.s.path, ""
	if c.stream {
		more = `,"stream":true`
		if strings.Contains(path, ":") {
			path, more = strings.Replace(path, ":generate", ":streamGenerate", 1)+"?alt=sse", ""
		}
	}
	sent = fmt.Sprintf(c.s.body, strings.Join(c.turns, ","), more)
	res := c.b.Post(path, sent)
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	seal := sealedText.FindString(string(body))
	if res.StatusCode != 200 || seal == "" {
		c.b.t.Fatalf("status %d: %s\n%s", res.StatusCode, body, c.b.Story())
	}
	by = sealedText.FindStringSubmatch(seal)[1]
	c.turns = append(c.turns, fmt.Sprintf(c.s.model, seal, "by "+by))
	return by, sent, res.Header.Get("X-Spillway-Dropped")
}

// Encrypted reasoning goes to the account that made it and to no other, turn after turn, whoever answers and whether the
// gateway was restarted in between; while one account answers, the body goes up byte for byte.
func TestEncryptedReasoningStaysAtItsAccount(t *testing.T) {
	for name, s := range speeches {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					u := new(sealers)
					b.Handle("a", u.ServeHTTP)
					b.Open(keyed("a", 2) + combo("a"))
					c := &thread{b: b, s: s, stream: stream}
					seals := func() int { return len(sealedText.FindAllString(u.last(), -1)) }
					first, _, _ := c.say()
					for range 3 {
						time.Sleep(time.Second)
						by, sent, dropped := c.say()
						if want := strings.Replace(sent, `"smart"`, `"m"`, 1); by != first || u.last() != want || dropped != "" {
							t.Fatalf("%s dropped %q:\n%s\nwant\n%s", by, dropped, u.last(), want)
						}
					}
					u.fail(first, 503)
					other, _, dropped := c.say()
					if other == first || dropped != s.lost || seals() != 0 {
						t.Fatalf("by %s, dropped %q: %s", other, dropped, u.last())
					}
					u.fail(first, 0)
					by, _, dropped := c.say() // what the second account has made stays
					if by != other || dropped != s.lost || seals() != 1 {
						t.Fatalf("by %s, dropped %q: %s", by, dropped, u.last())
					}
					b.Restart(time.Minute) // nobody knows any more who made what, but that it were several
					by, _, dropped = c.say()
					if by != other || dropped != s.lost || seals() != 0 {
						t.Fatalf("by %s, dropped %q: %s", by, dropped, u.last())
					}
					if by, _, dropped = c.say(); by != other || dropped != s.lost || seals() != 1 {
						t.Fatalf("by %s, dropped %q: %s", by, dropped, u.last())
					}
					time.Sleep(10 * time.Minute)
					u.fail(other, 503)
					if by, _, dropped = c.say(); by != first || dropped != s.lost || seals() != 0 {
						t.Fatalf("by %s, dropped %q: %s", by, dropped, u.last())
					}
				})
			})
		}
	}
}

// With no binding the makers are known all the same; a text that nobody knows goes up as it is.
func TestEncryptedReasoningOfNoSession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		u := new(sealers)
		b.Handle("a", u.ServeHTTP)
		b.Open(underStrategy("round-robin", keyed("a", 2)) + combo("a") + "resilience: {affinity: {ttl: 0s}}\n")
		c := &thread{b: b, s: speeches["responses"]}
		made := map[string]bool{}
		for range 6 {
			by, _, _ := c.say()
			made[by] = true
		}
		if len(made) != 2 {
			t.Errorf("the test needs both accounts: %v", made)
		}
		body := fmt.Sprintf(c.s.body, fmt.Sprintf(c.s.model, "from elsewhere", "x")+","+c.s.user, "")
		res := b.Post(c.s.path, body)
		defer res.Body.Close()
		if want := strings.Replace(body, `"smart"`, `"m"`, 1); res.StatusCode != 200 || u.last() != want || res.Header.Get("X-Spillway-Dropped") != "" {
			t.Errorf("status %d, %q: %s", res.StatusCode, res.Header.Get("X-Spillway-Dropped"), u.last())
		}
	})
}

// places are upstreams that make stored objects; each account has only its own.
type places struct {
	talkers
	made sync.Map
	n    int
	do   func(n int, key string) (made []string, answer string)
}

func (u *places) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	for _, id := range regexp.MustCompile(`\b(cntr|msg|conv|file|cmp|container)_\d+`).FindAllString(string(raw), -1) {
		if by, ok := u.made.Load(id); !ok || by != bearer(r) {
			answerJSON(w, 404, `{"error":{"message":"no such object `+id+`","type":"invalid_request_error"}}`)
			return
		}
	}
	u.mu.Lock()
	u.n++
	made, answer := u.do(u.n, bearer(r))
	u.mu.Unlock()
	for _, id := range made {
		u.made.Store(id, bearer(r))
	}
	if strings.HasPrefix(answer, "{") {
		answerJSON(w, 200, answer)
		return
	}
	sendEvents(w, answer)
}

// What an answer has made at its account is asked for there: items, containers, conversations, files, compactions.
func TestObjectsGoWhereTheyWereMade(t *testing.T) {
	const items = `{"id":"msg_%[1]d","type":"message","role":"assistant","content":[{"type":"output_text","text":"by %[2]s"}]},{"id":"ci_%[1]d","type":"code_interpreter_call","status":"completed","container_id":"cntr_%[1]d","code":"1"}`
	whole := func(n int, key string) string {
		return fmt.Sprintf(`{"id":"resp_%[1]d","object":"response","status":"completed","model":"m","conversation":{"id":"conv_%[1]d"},"output":[`+items+`]}`, n, key)
	}
	streamed := func(n int, key string) string {
		var b strings.Builder
		for i, item := range strings.SplitAfter(fmt.Sprintf(items, n, key), "]},") {
			fmt.Fprintf(&b, "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":%d,\"item\":%s}\n\n", i, strings.TrimSuffix(item, ","))
		}
		fmt.Fprintf(&b, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%[1]d\",\"object\":\"response\",\"status\":\"completed\",\"conversation\":{\"id\":\"conv_%[1]d\"},\"output\":[]}}\n\n", n)
		return b.String()
	}
	message := func(n int, key string) string {
		return fmt.Sprintf(`{"id":"m%[1]d","type":"message","role":"assistant","model":"m","container":{"id":"container_%[1]d","expires_at":"2026-01-01T00:00:00Z"},"content":[{"type":"code_execution_tool_result","tool_use_id":"t","content":{"type":"code_execution_result","stdout":"","content":[{"type":"code_execution_output","file_id":"file_%[1]d"}]}},{"type":"text","text":"by %[2]s"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, n, key)
	}
	compacted := func(n int, key string) string {
		return fmt.Sprintf(`{"id":"resp_%[1]d","object":"response.compaction","output":[{"id":"c","type":"compaction","encrypted_content":"cmp_%[1]d"}],"usage":{"input_tokens":1,"output_tokens":1}}`, n)
	}
	for _, row := range []struct {
		name, path, ask, refer string
		answer                 func(n int, key string) string
		made                   []string
		status                 int // of a request that names what nobody here knows
	}{
		{"item", "/v1/responses", `{"model":"smart","input":"hi"}`, `{"model":"smart","input":[{"type":"item_reference","id":"msg_%d"}]}`, whole, []string{"msg_%d"}, 404},
		{"item of a stream", "/v1/responses", `{"model":"smart","input":"hi","stream":true}`, `{"model":"smart","stream":true,"input":[{"id":"msg_%d"},{"role":"user","content":"x"}]}`, streamed, []string{"msg_%d"}, 404},
		{"container", "/v1/responses", `{"model":"smart","input":"hi","store":false}`, `{"model":"smart","input":"hi","tools":[{"type":"code_interpreter","container":"cntr_%d"}]}`, whole, []string{"cntr_%d"}, 404},
		{"container of a stream", "/v1/responses", `{"model":"smart","input":"hi","stream":true,"store":false}`, `{"model":"smart","stream":true,"input":"hi","tools":[{"type":"code_interpreter","container":"cntr_%d"}]}`, streamed, []string{"cntr_%d"}, 404},
		{"conversation", "/v1/responses", `{"model":"smart","input":"hi"}`, `{"model":"smart","input":"hi","conversation":"conv_%d"}`, whole, []string{"conv_%d"}, 404},
		{"container of messages", "/v1/messages", `{"model":"smart","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `{"model":"smart","max_tokens":9,"container":"container_%d","messages":[{"role":"user","content":"hi"}]}`, message, []string{"container_%d"}, 404},
		{"file of messages", "/v1/messages", `{"model":"smart","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `{"model":"smart","max_tokens":9,"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_%d"}]}]}`, message, []string{"file_%d"}, 404},
		{"compaction", "/v1/responses/compact", `{"model":"smart","input":"hi"}`, `{"model":"smart","input":[{"type":"compaction","encrypted_content":"cmp_%d"},{"role":"user","content":"x"}]}`, compacted, []string{"cmp_%d"}, 404},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				u := &places{do: func(n int, key string) (made []string, answer string) {
					for _, m := range row.made {
						made = append(made, fmt.Sprintf(m, n))
					}
					return made, row.answer(n, key)
				}}
				b.Handle("a", u.ServeHTTP)
				b.Open(underStrategy("round-robin", keyed("a", 3)) + combo("a"))
				ask := func(body string) (int, string) {
					res := b.Post(row.path, body)
					defer res.Body.Close()
					text, _ := io.ReadAll(res.Body)
					return res.StatusCode, string(text)
				}
				for range 3 {
					if status, text := ask(row.ask); status != 200 {
						t.Fatalf("status %d: %s", status, text)
					}
				}
				for round := range 3 {
					if round == 2 {
						b.Restart(time.Hour)
					}
					for n := 1; n <= 3; n++ {
						if status, text := ask(fmt.Sprintf(row.refer, n)); status != 200 {
							t.Fatalf("round %d, object %d: status %d: %s\n%s", round, n, status, text, b.Story())
						}
						time.Sleep(time.Second)
					}
				}
				if status, text := ask(fmt.Sprintf(row.refer, 99)); status != row.status {
					t.Errorf("unknown: status %d: %s", status, text)
				}
			})
		})
	}
}

// An object that one account alone could hold, and has shown, stays pinned to it when others come.
func TestForeignObjectsArePinnedOnceTheyWereFound(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		u := &places{do: func(int, string) ([]string, string) {
			return nil, `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`
		}}
		u.made.Store("file_1", "key-1")
		b.Handle("a", u.ServeHTTP)
		b.Open(keyed("a", 1) + combo("a"))
		ask := func() int {
			res := b.Post("/v1beta/models/smart:generateContent", `{"cachedContent":"cachedContents/file_1","contents":[{"parts":[{"text":"x"}]}]}`)
			defer res.Body.Close()
			_, _ = io.Copy(io.Discard, res.Body)
			return res.StatusCode
		}
		if status := ask(); status != 200 {
			t.Fatal(status)
		}
		b.Reload(underStrategy("round-robin", keyed("a", 3)) + combo("a"))
		for range 4 {
			if status := ask(); status != 200 {
				t.Fatalf("status %d\n%s", status, b.Story())
			}
		}
	})
}

// An upstream that says that it cannot read a text whose maker nobody knows is asked again without it, once, and nobody is
// blamed.
func TestUnreadableReasoningIsLeftOut(t *testing.T) {
	for name, s := range speeches {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				u := new(sealers)
				b.Handle("a", u.ServeHTTP)
				b.Open(keyed("a", 2) + combo("a"))
				c := &thread{b: b, s: s}
				c.turns = []string{s.user, fmt.Sprintf(s.model, "sealed/key-9/1==", "elsewhere")}
				by, _, dropped := c.say()
				if dropped != s.lost || len(b.Calls("a")) != 2 {
					t.Errorf("dropped %q after %d calls\n%s", dropped, len(b.Calls("a")), b.Story())
				}
				again, _, dropped := c.say() // known from now on: not even tried
				if again != by || dropped != s.lost || len(b.Calls("a")) != 3 || len(sealedText.FindAllString(u.last(), -1)) != 1 {
					t.Errorf("by %s, dropped %q after %d calls: %s", again, dropped, len(b.Calls("a")), u.last())
				}
				b.NothingOut()
			})
		})
	}
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, 400, `{"error":{"type":"invalid_request_error","code":"invalid_encrypted_content","message":"no"}}`)
		})
		b.Open(keyed("a", 2) + combo("a"))
		s := speeches["responses"]
		res := b.Post(s.path, fmt.Sprintf(s.body, fmt.Sprintf(s.model, "x", "y")+","+s.user, ""))
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode != 400 || !strings.Contains(string(body), "invalid_encrypted_content") || len(b.Calls("a")) != 2 {
			t.Errorf("status %d after %d calls: %s", res.StatusCode, len(b.Calls("a")), body)
		}
		b.NothingOut()
	})
}
