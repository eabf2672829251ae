package app

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/route/strategy"
)

// A target that was declared dead once stayed so until a restart, and nobody could see why.
func TestP38NothingStaysOutWithoutAWayBack(t *testing.T) {
	for name, f := range map[string]lab.Fault{
		"5xx":     {Kind: fault.Status, Status: 503, For: 10 * time.Minute},
		"silence": {Kind: fault.Silence, For: 10 * time.Minute},
		"401":     {Kind: fault.Unauthorized, For: 30 * time.Second},
		"429":     {Kind: fault.RateLimit, For: 10 * time.Minute},
		"404":     {Kind: fault.ModelMissing, For: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", f)
				b.Source("b")
				b.Open(providers("a", "b") + combo("a", "b"))
				began := time.Now()
				back := time.Duration(0)
				for time.Since(began) < 50*time.Minute && back == 0 {
					r := b.Ask(chat(true))
					b.Right(r, "")
					if time.Since(began) > 10*time.Minute && r.Header.Get("X-Spillway-Provider") == "a" {
						back = time.Since(began) - 10*time.Minute
					}
					for _, s := range b.app.Status() {
						out := s.Layer == gateway.LayerBreaker && s.State == "open" || s.State == "unavailable" || s.State == "locked"
						if out && (s.Until.IsZero() || s.Reason == 0 || time.Until(s.Until) > 31*time.Minute) {
							t.Fatalf("out without a visible way back: %+v", s)
						}
					}
					time.Sleep(10 * time.Second)
				}
				if back == 0 || back > 31*time.Minute {
					t.Errorf("in use again %s after its recovery, 0 = never: %v", back, b.Out())
				}
			})
		})
	}
}

