package app

import (
	"slices"
	"sync"
	"testing"
	"time"

	"spillway/internal/lab"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// A preferred source that becomes slow, not dead: most of its answers begin after 25 s for a minute. How long clients wait
// is bounded by where it is left: at 10 s, and after each wait that was cut half as long again (10, 15, 22.5 s, then it
// delivers), because a wait that was cut is no measure to be tripled. A strategy that goes by health soon asks elsewhere.
// Everybody gets the right answer.
func TestBrownoutOfThePrimary(t *testing.T) {
	waits := map[string][]time.Duration{}
	for _, strategy := range []string{"priority", "health-aware"} {
		inBubble(t, func(t *testing.T, b *bubble) {
			latency := scenario.Between(50*time.Millisecond, 100*time.Millisecond)
			b.SourceOf(scenario.Source{Name: "slow", Latency: latency, Tokens: 10, Faults: []lab.Fault{
				{Kind: fault.SlowFirstToken, After: 10 * time.Second, For: time.Minute, Delay: 25 * time.Second, Prob: 0.8}}})
			b.SourceOf(scenario.Source{Name: "steady", Latency: latency, Tokens: 10})
			b.Open(providers("slow", "steady") + "combos:\n  - {name: smart, strategy: " + strategy + ", targets: [slow/m, steady/m]}\n")
			began := time.Now()
			var mu sync.Mutex
			for time.Since(began) < 100*time.Second {
				b.running.Go(func() {
					r := b.Ask(chat(true))
					mu.Lock()
					defer mu.Unlock()
					if why := wrong(r, "", 10); why != "" {
						t.Errorf("%s: %s", strategy, why)
					}
					waits[strategy] = append(waits[strategy], r.FirstAfter)
				})
				time.Sleep(250 * time.Millisecond)
			}
		})
	}
	for strategy, all := range waits {
		slices.Sort(all)
		at := func(p int) time.Duration { return all[len(all)*p/100] }
		for p, most := range map[string]map[int]time.Duration{"priority": {50: time.Second, 80: 23 * time.Second, 99: 26 * time.Second},
			"health-aware": {95: time.Second, 99: 11 * time.Second}}[strategy] {
			if at(p) > most {
				t.Errorf("%s: p%d is %s, want %s at most", strategy, p, at(p), most)
			}
		}
		t.Logf("%s: %d calls, p50 %s, p80 %s, p90 %s, p95 %s, max %s", strategy, len(all), at(50), at(80), at(90), at(95), all[len(all)-1])
	}
}
