package cache

import (
	"context"
	"errors"
	"sync"

	"spillway/internal/gateway"
)

// Bytes counts bytes that are held in memory against a limit.
type Bytes interface {
	Take(n int64) bool
	Give(n int64)
}

// Flights are the runs that requests may share, by what they answer. It is safe for concurrent use.
type Flights struct {
	bytes   Bytes
	mu      sync.Mutex
	flights map[Key]*Flight
}

// Flight is one run whose answer goes to every request that joined. The run writes it (Commit, Write, End), each request
// reads it through a Reader of its own, at its own pace. A reader that leaves disturbs nobody; when the last one has
// left, the run is told to stop.
type Flight struct {
	of      *Flights
	key     Key
	leader  gateway.RequestID
	window  int64
	abandon func()        // told once, when nobody reads any more
	moved   chan struct{} // a reader has taken something, or left

	mu      sync.Mutex
	head    *gateway.Answer // nil until it is committed; its body is in buf
	buf     []byte          // what some reader may still take
	base    int64           // offset of buf in the answer
	counted int64           // of buf, with of.bytes
	readers map[*Reader]struct{}
	live    int // readers that were not cut off
	over    *End
	left    bool // everybody left before the end
	closed  bool // nobody may join
}

// End is how a run ended.
type End struct {
	Error *gateway.Error // nil = the answer is whole
	Final bool           // the caller's own fault: whoever asks the same again is told the same
	Tail  []byte         // tells those of the error that have part of a stream
}

// Reader is one request's place in a flight. It belongs to one goroutine.
type Reader struct {
	flight *Flight
	wake   chan struct{}

	pos  int64 // guarded by the flight
	cut  bool  // fell too far behind
	gone bool
}

// What a reader or a run can meet.
var (
	ErrTooSlow = errors.New("cache: this reader fell too far behind the others")
	ErrNobody  = errors.New("cache: nobody reads this answer any more")
)

// Join takes part in the flight of a key. Without one a new flight begins, leads is true, and the caller must run the
// request and write its answer; abandon is then called when nobody reads it any more. window is how many bytes a reader
// may be behind the fastest. Leave must be called.
func (t *Flights) Join(k Key, id gateway.RequestID, window int64, abandon func()) (r *Reader, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.flights[k]
	if f != nil {
		if r := f.join(); r != nil {
			return r, false
		}
	}
	f = &Flight{of: t, key: k, leader: id, window: window, abandon: abandon, moved: make(chan struct{}, 1),
		readers: make(map[*Reader]struct{}, 1)}
	t.flights[k] = f // one that takes nobody any more runs on beside it
	return f.join(), true
}

// Len is how many flights can be joined.
func (t *Flights) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.flights)
}

// remove takes a flight out of the table, unless another one has taken its place.
func (t *Flights) remove(f *Flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights[f.key] == f {
		delete(t.flights, f.key)
	}
}

func (f *Flight) join() *Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.left || f.over != nil {
		return nil
	}
	r := &Reader{flight: f, wake: make(chan struct{}, 1)}
	f.readers[r] = struct{}{}
	f.live++
	return r
}

// Leader is the request that runs the flight.
func (r *Reader) Leader() gateway.RequestID { return r.flight.leader }

// Flight is what the reader reads.
func (r *Reader) Flight() *Flight { return r.flight }

// Commit begins the answer; its body is copied.
func (f *Flight) Commit(a *gateway.Answer) error {
	head := *a
	head.Body = nil
	f.mu.Lock()
	f.head = &head
	f.mu.Unlock()
	return f.Write(a.Body)
}

// Write appends to the answer. It waits only when the fastest reader is a whole window behind; others that are then are
// cut off. The error says that nobody reads any more.
func (f *Flight) Write(b []byte) error {
	for {
		wait, err := f.write(b)
		if err != nil || !wait {
			return err
		}
		<-f.moved
	}
}

