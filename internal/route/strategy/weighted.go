package strategy

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// weighted draws the first item once per request, with probability weight / sum over the eligible; the rest follow as
// fallbacks by weight, then by position.
func weighted(order []int, items []Item, _ *State, r *rand.Rand) {
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(eligibleFirst(items, a, b), cmp.Compare(weight(items[b]), weight(items[a])), cmp.Compare(a, b))
	})
	sum := 0
	for _, i := range order {
		if items[i].Eligible {
			sum += weight(items[i])
		}
	}
	if sum == 0 {
		return
	}
	draw := r.IntN(sum)
	for at, i := range order {
		if draw -= weight(items[i]); draw < 0 {
			copy(order[1:at+1], order[:at])
			order[0] = i
			return
		}
	}
}

func weight(it Item) int { return max(it.Weight, 1) }
