package lab

import (
	"sync"
	"time"

	"spillway/internal/gateway"
)

// logLimit bounds the entries that a source keeps; the oldest half is dropped beyond it.
const logLimit = 200_000

// Attempt is what a source saw of one request and what it did with it. The log of attempts is what the judge goes by.
type Attempt struct {
	N         int              `json:"n"` // number at its source, from 1
	Source    string           `json:"source"`
	At        time.Time        `json:"at"`
	EndedAt   time.Time        `json:"ended_at,omitzero"` // zero while it runs
	Protocol  gateway.Protocol `json:"protocol"`
	Path      string           `json:"path"`
	Model     string           `json:"model"`
	Stream    bool             `json:"stream,omitzero"`
	Prefill   bool             `json:"prefill,omitzero"`
	Body      string           `json:"body"`            // fingerprint of the request body
	Fault     string           `json:"fault,omitzero"`  // what ended it badly
	Dead      bool             `json:"dead,omitzero"`   // nothing good could have come of it: the fault is not one of chance
	Status    int              `json:"status,omitzero"` // 0 = no headers were sent
	Tokens    int              `json:"tokens,omitzero"` // tokens sent
	Bytes     int              `json:"bytes,omitzero"`  // body bytes sent
	Cancelled bool             `json:"cancelled,omitzero"`
	Whole     bool             `json:"whole,omitzero"` // a whole answer was sent
	RunMS     int64            `json:"run_ms"`         // until the end, or until now while it runs
}

// attemptLog is the request log of one source. It is safe for concurrent use.
type attemptLog struct {
	mu      sync.Mutex
	list    []*Attempt
	n       int
	running int
	peak    int
}

// begin numbers and logs a request, and returns how many others are running.
func (l *attemptLog) begin(a *Attempt) (running int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	running = l.running
	if len(l.list) >= logLimit {
		l.list = append([]*Attempt(nil), l.list[logLimit/2:]...)
	}
	l.n++
	a.N = l.n
	l.list = append(l.list, a)
	l.running++
	l.peak = max(l.peak, l.running)
	return running
}

func (l *attemptLog) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *attemptLog) end(a *Attempt, gone bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.EndedAt, a.Cancelled = now, gone && !a.Whole
	l.running--
}

func (l *attemptLog) snapshot(now time.Time) []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Attempt, len(l.list))
	for i, a := range l.list {
		out[i] = *a
		end := a.EndedAt
		if end.IsZero() {
			end = now
		}
		out[i].RunMS = end.Sub(a.At).Milliseconds()
	}
	return out
}

// reset forgets what has ended; requests that run stay counted as running.
func (l *attemptLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.n, l.peak = nil, 0, l.running
}

func (l *attemptLog) inFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

func (l *attemptLog) peakInFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peak
}
