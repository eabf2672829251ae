// Package watchdog answers: has this attempt been waited for long enough? It owns every clock of an attempt: connect,
// headers, first_content, last_chance, idle, total, stream_total, deadline, the throughput watchdog and the start guard
// (spec streaming.md items 5 and 6). One function, [Limits], turns settings and what was learned into [Clocks]; one pure
// machine, [Step], follows the attempt; one lazily re-armed timer, [Watch], drives it and cancels with a typed cause.
//
// Its key is one attempt: nothing is shared between attempts and nothing is remembered. Waiting in a queue is no clock
// of this package, so a queue's budget can never cut a running call. Bytes, pings and metadata reset nothing; only what
// the methods of Watch name does.
package watchdog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
)

// Clock names what ran out.
type Clock uint8

// The clocks. None means that nothing ran out.
const (
	None         Clock = iota
	Connect            // dial and TLS
	Headers            // response headers, only where learned
	FirstContent       // first content while an untried candidate was left: leaving early
	LastChance         // first content with nowhere better to go
	Idle               // gap between content
	Total              // one attempt, whatever was learned
	StreamTotal        // a stream that delivers for too long
	Deadline           // the request's deadline
	Stall              // too little text: throughput watchdog or start guard
	Linger             // not a failure: the terminal event was seen and the stream did not end
	numClocks
)

var clockNames = [numClocks]string{"none", "connect", "headers", "first_content", "last_chance", "idle", "total",
	"stream_total", "deadline", "stall", "linger"}

func (c Clock) String() string {
	if c < numClocks {
		return clockNames[c]
	}
	return fmt.Sprintf("clock(%d)", uint8(c))
}

// Expired is the cause with which an attempt is cancelled.
type Expired struct {
	Clock Clock
	After time.Duration // since dispatch
	Limit time.Duration // the setting or learned limit that ran out
	// Patient is false when the request's deadline came before this attempt had its own fair time: then the deadline says
	// nothing about the candidate. It is true for every other clock.
	Patient bool
}

func (e *Expired) Error() string {
	return fmt.Sprintf("%s: no progress within %s (%s after dispatch)", e.Clock, e.Limit.Round(time.Millisecond),
		e.After.Round(time.Millisecond))
}

// Timeout implements the timeout half of net.Error.
func (e *Expired) Timeout() bool { return true }

// Verdict is what running out of a clock means (spec resilience.md section 1): leaving early is slow, a clock of the
// attempt is a timeout, too little text is a stall. A deadline that came too soon for a fair try, and the linger after
// a complete stream, are local: nothing learns.
func (e *Expired) Verdict() (gateway.Kind, gateway.Reason) {
	switch e.Clock {
	case Connect:
		return gateway.Timeout, gateway.ConnectTimeout
	case Headers:
		return gateway.Timeout, gateway.HeadersTimeout
	case FirstContent:
		return gateway.Slow, gateway.LeftEarly
	case LastChance:
		return gateway.Timeout, gateway.FirstContentTimeout
	case Idle:
		return gateway.Timeout, gateway.IdleTimeout
	case Total, StreamTotal:
		return gateway.Timeout, gateway.TotalTimeout
	case Stall:
		return gateway.Stall, gateway.TooSlow
	case Deadline:
		if e.Patient {
			return gateway.Timeout, gateway.FirstContentTimeout
		}
		return gateway.LocalError, gateway.DeadlinePassed
	}
	return gateway.LocalError, gateway.ReasonNone
}

// Watch follows one attempt. Its methods are safe for concurrent use, cost some tens of nanoseconds and take the
// caller's present time; they do nothing after Stop or after a clock ran out.
type Watch struct {
	// What every piece of content touches lies together.
	startAt  time.Time
	pausedAt atomic.Int64 // offset of the pause that is going on, plus one; 0 = none
	heard    atomic.Bool  // the machine knows of it
	lately   atomic.Int64 // offset of the last content that the machine has not heard of, plus one; 0 = none
	flowing  atomic.Bool  // content is nothing but a sign of life by now: the machine need not hear of each

	clocks Clocks
	cancel func(cause error)

	mu    sync.Mutex
	state State
	armed time.Duration // offset at which the timer fires; 0 = not armed
	done  bool
	timer *time.Timer
}

