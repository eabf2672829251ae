package attempt

import (
	"sync"
	"time"
)

// The retry budget of a pool (resilience.md section 5): attempts that repeat a provider draw on a bucket, so that
// retries stay a fraction of first attempts when everything is down.
const (
	budgetFull      = 30.0
	budgetPerFirst  = 0.2
	budgetPerSecond = 3.0
)

// budget is what the requests of one pool share: the retry bucket and the time of the last success.
type budget struct {
	mu          sync.Mutex
	tokens      float64
	filledAt    time.Time
	lastSuccess time.Time
}

func newBudget(now time.Time) *budget { return &budget{tokens: budgetFull, filledAt: now} }

func (b *budget) fill(now time.Time) {
	if d := now.Sub(b.filledAt); d > 0 {
		b.tokens = min(budgetFull, b.tokens+d.Seconds()*budgetPerSecond)
		b.filledAt = now
	}
}

// view returns the tokens at hand, how long until there is one, and the last success.
func (b *budget) view(now time.Time) (tokens float64, in time.Duration, success time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	if b.tokens < 1 {
		in = time.Duration((1 - b.tokens) / budgetPerSecond * float64(time.Second))
	}
	return b.tokens, in, b.lastSuccess
}

// first notes a first attempt of a request; take pays for a repeated one, and back is for one that was not made.
func (b *budget) first(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	b.tokens = min(budgetFull, b.tokens+budgetPerFirst)
}

func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (b *budget) back() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(budgetFull, b.tokens+1)
}

func (b *budget) succeeded(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.After(b.lastSuccess) {
		b.lastSuccess = now
	}
}

func (b *budget) idle(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	return b.tokens >= budgetFull && now.Sub(b.lastSuccess) > 10*time.Minute
}
