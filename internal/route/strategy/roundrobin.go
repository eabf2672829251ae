package strategy

import (
	"math/rand/v2"
	"slices"
)

// roundRobin gives the turn to the eligible item that was used least, ties in cyclic order behind the item last used.
// With nothing failing this is the plain rotation; with failures it stays even, which a bare cursor does not: there the
// item behind a failing one gets a double share. An item that was away does not catch up (State.floor).
func roundRobin(order []int, items []Item, s *State, _ *rand.Rand) {
	var buf [inline]uint64
	keys, last := s.counts(buf[:0], len(items))
	n := len(items)
	least := slices.Min(keys)
	for i, used := range keys {
		behind := uint64(i-last-1+n) % uint64(n)
		keys[i] = key(&items[i], (used-least)<<positionBits|behind, i)
	}
	byKey(order, keys)
}
