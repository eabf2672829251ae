package rate

import (
	"sync"
	"time"
)

// Meter is a limit by itself: at most so many in any window of a minute, counted exactly. The zero value is ready, and it
// is safe for concurrent use.
type Meter struct {
	mu   sync.Mutex
	sent tally
}

// Take counts one if fewer than limit were counted in the last minute; else it counts nothing and says after how long one
// more fits. A limit of 0 is none.
func (m *Meter) Take(limit int, now time.Time) (wait time.Duration, ok bool) {
	if limit <= 0 {
		return 0, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.sent.next(limit, 0, 0, now); at.After(now) {
		return at.Sub(now), false
	}
	m.sent.add(1, 0, now)
	return 0, true
}

// Idle reports whether nothing was counted in the last minute.
func (m *Meter) Idle(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, _ := m.sent.sums(now)
	return n == 0
}
