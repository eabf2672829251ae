package strategy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// turns plays requests: each ranks, then uses item after item until one serves. down says which item fails or is out in
// a round.
type turns struct {
	state  State
	n      int
	served []int
	used   []int
}

func newTurns(n int) *turns { return &turns{n: n, served: make([]int, n), used: make([]int, n)} }

func (p *turns) items(out func(i int) bool) []Item {
	items := make([]Item, p.n)
	for i := range items {
		items[i].Eligible = out == nil || !out(i)
	}
	return items
}

// request is one request; fails says whose attempts fail.
func (p *turns) request(out, fails func(i int) bool) {
	items := p.items(out)
	for _, i := range RoundRobin.Rank(nil, items, &p.state, nil) {
		if !items[i].Eligible {
			return
		}
		p.state.Used(i, p.n)
		p.used[i]++
		if fails == nil || !fails(i) {
			p.served[i]++
			return
		}
	}
}

func spread(x []int) int { return slices.Max(x) - slices.Min(x) }

func TestRoundRobinRotates(t *testing.T) {
	p := newTurns(3)
	var seen []int
	for range 7 {
		order := RoundRobin.Rank(nil, p.items(nil), &p.state, nil)
		seen = append(seen, order[0])
		p.state.Used(order[0], 3)
	}
	if want := []int{0, 1, 2, 0, 1, 2, 0}; !slices.Equal(seen, want) {
		t.Errorf("turns %v, want %v", seen, want)
	}
}

// TestRoundRobinEvenUnderFailures: whatever set of items fails all the time, those that are well serve the same share,
// and nobody is asked more often than the others.
func TestRoundRobinEvenUnderFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "items")
		bad := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "bad")
		well := rapid.IntRange(0, n-1).Draw(t, "well")
		bad[well] = false
		p := newTurns(n)
		requests := rapid.IntRange(1, 400).Draw(t, "requests")
		for range requests {
			p.request(nil, func(i int) bool { return bad[i] })
		}
		var healthy, failing []int
		for i := range n {
			if bad[i] {
				failing = append(failing, p.used[i])
			} else {
				healthy = append(healthy, p.served[i])
			}
		}
		if spread(healthy) > 1 {
			t.Fatalf("of %d requests the healthy served %v", requests, healthy)
		}
		if len(failing) > 0 && slices.Max(failing) > slices.Min(healthy)+1 {
			t.Fatalf("failing ones were asked %v times, healthy ones %v", failing, healthy)
		}
	})
}

// TestRoundRobinEvenUnderRandomFailures: failures that come and go leave the shares within 2 %.
func TestRoundRobinEvenUnderRandomFailures(t *testing.T) {
	const n, requests = 5, 100_000
	r := rand.New(rand.NewPCG(1, 2))
	p := newTurns(n)
	for range requests {
		p.request(nil, func(int) bool { return r.IntN(10) < 3 })
	}
	for i, s := range p.served {
		if share := float64(s) / requests; share < 0.2-0.02 || share > 0.2+0.02 {
			t.Errorf("item %d served %.3f of all", i, share)
		}
	}
}

// TestRoundRobinNoFlood: an item that was out comes back to its share, not to everything that it missed.
func TestRoundRobinNoFlood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "items")
		away := rapid.IntRange(0, n-1).Draw(t, "away")
		p := newTurns(n)
		for range rapid.IntRange(0, 50).Draw(t, "before") {
			p.request(nil, nil)
		}
		for range rapid.IntRange(1, 500).Draw(t, "meanwhile") {
			p.request(func(i int) bool { return i == away }, nil)
		}
		for i := range p.served {
			p.served[i] = 0
		}
		after := rapid.IntRange(1, 100).Draw(t, "after")
		for range after {
			p.request(nil, nil)
		}
		if have, most := p.served[away], after/n+2; have > most {
			t.Fatalf("of %d requests the one that came back got %d, at most %d is its share", after, have, most)
		}
		if have, least := p.served[away], after/n-1; have < least {
			t.Fatalf("of %d requests the one that came back got only %d", after, have)
		}
	})
}

// TestRoundRobinConcurrent: requests that look before the others have begun their attempts do not make the shares
// uneven, and neither do items that come and go.
func TestRoundRobinConcurrent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "items")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		most := rapid.IntRange(1, 12).Draw(t, "at once")
		p := newTurns(n)
		const rounds = 2000
		total := 0
		for range rounds {
			batch := 1 + r.IntN(most)
			chosen := make([]int, batch)
			for i := range chosen {
				chosen[i] = RoundRobin.Rank(nil, p.items(nil), &p.state, nil)[0]
			}
			for _, i := range chosen {
				p.state.Used(i, n)
				p.served[i]++
			}
			total += batch
		}
		for i, s := range p.served {
			if share, fair := float64(s)/float64(total), 1/float64(n); share < fair-0.02 || share > fair+0.02 {
				t.Fatalf("item %d of %d served %.3f with up to %d at once: %v", i, n, share, most, p.served)
			}
		}
	})
}

func TestUsedIgnoresStrangers(t *testing.T) {
	var s State
	s.Used(5, 3)
	s.Used(-1, 3)
	if order := RoundRobin.Rank(nil, make([]Item, 3), &s, nil); !slices.Equal(order, []int{0, 1, 2}) {
		t.Errorf("order %v", order)
	}
}
