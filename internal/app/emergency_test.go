package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// rescued is a configuration in which combo smart has an emergency combo.
func rescued(more string, targets ...string) string {
	return providers(append(targets, "spare")...) + combo(targets...) +
		"  - {name: rescue, targets: [spare/m9]}\nemergency_fallback: rescue\n" + more
}

// TestEmergencyFallback: what is nobody's wish goes on over the emergency combo; what is the caller's fault does not.
func TestEmergencyFallback(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault lab.Fault
		why   gateway.Reason // 0 = the emergency combo is not asked
		code  int
	}{
		{"a dead provider", lab.Fault{Kind: fault.Status, Status: 503}, gateway.AttemptsSpent, 200},
		{"a refused key", always(fault.Unauthorized), gateway.NothingRunnable, 200},
		{"no such model", always(fault.ModelMissing), gateway.NothingRunnable, 200},
		{"empty answers", always(fault.Empty), gateway.AttemptsSpent, 200},
		{"a bad request", lab.Fault{Kind: fault.Status, Status: 400, Body: `{"error":{"message":"bad","type":"invalid_request_error"}}`}, 0, 400},
		{"a refusal of content", lab.Fault{Kind: fault.Status, Status: 400,
			Body: `{"error":{"message":"flagged","type":"invalid_request_error","code":"content_policy_violation"}}`}, 0, 400},
		{"a prompt that is too long", lab.Fault{Kind: fault.Status, Status: 400,
			Body: `{"error":{"message":"This model's maximum context length is 10 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}`}, 0, 400},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(row.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("main", row.fault)
					b.Source("spare")
					b.Open(rescued("", "main"))
					r := b.Ask(chat(stream))
					j := b.Journeys()[0]
					if row.why == 0 {
						if r.Status != row.code || len(b.Calls("spare")) != 0 {
							t.Errorf("status %d, %d calls of the spare\n%s", r.Status, len(b.Calls("spare")), b.Story())
						}
						return
					}
					b.Right(r, "")
					last := j.Attempts[len(j.Attempts)-1]
					path := j.Path[len(j.Path)-1]
					if r.Header.Get("X-Spillway-Model") != "m9" || last.Why != gateway.EmergencyFallback || j.Combo != "smart" ||
						path != "emergency fallback rescue ("+row.why.String()+")" || j.Code != "" || j.Error != "" {
						t.Errorf("served %s, %q, error %q\n%s", r.Header.Get("X-Spillway-Model"), path, j.Error, b.Story())
					}
					costs := 0
					for _, a := range j.Attempts {
						if a.Kind == gateway.ServiceError || a.Kind == gateway.EmptyOutput {
							costs++
						}
					}
					if costs > 7 {
						t.Errorf("%d attempts before it, of ten three are kept\n%s", costs, b.Story())
					}
					if m := b.metric("spillway_emergency_total"); m != 1 {
						t.Errorf("counted %v", m)
					}
				})
			})
		}
	}
}

// metric sums the series of a counter.
func (b *bubble) metric(name string) (sum float64) {
	b.t.Helper()
	families, err := b.app.metrics.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestEmergencyIsNeverRecursive: a request for the emergency combo itself ends there, and one that has gone there ends.
func TestEmergencyIsNeverRecursive(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("main", lab.Fault{Kind: fault.Status, Status: 503})
		b.Source("spare", lab.Fault{Kind: fault.Status, Status: 502})
		b.Open(rescued("", "main"))
		q := chat(false)
		r := b.Ask(q)
		j := b.Journeys()[0]
		if r.Status != 503 || !strings.Contains(r.ErrorMessage, `the emergency combo "rescue" failed as well`) || len(j.Attempts) > 10 {
			t.Errorf("%s\n%s", describe(r), b.Story())
		}
		if n := len(b.Calls("spare")); n == 0 || n > 3 {
			t.Errorf("%d calls of the spare, of ten attempts three are kept\n%s", n, b.Story())
		}
		q.Model = "rescue"
		if r := b.Ask(q); r.Status != 502 || strings.Contains(r.ErrorMessage, "emergency") {
			t.Errorf("%s\n%s", describe(r), b.Story())
		}
	})
}

