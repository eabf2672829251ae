// Package account answers one question: what did this request cost, and what was decided for it? It takes the
// [gateway.Journey] of each request at its begin (an intent) and at its end (the settlement), makes both survive the
// process, and moves them to the store in batches, off the request's path.
//
// A settlement is handed to the kernel before [Ledger.Close] returns, so a request whose handler has returned is
// accounted even if the process is killed the next instant; an intent without a settlement is shown as [Interrupted]
// after the next start. Every request is counted once: the store ignores an id that it has, and remembers in the same
// transaction how far the journal was moved.
//
// It never fails or delays traffic because of the disk or the database, and it says what it gave up: first bodies, then
// the details of attempts, then whole rows; the tokens of such rows are still added to the usage ledger. It computes no
// price and knows no limit.
//
// Cost (BenchmarkLedger, two cores of a small shared server): 8.4 us of CPU per request in all at its best, 10 us on a
// normal and 14 us on a crowded machine, of which Begin and Close together take 2-3 us on the caller, one write(2) of
// about 200 bytes included; the rest is the row in SQLite, off the request's path.
package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/journal"
	"spillway/internal/resilience"
	"spillway/internal/store"
)

// Interrupted is the code of a request that the process did not live to end.
const Interrupted gateway.Code = "interrupted"

// Store is what the ledger needs of durable storage.
type Store interface {
	store.Log
	Records(ctx context.Context) ([]resilience.Record, error)
}

// Options configure a ledger; Store is required.
type Options struct {
	// Journal makes records survive kill -9; nil keeps them in bounded memory until they are moved. The ledger owns it
	// from New on: Stop closes it.
	Journal   *journal.Journal
	Store     Store
	Log       *slog.Logger
	Bodies    bool             // keep bodies given to Body
	Now       func() time.Time // default time.Now
	Retention time.Duration    // age at which a request leaves the log; default 720 h; negative = never
	MaxBytes  int64            // size of the store above which the oldest requests leave; default 4 GiB; negative = any
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Retention == 0 {
		o.Retention = 720 * time.Hour
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 4 << 30
	}
	return o
}

// Ledger accounts for requests. Methods are safe for concurrent use.
type Ledger struct {
	opt   Options
	way   way
	open  openSet
	level atomic.Int32 // how much is given up, see the levels
	idle  atomic.Bool  // the mover waits to be woken

	wake  chan struct{}
	flush chan chan error
	quit  chan struct{}
	done  chan struct{}

	mu     sync.Mutex
	spill  store.Sums // usage whose rows found no room
	kept   map[[2]string]resilience.Record
	moved  bool // the mover was started
	closed bool

	counts counters
}

// What is given up as room gets scarce.
const (
	levelAll int32 = iota
	levelNoBodies
	levelNoDetails
)

// way is how records get to the mover: the journal, or a queue in memory.
type way interface {
	Append(payload []byte, through bool) error
	Flush() error
	Fill() float64
	Pending() int // bytes taken and not yet readable by Next
	Next(limit int) ([][]byte, error)
	Mark() store.Mark
	Release() (deleted []string, err error)
	Lag() int64
	Close() error
}

type counters struct {
	requests, interrupted, moved, batches      atomic.Int64
	dropBodies, dropDetails, dropRows, records atomic.Int64
	storeErrors                                atomic.Int64
	lastError                                  atomic.Pointer[string]
}

// Totals are the ledger's counters since it was made, for metrics.
type Totals struct {
	Requests       int64 // settled
	Interrupted    int64 // found at start, or open at Stop
	Open           int   // begun and not settled
	Stored         int64 // rows moved to the store
	Batches        int64
	DroppedBodies  int64
	DroppedDetails int64 // requests stored without their attempts
	DroppedRows    int64 // requests of which only the usage was kept
	Records        int64 // durable records of rooms
	QueueBytes     int64 // taken and not yet in the store
	StoreErrors    int64
	LastError      string
	Journal        journal.Stats // zero without a journal
}

// New returns a ledger that does nothing yet.
func New(opt Options) *Ledger {
	opt = opt.withDefaults()
	l := &Ledger{opt: opt, wake: make(chan struct{}, 1), flush: make(chan chan error), quit: make(chan struct{}),
		done: make(chan struct{}), spill: store.Sums{}, kept: map[[2]string]resilience.Record{}}
	l.open.init()
	if opt.Journal != nil {
		l.way = &journalWay{Journal: opt.Journal, r: opt.Journal.Reader()}
		opt.Journal.CarryFrom(l.open.each)
	} else {
		l.way = &queue{}
	}
	return l
}

