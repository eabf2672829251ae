package strategy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var kinds = []Kind{Priority, RoundRobin, Weighted, HealthAware}

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

func drawItems(t *rapid.T, least int) []Item {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
		it := Item{
			Eligible: rapid.Bool().Draw(t, "eligible"),
			Weight:   rapid.IntRange(-1, 9).Draw(t, "weight"),
			Priority: rapid.SampledFrom([]int{0, 0, 1, 2, math.MaxInt, math.MinInt}).Draw(t, "priority"),
			Success:  rapid.Float64Range(0, 1).Draw(t, "success"),
			InFlight: rapid.IntRange(0, 300).Draw(t, "in flight"),
			Limit:    rapid.IntRange(0, 64).Draw(t, "limit"),
			Weak:     rapid.Bool().Draw(t, "weak"),
		}
		it.Silent = float64(rapid.IntRange(0, it.InFlight).Draw(t, "silent")) / 2
		return it
	}), least, 140).Draw(t, "items")
}

// TestRank holds every strategy to what all of them promise: a permutation of the input, the eligible before the others,
// the same order for the same seed and state.
func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		items := drawItems(t, 0)
		var a, b State
		for range rapid.IntRange(0, 30).Draw(t, "uses") {
			i := rapid.IntRange(0, max(len(items)-1, 0)).Draw(t, "used")
			a.Used(i, len(items))
			b.Used(i, len(items))
		}
		seed := rapid.Uint64().Draw(t, "seed")
		order := kind.Rank(nil, items, &a, seeded(seed))
		again := kind.Rank(nil, items, &b, seeded(seed))
		if !slices.Equal(order, again) {
			t.Fatalf("%s: %v, then %v", kind, order, again)
		}
		sorted := slices.Sorted(slices.Values(order))
		for i, x := range sorted {
			if i != x {
				t.Fatalf("%s: no permutation: %v", kind, order)
			}
		}
		if len(order) != len(items) {
			t.Fatalf("%s: %d of %d", kind, len(order), len(items))
		}
		if !slices.IsSortedFunc(order, func(a, b int) int { return eligibleFirst(items, a, b) }) {
			t.Fatalf("%s: something that is out stands before something that runs: %v", kind, order)
		}
	})
}

func TestPriorityKeepsTheConfiguredOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 2)
		order := Priority.Rank(nil, items, &State{}, seeded(1))
		for i := 1; i < len(order); i++ {
			a, b := order[i-1], order[i]
			if items[a].Eligible != items[b].Eligible {
				continue
			}
			if items[a].Priority > items[b].Priority || items[a].Priority == items[b].Priority && a > b {
				t.Fatalf("%d (priority %d) before %d (priority %d)", a, items[a].Priority, b, items[b].Priority)
			}
		}
	})
}

func eligibleFirst(items []Item, a, b int) int {
	switch {
	case items[a].Eligible == items[b].Eligible:
		return 0
	case items[a].Eligible:
		return -1
	}
	return 1
}

const draws = 100_000

// heads counts who is first.
func heads(k Kind, items []Item) []float64 {
	share := make([]float64, len(items))
	r := seeded(7)
	var order []int
	for range draws {
		order = k.Rank(order, items, &State{}, r)
		share[order[0]] += 1.0 / draws
	}
	return share
}

func near(t *testing.T, what string, have, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(have[i]-want[i]) > 0.02 {
			t.Errorf("%s: item %d is first in %.1f %% of draws, want %.1f %%", what, i, 100*have[i], 100*want[i])
		}
	}
}

// TestWeightedDistribution: the share of an eligible item is its weight over the sum of the eligible weights.
func TestWeightedDistribution(t *testing.T) {
	for _, weights := range [][]int{{1, 1}, {1, 2, 3, 4}, {9, 1}, {0, -5, 2}, {100, 1, 1, 50}} {
		items := make([]Item, 0, len(weights)+1)
		want, sum := make([]float64, len(weights)+1), 0.0
		for i, w := range weights {
			items = append(items, Item{Eligible: true, Weight: w})
			want[i] = float64(max(w, 1))
			sum += want[i]
		}
		items = append(items, Item{Weight: 1000}) // out: draws nothing
		for i := range want {
			want[i] /= sum
		}
		near(t, "weighted", heads(Weighted, items), want)
	}
}

