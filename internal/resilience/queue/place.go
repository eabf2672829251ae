package queue

import (
	"slices"

	"spillway/internal/gateway"
)

// lane is what one client key has in line: the tags of its places, ascending.
type lane struct{ tags []uint64 }

func (n *lane) drop(tag uint64) {
	switch i, ok := slices.BinarySearch(n.tags, tag); {
	case !ok:
	case i == 0: // the usual case: served in order
		n.tags = n.tags[1:]
	default:
		n.tags = slices.Delete(n.tags, i, i+1)
	}
}

// group holds the places that wait for the same set of candidates.
type group struct {
	name     string
	set      []int
	places   placeHeap // those that may be given a turn
	members  int       // all of them, lookers included
	askedIn  uint64    // round in which the refused set was compared
	askedLen int       // size of the refused set then
	out      bool      // result: nothing in this round for it
	passedIn uint64    // round in which one of it looked and passed
}

// Place is one waiting request.
type Place struct {
	Owner any // the driver's; the line never looks at it

	key    gateway.ClientKeyID
	group  *group
	tag    uint64
	seq    uint64
	at     int // index in group.places, -1 while it looks
	lookIn uint64
	left   bool
}

// hopeless reports whether a look of this group in this round would only find what is known to be refused.
func (l *Line) hopeless(g *group) bool {
	if g.passedIn == l.round {
		return true
	}
	if len(g.set) == 0 || len(l.refused) < len(g.set) {
		return false
	}
	if g.askedIn == l.round && g.askedLen == len(l.refused) {
		return g.out
	}
	g.askedIn, g.askedLen, g.out = l.round, len(l.refused), true
	for _, id := range g.set {
		if _, ok := l.refused[id]; !ok {
			g.out = false
			break
		}
	}
	return g.out
}

func (l *Line) groupOf(set []int) *group {
	var ids [16]int
	var room [32]byte // most sets are small, and most are known
	sorted := append(ids[:0], set...)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	name := appendName(room[:0], sorted)
	g := l.groups[string(name)]
	if g == nil {
		g = &group{name: string(name), set: slices.Clone(sorted)}
		l.groups[g.name] = g
		l.order = append(l.order, g)
	}
	return g
}

// appendName names a set, sorted.
func appendName(b []byte, set []int) []byte {
	for _, id := range set {
		n := uint64(id)
		for n >= 0x80 {
			b = append(b, byte(n)|0x80)
			n >>= 7
		}
		b = append(b, byte(n))
	}
	return b
}

func (p *Place) before(q *Place) bool {
	return p.tag < q.tag || (p.tag == q.tag && p.seq < q.seq)
}

// placeHeap is a container/heap of places by order.
type placeHeap []*Place

func (h placeHeap) Len() int           { return len(h) }
func (h placeHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h placeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *placeHeap) Push(x any) {
	p := x.(*Place)
	p.at = len(*h)
	*h = append(*h, p)
}
func (h *placeHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	p.at = -1
	return p
}
