package account

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"spillway/internal/gateway"
	"spillway/internal/journal"
	"spillway/internal/store"
)

// interrupt turns the journey of an intent into one that says how it ended. If an attempt was under way its prompt was
// most likely billed: the estimate counts as usage, marked as such.
func (l *Ledger) interrupt(j *gateway.Journey) {
	j.Code = string(Interrupted)
	j.Error = "Spillway stopped while this request was running."
	if n := len(j.Attempts); n > 0 && j.Usage == (gateway.Usage{}) && j.Tokens > 0 {
		j.Usage = gateway.Usage{Input: j.Tokens, Estimated: true}
	}
	l.counts.interrupted.Add(1)
}

// recover replays what dead processes left. It may be interrupted and run again at any point: the store remembers how
// far each segment was moved and ignores ids that it has.
func (l *Ledger) recover(ctx context.Context) error {
	left := l.opt.Journal.Left()
	if len(left) == 0 {
		return nil
	}
	marks, err := l.opt.Store.Marks(ctx)
	if err != nil {
		return err
	}
	at := map[string]int64{}
	for _, m := range marks {
		at[m.Segment] = m.Offset
	}
	m := newMover(l)
	for len(left) > 0 {
		n := 1
		for n < len(left) && left[n].Owner == left[0].Owner {
			n++
		}
		if err := l.replay(ctx, m, left[:n], at); err != nil {
			return err
		}
		left = left[n:]
	}
	return nil
}

// replay moves the segments of one dead process, then its unfinished requests, then deletes the segments.
func (l *Ledger) replay(ctx context.Context, m *mover, segs []journal.Left, at map[string]int64) error {
	open := map[gateway.RequestID][]byte{}
	var names []string
	for _, s := range segs {
		data, err := s.Read()
		if err != nil {
			return fmt.Errorf("journal %s: %w", s.Name, err)
		}
		names = append(names, s.Name)
		m.reset()
		skipped, err := journal.Scan(data, func(end int64, rec []byte) error {
			track(open, rec)
			if end <= at[s.Name] {
				return nil
			}
			m.add(rec)
			if len(m.batch.Requests)+len(m.batch.Records)+len(m.batch.Bodies) < batchSize {
				return nil
			}
			return m.put(ctx, store.Mark{Segment: s.Name, Offset: end})
		})
		if err == nil {
			err = m.put(ctx, store.Mark{Segment: s.Name, Offset: int64(len(data))})
		}
		if err != nil {
			return err
		}
		if skipped > 0 {
			l.opt.Log.Warn("account: unreadable bytes in the journal were left out", "segment", s.Name, "bytes", skipped)
		}
	}
	if err := l.putInterrupted(ctx, m, open); err != nil {
		return err
	}
	left := len(names)
	for segment := range at { // the process may have died after deleting a segment, before forgetting its mark
		if strings.Contains(segment, "-"+segs[0].Owner+"-") && !slices.Contains(names, segment) {
			names = append(names, segment)
		}
	}
	for _, name := range names[:left] {
		if err := l.opt.Journal.Forget(name); err != nil {
			return err
		}
	}
	return l.opt.Store.Put(ctx, &store.Batch{Done: names})
}

// track follows which requests are open as records pass.
func track(open map[gateway.RequestID][]byte, rec []byte) {
	if len(rec) == 0 || rec[0] != kindIntent && rec[0] != kindSettled {
		return
	}
	d := decoder{b: rec[1:]}
	h := d.head()
	switch {
	case d.err != nil:
	case rec[0] == kindSettled:
		delete(open, h.id)
	default:
		open[h.id] = rec[1:]
	}
}

func (m *mover) put(ctx context.Context, mark store.Mark) error {
	m.batch.Mark = mark
	err := m.l.opt.Store.Put(ctx, &m.batch)
	if err == nil {
		m.l.counts.moved.Add(int64(len(m.batch.Requests)))
	}
	m.reset()
	return err
}

// putInterrupted stores the requests that never ended. A segment that was begun after such a request had ended may
// still name it; the store has its row by then and keeps it.
func (l *Ledger) putInterrupted(ctx context.Context, m *mover, open map[gateway.RequestID][]byte) error {
	m.reset()
	for id, rec := range open {
		if _, err := l.opt.Store.Request(ctx, id); err == nil {
			continue
		}
		j, err := decodeJourney(rec)
		if err != nil {
			l.trouble(err)
			continue
		}
		l.interrupt(j)
		if err := m.addSettled(appendJourney(nil, j, false)); err != nil {
			return err
		}
		if len(m.batch.Requests) >= batchSize {
			if err := m.put(ctx, store.Mark{}); err != nil {
				return err
			}
		}
	}
	return m.put(ctx, store.Mark{})
}