func (f *Flight) write(b []byte) (wait bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left {
		return false, ErrNobody
	}
	end, lead := f.end(), f.lead()
	if mustWait(f.window, end, lead) {
		return true, nil
	}
	if !open(f.window, f.base, end+int64(len(b))) {
		f.shut(lead)
	}
	n := int64(len(b))
	if f.of.bytes != nil && !f.of.bytes.Take(n) {
		f.window = 0 // no memory for those behind: from here on it goes at the pace of the fastest
		f.shut(lead)
		if end > lead {
			return true, nil
		}
		n = 0 // what one event needs is there
	}
	f.counted += n
	f.buf = append(f.buf, b...)
	f.wake()
	return false, nil
}

// shut lets nobody join any more, cuts off who is too far behind, and forgets what everybody has taken.
func (f *Flight) shut(lead int64) {
	f.closed = true
	low := lead
	for r := range f.readers {
		switch {
		case r.cut:
		case r.pos < lead && lost(f.window, f.end(), r.pos):
			r.cut = true
			f.live-- // never the last one: the fastest stays
			r.tell()
		default:
			low = min(low, r.pos)
		}
	}
	taken := low - f.base
	if taken <= 0 {
		return
	}
	f.buf = f.buf[taken:]
	if len(f.buf) == 0 {
		f.buf = nil // readers may still look at its bytes: it is never written again
	}
	f.base = low
	f.give(min(taken, f.counted))
}

func (f *Flight) give(n int64) {
	f.counted -= n
	if f.of.bytes != nil && n > 0 {
		f.of.bytes.Give(n)
	}
}

func (f *Flight) end() int64 { return f.base + int64(len(f.buf)) }

// lead is how far the fastest reader is. One that was cut off may be stuck: nobody waits for it.
func (f *Flight) lead() int64 {
	lead := f.base
	for r := range f.readers {
		if !r.cut {
			lead = max(lead, r.pos)
		}
	}
	return lead
}

func (f *Flight) wake() {
	for r := range f.readers {
		r.tell()
	}
}

func (r *Reader) tell() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// End ends the flight. Only the first one counts.
func (f *Flight) End(e End) {
	f.of.remove(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over != nil {
		return
	}
	f.over = &e
	f.wake()
	if f.live == 0 {
		f.give(f.counted)
	}
}

// Next waits for more of the answer. It returns bytes that are good for ever, or how the run ended once they are all
// taken, or an error: ctx ended, or the reader was too slow.
func (r *Reader) Next(ctx context.Context) ([]byte, *End, error) {
	for {
		b, end, err := r.take()
		if b != nil || end != nil || err != nil {
			return b, end, err
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// Head is the head of the answer, once Next has returned bytes. Its body is empty.
func (r *Reader) Head() *gateway.Answer {
	r.flight.mu.Lock()
	defer r.flight.mu.Unlock()
	return r.flight.head
}

func (r *Reader) take() ([]byte, *End, error) {
	f := r.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.cut {
		return nil, nil, ErrTooSlow
	}
	if end := f.end(); r.pos < end {
		b := f.buf[r.pos-f.base:]
		r.pos = end
		f.stir()
		return b[:len(b):len(b)], nil, nil
	}
	return nil, f.over, nil
}

// stir tells the run that a reader has moved.
func (f *Flight) stir() {
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// Leave ends the reader's part. It is idempotent.
func (r *Reader) Leave() {
	f := r.flight
	f.mu.Lock()
	if r.gone {
		f.mu.Unlock()
		return
	}
	r.gone = true
	delete(f.readers, r)
	if !r.cut {
		f.live--
	}
	last := f.live == 0 && !r.cut
	if last && f.over != nil {
		f.give(f.counted)
	}
	stop := last && f.over == nil && !f.left
	f.left = f.left || stop
	f.mu.Unlock()
	f.stir()
	if stop {
		f.of.remove(f)
		f.abandon()
	}
}
