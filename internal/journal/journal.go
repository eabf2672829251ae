// Package journal answers one question: what had happened when the process died? It keeps small records in append-only
// segment files, one write(2) per group of records, so whatever was handed to it survives kill -9. With Options.Sync it
// also survives a loss of power.
//
// It does not know what a record means, never reads its own clock except to name files and to flush late records, and
// never fails the caller for long: when the disk refuses, records stay in bounded memory and are written when it
// recovers.
//
// How a record gets to the disk. Append copies it, framed with a length and a CRC-32C, into the pending group. A caller
// whose record must go through becomes the writer of that group when no write is under way, which costs one system call
// and no change of goroutine. When a write is under way it joins the next group, which the flusher goroutine writes as
// one. Records that need not go through (intents) travel with the next write, at the latest FlushAfter later. No lock is
// held during a write.
//
// Segments. A segment belongs to the process that made it and is locked by it while it lives, so a second process on
// the same directory (an upgrade in place) never mistakes it for a dead one's. After a crash a new segment is begun; a
// torn tail is never appended to. Every new segment starts with the records that the function given to CarryFrom names, so old segments
// can be deleted although something that began in them has not ended.
package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Limits of the journal.
const (
	// MaxRecord is the largest payload of a record, in bytes.
	MaxRecord = 1 << 20
	// maxPending bounds the memory of records that the disk has not taken, in bytes.
	maxPending = 8 << 20
	// FlushAfter is the longest time that a record which need not go through stays in memory of a working journal.
	FlushAfter = 5 * time.Millisecond
	// idleWrite: with no write for this long, a record is written at once even if it need not go through.
	idleWrite = time.Millisecond
	// patience is how long Append waits for a write that another caller has begun.
	patience     = 100 * time.Millisecond
	patienceSync = 5 * time.Second
)

// Errors of Append.
var (
	ErrFull   = errors.New("journal: full")
	ErrClosed = errors.New("journal: closed")
	ErrSize   = errors.New("journal: record too large")
	ErrLate   = errors.New("journal: not written yet, kept in memory")
)

