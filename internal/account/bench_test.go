package account

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/journal"
	"spillway/internal/store/sqlite"
)

// cpuTime is what the whole process has used, the mover and the database included.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func benchJourney(now time.Time) *gateway.Journey {
	t := gateway.Target{Provider: "openai", Model: "gpt-5.1"}
	u := gateway.Usage{Input: 1200, CachedInput: 300, Output: 250}
	return &gateway.Journey{ID: gateway.NewRequestID(now), At: now, ClientKey: "dev", Model: "smart", Combo: "smart",
		Strategy: "priority", Path: []string{"smart"}, Stream: true, Tokens: 1180, PoolSize: 3, Served: t, Connection: "openai-1",
		Attempts: []gateway.Attempt{{N: 1, Target: t, Connection: "openai-1", Why: gateway.FirstChoice, BeganAt: now.Add(40 * time.Microsecond),
			HeadersAt: now.Add(3 * time.Millisecond), ContentAt: now.Add(4 * time.Millisecond), EndedAt: now.Add(9 * time.Millisecond),
			Bytes: 4096, Kind: gateway.Success, Reason: gateway.Answered, Status: 200, Before: "closed", After: "closed", Usage: u}},
		Committed: now.Add(4 * time.Millisecond), EndedAt: now.Add(9 * time.Millisecond), Status: 200, Usage: u, Overhead: 42}
}

// BenchmarkLedger reports the CPU of one request from its intent until its row is in SQLite, with a given number of
// requests in flight (their ids are older than those of requests that end before them).
func BenchmarkLedger(b *testing.B) {
	for _, inFlight := range []int{1, 1000} {
		b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) {
			dir := b.TempDir()
			st, err := sqlite.Open(context.Background(), dir)
			if err != nil {
				b.Fatal(err)
			}
			jr, err := journal.Open(journal.Options{Dir: dir + "/journal"})
			if err != nil {
				b.Fatal(err)
			}
			l := New(Options{Journal: jr, Store: st})
			if err := l.Open(context.Background()); err != nil {
				b.Fatal(err)
			}
			ids := make([]gateway.RequestID, b.N)
			for i := range ids {
				ids[i] = gateway.NewRequestID(time.Now())
			}
			ring := make([]*gateway.Journey, inFlight)
			for i := range ring {
				ring[i] = benchJourney(time.Now())
			}
			b.ReportAllocs()
			b.ResetTimer()
			start, begun := cpuTime(), time.Now()
			for i, id := range ids {
				j := ring[i%inFlight]
				if i >= inFlight {
					l.Close(j)
				}
				j.ID = id
				attempts := j.Attempts
				j.Attempts = nil
				l.Begin(j)
				j.Attempts = attempts
			}
			for i := max(0, len(ids)-inFlight); i < len(ids); i++ {
				l.Close(ring[i%inFlight])
			}
			inClose := time.Since(begun)
			if err := l.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			b.ReportMetric(float64((cpuTime()-start).Nanoseconds())/1e3/float64(b.N), "cpu-us/req")
			b.ReportMetric(float64(inClose.Nanoseconds())/1e3/float64(b.N), "caller-us/req")
			if err := l.Stop(context.Background()); err != nil {
				b.Fatal(err)
			}
			if n := l.Totals(); n.Stored != int64(b.N) || n.DroppedRows+n.DroppedDetails > 0 {
				b.Fatalf("%+v", n)
			}
			st.Close()
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	j, buf := benchJourney(time.Now()), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendJourney(buf[:0], j, false)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}
