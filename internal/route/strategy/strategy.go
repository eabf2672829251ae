// Package strategy orders candidates. A strategy is a pure function of what is known about each item and of one random
// number source; it filters nothing: the layers of resilience have already said what is out, and what is out stays in
// the order so that the decision log can show it. Precedence everywhere: eligibility > lease > affinity > strategy >
// tie-break.
//
// The same strategies order two things: the targets of a combo, and the connections inside a target.
package strategy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Item is one thing to be ordered, as a strategy sees it. Unknown numbers are neutral, never 0 or full.
type Item struct {
	Eligible bool    // runnable now (a probe counts)
	Weight   int     // weighted; below 1 is read as 1
	Priority int     // lower first, ties by position
	Success  float64 // health 0..1, see health.View
	Silent   float64 // attempts in flight that are silent beyond their p95
	InFlight int
	Limit    int  // AIMD limit, max_concurrent, or 64
	Faltered bool // its last attempt failed
	Weak     bool // degraded or half-open: scored at half
}

// Kind is a strategy.
type Kind uint8

// The strategies. Those of strategies.md that are missing here come through the same seam: a file with one rank
// function and a row in the table below.
const (
	Priority Kind = iota
	RoundRobin
	Weighted
	HealthAware
)

// rank writes a permutation of 0..len(items)-1 into order, best first.
type rank func(order []int, items []Item, s *State, r *rand.Rand)

var table = []struct {
	name    string
	ordered bool // the configured order is a wish: come back to the first as soon as it is well
	rank    rank
}{
	Priority:    {"priority", true, byPriority},
	RoundRobin:  {"round-robin", false, roundRobin},
	Weighted:    {"weighted", false, weighted},
	HealthAware: {"health-aware", false, healthAware},
}

// Parse reads a strategy's name.
func Parse(name string) (Kind, error) {
	for i, row := range table {
		if row.name == name {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("unknown strategy %q: use one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the strategies.
func Names() []string {
	out := make([]string, 0, len(table))
	for _, row := range table {
		out = append(out, row.name)
	}
	return out
}

func (k Kind) String() string { return table[k].name }

// Ordered reports whether the strategy has a preferred first item.
func (k Kind) Ordered() bool { return table[k].ordered }

// Rank orders items, best first, into order[:0] and returns it. r must not be shared between goroutines.
func (k Kind) Rank(order []int, items []Item, s *State, r *rand.Rand) []int {
	order = order[:0]
	for i := range items {
		order = append(order, i)
	}
	if len(order) > 1 && len(order) <= maxItems {
		table[k].rank(order, items, s, r)
	}
	return order
}

// byPriority is the configured order among the eligible, then among the others: priority, then position. A catalogue
// lists connections by priority already, so mostly nothing has to be sorted.
func byPriority(order []int, items []Item, _ *State, _ *rand.Rand) {
	for i := 1; i < len(items); i++ {
		if items[i].Priority < items[i-1].Priority {
			slices.SortFunc(order, func(a, b int) int {
				return cmp.Or(cmp.Compare(items[a].Priority, items[b].Priority), cmp.Compare(a, b))
			})
			break
		}
	}
	var buf [inline]int
	out, at := buf[:0], 0
	for _, i := range order {
		if items[i].Eligible {
			order[at] = i
			at++
		} else {
			out = append(out, i)
		}
	}
	copy(order[at:], out)
}
