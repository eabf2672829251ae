package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// served plays n requests that each use the first candidate, and tells the targets' providers in order.
func served(t *testing.T, pool *Pool, n int, now time.Time) string {
	t.Helper()
	var out strings.Builder
	for range n {
		pl := make1(pool.Open(), left(10), now)
		c := pool.Candidates[pl.Ranked[0].ID]
		out.WriteString(string(c.Candidate.Connection.Provider.ID))
		pl.Used(c.ID)
		pl.Close()
	}
	return out.String()
}

func sticky(t *testing.T, strategy string, limit int) *Pool {
	h := open(t, "providers:\n"+provider("a")+provider("b")+provider("c")+"connections:\n"+keys("a", 1)+keys("b", 1)+keys("c", 1)+
		fmt.Sprintf("combos:\n  - {name: smart, strategy: %s, targets: [a/m, b/m, c/m], options: {sticky_limit: %d}}\n", strategy, limit))
	return h.pool(t, "smart")
}

func TestStickyRoundRobin(t *testing.T) {
	for limit, want := range map[int]string{0: "abcabcabcabc", 1: "abcabcabcabc", 2: "aabbccaabbcc", 3: "aaabbbcccaaa", 5: "aaaaabbbbbcc"} {
		if have := served(t, sticky(t, "round-robin", limit), 12, t0); have != want {
			t.Errorf("limit %d: %s, want %s", limit, have, want)
		}
	}
}

// TestStickyLeavesWhatIsOut: a stay ends with the target's health, and goes on where the requests have gone.
func TestStickyLeavesWhatIsOut(t *testing.T) {
	pool := sticky(t, "round-robin", 4)
	if have := served(t, pool, 2, t0); have != "aa" {
		t.Fatal(have)
	}
	pool.Candidates[0].trip(t, t0)
	if have := served(t, pool, 8, at(2*time.Second)); have != "bbbbcccc" {
		t.Error(have)
	}
}

// TestStickyWeighted: stays of the given length, and the weights hold over them.
func TestStickyWeighted(t *testing.T) {
	h := open(t, "providers:\n"+provider("a")+provider("b")+"connections:\n"+keys("a", 1)+keys("b", 1)+
		"combos:\n  - {name: smart, strategy: weighted, targets: [{target: a/m, weight: 3}, {target: b/m, weight: 1}], options: {sticky_limit: 5}}\n")
	const n = 20_000
	have := served(t, h.pool(t, "smart"), n, t0)
	for i := 0; i < n; i += 5 {
		if stay := have[i : i+5]; stay != "aaaaa" && stay != "bbbbb" {
			t.Fatalf("request %d: %s is no stay of five", i, stay)
		}
	}
	if share := float64(strings.Count(have, "a")) / n; share < 0.72 || share > 0.78 {
		t.Errorf("%.3f of the requests went to a weight of three in four", share)
	}
}

// TestStickyIsForThoseThatMove: a strategy with a preference is not held anywhere.
func TestStickyIsForThoseThatMove(t *testing.T) {
	pool := sticky(t, "priority", 5)
	pool.Candidates[0].trip(t, t0)
	if have := served(t, pool, 2, at(2*time.Second)); have != "bb" {
		t.Fatal(have)
	}
	if have := served(t, pool, 1, at(5*time.Minute)); have != "a" {
		t.Errorf("%s, though a is back", have)
	}
}
