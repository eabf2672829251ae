package strategy

import "slices"

// Strategies sort by one number per item: eligibility in the highest bit, what the strategy orders by, and the position,
// which breaks ties. Sorting plain numbers takes a third of the time of sorting by a function, and this is done before
// every attempt over every candidate.
const (
	positionBits = 20
	valueBits    = 63 - positionBits
	maxItems     = 1 << positionBits // larger sets keep the configured order
	maxValue     = 1<<valueBits - 1
	inline       = 128 // larger sets cost an allocation
)

// key is the sort key of item i: lower values come first. value is cut to 43 bits.
func key(it *Item, value uint64, i int) uint64 {
	k := min(value, maxValue)<<positionBits | uint64(i)
	if !it.Eligible {
		k |= 1 << 63
	}
	return k
}

// byKey writes the positions of the sorted keys into order.
func byKey(order []int, keys []uint64) {
	slices.Sort(keys)
	for i, k := range keys {
		order[i] = int(k & (maxItems - 1))
	}
}

// toFront moves the element at position i to the front and keeps the others in order.
func toFront(order []int, i int) {
	head := order[i]
	copy(order[1:i+1], order[:i])
	order[0] = head
}
