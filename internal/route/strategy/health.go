package strategy

import (
	"math"
	"math/rand/v2"
)

// healthFloor is the least success that a score assumes: a beaten-down source keeps a trickle, through which its
// recovery is noticed (seed 001, section 3.2).
const healthFloor = 0.05

// score is success over load: max(success, 0.05) / (1 + in flight / limit). An attempt that has been silent for longer
// than its p95 already weighs half a failure, so a source that stopped answering loses rank before its attempts end.
// Source: seed 001 section 3.2 and resilience.md section 10; dividing the load by the limit keeps an empty bad source
// from beating a busy good one.
func score(it *Item) float64 {
	success := it.Success
	if it.Silent > 0 && it.InFlight > 0 {
		success *= 1 - 0.5*min(it.Silent/float64(it.InFlight), 1)
	}
	s := max(success, healthFloor)
	if it.InFlight > 0 { // most are idle, and a division costs more than all the rest
		s /= 1 + float64(it.InFlight)/float64(max(it.Limit, 1))
	}
	if it.Weak {
		s /= 2
	}
	return s
}

// luckBits is how finely scores are jittered.
const luckBits = 21

// trickle is how rarely an item that has faltered is chosen while something better is there: one draw in so many.
const trickle = 16

// healthAware puts the better of two random eligible items first (power of two choices); the rest follow by score with
// 10 % jitter, so that many workers do not all spill onto the same second-best. In a small pool the two are often both
// bad, and sources like to fail in bursts: so one whose last attempt failed gives way to the best, but for a trickle,
// through which its recovery is noticed. One success, and it stands its draws again.
func healthAware(order []int, items []Item, _ *State, r *rand.Rand) {
	var few [16]uint64 // a target has few connections as a rule, and the larger buffer has to be cleared first
	keys := few[:0]
	if len(items) > len(few) {
		var buf [inline]uint64
		keys = buf[:0]
	}
	eligible := 0
	var luck uint64 // one draw is enough for three items
	for i := range items {
		if luck >>= luckBits; i%3 == 0 {
			luck = r.Uint64()
		}
		jittered := score(&items[i]) * (1 - 0.1/(1<<luckBits)*float64(luck&(1<<luckBits-1)))
		keys = append(keys, key(&items[i], maxValue-math.Float64bits(jittered)>>(64-valueBits), i))
		if items[i].Eligible {
			eligible++
		}
	}
	byKey(order, keys)
	if eligible < 2 {
		return
	}
	x := r.IntN(eligible)
	y := r.IntN(eligible - 1)
	if y >= x {
		y++
	}
	if score(&items[order[y]]) > score(&items[order[x]]) {
		x = y
	}
	if it := &items[order[x]]; it.Faltered && score(it) < score(&items[order[0]]) && r.IntN(trickle) != 0 {
		x = 0
	}
	toFront(order, x)
}
