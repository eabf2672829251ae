// Package commit is the one-way door to a client: pending, opened, committed, closed. Before it is committed nothing of
// an answer has been sent and a request may fail over unseen; afterwards it can only go on or end in an error of the
// client's protocol.
//
// "Opened" is the state between: a streaming client that has waited long gets its 200 and comments that keep proxies
// from cutting the line (streaming.md item 2, early_commit). Later errors then travel inside the stream.
package commit

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// Times of the door, where Options say nothing.
const (
	earlyAfter = 45 * time.Second // a waiting client gets its 200, when no untried candidate is left
	heartbeat  = 15 * time.Second // and a comment each time it has seen nothing for so long
	// writeLimit bounds one write: a client that takes nothing for so long is gone.
	writeLimit = 5 * time.Minute
	smallWrite = 64 << 10 // bytes that a socket takes at once: no deadline needed
)

// Options are what a door needs to know of its request.
type Options struct {
	Writer  http.ResponseWriter
	Family  protocol.Family
	Stream  bool   // the client asked for a stream
	Early   string // auto (default), off, on
	Headers func(h http.Header, a *gateway.Answer)

	EarlyAfter time.Duration // with early auto; 0 = 45 s
	Heartbeat  time.Duration // a comment after so much silence; 0 = 15 s
}

// Door is safe for concurrent use: its timer writes comments while the request waits.
type Door struct {
	// What every write touches lies together.
	mu        sync.Mutex
	opened    bool
	committed bool
	closed    bool
	stream    bool // the answer is a stream of events
	noneLeft  bool
	out       http.ResponseWriter
	flusher   flusher // out's own, when it has one
	wroteAt   time.Time
	limitAt   time.Time // until when the present write deadline is far enough

	o     Options
	flush http.ResponseController
	began time.Time
	timer *time.Timer // set once, nil when not streamed
}

// flusher is what http.ResponseController looks for at every flush.
type flusher interface{ FlushError() error }

var errClosed = errors.New("the door is closed")

// New returns a pending door. Close must be called.
func New(o Options) *Door {
	o.EarlyAfter, o.Heartbeat = cmp.Or(o.EarlyAfter, earlyAfter), cmp.Or(o.Heartbeat, heartbeat)
	d := &Door{o: o, out: o.Writer, flush: *http.NewResponseController(o.Writer), began: time.Now()}
	d.flusher, _ = o.Writer.(flusher)
	if o.Stream {
		d.wroteAt = d.began
		first := o.Heartbeat
		if o.Early == "on" {
			first = time.Millisecond
		}
		d.timer = time.AfterFunc(time.Hour, d.tick) // noted before it may run
		d.timer.Reset(first)
	}
	return d
}

// NoneLeft tells that no untried candidate is left: what remains is waiting for the one in hand.
func (d *Door) NoneLeft() {
	d.mu.Lock()
	d.noneLeft = true
	d.mu.Unlock()
}

// tick is the door's clock: it opens early when that is due, and keeps an open line alive.
func (d *Door) tick() {
	if !d.mu.TryLock() { // something is being written, perhaps to a slow client: the line is not silent
		d.timer.Reset(time.Second)
		return
	}
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	now := time.Now()
	switch {
	case !d.opened && d.early(now):
		d.open(nil)
		d.comment(now)
	case d.opened && d.sse() && now.Sub(d.wroteAt) >= d.o.Heartbeat:
		d.comment(now)
	}
	d.timer.Reset(d.nextTick(now))
}

func (d *Door) sse() bool { return !d.committed || d.stream }

func (d *Door) early(now time.Time) bool {
	switch d.o.Early {
	case "off":
		return false
	case "on":
		return true
	}
	return d.noneLeft && now.Sub(d.began) >= d.o.EarlyAfter
}

func (d *Door) nextTick(now time.Time) time.Duration {
	if d.opened {
		return max(d.o.Heartbeat-now.Sub(d.wroteAt), time.Second)
	}
	if left := d.o.EarlyAfter - now.Sub(d.began); left > 0 {
		return min(left, d.o.Heartbeat)
	}
	return time.Second
}

// open sends the status and headers of an answer, or of a stream that has yet to come (a == nil).
func (d *Door) open(a *gateway.Answer) {
	h := d.o.Writer.Header()
	status := http.StatusOK
	if a == nil || a.Stream {
		h["Content-Type"] = eventStream
		h["Cache-Control"] = noCache
		h["X-Accel-Buffering"] = noBuffering
		d.stream = true
	}
	if a != nil {
		status = a.Status
	}
	d.o.Headers(h, a)
	d.opened = true
	d.o.Writer.WriteHeader(status)
}

var (
	eventStream = []string{"text/event-stream; charset=utf-8"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"}
)

func (d *Door) comment(now time.Time) {
	_ = d.write(d.o.Family.Comment(nil, "keep-alive"), now) // a client that left is noticed by the request's context
}

// write sends p and flushes it. Only streams are flushed: a whole answer leaves with the end of the handler.
func (d *Door) write(p []byte, now time.Time) error {
	if (d.stream || len(p) > smallWrite) && now.After(d.limitAt) {
		// Deadlines cost a system call's worth of work; one that is far enough is left alone.
		_ = d.flush.SetWriteDeadline(now.Add(writeLimit)) // not every writer has deadlines
		d.limitAt = now.Add(writeLimit / 4)
	}
	if _, err := d.out.Write(p); err != nil {
		return err
	}
	d.wroteAt = now
	if !d.stream {
		return nil
	}
	if d.flusher != nil {
		return d.flusher.FlushError()
	}
	return d.flush.Flush()
}

// Commit implements attempt.Door.
func (d *Door) Commit(a *gateway.Answer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	if !d.opened {
		d.open(a)
	}
	d.committed = true
	return d.write(a.Body, time.Now())
}

// Write implements attempt.Door.
func (d *Door) Write(events []byte, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return d.write(events, now)
}

// Fail implements attempt.Door: it ends an opened stream with an error in the client's protocol.
func (d *Door) Fail(e *gateway.Error, st *protocol.StreamState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !d.opened || !d.stream {
		return errClosed
	}
	d.closed = true // nothing follows an error, no heartbeat either
	if st == nil {
		st = &protocol.StreamState{}
	}
	if st.Created == 0 {
		st.Created = d.began.Unix() // of an answer that the upstream did not begin, or did not date
	}
	return d.write(d.o.Family.StreamError(nil, e, st), time.Now())
}

// Committed implements attempt.Door.
func (d *Door) Committed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.committed
}

// Opened implements attempt.Door.
func (d *Door) Opened() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened
}

// Shut closes a door that nothing has passed yet, and reports whether it did: then the writer is the caller's alone. One
// that is opened stays as it is.
func (d *Door) Shut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened {
		return false
	}
	d.closed = true
	return true
}

// Close ends the door and its clock. It is idempotent; nothing is written afterwards.
func (d *Door) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	if !d.limitAt.IsZero() {
		_ = d.flush.SetWriteDeadline(time.Time{}) // the connection lives on
	}
}