// Open moves what dead processes left in the journal to the store, which shows their unfinished requests as
// interrupted, and starts the mover. Call it once, before Records.
func (l *Ledger) Open(ctx context.Context) error {
	if l.opt.Journal != nil {
		if err := l.recover(ctx); err != nil {
			return fmt.Errorf("account: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved || l.closed {
		return errors.New("account: opened twice")
	}
	l.moved = true
	go l.run()
	return nil
}

// Begin notes that a request has begun. Call it before the first attempt; calling it again with more in the journey
// (the attempt that is about to be made) makes an interruption more telling.
func (l *Ledger) Begin(j *gateway.Journey) {
	buf := buffers.Get().(*[]byte)
	*buf = appendJourney(append((*buf)[:0], kindIntent), j, false)
	rec := bytes.Clone(*buf)
	buffers.Put(buf)
	l.open.put(j.ID, rec)
	l.way.Append(rec, false) // when there is no room the settlement still counts
}

// Close settles a request: everything that was decided and used. The journey is read before Close returns and not kept.
// Call it before the handler returns, also when the client has left.
func (l *Ledger) Close(j *gateway.Journey) {
	if j.EndedAt.IsZero() {
		j.EndedAt = l.opt.Now()
	}
	buf := buffers.Get().(*[]byte)
	slim := l.level.Load() >= levelNoDetails && len(j.Attempts) > 0
	rec := appendJourney(append((*buf)[:0], kindSettled), j, slim)
	err := l.way.Append(rec, true)
	*buf = rec
	buffers.Put(buf)
	l.open.remove(j.ID)
	l.counts.requests.Add(1)
	if slim {
		l.counts.dropDetails.Add(1)
	}
	if err != nil && !errors.Is(err, journal.ErrLate) {
		l.spillUsage(j)
	}
	l.nudge()
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// spillUsage keeps the tokens of a request whose row found no room.
func (l *Ledger) spillUsage(j *gateway.Journey) {
	l.counts.dropRows.Add(1)
	l.level.Store(levelNoDetails)
	target, conn := rowTarget(j)
	r := store.Request{EndedAt: j.EndedAt, ClientKey: string(j.ClientKey), Target: target.String(), Connection: string(conn),
		Code: j.Code, Usage: j.Usage}
	l.mu.Lock()
	l.spill.Add(r.Line())
	l.mu.Unlock()
}

// nudge wakes the mover if it sleeps.
func (l *Ledger) nudge() {
	if l.idle.Load() && l.idle.CompareAndSwap(true, false) {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// MaxBody is how much of a body is kept, in bytes.
const MaxBody = 64 << 10

// Body keeps a body of a request (part: request or answer), cut to MaxBody, if Options.Bodies says so. It is the first
// thing that is dropped when room gets scarce.
func (l *Ledger) Body(id gateway.RequestID, part string, data []byte) {
	if !l.opt.Bodies {
		return
	}
	if len(data) > MaxBody {
		data = data[:MaxBody]
	}
	if l.level.Load() >= levelNoBodies || l.way.Append(appendBody(nil, id, part, l.opt.Now(), data), false) != nil {
		l.counts.dropBodies.Add(1)
		return
	}
	l.nudge()
}

// Keep returns the function that makes records of resilience rooms durable. A record is handed to the kernel before it
// returns; with no room at all it stays in memory, the newest per key, until the store takes it.
func (l *Ledger) Keep() resilience.Keep {
	return func(r resilience.Record) {
		if r.At.IsZero() {
			r.At = l.opt.Now()
		}
		l.counts.records.Add(1)
		err := l.way.Append(appendRecord(nil, r), true)
		if err != nil && !errors.Is(err, journal.ErrLate) {
			l.mu.Lock()
			l.kept[[2]string{r.Room, r.Key}] = r
			l.mu.Unlock()
		}
		l.nudge()
	}
}

// Records returns the durable records of all rooms, those of a dead process's journal included, for start-up.
func (l *Ledger) Records(ctx context.Context) ([]resilience.Record, error) {
	if err := l.Flush(ctx); err != nil {
		return nil, err
	}
	return l.opt.Store.Records(ctx)
}

// Get returns the decision log of one request: one that runs now (without an end and with what was known when it
// began), or one that ended. It returns store.ErrNotFound for an unknown id. The result is the caller's.
func (l *Ledger) Get(ctx context.Context, id gateway.RequestID) (*gateway.Journey, error) {
	if rec := l.open.get(id); rec != nil {
		return decodeJourney(rec[1:])
	}
	row, err := l.opt.Store.Request(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		if err := l.Flush(ctx); err != nil {
			return nil, err
		}
		row, err = l.opt.Store.Request(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return decodeJourney(row.Detail)
}

// Recent lists ended requests, the last one to end first, and the cursor of the next page (0 = no more).
func (l *Ledger) Recent(ctx context.Context, f store.Filter) ([]*gateway.Journey, int64, error) {
	if err := l.Flush(ctx); err != nil {
		return nil, 0, err
	}
	return Page(ctx, l.opt.Store, f)
}

// Running returns the requests that have begun and not ended, in no order.
func (l *Ledger) Running() []*gateway.Journey {
	var out []*gateway.Journey
	l.open.each(func(rec []byte) {
		if j, err := decodeJourney(rec[1:]); err == nil {
			out = append(out, j)
		}
	})
	return out
}

// Totals returns the counters.
func (l *Ledger) Totals() Totals {
	c := &l.counts
	t := Totals{Requests: c.requests.Load(), Interrupted: c.interrupted.Load(), Open: l.open.len(), Stored: c.moved.Load(),
		Batches: c.batches.Load(), DroppedBodies: c.dropBodies.Load(), DroppedDetails: c.dropDetails.Load(),
		DroppedRows: c.dropRows.Load(), Records: c.records.Load(), StoreErrors: c.storeErrors.Load()}
	t.QueueBytes = l.way.Lag() + int64(l.way.Pending())
	if e := c.lastError.Load(); e != nil {
		t.LastError = *e
	}
	if l.opt.Journal != nil {
		t.Journal = l.opt.Journal.Stats()
	}
	return t
}
