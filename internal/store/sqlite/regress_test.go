package sqlite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"spillway/internal/resilience"
	"spillway/internal/store"
)

// One statement with a variable per key failed above a few ten thousand keys.
func TestP112ThirtyThousandKeysAtOnce(t *testing.T) {
	s := openTest(t, t.TempDir())
	const n = 30_000
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(value []byte, at time.Time) {
		b := &store.Batch{}
		for i := range n {
			b.Records = append(b.Records, resilience.Record{Room: "cooldown", Key: fmt.Sprint("key-", i), Value: value, At: at})
		}
		if err := s.Put(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte(`{"until":"2026-01-02T04:00:00Z"}`), at)
	if all, err := s.Records(context.Background()); err != nil || len(all) != n {
		t.Fatalf("%d records, %v", len(all), err)
	}
	write(nil, at.Add(time.Second))
	all, err := s.Records(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if len(r.Value) > 0 {
			t.Fatalf("%s is still there", r.Key)
		}
	}
}
