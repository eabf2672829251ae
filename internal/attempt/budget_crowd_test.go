package attempt

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A crowd of requests that fails in one instant sees the same retry tokens, and pauses before it asks again: what the
// bucket holds is shared out when the decision is made, not when the pause is over.
func TestRetryBudgetHoldsForACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 200
		yaml := strings.ReplaceAll(raceConfig, "provider: good", "provider: bad")
		yaml = strings.ReplaceAll(yaml, "bad/m, good/m", "bad/m")
		yaml += "resilience:\n  breaker: {consec_threshold: 1000, rate_min_calls: 100000}\n  pacing: {unproven_cap: 0}\n"
		tr := sound(t, yaml, script{time.Second, 500}, script{time.Second, 500})
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() { tr.ask() })
		}
		all.Wait()
		began := crowd + int(budgetFull) + crowd/5 + 3*15 // what is held, and what is gained in 15 s
		if n := tr.answers["probe"] + tr.answers["other"]; n > began || n < crowd {
			t.Errorf("%d attempts, at most %d are paid for", n, began)
		}
		tr.nothingHeld()
	})
}
