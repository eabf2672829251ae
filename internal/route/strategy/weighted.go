package strategy

import "math/rand/v2"

// weighted draws the first item once per request, with probability weight / sum over the eligible; the rest follow as
// fallbacks by weight, then by position.
func weighted(order []int, items []Item, _ *State, r *rand.Rand) {
	var buf [inline]uint64
	keys := buf[:0]
	sum := 0
	for i := range items {
		w := weight(&items[i])
		keys = append(keys, key(&items[i], maxValue-min(uint64(w), maxValue), i))
		if items[i].Eligible {
			sum += w
		}
	}
	byKey(order, keys)
	if sum == 0 {
		return
	}
	draw := r.IntN(sum)
	for at, i := range order {
		if draw -= weight(&items[i]); draw < 0 {
			toFront(order, at)
			return
		}
	}
}

func weight(it *Item) int { return max(it.Weight, 1) }
