package gate

import (
	"sync"
	"weak"
)

// index finds the cell of a key. A cell lives as long as a handle, a permit or the ring of recent cells holds it. So
// two handles of one key always count in the same cell, which "never above a cap" depends on, and model names that
// clients make up cannot fill the memory.
type index[K comparable, V any] struct {
	mu      sync.Mutex
	byKey   map[K]weak.Pointer[V]
	recent  []*V
	next    int
	sweepAt int
}

func newIndex[K comparable, V any](keep int) index[K, V] {
	return index[K, V]{byKey: make(map[K]weak.Pointer[V]), recent: make([]*V, keep), sweepAt: 2 * keep}
}

func (x *index[K, V]) get(k K, create func() *V) *V {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p, ok := x.byKey[k]; ok {
		if found := p.Value(); found != nil {
			return found
		}
	}
	made := create()
	x.byKey[k] = weak.Make(made)
	x.recent[x.next] = made
	x.next = (x.next + 1) % len(x.recent)
	if len(x.byKey) >= x.sweepAt {
		for k, p := range x.byKey {
			if p.Value() == nil {
				delete(x.byKey, k)
			}
		}
		x.sweepAt = max(2*len(x.recent), 2*len(x.byKey))
	}
	return made
}

// all returns the living cells.
func (x *index[K, V]) all() map[K]*V {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[K]*V, len(x.byKey))
	for k, p := range x.byKey {
		if found := p.Value(); found != nil {
			out[k] = found
		}
	}
	return out
}
