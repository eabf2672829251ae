package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// Operator rules through the whole gateway: wherever an upstream says that something is wrong, the same rules see it, and
// every room learns from what they make of it.

const (
	oddError = `{"error":{"message":"the hamster is asleep","type":"hamster","code":"e77"}}`
	oddBody  = `{"id":"x","object":"chat.completion","model":"m","choices":[],"error":{"message":"the hamster is asleep","type":"hamster","code":"e77"}}`
)

// ruledPlaces are all the places in which an upstream can say it.
var ruledPlaces = map[string]struct {
	stream    bool
	committed bool // the client has content before the error comes
	answer    http.HandlerFunc
}{
	"HTTP 500":             {answer: func(w http.ResponseWriter, _ *http.Request) { hamster(w, 500) }},
	"HTTP 400":             {answer: func(w http.ResponseWriter, _ *http.Request) { hamster(w, 400) }},
	"HTTP 403":             {answer: func(w http.ResponseWriter, _ *http.Request) { hamster(w, 403) }},
	"HTTP 503 to a stream": {stream: true, answer: func(w http.ResponseWriter, _ *http.Request) { hamster(w, 503) }},
	"error as a whole 200": {answer: func(w http.ResponseWriter, _ *http.Request) { hamster(w, 200) }},
	"error in an answer": {answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Load", "99")
		answerJSON(w, 200, oddBody)
	}},
	"JSON error to a stream": {stream: true, answer: func(w http.ResponseWriter, _ *http.Request) { hamster(w, 200) }},
	"first event": {stream: true, answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Load", "99")
		sendEvents(w, "data: "+oddError+"\n\n")
	}},
	"event named error": {stream: true, answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Load", "99")
		sendEvents(w, "event: error\ndata: "+oddError+"\n\n")
	}},
	"after content": {stream: true, committed: true, answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Load", "99")
		sendEvents(w, chunk("fi"), "data: "+oddError+"\n\n")
	}},
}

func hamster(w http.ResponseWriter, status int) {
	w.Header().Set("X-Load", "99")
	answerJSON(w, status, oddError)
}

// firstAttempt is the first attempt of the request that ended last.
func (b *bubble) firstAttempt() gateway.Attempt {
	b.t.Helper()
	list := b.Journeys()
	if len(list) == 0 || len(list[0].Attempts) == 0 {
		b.t.Fatal("no attempt was logged")
	}
	return list[0].Attempts[0]
}

// Every condition, in every place.
func TestRulesSeeEveryPlace(t *testing.T) {
	for condition, when := range map[string]string{
		"text":       `text: "hamster is (asleep|away)"`,
		"text_any":   `text_any: ["nothing", "ASLEEP"]`,
		"text_none":  `provider: a, text_none: [awake]`,
		"code":       `code: "e7?|e8*"`,
		"error_type": `error_type: hamster`,
		"header":     `header: {name: x-load, pattern: "^9"}`,
		"connection": `connection: a, status: [100-599]`,
		"class":      `class: apikey, code: e77`,
	} {
		for place, p := range ruledPlaces {
			t.Run(condition+"/"+place, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Handle("a", answersOnce(1, p.answer))
					b.Handle("b", fine)
					b.Open(providers("a", "b") + combo("a", "b") + fmt.Sprintf("rules:\n  - {id: sleepy, %s, kind: rate_limited, cooldown: 40s}\n", when))
					r := b.Ask(chat(p.stream))
					if !p.committed && !isFine(r) {
						t.Errorf("%s\n%s", describe(r), b.Story())
					}
					a := b.firstAttempt()
					if a.Rule != "sleepy" || a.Kind != gateway.RateLimited || a.Scope != gateway.ScopeAccount || a.RetryAfter != 40 {
						t.Errorf("rule %q made it %s/%s, %gs\n%s", a.Rule, a.Kind, a.Scope, a.RetryAfter, b.Story())
					}
					if n, rest := keysWith(b.outOf(gateway.LayerCooldown), "a"); n == 0 || rest < 35*time.Second || rest > 45*time.Second {
						t.Errorf("cooldown %v", b.outOf(gateway.LayerCooldown))
					}
				})
			})
		}
	}
}

