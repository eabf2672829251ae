package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/resilience/affinity"
)

// talk is one conversation of a client that sends no session id: each turn repeats what was said before.
type talk struct {
	name   string
	turns  []string
	header map[string]string
	tokens int // that the upstream counts in the prompt; see talkers
}

func (s *talk) body(stream bool) string {
	turns := append([]string{fmt.Sprintf(`{"role":"system","content":"be brief"},{"role":"user","content":"I am %s"}`, s.name)}, s.turns...)
	return fmt.Sprintf(`{"model":"smart","stream":%t,"user":"tokens=%d","messages":[%s]}`, stream, s.tokens, strings.Join(turns, ","))
}

// say sends the next turn and returns the key that served it, "" when the client saw an error.
func (b *bubble) say(s *talk) string {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, gatewayURL+"/v1/chat/completions", strings.NewReader(s.body(false)))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range s.header {
		req.Header.Set(k, v)
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.t.Errorf("%s, turn %d: status %d, %v: %.300s", s.name, len(s.turns)+1, res.StatusCode, err, answer)
		return ""
	}
	_, by, _ := strings.Cut(string(answer), "served by ")
	by, _, _ = strings.Cut(by, `"`)
	s.turns = append(s.turns, `{"role":"assistant","content":"I see"},{"role":"user","content":"go on"}`)
	return by
}

// talkers answers chat calls with the key that was used, unless fails has a status for it.
type talkers struct {
	mu    sync.Mutex
	fails map[string]int
}

func (u *talkers) fail(key string, status int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fails == nil {
		u.fails = map[string]int{}
	}
	u.fails[key] = status
}

