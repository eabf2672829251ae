package sqlite

import (
	"context"
	"syscall"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/store"
)

// BenchmarkPut reports the CPU of one row, in batches of 500 with the ledger and the mark.
func BenchmarkPut(b *testing.B) {
	s := openTest(b, b.TempDir())
	const batch = 500
	detail := make([]byte, 180)
	ids := make([]gateway.RequestID, b.N*batch)
	for i := range ids {
		ids[i] = gateway.NewRequestID(time.Now())
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for n := range b.N {
		rows := make([]store.Request, batch)
		for i := range rows {
			rows[i] = store.Request{ID: ids[n*batch+i], EndedAt: time.Now(), Duration: 1200 * time.Millisecond, ClientKey: "dev",
				Model: "gpt-5.1-mini", Target: "openai/gpt-5.1", Connection: "openai-key-1", Status: 200, Attempts: 1, Detail: detail}
		}
		if err := s.Put(context.Background(), &store.Batch{Requests: rows, Mark: store.Mark{Segment: "s", Offset: int64(n)}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/1e3/float64(b.N*batch), "cpu-us/row")
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
