package strategy

// Sticks reports whether a strategy can stay on one item for some requests before it moves on (sticky_limit): one that
// turns or draws. One with a preferred item stays there anyway, and one that looks at load would be misled.
func (k Kind) Sticks() bool { return k == RoundRobin || k == Weighted }

// Stuck is the item to stay on: the one last used, until it was used limit times in a row; -1 = the strategy decides. Uses
// are counted when attempts begin, so that requests which come at once do not all pile up on it, and an attempt elsewhere,
// which follows a failure, moves the stay along.
func (s *State) Stuck(limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inRow == 0 {
		return -1
	}
	if s.inRow >= limit {
		s.inRow = 0 // the next use begins a stay, also one of the same item
		return -1
	}
	return s.last
}