func (u *talkers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	status := u.fails[bearer(r)]
	u.mu.Unlock()
	if status != 0 {
		answerJSON(w, status, `{"error":{"message":"not now","type":"server_error"}}`)
		return
	}
	body, _ := peekBody(r)
	var tokens int
	if _, rest, ok := strings.Cut(string(body), "tokens="); ok {
		_, _ = fmt.Sscan(strings.TrimRight(strings.SplitN(rest, `"`, 2)[0], `"`), &tokens)
	}
	answerJSON(w, 200, fmt.Sprintf(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"served by %s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":1}}`,
		bearer(r), max(tokens, 1)))
}

// strategies under which sessions must stay: what spreads requests must not spread the turns of one session (O20).
func underStrategy(strategy, conns string) string {
	return strings.Replace(conns, "class: apikey}", "class: apikey, strategy: "+strategy+"}", 1)
}

// A session of a hundred turns stays on its connection while that is well, whatever the strategy, and whether the client
// names the session or not.
func TestO20SessionsStayOnTheirConnection(t *testing.T) {
	for _, strategy := range []string{"health-aware", "round-robin", "weighted", "priority"} {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, named %t", strategy, named), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Handle("a", new(talkers).ServeHTTP)
					b.Open(underStrategy(strategy, keyed("a", 4)) + combo("a"))
					used := map[string]bool{}
					for n := range 6 {
						s := &talk{name: fmt.Sprintf("client %d", n)}
						if named {
							s.header = map[string]string{"X-Claude-Code-Session-Id": s.name}
						}
						first, moves := b.say(s), 0
						used[first] = true
						for range 99 {
							time.Sleep(7 * time.Second)
							if b.say(s) != first {
								moves++
							}
						}
						if moves > 1 {
							t.Errorf("%s was away from its connection %d times", s.name, moves)
						}
					}
					if strategy != "priority" && len(used) < 2 {
						t.Errorf("six sessions on one connection: %v", used)
					}
					j := b.Journeys()[0]
					if j.Session == "" || j.Bound != j.Connection || j.Moved != 0 || j.Attempts[0].Why != gateway.SessionBound {
						t.Errorf("session %q bound to %q, served by %q, moved %s: %s", j.Session, j.Bound, j.Connection, j.Moved, b.Story())
					}
				})
			})
		}
	}
}

// Sessions side by side, with connections that fail at random: no client sees an error, and every session stays where it
// is unless that connection failed.
func TestSessionsMoveOnlyWhenTheyMust(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		u := new(talkers)
		b.Handle("a", u.ServeHTTP)
		b.Open(keyed("a", 4) + combo("a"))
		rng := rand.New(rand.NewPCG(1, 2))
		list := make([]*talk, 8)
		at := make([]string, len(list))
		for i := range list {
			list[i] = &talk{name: fmt.Sprint("client ", i)}
		}
		broken, until := "", 0
		moves := 0
		for turn := range 100 {
			if turn >= until {
				u.fail(broken, 0)
				broken, until = fmt.Sprintf("key-%d", 1+rng.IntN(4)), turn+10
				u.fail(broken, 503)
			}
			for i, s := range list {
				by := b.say(s)
				if by == "" {
					t.Fatal(b.Story())
				}
				if turn > 0 && by != at[i] {
					moves++
					if at[i] != broken {
						t.Errorf("%s left %s for %s while %s was broken: %s", s.name, at[i], by, broken, b.Story())
					}
				}
				at[i] = by
			}
			time.Sleep(3 * time.Second)
		}
		if moves == 0 {
			t.Error("nobody had to move: the test proves nothing")
		}
	})
}

// P21, O23: the pin is a wish. A connection that answers 429 for ever, one that is refused, and one that breaks off lose
// their sessions at the first failure; the client sees nothing of it, and the session stays where it went.
func TestP21O23HealthWins(t *testing.T) {
	for _, f := range []lab.Fault{{Kind: fault.Status, Status: 429}, {Kind: fault.Status, Status: 403}, {Kind: fault.Status, Status: 503},
		{Kind: fault.MetadataOnly}, {Kind: fault.Empty}} {
		t.Run(fmt.Sprintf("%s %d", f.Kind, f.Status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				f.After = time.Minute
				b.Source("a", f)
				b.Source("b")
				b.Open(providers("a", "b") + combo("a", "b"))
				q := chat(true)
				q.Header = map[string]string{"X-Session-Id": "s"}
				b.Right(b.Ask(q), "")
				time.Sleep(2 * time.Minute)
				for range 20 {
					b.Right(b.Ask(q), "")
					time.Sleep(2 * time.Second)
				}
				if n := len(b.Calls("a")); n > 12 {
					t.Errorf("the failing connection was asked %d times", n)
				}
				list := b.Journeys()
				if j := list[19]; j.Bound != "a" || j.Moved == 0 || j.Connection != "b" {
					t.Errorf("the turn that failed: bound to %q, served by %q, moved %s", j.Bound, j.Connection, j.Moved)
				}
			})
		})
	}
}

// O23: failing turns renew nothing, and a session that fails everywhere is bound to nothing.
func TestO23FailuresRenewNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Status, Status: 400, After: time.Second})
		b.Open(providers("a") + combo("a"))
		q := chat(false)
		q.Header = map[string]string{"X-Session-Id": "s"}
		b.Right(b.Ask(q), "")
		time.Sleep(40 * time.Minute)
		b.Ask(q) // the caller's fault: neither renewed nor dropped
		if j := b.Journeys()[0]; j.Bound != "a" {
			t.Errorf("after 40 minutes bound to %q", j.Bound)
		}
		time.Sleep(30 * time.Minute)
		b.Ask(q)
		if j := b.Journeys()[0]; j.Bound != "" {
			t.Errorf("70 minutes after its last success the session is bound to %q", j.Bound)
		}
	})
}

// A client that leaves takes nothing from its session.
func TestALeavingClientKeepsItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a", lab.Fault{Kind: fault.Silence, After: time.Second, For: 2 * time.Second})
		b.Open(keyed("a", 4) + combo("a"))
		q := chat(true)
		q.Header = map[string]string{"X-Session-Id": "s"}
		b.Right(b.Ask(q), "")
		home := b.Journeys()[0].Connection
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGaveUp)
		b.AskCtx(ctx, q)
		cancel()
		time.Sleep(5 * time.Second)
		b.Right(b.Ask(q), "")
		if j := b.Journeys()[0]; j.Bound != home || j.Connection != home {
			t.Errorf("bound to %q, served by %q, was at %q", j.Bound, j.Connection, home)
		}
	})
}

// A session with much in the upstream's cache stays on the lower target that took it over, until it has been idle; one
// with little goes back as soon as the higher target is well.
func TestSessionsGoBackToAHigherTarget(t *testing.T) {
	for _, row := range []struct {
		tokens int
		idle   time.Duration
		back   bool
	}{{1000, 10 * time.Second, true}, {50_000, 10 * time.Second, false}, {50_000, 6 * time.Minute, true}} {
		t.Run(fmt.Sprintf("%d tokens, idle %s", row.tokens, row.idle), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				u := new(talkers)
				b.Handle("a", u.ServeHTTP)
				b.Handle("b", new(talkers).ServeHTTP)
				b.Open(providers("a", "b") + combo("a", "b"))
				s, other := &talk{name: "x", tokens: row.tokens}, &talk{name: "y", tokens: 5}
				u.fail("key-a", 503)
				if by := b.say(s); by != "key-b" {
					t.Fatalf("served by %q", by)
				}
				u.fail("key-a", 0)
				time.Sleep(2 * time.Minute) // whatever the failure has opened is over
				for range 30 {
					b.say(other)
					b.say(&talk{name: "z", tokens: 5})
				}
				if by := b.say(s); (by == "key-a") != (row.tokens < 20_000) {
					t.Fatalf("served by %q: %s", by, b.Story())
				}
				time.Sleep(row.idle)
				by := b.say(s)
				j := b.Journeys()[0]
				if (by == "key-a") != row.back {
					t.Errorf("served by %q: %s", by, b.Story())
				}
				if row.idle > time.Minute && j.Moved != gateway.SessionReturned {
					t.Errorf("moved: %s", j.Moved)
				}
			})
		})
	}
}

// Bonds survive a restart, and belong to one client key.
func TestBondsSurviveARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", new(talkers).ServeHTTP)
		b.Open(underStrategy("round-robin", keyed("a", 4)) + combo("a"))
		var list []*talk
		var at []string
		for n := range 8 {
			s := &talk{name: fmt.Sprint("client ", n)}
			b.say(s)
			list, at = append(list, s), append(at, b.say(s))
		}
		b.Restart(10 * time.Minute)
		for i, s := range list {
			if by := b.say(s); by != at[i] {
				t.Errorf("%s was at %s, after the restart at %s: %s", s.name, at[i], by, b.Story())
			}
		}
	})
}

// Switched off, the strategy decides alone.
func TestAffinityOff(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", new(talkers).ServeHTTP)
		b.Open(underStrategy("round-robin", keyed("a", 4)) + combo("a") + "resilience: {affinity: {ttl: 0s}}\n")
		s, used := &talk{name: "x"}, map[string]bool{}
		for range 8 {
			used[b.say(s)] = true
		}
		if j := b.Journeys()[0]; len(used) != 4 || j.Session != "" {
			t.Errorf("used %v, session %q", used, j.Session)
		}
	})
}

// An agent's body of 76 KB goes upstream byte for byte but for the model, and no header of its session does.
func TestAgentBodyStaysWhatItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var got [][]byte
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = append(got, body)
			for k := range r.Header {
				if strings.Contains(strings.ToLower(k), "session") {
					t.Errorf("sent upstream: %s", k)
				}
			}
			answerJSON(w, 200, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"fine"}],"stop_reason":"end_turn","usage":{"input_tokens":30000,"output_tokens":1}}`)
		})
		b.Open(keyed("a", 4) + combo("a"))
		var tools strings.Builder
		for i := range 24 {
			fmt.Fprintf(&tools, `,{"name":"tool_%d","description":"%s","input_schema":{"type":"object","properties":{"file_id":{"type":"string"}}}}`, i, strings.Repeat("what it does \\u00e9 ", 150))
		}
		body := fmt.Sprintf(`{ "model" : "smart","max_tokens":32000,"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"s-1\"}"},"system":[{"type":"text","text":"%s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"system","content":"x"}],"tools":[%s],"thinking":{"type":"adaptive"},"x":9007199254740993}`,
			strings.Repeat("You are an agent. ", 300), tools.String()[1:])
		if len(body) < 76<<10 {
			t.Fatalf("a body of %d bytes", len(body))
		}
		want := strings.Replace(body, `"smart"`, `"m"`, 1)
		for range 3 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, gatewayURL+"/v1/messages", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Claude-Code-Session-Id", "s-1")
			req.Header.Set("Session-Id", "s-1")
			res, err := b.http.Do(req)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("%v %v", res, err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		for i := range got {
			if !bytes.Equal(got[i], []byte(want)) {
				t.Errorf("body %d was changed", i+1)
			}
		}
		if list := b.Journeys(); list[0].Bound == "" || list[0].Bound != list[2].Connection {
			t.Errorf("bound to %q, first served by %q", list[0].Bound, list[2].Connection)
		}
	})
}

