package strategy

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// roundRobin gives the turn to the eligible item that was used least, ties in cyclic order behind the item last used.
// With nothing failing this is the plain rotation; with failures it stays even, which a bare cursor does not: there the
// item behind a failing one gets a double share. An item that was away does not catch up (State.floor).
func roundRobin(order []int, items []Item, s *State, _ *rand.Rand) {
	var buf [32]uint64
	used, last := s.counts(buf[:0], len(items))
	n := len(items)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(
			eligibleFirst(items, a, b),
			cmp.Compare(used[a], used[b]),
			cmp.Compare((a-last-1+n)%n, (b-last-1+n)%n),
		)
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
