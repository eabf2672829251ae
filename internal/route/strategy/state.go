package strategy

import "sync"

// State is what a strategy remembers between requests: how often each item was used. It belongs to one combo (or one
// provider) and is safe for concurrent use. The zero value is ready.
type State struct {
	mu    sync.Mutex
	used  []uint64 // per item: attempts begun, never below the floor once looked at
	floor uint64   // uses of the item that was last chosen: who was away starts level with the others
	last  int      // the item last used
	inRow int      // uses of it in a row; 0 = a stay is over
}

// Used reports that an attempt began on item i of n. Attempts count whether they succeed or not: so the requests that a
// failing item could not serve are spread evenly over the others (strategies.md: even under failures).
func (s *State) Used(i, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow(n)
	if i < 0 || i >= len(s.used) {
		return
	}
	s.used[i] = max(s.used[i], s.floor)
	s.floor = s.used[i]
	s.used[i]++
	if s.last != i {
		s.inRow = 0
	}
	s.last = i
	s.inRow++
}

// counts copies the effective uses of n items and the item last used.
func (s *State) counts(into []uint64, n int) ([]uint64, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow(n)
	into = into[:0]
	for i := range n {
		into = append(into, max(s.used[i], s.floor))
	}
	return into, s.last
}

func (s *State) grow(n int) {
	for len(s.used) < n {
		s.used = append(s.used, 0)
		if len(s.used) == 1 {
			s.last = -1
		}
	}
}