// Options configure a journal. Only Dir is required.
type Options struct {
	Dir          string
	SegmentBytes int64 // a segment is closed when it would grow beyond this; default 16 MiB
	MaxBytes     int64 // of all segments that were not released; above it Append refuses; default 512 MiB
	Sync         bool  // fsync each group before Append returns: survives power loss
	Log          *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 512 << 20
	}
	if o.SegmentBytes > o.MaxBytes/4 { // the segment that is written now is never released: leave room for others
		o.SegmentBytes = o.MaxBytes / 4
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Journal is an open journal. Methods are safe for concurrent use.
type Journal struct {
	opt   Options
	owner string

	mu      sync.Mutex // for steps in memory only, never held during I/O
	pending *group
	spare   *group
	writing bool      // somebody owns the file
	began   time.Time // when the write under way began
	wroteAt time.Time
	failing error // the last write failed; callers do not wait until one succeeds
	closed  bool
	armed   bool // the flusher's ticker runs
	segs    []*segment
	old     []*segment // left behind by dead processes, not released yet
	bytes   int64      // of all of them
	serial  int
	stats   Stats
	carry   func(add func(payload []byte))

	kick chan struct{}
	quit chan struct{}
	done chan struct{}
}

// Stats count what the journal did since it was opened.
type Stats struct {
	Records  int64 // taken by Append
	Bytes    int64 // on disk and not released
	Pending  int   // bytes in memory, not yet written
	Writes   int64
	Errors   int64 // failed writes
	Refused  int64 // records that found the journal full
	Late     int64 // records that did not reach the kernel before Append returned
	LastFail string
}

// group is what one write takes along.
type group struct {
	buf  []byte
	done chan struct{} // made by the first one who waits
	err  error
}

// Open makes the directory (0700), takes over the segments of dead processes and begins a new one.
func Open(opt Options) (*Journal, error) {
	opt = opt.withDefaults()
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{opt: opt, owner: newOwner(), pending: &group{},
		kick: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	old, err := adopt(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	for _, s := range old {
		j.bytes += s.size
	}
	j.old = old
	seg, err := j.create(time.Now())
	if err != nil {
		closeAll(old)
		return nil, fmt.Errorf("journal: %w", err)
	}
	j.segs = []*segment{seg}
	j.bytes += seg.size
	go j.flusher()
	return j, nil
}

// CarryFrom sets the function that is called when a segment begins, after the first one. It names the records that must
// not be lost with the older segments; it runs without any lock of the journal and may name too many, never too few.
func (j *Journal) CarryFrom(fn func(add func(payload []byte))) {
	j.mu.Lock()
	j.carry = fn
	j.mu.Unlock()
}

// Fill is how much of the room is taken, on disk or in memory, whichever is worse; 1 is full.
func (j *Journal) Fill() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.pending.buf)
	return max(float64(j.bytes+int64(n))/float64(j.opt.MaxBytes), float64(n)/maxPending)
}

// Append takes a record. With through it returns when the record was handed to the kernel (with Options.Sync: to the
// disk), otherwise at once. ErrLate and a failing disk mean that the record is kept in memory and written later;
// ErrFull, ErrSize and ErrClosed mean that it was not taken. The payload is copied.
func (j *Journal) Append(payload []byte, through bool) error {
	if len(payload) > MaxRecord {
		return ErrSize
	}
	j.mu.Lock()
	if err := j.roomFor(len(payload)); err != nil {
		j.mu.Unlock()
		return err
	}
	g := j.pending
	g.buf = appendFrame(g.buf, payload)
	j.stats.Records++
	now := time.Now()
	switch {
	case j.failing != nil || j.writing && now.Sub(j.began) > j.patience():
		j.arm()
		if !through {
			j.mu.Unlock()
			return nil
		}
		j.stats.Late++
		j.mu.Unlock()
		return ErrLate
	case through && (j.writing || j.opt.Sync):
		if g.done == nil {
			g.done = make(chan struct{})
		}
		if !j.writing {
			j.wake()
		}
		j.mu.Unlock()
		return j.await(g)
	case !j.writing && (through || now.Sub(j.wroteAt) > idleWrite && !j.opt.Sync):
		j.lead(now)
		return nil
	}
	j.arm()
	j.mu.Unlock()
	return nil
}

func (j *Journal) roomFor(n int) error {
	switch {
	case j.closed:
		return ErrClosed
	case len(j.pending.buf)+n > maxPending, j.bytes+int64(len(j.pending.buf)+n) > j.opt.MaxBytes:
		j.stats.Refused++
		return ErrFull
	}
	return nil
}

func (j *Journal) patience() time.Duration {
	if j.opt.Sync {
		return patienceSync
	}
	return patience
}

// await waits for the group's write, at most for the journal's patience: a stuck disk must not stop traffic.
func (j *Journal) await(g *group) error {
	t := time.NewTimer(j.patience())
	defer t.Stop()
	select {
	case <-g.done:
		return g.err
	case <-t.C:
		j.mu.Lock()
		j.stats.Late++
		j.mu.Unlock()
		return ErrLate
	}
}

// lead writes the pending group. It is entered with the lock held and nobody writing, and returns without the lock.
func (j *Journal) lead(now time.Time) {
	g := j.pending
	if len(g.buf) == 0 && g.done == nil {
		j.mu.Unlock()
		return
	}
	if j.pending, j.spare = j.spare, nil; j.pending == nil {
		j.pending = &group{}
	}
	j.writing, j.began = true, now
	j.mu.Unlock()

	n, err := j.write(g.buf, now)

	j.mu.Lock()
	j.writing, j.wroteAt = false, now
	if err != nil {
		j.putBack(g, err)
	} else {
		j.failing = nil
		j.stats.Writes++
	}
	j.bytes += int64(n)
	done := g.done
	if err != nil {
		g.err = fmt.Errorf("%w: %w", ErrLate, err)
	} else if done == nil && cap(g.buf) <= maxPending/16 {
		g.buf = g.buf[:0]
		j.spare = g
	}
	if j.pending.done != nil { // joined while we wrote: the flusher takes them, this caller has waited enough
		j.wake()
	} else if len(j.pending.buf) > 0 {
		j.arm()
	}
	j.mu.Unlock()
	if done != nil {
		close(done)
	}
}

// putBack keeps what the disk refused, in front of what has come since.
func (j *Journal) putBack(g *group, err error) {
	j.pending.buf = append(append(make([]byte, 0, len(g.buf)+len(j.pending.buf)), g.buf...), j.pending.buf...)
	if j.failing == nil {
		j.opt.Log.Error("journal: write failed, records are kept in memory", "err", err)
	}
	j.failing = err
	j.stats.Errors++
	j.stats.LastFail = err.Error()
	j.arm()
}

// arm makes sure that the flusher comes by within FlushAfter. Called with the lock held.
func (j *Journal) arm() {
	if !j.armed {
		j.armed = true
		j.wake()
	}
}

func (j *Journal) wake() {
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// flusher writes what nobody else writes: groups that were joined during a write, and late records.
func (j *Journal) flusher() {
	defer close(j.done)
	tick := time.NewTicker(FlushAfter)
	tick.Stop()
	running, idle := false, 0
	for {
		select {
		case <-j.quit:
			return
		case <-j.kick:
		case <-tick.C:
		}
		j.mu.Lock()
		switch {
		case j.armed && !running:
			tick.Reset(FlushAfter)
			running = true
		case len(j.pending.buf) > 0 || j.writing:
			idle = 0
		case j.armed:
			// Stay armed for a while after the last record, so that steady traffic never has to wake this goroutine.
			if idle++; idle > 100 {
				tick.Stop()
				running, idle, j.armed = false, 0, false
			}
		}
		nothing := len(j.pending.buf) == 0 && j.pending.done == nil
		if j.writing || nothing || j.failing != nil && time.Since(j.wroteAt) < 100*time.Millisecond {
			j.mu.Unlock()
			continue
		}
		j.lead(time.Now())
	}
}

// Flush hands everything taken so far to the kernel (or the disk) before it returns, or says why it could not.
func (j *Journal) Flush() error {
	j.mu.Lock()
	if j.writing {
		g := j.pending
		if g.done == nil {
			g.done = make(chan struct{})
		}
		j.mu.Unlock()
		return j.await(g)
	}
	j.lead(time.Now())
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failing
}

// Stats returns the counters.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.stats
	s.Bytes, s.Pending = j.bytes, len(j.pending.buf)
	return s
}

// Close flushes and closes. Segments that were released completely are deleted; the others stay for the next Open.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	err := j.Flush()
	close(j.quit)
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range append(j.old, j.segs...) {
		if !s.released() {
			err = errors.Join(err, s.file.Close())
			continue
		}
		err = errors.Join(err, s.remove())
	}
	j.old, j.segs = nil, nil
	return err
}