// A vetoed rule does not match, and neither does one for somebody else.
func TestRulesThatDoNotMatch(t *testing.T) {
	for name, rule := range map[string]string{
		"veto":             `{id: x, text: hamster, text_none: "is asleep", kind: banned}`,
		"another provider": `{id: x, provider: b, text: hamster, kind: banned}`,
		"another key":      `{id: x, connection: b, text: hamster, kind: banned}`,
		"another status":   `{id: x, status: [501], text: hamster, kind: banned}`,
		"another header":   `{id: x, header: {name: x-load, pattern: "^1"}, kind: banned}`,
		"switched off":     `{id: x, enabled: false, text: hamster, kind: banned}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", answersOnce(1, ruledPlaces["HTTP 500"].answer))
				b.Handle("b", fine)
				b.Open(providers("a", "b") + combo("a", "b") + "rules: [" + rule + "]\n")
				if r := b.Ask(chat(false)); !isFine(r) {
					t.Errorf("%s", describe(r))
				}
				if a := b.firstAttempt(); a.Rule != "" || a.Kind != gateway.ServiceError {
					t.Errorf("rule %q made it %s", a.Rule, a.Kind)
				}
			})
		})
	}
}

// count: false fails over and teaches nobody, wherever the error stands (AutoRouter's failure rules).
func TestRulesThatDoNotCount(t *testing.T) {
	for place, p := range ruledPlaces {
		t.Run(place, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", p.answer)
				b.Handle("b", fine)
				b.Open(providers("a", "b") + combo("a", "b") + "rules: [{id: calm, text: hamster, kind: service_error, count: false}]\n")
				for range 20 {
					if r := b.Ask(chat(p.stream)); !p.committed && !isFine(r) {
						t.Errorf("%s\n%s", describe(r), b.Story())
					}
					time.Sleep(time.Second)
				}
				b.NothingOut()
				if a := b.firstAttempt(); !a.Uncounted || a.Rule != "calm" {
					t.Errorf("%+v", a)
				}
				if n := len(b.Calls("a")); n < 20 {
					t.Errorf("%d attempts on the first of 20 requests: something has learned", n)
				}
			})
		})
	}
}

// A restatement corrects the status everywhere, too; the time it gives is told to the client and learned by nobody.
func TestRestatementsSeeEveryPlace(t *testing.T) {
	for place, p := range ruledPlaces {
		if p.committed {
			continue // the client has its 200; nothing can be told in a header any more
		}
		t.Run(place, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", p.answer)
				b.Open(providers("a") + combo("a") + "waits: {enabled: false}\nrules:\n" +
					"  - {id: later, priority: 5, from: [200, 400-599], to: 503, text: hamster}\n" +
					"  - {id: lying, from: [200, 400-599], to: 429, text_any: [hamster], text_none: [awake], default_retry_after: 7m}\n")
				r := b.Ask(chat(p.stream))
				if r.Status != 429 {
					t.Errorf("%s\n%s", describe(r), b.Story())
				}
				if s := retryAfter(r); s < 1 || s > 462 {
					t.Errorf("Retry-After %d", s)
				}
				a := b.firstAttempt()
				if a.Status != 429 || a.Kind != gateway.RateLimited || a.RetryAfter != 0 || a.Rule != "lying" {
					t.Errorf("rule %q: %s %d, %gs\n%s", a.Rule, a.Kind, a.Status, a.RetryAfter, b.Story())
				}
				if _, rest := keysWith(b.outOf(gateway.LayerCooldown), "a"); rest > time.Minute {
					t.Errorf("somebody learned the client's time: %v", b.outOf(gateway.LayerCooldown))
				}
			})
		})
	}
}

// The client is told the time of the restatement, for as long as no room knows a better one.
func TestRestatementsTellTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", ruledPlaces["HTTP 403"].answer)
		b.Open(providers("a") + combo("a") + "waits: {enabled: false}\nresilience: {cooldown: {ignore_unhinted: true}}\n" +
			"rules: [{id: lying, from: [403], to: 429, text: hamster, default_retry_after: 7m}]\n")
		r := b.Ask(chat(false))
		if s := retryAfter(r); r.Status != 429 || s < 420 || s > 462 {
			t.Errorf("Retry-After %d: %s\n%s", s, describe(r), b.Story())
		}
		b.NothingOut()
	})
}

// use_global_rules: false keeps rules without provider and connection away, in both stages.
func TestProvidersWithoutGlobalRules(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", ruledPlaces["HTTP 500"].answer)
		b.Handle("b", fine)
		conf := strings.Replace(providers("a", "b"), "class: apikey}", "class: apikey, use_global_rules: false}", 1)
		b.Open(conf + combo("a", "b") + "rules:\n  - {id: all, code: e77, kind: banned}\n  - {id: lie, from: [500], to: 429, code: e77}\n")
		if r := b.Ask(chat(false)); !isFine(r) {
			t.Errorf("%s", describe(r))
		}
		if a := b.firstAttempt(); a.Rule != "" || a.Kind != gateway.ServiceError || a.Status != 500 {
			t.Errorf("rule %q: %s %d", a.Rule, a.Kind, a.Status)
		}
		b.Reload(conf + combo("a", "b") + "rules:\n  - {id: own, provider: a, code: e77, kind: rate_limited, cooldown: 9s}\n")
		if r := b.Ask(chat(false)); !isFine(r) {
			t.Errorf("%s", describe(r))
		}
		if a := b.firstAttempt(); a.Rule != "own" || a.Kind != gateway.RateLimited {
			t.Errorf("after the reload: rule %q: %s", a.Rule, a.Kind)
		}
	})
}

// A rule for one connection leaves the other keys of its provider alone.
func TestRulesOfOneConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", ruledPlaces["HTTP 500"].answer)
		b.Handle("b", fine)
		b.Open(keyed("a", 2, "b") + combo("a", "b") + "rules: [{id: one, connection: a-2, status: [500], kind: rate_limited, cooldown: 1m}]\n")
		for range 4 {
			if r := b.Ask(chat(false)); !isFine(r) {
				t.Errorf("%s", describe(r))
			}
		}
		seen := map[gateway.ConnectionID]string{}
		for _, j := range b.Journeys() {
			for _, a := range j.Attempts {
				seen[a.Connection] = a.Rule
			}
		}
		if seen["a-2"] != "one" || seen["a-1"] != "" {
			t.Errorf("rules by connection: %v", seen)
		}
	})
}

// No words of a client's own can make a rule match: what stands in the request proves nothing.
func TestRulesDoNotSeeTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			answerJSON(w, 400, fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error"}}`, "cannot read: "+string(body)))
		})
		b.Open(providers("a") + combo("a") + "rules: [{id: asleep, text: \"hamster is asleep\", kind: banned}]\n")
		q := chat(false)
		q.Prompt = "my hamster is asleep, account has been deactivated, insufficient_quota"
		for range 3 {
			if r := b.Ask(q); r.Status != 400 {
				t.Errorf("%s", describe(r))
			}
			time.Sleep(20 * time.Second)
		}
		if a := b.firstAttempt(); a.Rule != "" || a.Kind != gateway.Alive {
			t.Errorf("rule %q: %s", a.Rule, a.Kind)
		}
		b.NothingOut()
	})
}

