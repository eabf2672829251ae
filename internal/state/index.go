// Package state holds what the rooms of resilience share about run-time state in memory: how the cell of a key is found
// ([Index]), how what changed in it is stored and told in order ([Cell]), how stored records are read again ([Decode]),
// and by which name a connection's state is kept ([Identity]).
//
// The keys and everything that the state means are the rooms' own. It never reads a clock, starts a goroutine or a
// timer, does I/O, or calls back with a lock held.
package state

import (
	"sync"
	"weak"
)

// Index finds the cell of a key. A cell lives while somebody holds it: a handle, a permit, the room, or the ring of the
// newest cells. So two users of one key always share one cell, which counting below a cap depends on, and keys that
// clients make up (model names) cannot fill the memory. It is safe for concurrent use.
type Index[K comparable, V any] struct {
	own func(K) K

	mu      sync.Mutex
	cells   map[K]weak.Pointer[V]
	recent  []*V // ring: the newest cells, kept although nobody else may hold them
	next    int
	sweepAt int // size of cells at which the entries of dead ones are dropped
}

// minSweep keeps a small index from being swept over and over.
const minSweep = 64

// NewIndex returns an empty index that keeps the newest keep cells although nobody holds them; keep may be 0. own
// copies a key before it is stored, so that the key does not keep the request's body alive that it was cut from; nil =
// keys stand alone.
func NewIndex[K comparable, V any](keep int, own func(K) K) *Index[K, V] {
	return &Index[K, V]{own: own, cells: map[K]weak.Pointer[V]{}, recent: make([]*V, keep), sweepAt: max(2*keep, minSweep)}
}

// Get returns the cell of k, made by create when there is none. create runs under the index's lock: it must be quick
// and must not use the index.
func (x *Index[K, V]) Get(k K, create func() *V) *V {
	x.mu.Lock()
	defer x.mu.Unlock()
	if found := x.cells[k].Value(); found != nil {
		return found
	}
	if x.own != nil {
		k = x.own(k)
	}
	made := create()
	x.cells[k] = weak.Make(made)
	if len(x.recent) > 0 {
		x.recent[x.next] = made
		x.next = (x.next + 1) % len(x.recent)
	}
	if len(x.cells) >= x.sweepAt {
		x.sweep()
	}
	return made
}

// sweep drops the names of the dead; mu is held. The next one comes when as many names were added as are left, so it
// costs each new cell a constant share, and there are never more than about twice as many names as cells.
func (x *Index[K, V]) sweep() {
	for k, p := range x.cells {
		if p.Value() == nil {
			delete(x.cells, k)
		}
	}
	x.sweepAt = max(2*len(x.recent), 2*len(x.cells), minSweep)
}

// Find returns the cell of k, nil when it has none.
func (x *Index[K, V]) Find(k K) *V {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cells[k].Value()
}

// Snapshot returns the living cells by key.
func (x *Index[K, V]) Snapshot() map[K]*V {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[K]*V, len(x.cells))
	for k, p := range x.cells {
		if found := p.Value(); found != nil {
			out[k] = found
		}
	}
	return out
}

// Len is the number of names that are remembered: those of the living cells, and of dead ones that no sweep has met
// yet.
func (x *Index[K, V]) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.cells)
}
