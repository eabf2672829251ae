package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/fault"
)

// outOf names the connections and models of which something is out, as the keys of the rooms say it.
func (b *bubble) outOf(layer gateway.Layer) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, s := range b.app.Status() {
		if s.Layer == layer && s.Until.After(time.Now()) {
			out[s.Key] = time.Until(s.Until).Round(time.Second)
		}
	}
	return out
}

func keysWith(m map[string]time.Duration, part string) (n int, d time.Duration) {
	for k, v := range m {
		if strings.Contains(k, part) {
			n, d = n+1, max(d, v)
		}
	}
	return n, d
}

// A 429 rests what leaves by the same egress, when the operator has said that the provider limits addresses.
func TestEgressFamilies(t *testing.T) {
	for _, family := range []string{"", "zen"} {
		t.Run("family "+family, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				limited := lab.Fault{Kind: fault.RateLimit, RetryAfter: time.Minute, Times: 1}
				b.Source("a", limited)
				b.Source("b")
				b.Source("c")
				var conf strings.Builder
				conf.WriteString("providers:\n")
				for _, p := range []string{"a", "b"} {
					conf.WriteString(strings.Replace(provider(p), "class: apikey", "class: apikey, egress_family: '"+family+"'", 1))
				}
				conf.WriteString(provider("c") + `connections:
  - {id: a1, provider: a, key: k1}
  - {id: b-same, provider: b, key: k2}
  - {id: b-address, provider: b, key: k3, egress_ip: 203.0.113.7}
  - {id: b-stubborn, provider: b, key: k4, disable_cooling: true}
  - {id: c1, provider: c, key: k5}
`)
				b.Open(conf.String() + combo("a", "c"))
				b.Right(b.Ask(chat(true)), "")
				out := b.outOf(gateway.LayerCooldown)
				for id, want := range map[string]bool{"a/": true, "b-same": family != "", "b-address": false, "b-stubborn": false, "c1": false} {
					if n, d := keysWith(out, id); (n > 0) != want || want && d != time.Minute {
						t.Errorf("%s is out: %t for %s, want %t for 1m; %v", id, n > 0, d, want, out)
					}
				}
			})
		})
	}
}

// Models that share a quota are out together, at the account that has spent it and nowhere else; a missing model is out
// alone.
func TestQuotaFamilies(t *testing.T) {
	for name, tc := range map[string]struct {
		f    lab.Fault
		kin  bool
		lock time.Duration
	}{
		"quota":   {lab.Fault{Kind: fault.Status, Status: 429, Message: "gauge empty", RetryAfter: 5 * time.Hour}, true, 5 * time.Hour},
		"429":     {lab.Fault{Kind: fault.RateLimit, RetryAfter: 3 * time.Minute}, true, 3 * time.Minute},
		"missing": {always(fault.ModelMissing), false, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				tc.f.Models = []string{"gpt-5.5"}
				b.Source("a", tc.f)
				b.Source("b")
				b.Open("providers:\n" + strings.Replace(provider("a"), "class: apikey",
					"class: apikey, per_model_quota: true, quota_families: {codex: ['gpt-*'], spark: ['gpt-*-spark']}", 1) + provider("b") +
					"connections:\n  - {id: a1, provider: a, key: k1, account: A}\n  - {id: a2, provider: a, key: k2, account: A}\n" +
					"  - {id: b, provider: b, key: kb}\n" + "combos:\n  - {name: smart, strategy: priority, targets: [{target: a/gpt-5.5, connection: a1}, b/m]}\n" +
					"  - {name: kin, strategy: priority, targets: [{target: a/gpt-5.4, connection: a2}, b/m]}\n" +
					"  - {name: spark, strategy: priority, targets: [{target: a/gpt-5.5-spark, connection: a1}, b/m]}\n" +
					"  - {name: other, strategy: priority, targets: [{target: a/o3, connection: a1}, b/m]}\n" +
					"rules: [{id: gauge, status: [429], text: gauge empty, kind: quota_exhausted, scope: family}]\n")
				b.Right(b.Ask(chat(false)), "")
				for model, out := range map[string]bool{"smart": true, "kin": tc.kin, "spark": false, "other": false} {
					n := len(b.Calls("a"))
					q := chat(true)
					q.Model = model
					b.Right(b.Ask(q), "")
					if asked := len(b.Calls("a")) > n; asked == out {
						t.Errorf("%s: asked at a: %t, want it out: %t; %v", model, asked, out, b.Out())
					}
				}
				if n, d := keysWith(b.outOf(gateway.LayerLockout), ""); n != 1 || d < tc.lock-10*time.Second || d > tc.lock {
					t.Errorf("%d locks, for %s, want one for %s", n, d, tc.lock)
				}
			})
		})
	}
}

// lockout.persist decides whether locks outlive a restart.
func TestLocksOverARestart(t *testing.T) {
	for _, persist := range []bool{true, false} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Source("a", always(fault.ModelMissing))
			b.Source("b")
			b.Open(providers("a", "b") + combo("a", "b") + fmt.Sprintf("resilience: {lockout: {persist: %t}}\n", persist))
			b.Right(b.Ask(chat(false)), "")
			b.Restart(time.Second)
			b.Right(b.Ask(chat(false)), "")
			want := map[bool]int{true: 1, false: 2}[persist]
			if n := len(b.Calls("a")); n != want {
				t.Errorf("persist %t: asked %d times, want %d", persist, n, want)
			}
		})
	}
}

// The outer gate, switched on by one word, has its class's numbers: a provider that fails for long, with no success
// between, rests for minutes; one success clears it.
func TestProviderCooldown(t *testing.T) {
	for class, open := range map[string]time.Duration{"oauth": 5 * time.Minute, "apikey": 10 * time.Minute, "local": time.Minute} {
		for _, profile := range []string{"recommended", "omniroute"} {
			t.Run(class+"/"+profile, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("a", lab.Fault{Kind: fault.Status, Status: 503, For: 20 * time.Minute})
					b.Source("b")
					conf := strings.ReplaceAll(providers("a", "b"), "class: apikey", "class: "+class) + combo("a", "b")
					b.Open(conf + fmt.Sprintf("resilience: {profile: %s, breaker: {provider_cooldown: {enabled: true}}, cooldown: {service_backoff: false}}\n", profile))
					longest := time.Duration(0)
					for range 100 {
						b.Right(b.Ask(chat(true)), "")
						for _, s := range b.app.Status() {
							if s.Layer == gateway.LayerBreaker && s.Reason == gateway.ProviderCooldown {
								longest = max(longest, time.Until(s.Until))
							}
						}
						time.Sleep(10 * time.Second)
					}
					if longest < open*9/10-11*time.Second { // shortened by the jitter; a gate that reopens may hold for longer
						t.Errorf("the gate held for %s, want %s at least; %v", longest, open, b.Out())
					}
					time.Sleep(20 * time.Minute)
					b.each(4, time.Second)
					b.NothingOut()
				})
			})
		}
	}
}