// Built-in rules of real providers through the whole gateway, known by their host name, whatever the operator calls them.
func TestBuiltinRulesOfRealProviders(t *testing.T) {
	cases := map[string]struct {
		host   string
		stream bool
		status int
		body   string
		kind   gateway.Kind
		rule   string
		layer  gateway.Layer // where something is out afterwards
	}{
		"agentrouter 403 is a quota": {"agentrouter", false, 403, `{"error":{"message":"用户额度不足","type":"new_api_error"}}`, gateway.QuotaExhausted, "agentrouter-user-quota-exhausted", gateway.LayerCooldown},
		"agentrouter in a stream":    {"agentrouter", true, 200, "data: {\"error\":{\"message\":\"额度不足\",\"code\":403}}\n\n", gateway.QuotaExhausted, "agentrouter-user-quota-exhausted", gateway.LayerCooldown},
		"minimax in a 200":           {"minimax", false, 200, `{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`, gateway.RateLimited, "minimax-rate", gateway.LayerCooldown},
		"glm, one model crowded":     {"bigmodel", false, 429, `{"error":{"code":"1305","message":"该模型当前访问量过大"}}`, gateway.RateLimited, "zhipu-model-crowded", gateway.LayerLockout},
		"opencode 401 is a model":    {"opencode", false, 401, `{"type":"error","error":{"type":"ModelError","message":"Model m is not supported"}}`, gateway.ModelUnavailable, "opencode-model", gateway.LayerLockout},
		"dashscope 429 is no money":  {"dashscope", false, 429, `{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}`, gateway.RateLimited, "dashscope-rate", gateway.LayerCooldown},
		"new-api saturated":          {"relay", false, 429, `{"error":{"code":"insufficient_quota","message":"当前分组上游负载已饱和，请稍后再试"}}`, gateway.RateLimited, "relay-saturated", gateway.LayerLockout},
		"together 403 is a context":  {"together", false, 403, `{"error":{"message":"Input token count exceeds the context length"}}`, gateway.Alive, "together-context", gateway.LayerNone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle(c.host, answersOnce(1, func(w http.ResponseWriter, _ *http.Request) {
					if c.stream {
						sendEvents(w, c.body)
						return
					}
					answerJSON(w, c.status, c.body)
				}))
				b.Handle("b", fine)
				conf := strings.ReplaceAll(providers("mine", "b"), "http://mine.test", "http://"+c.host+".test")
				b.Open(conf + combo("mine", "b"))
				r := b.Ask(chat(c.stream))
				if c.kind != gateway.Alive && !isFine(r) {
					t.Errorf("%s", describe(r))
				}
				if a := b.firstAttempt(); a.Rule != c.rule || a.Kind != c.kind {
					t.Errorf("rule %q: %s\n%s", a.Rule, a.Kind, b.Story())
				}
				for _, layer := range []gateway.Layer{gateway.LayerCooldown, gateway.LayerLockout} {
					if out := b.outOf(layer); (len(out) > 0) != (layer == c.layer) {
						t.Errorf("%s: %v", layer, out)
					}
				}
			})
		})
	}
}

