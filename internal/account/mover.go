package account

import (
	"context"
	"errors"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/journal"
	"spillway/internal/resilience"
	"spillway/internal/store"
)

// How the mover works.
const (
	batchSize  = 500
	batchAfter = time.Second // the journal has made them durable; whoever reads the log flushes first
	trimEvery  = 10 * time.Minute
	trimBatch  = 500
	trimRounds = 10 // per batch, so that trimming never holds up moving
	retryMin   = 100 * time.Millisecond
	retryMax   = 10 * time.Second
	putTimeout = time.Minute
)

// mover turns records into batches. It is used by one goroutine at a time.
type mover struct {
	l       *Ledger
	d       decoder
	journey gateway.Journey // that is read just now
	batch   store.Batch
	full    bool // batch holds something that the store refused
	n       int  // records in it
	scratch []byte
	done    []string // segments whose marks can go
	retry   time.Duration
	trimAt  time.Time
}

func newMover(l *Ledger) *mover { return &mover{l: l, d: decoder{names: names{}}, retry: retryMin} }

// run moves records until Stop. It sleeps while there is nothing to move, so a gateway without traffic costs nothing.
func (l *Ledger) run() {
	defer close(l.done)
	m := newMover(l)
	m.trimAt = l.opt.Now().Add(batchAfter)
	timer := time.NewTimer(batchAfter)
	defer timer.Stop()
	for {
		var reply chan error
		select {
		case <-l.quit:
			return
		case reply = <-l.flush:
		case <-l.wake:
			timer.Reset(batchAfter) // gather for a while
			continue
		case <-timer.C:
		}
		moved, err := m.drain()
		if reply != nil {
			reply <- err
		}
		more := m.trim(err)
		switch {
		case err != nil:
			timer.Reset(m.retry)
			m.retry = min(2*m.retry, retryMax)
			continue
		case moved > 0 || more || l.way.Pending() > 0:
			timer.Reset(batchAfter)
		default:
			// Sleep. What was appended before idle was seen is found by looking once more.
			l.idle.Store(true)
			if l.way.Lag() > 0 || l.spilled() {
				l.idle.Store(false)
				timer.Reset(batchAfter)
				break
			}
			timer.Reset(max(batchAfter, m.trimAt.Sub(l.opt.Now())))
		}
		m.retry = retryMin
	}
}

func (l *Ledger) spilled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.spill)+len(l.kept) > 0
}

// drain moves all that is there and returns how many records that were.
func (m *mover) drain() (moved int, err error) {
	for {
		n, err := m.step()
		moved += n
		m.l.measure()
		if n == 0 || err != nil {
			return moved, err
		}
	}
}

// measure decides how much is given up.
func (l *Ledger) measure() {
	level := levelAll
	switch fill := l.way.Fill(); {
	case fill > 0.8:
		level = levelNoDetails
	case fill > 0.5:
		level = levelNoBodies
	}
	if old := l.level.Swap(level); old != level {
		l.opt.Log.Warn("account: room for the decision log changed", "given_up", [...]string{"nothing", "bodies", "bodies and details"}[level])
	}
}

// step moves one batch. A batch that the store refused is kept and tried again, so nothing is read twice or lost.
func (m *mover) step() (n int, err error) {
	if !m.full {
		if err := m.fill(); err != nil {
			m.l.trouble(err)
			return 0, err
		}
	}
	if m.batch.Empty() {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), putTimeout)
	defer cancel()
	if err := m.l.opt.Store.Put(ctx, &m.batch); err != nil {
		m.full = true
		m.l.trouble(err)
		return 0, err
	}
	m.full, m.done = false, nil
	m.l.counts.moved.Add(int64(len(m.batch.Requests)))
	m.l.counts.batches.Add(1)
	gone, err := m.l.way.Release()
	m.done = gone
	if err != nil {
		m.l.trouble(err)
	}
	return max(m.n, 1), nil
}

// trouble counts and reports a fault of storage.
func (l *Ledger) trouble(err error) {
	text := err.Error()
	if l.counts.storeErrors.Add(1) == 1 || l.counts.lastError.Load() == nil || *l.counts.lastError.Load() != text {
		l.opt.Log.Error("account: storage trouble, traffic goes on", "err", err)
	}
	l.counts.lastError.Store(&text)
}

// fill reads up to batchSize records into an empty batch.
func (m *mover) fill() error {
	recs, err := m.l.way.Next(batchSize)
	if err != nil {
		return err
	}
	m.reset()
	m.n = len(recs)
	for _, rec := range recs {
		m.add(rec)
	}
	if m.n > 0 {
		m.batch.Mark = m.l.way.Mark()
	}
	m.batch.Done = m.done
	m.takeSpill()
	return nil
}

