package catalog

import "sync/atomic"

// Live holds the snapshot in force. It is safe for concurrent use. A request calls Load once and keeps the result to its
// end; a reload compiles first and swaps last, so a bad configuration changes nothing.
type Live struct{ current atomic.Pointer[Snapshot] }

// NewLive returns a holder of s.
func NewLive(s *Snapshot) *Live {
	l := &Live{}
	l.current.Store(s)
	return l
}

// Load returns the snapshot in force.
func (l *Live) Load() *Snapshot { return l.current.Load() }

// Swap puts a snapshot in force and returns the one before.
func (l *Live) Swap(s *Snapshot) (old *Snapshot) { return l.current.Swap(s) }

// Update replaces the snapshot in force by what change makes of it, again and again until no other update came between.
// change must be pure. It returns the new snapshot.
func (l *Live) Update(change func(*Snapshot) *Snapshot) *Snapshot {
	for {
		old := l.current.Load()
		next := change(old)
		if l.current.CompareAndSwap(old, next) {
			return next
		}
	}
}