// How long a failure counts was fixed at a minute.
func TestP41TheWindowIsASetting(t *testing.T) {
	for window, opens := range map[time.Duration]bool{time.Minute: false, 10 * time.Minute: true} {
		inBubble(t, func(t *testing.T, b *bubble) {
			n := 0
			b.Handle("a", func(w http.ResponseWriter, _ *http.Request) {
				if n++; n%3 == 0 {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}]}`)
					return
				}
				http.Error(w, "no", http.StatusInternalServerError)
			})
			b.Source("b")
			b.Open(providers("a", "b") + "combos:\n  - {name: smart, strategy: priority, targets: [a/m, b/m]}\n" +
				fmt.Sprintf("resilience: {breaker: {rate_window: %s, rate_min_calls: 10, consec_threshold: 100}}\n", window))
			for range 40 { // one call of a per 15 s, two of three fail
				b.Ask(chat(false))
				time.Sleep(15 * time.Second)
			}
			out := strings.Join(b.Out(), "; ")
			opened := false
			for _, j := range b.Journeys() {
				for _, e := range j.Excluded {
					opened = opened || e.Layer == gateway.LayerBreaker
				}
			}
			if opened != opens {
				t.Errorf("window %s: opened %t, want %t; %s", window, opened, opens, out)
			}
		})
	}
}

// A 429 that is passed on without its Retry-After makes clients retry at once.
func TestP50RetryAfterIsPassedOn(t *testing.T) {
	for _, p := range []gateway.Protocol{gateway.OpenAI, gateway.Responses, gateway.Anthropic, gateway.Gemini} {
		for _, stream := range []bool{false, true} {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("a", lab.Fault{Kind: fault.RateLimit, RetryAfter: 30 * time.Second})
				b.Open(providers("a") + combo("a") + "waits: {enabled: false}\n")
				r := b.Ask(client.Request{Protocol: p, Model: "smart", Stream: stream})
				if n := retryAfter(r); r.Status != 429 || n < 28 || n > 34 {
					t.Errorf("%s, stream %t: Retry-After %d: %s", p, stream, n, describe(r))
				}
			})
		}
	}
}

// An exhausted provider scored like a healthy one, so the best score went to what could not answer.
func TestO22TheExhaustedAreNotScored(t *testing.T) {
	for _, name := range strategy.Names() {
		for cause, f := range map[string]lab.Fault{
			"quota":   {Kind: fault.Quota, RetryAfter: 5 * time.Hour},
			"credits": {Kind: fault.Status, Status: 402, Code: "insufficient_credits", Type: "billing", Message: "Your account has no credits left."},
		} {
			t.Run(name+"/"+cause, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("spent", f)
					b.Source("good")
					b.Source("new")
					yaml := providers("spent", "good", "new") + "combos:\n  - {name: smart, strategy: " + name + ", targets: [{target: spent/m, weight: 100}, good/m, new/m]}\n"
					b.Open(yaml)
					b.each(40, 0)
					if n := len(b.Calls("spent")); n > 2 { // credits need a second look before they count as gone
						t.Errorf("the exhausted account was asked %d times", n)
					}
					if len(b.Calls("good"))+len(b.Calls("new")) < 38 {
						t.Error("the others were not asked")
					}
				})
			})
		}
	}
}

// Counting tokens is a help, not a service: its failures take nobody out for generating.
func TestCountTokensOpensNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no such thing", http.StatusInternalServerError)
		})
		b.Open(providers("a") + combo("a"))
		for range 30 {
			res := b.Post("/v1/messages/count_tokens", `{"model":"smart","messages":[{"role":"user","content":"hi"}]}`)
			res.Body.Close()
			time.Sleep(time.Second)
		}
		for _, s := range b.app.Status() {
			if s.Layer == gateway.LayerBreaker && !strings.Contains(s.Key, "count_tokens") {
				t.Errorf("out for generating: %+v", s)
			}
		}
	})
}

// Which test proves which property of resilience.md section 12. "invariants" are what bubble_test.go checks after every
// test of the whole gateway, TestChaos with random faults, clients and cancellations among them.
//
//	1  one end per request                 invariants, TestChaos; attempt/next TestAnyRequest, TestAnyRace
//	2  nothing forbidden is tried          TestOpenCandidatesGetProbesOnly, TestDecisionLogAddsUp; attempt/next TestAnyRequest;
//	                                       breaker P1; cooldown TestProperty*; lockout TestPropertyNeverShorterNeverMorePermissive
//	3  never above a cap                   gate TestGateProperties, TestNeverAboveACapUnderConcurrency; TestChaos
//	4  rates are kept in every window      the properties of room rate
//	5  at most N probes                    breaker P2 (TestProperties), TestP21RoomIsTheMachine; invariants
//	6  everything comes back               invariants; attempt TestPanicsGiveEverythingBack, TestRaceClientLeaves; gate
//	                                       TestGateProperties; queue TestLineProperties; TestSoakStreams
//	7  one row per attempt, sums agree     TestDecisionLogAddsUp, invariants
//	8  noise takes nobody out for long     breaker TestNoiseOpensNothing; TestHealthySourceWithEmptyAnswers
//	9  the dead cost a bounded number      breaker TestDeadSourceCostsABoundedNumber; TestOpenCandidatesGetProbesOnly,
//	                                       TestManyDeadKeysBeforeAHealthyProvider
//	10 restarts permit no more             breaker P20 (TestRestartIsNeverMorePermissive), cooldown and lockout
//	                                       TestProperty*; TestRestartForgetsNothing, TestReloadDuringRequests
//	11 callers and ourselves teach nothing attempt TestNothingLearnsFromCallersAndOurselves, TestUncountedTeachesNothing
//	12 client text changes nothing         verdict TestClientTextChangesNothing, FuzzJudge

// Resilience 12.2 and 12.7, with random faults: no attempt goes to a candidate whose breaker is open, but for probes; each
// attempt has one row; and the rows of a connection's model sum up to its breaker's window.
func TestDecisionLogAddsUp(t *testing.T) {
	checked := 0
	for seed := range uint64(12) {
		inBubble(t, func(t *testing.T, b *bubble) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			var names []string
			for i := range 3 {
				n := string(rune('a' + i))
				names = append(names, n)
				b.Source(n, lab.Fault{Kind: fault.Status, Status: 500, Prob: 0.5 * rnd.Float64()},
					lab.Fault{Kind: fault.Empty, Prob: 0.2 * rnd.Float64()}, lab.Fault{Kind: fault.RateLimit, Prob: 0.1 * rnd.Float64()},
					lab.Fault{Kind: fault.Cut, Tokens: 3, Prob: 0.1 * rnd.Float64()})
			}
			// Thresholds that only count: nothing opens, so no window is void. A degraded breaker is listed with its sums.
			b.Open(providers(names...) + combo(names...) + "resilience: {breaker: {consec_threshold: 1000, degrade_threshold: 1, degrade_rate: 0.01, " +
				"rate_threshold: 1, evidence_mode: off, rate_min_calls: 100000, rate_window: 10m, count_gap: 0s}}\n")
			for range 60 {
				b.Ask(chat(rnd.IntN(2) == 0))
				time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			}
			type sum struct{ n, f int }
			rows := map[string]sum{}
			for _, j := range b.Journeys() {
				for _, a := range j.Attempts {
					if a.Before == "open" && !a.Probe {
						t.Errorf("an attempt on an open candidate: %+v", a)
					}
					s := rows[string(a.Connection)]
					switch a.Kind {
					case gateway.Success:
						s.n++
					case gateway.ServiceError, gateway.Timeout, gateway.EmptyOutput:
						s.n, s.f = s.n+1, s.f+1
					}
					rows[string(a.Connection)] = s
				}
			}
			for _, s := range b.app.Status() {
				if s.Layer != gateway.LayerBreaker || s.Detail["model"] == "" {
					continue
				}
				checked++
				want := rows[s.Detail["connection"]]
				number := func(k string) (n int) { _, _ = fmt.Sscan(s.Detail[k], &n); return n }
				if got := (sum{number("attempts"), number("failures")}); got != want {
					t.Errorf("seed %d, %s: the window says %+v, the decision logs %+v", seed, s.Key, got, want)
				}
			}
		})
	}
	if checked < 8 {
		t.Errorf("only %d windows were there to compare", checked)
	}
}

// Resilience 12.2 and 12.9 over random outages: open candidates are tried as probes only, and few times.
func TestOpenCandidatesGetProbesOnly(t *testing.T) {
	for seed := range uint64(4) {
		inBubble(t, func(t *testing.T, b *bubble) {
			rnd := rand.New(rand.NewPCG(seed, 11))
			kinds := []lab.Fault{{Kind: fault.Status, Status: 503}, {Kind: fault.ResetBeforeHeaders}, {Kind: fault.Empty}, {Kind: fault.HTML}}
			f := kinds[rnd.IntN(len(kinds))]
			f.After, f.For = time.Duration(rnd.IntN(60))*time.Second, time.Duration(60+rnd.IntN(300))*time.Second
			b.Source("a", f)
			b.Source("b")
			b.Open(providers("a", "b") + combo("a", "b"))
			began := time.Now()
			for time.Since(began) < 10*time.Minute {
				b.Right(b.Ask(chat(rnd.IntN(2) == 0)), "")
				time.Sleep(time.Duration(1+rnd.IntN(6000)) * time.Millisecond)
			}
			dead := 0
			for _, j := range b.Journeys() {
				for _, a := range j.Attempts {
					if a.Before == "open" || a.Before == "half_open" && !a.Probe {
						t.Errorf("seed %d: %s on a breaker that is %s, probe %t", seed, a.Target, a.Before, a.Probe)
					}
					if a.Connection == "a" && a.Kind != gateway.Success {
						dead++
					}
				}
			}
			if dead > 20 {
				t.Errorf("seed %d: %d attempts on the dead source", seed, dead)
			}
		})
	}
}
