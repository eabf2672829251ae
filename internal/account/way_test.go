package account

import (
	"encoding/binary"
	"testing"
)

// A burst goes through the queue whole and in order, and what memory it needed is given back behind it.
func TestTheQueueGivesBackWhatABurstNeeded(t *testing.T) {
	var q queue
	rec := make([]byte, 300)
	next := uint64(0)
	for round := range 3 {
		const burst = 10_000
		for n := range uint64(burst) {
			rec[0] = kindSettled
			binary.BigEndian.PutUint64(rec[1:], uint64(round)*burst+n)
			if err := q.Append(rec, false); err != nil {
				t.Fatal(err)
			}
		}
		for {
			recs, err := q.Next(batchSize)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				if got := binary.BigEndian.Uint64(r[1:]); got != next || len(r) != len(rec) {
					t.Fatalf("record %d of %d bytes came, not %d", got, len(r), next)
				}
				next++
			}
			if len(recs) == 0 {
				break
			}
		}
		if q.Lag() != 0 || cap(q.in) > keptBytes || cap(q.out) > keptBytes || cap(q.ends) > keptRecords || cap(q.outEnds) > keptRecords {
			t.Errorf("lag %d, and room for %d and %d bytes, %d and %d records", q.Lag(), cap(q.in), cap(q.out), cap(q.ends), cap(q.outEnds))
		}
	}
}