func (m *mover) reset() {
	b := &m.batch
	clear(b.Requests)
	clear(b.Attempts)
	clear(b.Records)
	clear(b.Bodies)
	*b = store.Batch{Requests: b.Requests[:0], Attempts: b.Attempts[:0], Records: b.Records[:0], Bodies: b.Bodies[:0]}
}

// takeSpill adds what found no room on the way.
func (m *mover) takeSpill() {
	l := m.l
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.spill {
		m.batch.Usage = append(m.batch.Usage, *u)
	}
	for _, r := range l.kept {
		m.batch.Records = append(m.batch.Records, r)
	}
	if len(l.spill) > 0 {
		l.spill = store.Sums{}
	}
	if len(l.kept) > 0 {
		l.kept = map[[2]string]resilience.Record{}
	}
}

// add puts one record into the batch. What cannot be read is counted and left out: it must not stop the rest.
func (m *mover) add(rec []byte) {
	if len(rec) == 0 {
		return
	}
	var err error
	switch rec[0] {
	case kindIntent:
	case kindSettled:
		err = m.addSettled(rec[1:])
	case kindRecord:
		var r resilience.Record
		if r, err = decodeRecord(rec[1:]); err == nil {
			m.batch.Records = append(m.batch.Records, r)
		}
	case kindBody:
		var b store.Body
		if b, err = decodeBody(rec[1:]); err == nil {
			m.batch.Bodies = append(m.batch.Bodies, b)
		}
	default:
		err = errDamaged
	}
	if err != nil {
		m.l.trouble(err)
	}
}

func (m *mover) addSettled(b []byte) error {
	r, scratch, err := m.d.row(b, m.scratch)
	m.scratch = scratch
	if err != nil {
		return err
	}
	if !r.Inline() && r.Attempts > 0 {
		if err := m.d.journey(b, &m.journey); err != nil {
			return err
		}
		m.batch.Attempts = appendAttempts(m.batch.Attempts, &m.journey)
	}
	m.batch.Requests = append(m.batch.Requests, r)
	return nil
}

func appendAttempts(out []store.Attempt, j *gateway.Journey) []store.Attempt {
	for i := range j.Attempts {
		a := &j.Attempts[i]
		row := store.Attempt{Request: j.ID, N: a.N, Target: a.Target.String(), Connection: string(a.Connection),
			Outcome: a.Kind.String(), Status: a.Status, EndedAt: a.EndedAt}
		if a.EndedAt.IsZero() {
			row.EndedAt = j.EndedAt
		}
		if !a.BeganAt.IsZero() {
			row.Duration = max(0, row.EndedAt.Sub(a.BeganAt))
		}
		out = append(out, row)
	}
	return out
}

// trim deletes what is too old or too much, a few batches at a time, and reports whether there is more to delete.
func (m *mover) trim(trouble error) (more bool) {
	l, now := m.l, m.l.opt.Now()
	if trouble != nil || now.Before(m.trimAt) {
		return false
	}
	before := now.Add(-l.opt.Retention)
	if l.opt.Retention < 0 {
		before = time.Time{}
	}
	for range trimRounds {
		ctx, cancel := context.WithTimeout(context.Background(), putTimeout)
		n, err := l.opt.Store.Trim(ctx, before, max(l.opt.MaxBytes, 0), trimBatch)
		cancel()
		if err != nil {
			l.trouble(err)
		}
		if err != nil || n < trimBatch {
			m.trimAt = now.Add(trimEvery)
			return false
		}
	}
	return true
}

// Flush moves everything that was taken so far to the store before it returns, or says why it could not.
func (l *Ledger) Flush(ctx context.Context) error {
	l.mu.Lock()
	started := l.moved
	l.mu.Unlock()
	if !started {
		return errors.New("account: not open")
	}
	if err := l.way.Flush(); err != nil && !errors.Is(err, journal.ErrLate) {
		return err
	}
	reply := make(chan error, 1)
	select {
	case l.flush <- reply:
	case <-l.done:
		return errors.New("account: stopped")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop moves what is left, records requests that are still open as interrupted, and closes the journal (not the store).
// What the store does not take before ctx ends stays in the journal for the next start. Later settlements are lost, so
// stop the traffic first.
func (l *Ledger) Stop(ctx context.Context) error {
	l.mu.Lock()
	started := l.moved && !l.closed
	l.closed = true
	l.mu.Unlock()
	if !started {
		return l.way.Close()
	}
	for _, j := range l.Running() {
		l.interrupt(j)
		l.Close(j)
	}
	err := l.Flush(ctx)
	close(l.quit)
	<-l.done
	last := l.way.Mark().Segment
	err = errors.Join(err, l.way.Close())
	if err == nil && last != "" {
		err = l.opt.Store.Put(ctx, &store.Batch{Done: []string{last}})
	}
	return err
}