// A refusal with a 4xx of the account's own goes elsewhere, streamed or not, also from inside a nested combo.
func TestP10P15P16RefusalsFailOver(t *testing.T) {
	for _, status := range []int{401, 402, 403, 429} {
		for _, nested := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d nested %t", status, nested), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Handle("a", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, status, `{"error":{"message":"no"}}`) })
					b.Handle("b", fine)
					conf := combo("a", "b")
					if nested {
						conf = "combos:\n  - {name: inner, strategy: priority, targets: [a/m]}\n  - {name: smart, strategy: priority, targets: [{combo: inner}, b/m]}\n"
					}
					b.Open(providers("a", "b") + conf)
					for _, stream := range []bool{true, false} {
						if r := b.Ask(chat(stream)); !isFine(r) {
							t.Errorf("stream %t: %s\n%s", stream, describe(r), b.Story())
						}
					}
				})
			})
		}
	}
}

// An operator makes a 4xx worth another try without blaming the key.
func TestP116RetryableWithoutBlame(t *testing.T) {
	for _, status := range []int{400, 403, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Handle("a", func(w http.ResponseWriter, _ *http.Request) { hamster(w, status) })
				b.Handle("b", fine)
				b.Open(providers("a", "b") + combo("a", "b") + fmt.Sprintf("rules: [{id: extra, provider: a, status: [%d], kind: service_error, count: false}]\n", status))
				for range 15 {
					if r := b.Ask(chat(false)); !isFine(r) {
						t.Errorf("%s\n%s", describe(r), b.Story())
					}
				}
				if n := len(b.Calls("a")); n < 15 { // a quick service error may be asked once more
					t.Errorf("%d attempts for 15 requests: somebody has learned", n)
				}
				b.NothingOut()
			})
		})
	}
}
