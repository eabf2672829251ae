package queue

import (
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
)

// Pool is one line and its driver: a lock, a timer and a channel per waiter around the pure Line.
type Pool struct {
	room   *Room
	length atomic.Int64

	mu      sync.Mutex
	line    *Line
	timer   *time.Timer
	armedAt time.Time // when the timer fires; zero = it does not
}

// Len is the number of requests in line.
func (p *Pool) Len() int { return int(p.length.Load()) }

// Full reports whether a pool with that many connections takes no more, so that a request can be refused before any
// other work is done for it.
func (p *Pool) Full(c Config, connections int) bool {
	return c.MaxQueueDepth > 0 && p.Len() >= c.MaxQueueDepth*max(connections, 1)
}

// Ahead reports whether somebody in line waits for one of these candidates. A new request that could run on them joins
// instead of overtaking.
func (p *Pool) Ahead(set []int) bool {
	if p.length.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line.Ahead(set)
}

// Estimate is how long a new request of a client key would wait, from the learned service rate; known is false while
// too little was served to tell.
func (p *Pool) Estimate(key gateway.ClientKeyID, now time.Time) (wait time.Duration, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line.Estimate(key, now)
}

// Join enters the line, or is refused: too many wait, or the computed wait is longer than the request may wait.
func (p *Pool) Join(e Entry, c Config, now time.Time) (*Waiter, *Refused) {
	connections := e.Connections
	if connections <= 0 {
		connections = len(e.Set)
	}
	w := &Waiter{pool: p, turn: make(chan struct{}, 1)}
	var no *Refused
	p.stepAt(now, func(l *Line, now time.Time) {
		wait, known := l.Estimate(e.Key, now)
		until := c.WaitUntil(e.Until, now)
		late := known && !e.Blind && l.Len() > 0 && !until.IsZero() && now.Add(wait).After(until)
		if !late && !p.Full(c, connections) {
			w.place = l.Join(e.Key, e.Set, now)
			w.place.Owner = w
			return
		}
		no = &Refused{Reason: gateway.QueueFull, Code: gateway.RateLimitQueueFull, Depth: l.Len(), Computed: late,
			RetryAfter: max(wait, time.Second)}
	})
	if no != nil {
		return nil, no
	}
	return w, nil
}

// Wake tells that something may have become free.
func (p *Pool) Wake() {
	if p.length.Load() == 0 {
		return
	}
	p.step(func(l *Line, now time.Time) { l.Wake(now) })
}

func (p *Pool) step(change func(*Line, time.Time)) { p.stepAt(time.Now(), change) }

// stepAt changes the line, gives the turn to whoever it belongs to and sets the timer.
func (p *Pool) stepAt(now time.Time, change func(*Line, time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.line.Len()
	change(p.line, now)
	p.settle(before, now)
}

// settle is called with mu held.
func (p *Pool) settle(before int, now time.Time) {
	if place := p.line.Next(now); place != nil {
		select { // a turn that was given and not yet taken is as good
		case place.Owner.(*Waiter).turn <- struct{}{}:
		default:
		}
	}
	after := p.line.Len()
	if after != before {
		p.length.Store(int64(after))
		if (after == 0) != (before == 0) {
			p.room.mark(p, after > 0)
			if after > 0 {
				p.room.busy.Add(1)
			} else {
				p.room.busy.Add(-1)
			}
		}
	}
	p.arm(now)
}

// arm sets the timer when something is due before it fires; a timer that fires early looks again.
func (p *Pool) arm(now time.Time) {
	at := p.line.WakeAt()
	if at.IsZero() {
		if p.timer != nil {
			p.timer.Stop()
		}
		p.armedAt = time.Time{}
		return
	}
	if !p.armedAt.IsZero() && !at.Before(p.armedAt) {
		return
	}
	p.armedAt = at
	if p.timer == nil {
		p.timer = time.AfterFunc(at.Sub(now), p.fire)
		return
	}
	p.timer.Reset(at.Sub(now))
}

func (p *Pool) fire() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armedAt = time.Time{}
	before := p.line.Len()
	p.line.Tick(now)
	p.settle(before, now)
}