// The room's defaults are the configuration's.
func TestAffinityDefaults(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a"))
		if have := affinity.Config(b.app.config.Global().Affinity); have != affinity.Default() {
			t.Errorf("configured by default: %+v, of the room: %+v", have, affinity.Default())
		}
	})
}

// A connection that is full is passed over like one that is out, and its session waits for nothing.
func TestAFullConnectionIsPassedOver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "a", Latency: scenario.Between(5*time.Second, 5*time.Second)})
		b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a-1, provider: a, key: key-1, max_concurrent: 1}\n" +
			"  - {id: a-2, provider: a, key: key-2, max_concurrent: 1}\n" + combo("a"))
		q := chat(false)
		q.Header = map[string]string{"X-Session-Id": "s"}
		b.Right(b.Ask(q), "")
		home := b.Journeys()[0].Connection
		for _, r := range b.atOnce(2, q) {
			b.Right(r, "")
			if r.EndedAfter > 6*time.Second {
				t.Errorf("a turn waited: %s", r.EndedAfter)
			}
		}
		moved := 0
		for _, j := range b.Journeys()[:2] {
			if j.Connection != home {
				moved++
				if j.Moved != gateway.ConcurrencyFull {
					t.Errorf("moved: %s", j.Moved)
				}
			}
		}
		if moved != 1 {
			t.Errorf("%d of 2 turns went elsewhere", moved)
		}
	})
}
