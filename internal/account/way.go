package account

import (
	"sync"

	"spillway/internal/journal"
	"spillway/internal/store"
)

// journalWay moves records through the journal: the files are the queue, so a store that is down costs disk, not memory.
type journalWay struct {
	*journal.Journal
	r *journal.Reader
}

func (w *journalWay) Next(limit int) ([][]byte, error) { return w.r.Next(limit) }
func (w *journalWay) Release() ([]string, error)       { return w.Journal.Release(w.r.Pos()) }
func (w *journalWay) Lag() int64                       { return w.r.Lag() }
func (w *journalWay) Pending() int                     { return w.Journal.Stats().Pending }

func (w *journalWay) Mark() store.Mark {
	p := w.r.Pos()
	return store.Mark{Segment: p.Segment, Offset: p.Offset}
}

// queueBytes bounds the queue in memory.
const queueBytes = 8 << 20

// What of an empty queue is used again, in bytes and in records: what a burst needed is given back.
const (
	keptBytes   = 256 << 10
	keptRecords = keptBytes / 64
)

// queue moves records through memory, for a ledger without a journal.
type queue struct {
	mu    sync.Mutex
	in    []byte // records that came since the mover last looked, one behind the other
	ends  []int
	bytes int // in, and what the mover has not taken yet

	out     []byte // owned by the mover
	outEnds []int
	taken   int // records of out that were returned
	recs    [][]byte
}

func (q *queue) Append(payload []byte, through bool) error {
	if !through && payload[0] == kindIntent {
		return nil // it would not outlive the process: the set of open requests has it
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+len(payload) > queueBytes {
		return journal.ErrFull
	}
	q.in = append(q.in, payload...)
	q.ends = append(q.ends, len(q.in))
	q.bytes += len(payload)
	return nil
}

func (q *queue) Next(limit int) ([][]byte, error) {
	q.recs = q.recs[:0]
	if q.taken == len(q.outEnds) {
		q.mu.Lock()
		q.in, q.out = emptied(q.out, keptBytes), q.in
		q.ends, q.outEnds = emptied(q.outEnds, keptRecords), q.ends
		q.mu.Unlock()
		if len(q.outEnds) == 0 {
			q.out, q.outEnds = emptied(q.out, keptBytes), emptied(q.outEnds, keptRecords)
		}
		q.taken = 0
	}
	size := 0
	for q.taken < len(q.outEnds) && len(q.recs) < limit {
		from := 0
		if q.taken > 0 {
			from = q.outEnds[q.taken-1]
		}
		rec := q.out[from:q.outEnds[q.taken]]
		q.recs = append(q.recs, rec)
		size += len(rec)
		q.taken++
	}
	q.mu.Lock()
	q.bytes -= size
	q.mu.Unlock()
	return q.recs, nil
}

// emptied is an empty list in the memory of another one, or none when that has room for more than most.
func emptied[T any](list []T, most int) []T {
	if cap(list) > most {
		return nil
	}
	return list[:0]
}

func (q *queue) Fill() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return float64(q.bytes) / queueBytes
}

func (q *queue) Lag() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(q.bytes)
}

func (q *queue) Flush() error               { return nil }
func (q *queue) Pending() int               { return 0 }
func (q *queue) Mark() store.Mark           { return store.Mark{} }
func (q *queue) Release() ([]string, error) { return nil, nil }
func (q *queue) Close() error               { return nil }