// New starts the clocks of an attempt that is dispatched now. cancel is called at most once, from another goroutine,
// with an *Expired. Stop must be called when the attempt is over; defer it.
func New(c Clocks, now time.Time, cancel func(cause error)) *Watch {
	w := &Watch{clocks: c, startAt: now, cancel: cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = Begin(&w.clocks)
	w.arm(0)
	return w
}

// arm sets the timer when something is due before it would fire. It never moves the timer back: when it fires early it
// looks again. Called with mu held.
func (w *Watch) arm(at time.Duration) {
	due, _ := Due(&w.clocks, &w.state)
	if due == never || (w.armed > at && w.armed <= due) {
		return
	}
	w.armed = due
	wait := max(due-at, 0)
	if w.timer == nil {
		w.timer = time.AfterFunc(wait, w.fire)
		return
	}
	w.timer.Reset(wait)
}

func (w *Watch) fire() {
	now := time.Now()
	w.mu.Lock()
	if w.done {
		w.mu.Unlock()
		return
	}
	at := now.Sub(w.startAt)
	w.hear()
	out := w.state.step(&w.clocks, &Event{Kind: Tick}, at)
	if out == None {
		w.armed = 0
		w.arm(at)
		w.mu.Unlock()
		return
	}
	w.done = true
	cause := w.clocks.expired(&w.state, out, at)
	w.mu.Unlock()
	w.cancel(cause)
}

func (w *Watch) event(e Event, now time.Time) {
	w.mu.Lock()
	if !w.done {
		at := now.Sub(w.startAt)
		w.catchUp()
		w.state.step(&w.clocks, &e, at)
		w.arm(at)
		w.flowing.Store(w.state.content && !w.clocks.Guards.on())
	}
	w.mu.Unlock()
}

// catchUp tells the machine of content that was only noted; mu is held. The timer needs no new look: content moves
// every clock that it touches further away.
func (w *Watch) catchUp() {
	if at := w.lately.Swap(0); at != 0 {
		w.state.step(&w.clocks, &Event{Kind: ContentCame}, time.Duration(at-1))
	}
}

// Dialing tells that a new connection is being made; the connect clock runs until Connected or Headers. An attempt
// that reuses a connection has no connect clock.
func (w *Watch) Dialing(now time.Time) { w.event(Event{Kind: DialBegan}, now) }

// Connected tells that dial and TLS are done.
func (w *Watch) Connected(now time.Time) { w.event(Event{Kind: DialEnded}, now) }

// Headers tells that the response headers arrived.
func (w *Watch) Headers(now time.Time) { w.event(Event{Kind: HeadersCame}, now) }

// Reasoning tells that a reasoning frame arrived, also an empty one.
func (w *Watch) Reasoning(now time.Time) { w.event(Event{Kind: ReasoningFrame}, now) }

// Content tells that content arrived: text is the number of bytes of text in it, 0 for content of another kind. For an
// answer that is not streamed it is called once, with the whole answer.
//
// Nearly every event of a stream is this one. Once content flows and no guard measures it, it is only noted when it
// came; the machine hears of the last one when it is asked something.
func (w *Watch) Content(text int, now time.Time) {
	if w.flowing.Load() {
		w.lately.Store(int64(now.Sub(w.startAt)) + 1)
		return
	}
	w.event(Event{Kind: ContentCame, Text: text}, now)
}

// ToolOpen tells that a tool call began: server says that the upstream itself runs it, so that no content comes
// meanwhile.
func (w *Watch) ToolOpen(server bool, now time.Time) {
	w.event(Event{Kind: ToolOpened, Server: server}, now)
}

// ToolClose tells that a tool call of that kind is complete.
func (w *Watch) ToolClose(server bool, now time.Time) {
	w.event(Event{Kind: ToolClosed, Server: server}, now)
}

// Committed tells that the first content went to the client.
func (w *Watch) Committed(now time.Time) { w.event(Event{Kind: CommitMade}, now) }

// Paused tells that writing to a slow client blocks (true), or no longer does (false). Time in between is no silence of
// the upstream.
//
// Every write is a pause, and nearly all of them last microseconds. So a pause is only noted at first; the machine hears
// of it when it turns out long, or when a clock would run out meanwhile.
func (w *Watch) Paused(on bool, now time.Time) {
	at := int64(now.Sub(w.startAt)) + 1 // 0 means no pause
	if on {
		w.pausedAt.Store(at)
		return
	}
	began := w.pausedAt.Swap(0)
	if began == 0 || at-began < int64(shortPause) && !w.heard.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return
	}
	w.catchUp()
	w.state.step(&w.clocks, &Event{Kind: PauseBegan}, time.Duration(began-1)) // changes nothing when it was heard of
	w.state.step(&w.clocks, &Event{Kind: PauseEnded}, time.Duration(at-1))
	w.heard.Store(false)
	w.arm(time.Duration(at - 1))
}

// shortPause is a pause that is not worth telling: far below every clock.
const shortPause = 20 * time.Millisecond

// hear tells the machine of a pause that is going on; mu is held.
func (w *Watch) hear() {
	w.catchUp()
	if began := w.pausedAt.Load(); began != 0 {
		w.state.step(&w.clocks, &Event{Kind: PauseBegan}, time.Duration(began-1))
		w.heard.Store(true)
	}
}

// Terminal tells that the protocol's terminal event arrived. Every clock stops; if the stream is not over after 500 ms
// it is cancelled with Linger, which is no failure.
func (w *Watch) Terminal(now time.Time) { w.event(Event{Kind: TerminalCame}, now) }

// Extend raises the limit of first content to an instant, because nowhere better is left to go: running into it is
// last_chance then. It never lowers a limit, and does nothing once content came.
func (w *Watch) Extend(until, now time.Time) {
	w.event(Event{Kind: Extended, Until: until.Sub(w.startAt)}, now)
}

// Held reports whether the start guard still wants the output to be held back. What was cut while held stays held.
func (w *Watch) Held() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.held(&w.clocks)
}

// Stop ends the clocks. It is idempotent. A cancel that is just running may still end after it.
func (w *Watch) Stop() {
	w.mu.Lock()
	w.done = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
}