// TestWeightedTail: behind the drawn one the others follow by weight.
func TestWeightedTail(t *testing.T) {
	items := []Item{{Eligible: true, Weight: 1}, {Weight: 99}, {Eligible: true, Weight: 5}, {Eligible: true, Weight: 3}}
	r := seeded(3)
	for range 1000 {
		order := Weighted.Rank(nil, items, &State{}, r)
		rest := slices.Clone(order[1:3])
		if items[rest[0]].Weight < items[rest[1]].Weight || order[3] != 1 {
			t.Fatalf("order %v", order)
		}
	}
}

// twoChoices is what power of two choices gives: an item wins the pairs in which its score is the better one, and half
// of those in which it is equal.
func twoChoices(items []Item) []float64 {
	var eligible []int
	for i := range items {
		if items[i].Eligible {
			eligible = append(eligible, i)
		}
	}
	out := make([]float64, len(items))
	if len(eligible) == 1 {
		out[eligible[0]] = 1
		return out
	}
	pairs := float64(len(eligible) * (len(eligible) - 1) / 2)
	for i, a := range eligible {
		for _, b := range eligible[i+1:] {
			switch sa, sb := score(&items[a]), score(&items[b]); {
			case sa > sb:
				out[a] += 1 / pairs
			case sb > sa:
				out[b] += 1 / pairs
			default:
				out[a] += 0.5 / pairs
				out[b] += 0.5 / pairs
			}
		}
	}
	return out
}

func TestHealthAwareDistribution(t *testing.T) {
	well := Item{Eligible: true, Success: 1, Limit: 64}
	bad, busy, silent, weak, out := well, well, well, well, well
	bad.Success = 0
	busy.InFlight = 48
	silent.InFlight, silent.Silent = 4, 2
	weak.Weak = true
	out.Eligible = false
	for name, items := range map[string][]Item{
		"equals":     {well, well, well, well, well},
		"one bad":    {well, bad, well, well},
		"all unlike": {bad, silent, well, busy, weak, out},
		"two":        {well, bad},
		"one":        {out, bad, out},
	} {
		near(t, name, heads(HealthAware, items), twoChoices(items))
	}
}

// TestScore: an empty bad source does not beat a busy good one; silence and weakness cost.
func TestScore(t *testing.T) {
	good := Item{Success: 1, InFlight: 60, Limit: 64}
	for name, c := range map[string]struct{ better, worse Item }{
		"a busy good one and an empty bad one":   {good, Item{Success: 0.4, Limit: 64}},
		"a small good one and a large full one":  {Item{Success: 1, InFlight: 1, Limit: 8}, Item{Success: 1, InFlight: 32, Limit: 64}},
		"one that talks and one that is silent":  {Item{Success: 1, InFlight: 2, Limit: 64}, Item{Success: 1, InFlight: 2, Silent: 1, Limit: 64}},
		"one that is well and one that is weak":  {good, Item{Success: 1, InFlight: 60, Limit: 64, Weak: true}},
		"the floor keeps the beaten comparable":  {Item{Success: 0, Limit: 64}, Item{Success: 0, InFlight: 64, Limit: 64}},
		"an unknown limit is one, never divides": {Item{Success: 1}, Item{Success: 1, InFlight: 1}},
	} {
		if a, b := score(&c.better), score(&c.worse); !(a > b) {
			t.Errorf("%s: %v and %v", name, a, b)
		}
	}
	if s := score(&Item{}); s != healthFloor {
		t.Errorf("score of nothing: %v", s)
	}
}

