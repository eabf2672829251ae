package auth

import (
	"fmt"
	"sync"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/rate"
)

// Limiter holds client keys to their own rates (rpm). It is keyed by the key's hash, so a reload forgets nothing: not what
// was counted, and not for a key that was renamed. The zero value is ready, and it is safe for concurrent use.
type Limiter struct {
	mu     sync.Mutex
	meters map[[32]byte]*rate.Meter
}

// maxMeters is how many keys are remembered before those that are idle are forgotten.
const maxMeters = 4096

// Allow counts a request of a principal, or refuses it with the time at which one more is allowed. A refused request does
// not count. A principal without a limit costs nothing.
func (l *Limiter) Allow(p *gateway.Principal, now time.Time) *gateway.Error {
	if p.RPM <= 0 {
		return nil
	}
	wait, ok := l.meter(p.KeyHash, now).Take(p.RPM, now)
	if ok {
		return nil
	}
	wait = max(wait, time.Second)
	return &gateway.Error{Code: gateway.OwnRateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("This key may make %d requests per minute, and it has.", p.RPM),
		Next:    fmt.Sprintf("Try again in %s, or raise rpm of this key.", wait.Round(time.Second))}
}

func (l *Limiter) meter(key [32]byte, now time.Time) *rate.Meter {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meters[key]
	if m != nil {
		return m
	}
	if l.meters == nil {
		l.meters = map[[32]byte]*rate.Meter{}
	}
	if len(l.meters) >= maxMeters {
		for k, old := range l.meters {
			if old.Idle(now) {
				delete(l.meters, k)
			}
		}
	}
	m = new(rate.Meter)
	l.meters[key] = m
	return m
}