// TestEmergencyWhenNothingIsRunnable: with all of the asked pool out the emergency combo answers, and when that is out as
// well the error is the asked pool's, with its time.
func TestEmergencyWhenNothingIsRunnable(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("main", lab.Fault{Kind: fault.RateLimit, RetryAfter: 10 * time.Minute})
		b.Source("spare", lab.Fault{Kind: fault.RateLimit, RetryAfter: 20 * time.Minute, Skip: 2})
		b.Open(rescued("waits: {enabled: false}\n", "main"))
		for range 2 {
			b.Right(b.Ask(chat(false)), "")
		}
		if n := len(b.Calls("main")); n != 1 {
			t.Errorf("%d calls of the main one", n)
		}
		b.Ask(chat(false)) // takes the spare out
		r := b.Ask(chat(false))
		j := b.Journeys()[0]
		if r.Status != 429 || len(j.Attempts) != 0 || j.Code != string(gateway.ModelCooldown) {
			t.Errorf("%s, code %s\n%s", describe(r), j.Code, b.Story())
		}
		if wait := r.Header.Get("Retry-After"); wait < "590" || wait > "670" || len(wait) != 3 {
			t.Errorf("Retry-After %s, the asked pool is back in ten minutes", wait)
		}
	})
}

// TestEmergencyNeedsPermission: the key's allowed_models must name the emergency combo or all of its targets.
func TestEmergencyNeedsPermission(t *testing.T) {
	for _, row := range []struct {
		allowed string
		right   bool
	}{{"[]", true}, {"[smart]", false}, {"[smart, rescue]", true}, {"[smart, m9]", true}, {"[smart, m8]", false}} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Source("main", always(fault.Unauthorized))
			b.Source("spare")
			sum := sha256.Sum256([]byte("sk-spw-test"))
			b.Open(rescued("keys:\n  - {name: dev, hash: 'sha256:"+hex.EncodeToString(sum[:])+"', allowed_models: "+row.allowed+"}\n", "main"))
			q := chat(false)
			q.Key = "sk-spw-test"
			if r := b.Ask(q); (wrong(r, "", 60) == "") != row.right || (len(b.Calls("spare")) > 0) != row.right {
				t.Errorf("%s: %s", row.allowed, describe(r))
			}
		})
	}
}

// TestEmergencyIsSwitchedByReload, and only completions fall back: vectors of another model would be wrong.
func TestEmergencyIsSwitchedByReload(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("main", always(fault.Unauthorized))
		b.Source("spare")
		with := rescued("", "main")
		b.Open(strings.Replace(with, "emergency_fallback: rescue", "", 1))
		if r := b.Ask(chat(false)); r.Status == 200 {
			t.Error("fell back without one")
		}
		b.Reload(with)
		b.Right(b.Ask(chat(false)), "")
		res := b.Post("/v1/embeddings", `{"model":"smart","input":"x"}`)
		res.Body.Close()
		if n := len(b.Calls("spare")); res.StatusCode == 200 || n != 1 {
			t.Errorf("status %d, %d calls of the spare", res.StatusCode, n)
		}
	})
}

// TestEmergencyForACrowd: who may not stand in line any more goes to the emergency combo as well.
func TestEmergencyForACrowd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "main", Latency: scenario.Between(10*time.Second, 10*time.Second), Tokens: 4})
		b.Source("spare")
		b.Open(rescued("resilience: {pacing: {queue: {max_queue_depth: 2}}}\n", "main") + "")
		b.Reload(strings.Replace(string(b.config), "provider: main, key", "provider: main, max_concurrent: 1, key", 1))
		served := map[string]int{}
		for _, r := range b.atOnce(8, chat(false)) {
			if r.Status != 200 {
				t.Errorf("%s", describe(r))
			}
			served[r.Header.Get("X-Spillway-Provider")]++
		}
		if served["main"] < 2 || served["spare"] < 4 {
			t.Errorf("%v", served)
		}
	})
}

// TestEmergencySharesTheBudget: of any budget a part is kept for it, and of one attempt there is none to keep.
func TestEmergencySharesTheBudget(t *testing.T) {
	for limit, want := range map[int]string{1: "1 0", 2: "1 1", 3: "2 1", 4: "3 1", 6: "4 2", 9: "6 3", 10: "7 3", 12: "9 3"} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Source("main", lab.Fault{Kind: fault.Status, Status: 503})
			b.Source("spare", lab.Fault{Kind: fault.Status, Status: 503})
			b.Open(rescued(fmt.Sprintf("limits: {attempts: %d}\nresilience: {breaker: {consec_threshold: 1000, rate_min_calls: 1000}}\n", limit), "main"))
			b.Ask(chat(false))
			if have := fmt.Sprint(len(b.Calls("main")), len(b.Calls("spare"))); have != want {
				t.Errorf("limit %d: %s attempts, want %s\n%s", limit, have, want, b.Story())
			}
		})
	}
}