// TestHealthAwareTail: the fallbacks come by score with 10 % jitter: close ones mix, distant ones do not.
func TestHealthAwareTail(t *testing.T) {
	items := []Item{
		{Eligible: true, Success: 1, Limit: 64}, {Eligible: true, Success: 0.95, Limit: 64},
		{Eligible: true, Success: 0.97, Limit: 64}, {Eligible: true, Success: 0.5, Limit: 64},
	}
	r := seeded(5)
	seconds := map[int]int{}
	for range 10_000 {
		order := HealthAware.Rank(nil, items, &State{}, r)
		seconds[order[1]]++
		if order[3] != 3 {
			t.Fatalf("the worst is not last: %v", order)
		}
	}
	for i := range 3 {
		if seconds[i] < 1000 {
			t.Errorf("item %d is second in %d of 10000 orders: everybody spills onto the same ones", i, seconds[i])
		}
	}
}

func TestNames(t *testing.T) {
	for i, name := range Names() {
		k, err := Parse(name)
		if err != nil || k != Kind(i) || k.String() != name {
			t.Errorf("%q: %v, %v", name, k, err)
		}
	}
	if _, err := Parse("bogus"); err == nil {
		t.Error("an unknown name is accepted")
	}
	if order := HealthAware.Rank(nil, make([]Item, maxItems+1), &State{}, seeded(1)); !slices.IsSorted(order) {
		t.Error("a set too large to sort does not keep its order")
	}
	if !Priority.Ordered() || RoundRobin.Ordered() || Weighted.Ordered() || HealthAware.Ordered() {
		t.Error("only priority has a preferred first item")
	}
}

func BenchmarkRank(b *testing.B) {
	items := make([]Item, 100)
	r := seeded(1)
	for i := range items {
		items[i] = Item{Eligible: i%7 != 0, Weight: 1 + i%3, Priority: i % 4, Success: r.Float64(), InFlight: i % 9, Limit: 64}
	}
	for _, k := range kinds {
		b.Run(k.String(), func(b *testing.B) {
			var s State
			order := make([]int, 0, len(items))
			b.ReportAllocs()
			for b.Loop() {
				order = k.Rank(order, items, &s, r)
				s.Used(order[0], len(items))
			}
		})
	}
}

func TestRankDoesNotAllocate(t *testing.T) {
	items := make([]Item, 100)
	for i := range items {
		items[i] = Item{Eligible: i%5 != 0, Success: 1, Limit: 64}
	}
	r := seeded(1)
	for _, k := range kinds {
		var s State
		order := k.Rank(make([]int, 0, len(items)), items, &s, r)
		if n := testing.AllocsPerRun(100, func() { order = k.Rank(order, items, &s, r); s.Used(order[0], len(items)) }); n != 0 {
			t.Errorf("%s: %v allocations", k, n)
		}
	}
}

// TestHealthAwareIsNotLedByBadLuck: of three items two have failed their last attempt. A draw of two falls on both of them
// every third time, but the good one serves nearly everything; the better of the others keeps a trickle, through which
// its recovery is noticed, and after its first success it stands its draws again.
func TestHealthAwareIsNotLedByBadLuck(t *testing.T) {
	serve := func(bad ...Item) (first [3]int) {
		items := append(bad, Item{Eligible: true, Success: 0.9, Limit: 64})
		r, order := rand.New(rand.NewPCG(1, 2)), []int(nil)
		for range 10_000 {
			order = HealthAware.Rank(order, items, new(State), r)
			first[order[0]]++
		}
		return first
	}
	worse, bad := Item{Eligible: true, Faltered: true, Success: 0.3, Limit: 64}, Item{Eligible: true, Faltered: true, Success: 0.8, Limit: 64}
	if n := serve(worse, bad); n[2] < 9_500 || n[1] < 100 || n[1] > 10_000/trickle {
		t.Errorf("both have faltered: served %v", n)
	}
	back := bad
	back.Faltered = false
	if n := serve(worse, back); n[1] < 3000 || n[2] > 7000 {
		t.Errorf("one is on its way back: served %v", n)
	}
	worse.Success, bad.Success = 0.95, 0.97
	if n := serve(worse, bad); n[2] > 100 {
		t.Errorf("both have faltered and are still the best: served %v", n)
	}
}
