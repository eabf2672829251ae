package account

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"spillway/internal/gateway"
	"spillway/internal/journal"
	"spillway/internal/resilience"
	"spillway/internal/store"
	"spillway/internal/store/sqlite"
)

func TestMain(m *testing.M) {
	if dir := crashDir(); dir != "" {
		crashChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

func openLedger(t testing.TB, opt Options) *Ledger {
	t.Helper()
	l := New(opt)
	if err := l.Open(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(ctx); err != nil && !errors.Is(err, errStore) {
			t.Errorf("Stop: %v", err)
		}
	})
	return l
}

func openJournal(t testing.TB, opt journal.Options) *journal.Journal {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = filepath.Join(t.TempDir(), "journal")
	}
	j, err := journal.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func journey(i int) *gateway.Journey {
	j := benchJourney(t0.Add(time.Duration(i) * time.Millisecond))
	j.ID = gateway.RequestID(fmt.Sprintf("req_%06d", i))
	return j
}

// ways runs a test with a journal and without, over both stores.
func ways(t *testing.T, test func(t *testing.T, opt Options)) {
	for _, c := range []struct {
		name            string
		journal, sqlite bool
	}{{"memory", false, false}, {"journal", true, false}, {"sqlite", false, true}, {"journal and sqlite", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			opt := Options{Store: store.Memory(), Retention: -1} // the rows of these tests are old
			if c.sqlite {
				s, err := sqlite.Open(ctx, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				opt.Store = s
			}
			if c.journal {
				opt.Journal = openJournal(t, journal.Options{})
			}
			test(t, opt)
		})
	}
}

func TestCloseThenGet(t *testing.T) {
	ways(t, func(t *testing.T, opt Options) {
		l := openLedger(t, opt)
		for i := range 20 {
			want := journey(i)
			want.Attempts = append(want.Attempts, want.Attempts[0])
			want.Attempts[1].N = 2
			want.Attempts[0].Kind, want.Attempts[0].Message = gateway.Timeout, "too slow"
			l.Begin(&gateway.Journey{ID: want.ID, At: want.At, Model: "smart"})
			running, err := l.Get(ctx, want.ID)
			if err != nil || !running.EndedAt.IsZero() || running.Model != "smart" {
				t.Fatalf("while it runs: %+v, %v", running, err)
			}
			l.Close(want)
			got, err := l.Get(ctx, want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("-closed +got:\n%s", d)
			}
		}
		if _, err := l.Get(ctx, "req_unknown"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		rows, next, err := l.Recent(ctx, store.Filter{Limit: 15})
		if err != nil || len(rows) != 15 || rows[0].ID != "req_000019" || next == 0 {
			t.Fatalf("%d rows, next %d, %v", len(rows), next, err)
		}
		if rows, next, err = l.Recent(ctx, store.Filter{Limit: 15, After: next}); err != nil || len(rows) != 5 || next != 0 {
			t.Errorf("%d rows, next %d, %v", len(rows), next, err)
		}
		if a, err := opt.Store.Attempts(ctx, store.Filter{}); err != nil || len(a) != 40 || a[0].Outcome != "timeout" {
			t.Errorf("%d attempts, %v", len(a), err)
		}
		if tot := l.Totals(); tot.Requests != 20 || tot.Stored != 20 || tot.Open != 0 || tot.StoreErrors != 0 {
			t.Errorf("%+v", tot)
		}
	})
}

// TestP58AbortKeepsUsage: a client that left has its partial tokens in the ledger, marked as estimated.
func TestP58AbortKeepsUsage(t *testing.T) {
	ways(t, func(t *testing.T, opt Options) {
		l := openLedger(t, opt)
		j := journey(1)
		j.Usage = gateway.Usage{Input: 1180, Output: 6, Estimated: true}
		j.Attempts[0].Kind, j.Attempts[0].Reason, j.Attempts[0].Usage = gateway.Canceled, gateway.ClientGone, j.Usage
		j.Status, j.Code, j.Served, j.Connection = 499, "client_gone", gateway.Target{}, ""
		l.Begin(j)
		l.Close(j)
		if err := l.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		use, err := opt.Store.Usage(ctx, t0.Add(-time.Hour), t0.Add(time.Hour))
		if err != nil || len(use) != 1 {
			t.Fatalf("%+v, %v", use, err)
		}
		want := store.Usage{Hour: t0.Truncate(time.Hour), ClientKey: "dev", Target: "openai/gpt-5.1", Connection: "openai-1", Requests: 1,
			Failed: 1, Input: 1180, Output: 6, Estimated: 1}
		if d := cmp.Diff(want, use[0]); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	})
}

func TestRoomRecords(t *testing.T) {
	ways(t, func(t *testing.T, opt Options) {
		l := openLedger(t, opt)
		keep := l.Keep()
		for i := range 1200 {
			keep(resilience.Record{Room: "breaker", Key: fmt.Sprint(i % 3), Value: fmt.Append(nil, i), At: t0.Add(time.Duration(i))})
		}
		keep(resilience.Record{Room: "breaker", Key: "2", At: t0.Add(5000)})
		keep(resilience.Record{Room: "breaker", Key: "0", Value: []byte("late"), At: t0})
		got, err := l.Records(ctx)
		want := []resilience.Record{{Room: "breaker", Key: "0", Value: []byte("1197"), At: t0.Add(1197)},
			{Room: "breaker", Key: "1", Value: []byte("1198"), At: t0.Add(1198)}}
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%v\n%s", err, d)
		}
	})
}

// TestStopRecordsWhatIsOpen: what a drain had to cut is not forgotten.
func TestStopRecordsWhatIsOpen(t *testing.T) {
	ways(t, func(t *testing.T, opt Options) {
		l := New(opt)
		if err := l.Open(ctx); err != nil {
			t.Fatal(err)
		}
		l.Begin(journey(1))
		if err := l.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		row, err := opt.Store.Request(ctx, "req_000001")
		if err != nil || row.Code != string(Interrupted) {
			t.Errorf("%+v, %v", row, err)
		}
		if marks, err := opt.Store.Marks(ctx); err != nil || len(marks) != 0 {
			t.Errorf("marks of deleted segments stay: %v, %v", marks, err)
		}
	})
}

var errStore = errors.New("disk on fire")

// flaky is a store that can be made to fail or to stand still.
type flaky struct {
	Store
	fail  atomic.Bool
	stall chan struct{}
}

func (f *flaky) Put(ctx context.Context, b *store.Batch) error {
	if f.stall != nil {
		<-f.stall
	}
	if f.fail.Load() {
		return errStore
	}
	return f.Store.Put(ctx, b)
}

// TestP111StoreTroubleNeverReachesTraffic: with the database failing every request is taken as before; when it comes
// back everything is there once.
func TestP111StoreTroubleNeverReachesTraffic(t *testing.T) {
	for _, withJournal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := &flaky{Store: store.Memory()}
			opt := Options{Store: st}
			if withJournal {
				opt.Journal = openJournal(t, journal.Options{SegmentBytes: 64 << 10})
			}
			l := openLedger(t, opt)
			st.fail.Store(true)
			for i := range 3000 {
				j := journey(i)
				l.Begin(j)
				l.Close(j)
			}
			time.Sleep(5 * time.Minute)
			if tot := l.Totals(); tot.StoreErrors == 0 || tot.LastError == "" || tot.Stored != 0 || tot.DroppedRows != 0 {
				t.Errorf("while the store fails: %+v", tot)
			}
			st.fail.Store(false)
			time.Sleep(retryMax + time.Second)
			synctest.Wait()
			if tot := l.Totals(); tot.Stored != 3000 || tot.QueueBytes != 0 {
				t.Errorf("afterwards: %+v", tot)
			}
			sum := usageOf(t, st)
			if sum.Requests != 3000 || sum.Input != 3000*1200 {
				t.Errorf("usage: %+v", sum)
			}
		})
	}
}

func usageOf(t *testing.T, s Store) (sum store.Usage) {
	t.Helper()
	lines, err := s.Usage(ctx, time.Unix(0, 0), t0.Add(1000*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range lines {
		sum.Requests += u.Requests
		sum.Input += u.Input
		sum.Output += u.Output
		sum.Failed += u.Failed
	}
	return sum
}

// TestDropOrder: as room runs out bodies go first, then details, then rows; usage never.
func TestDropOrder(t *testing.T) {
	for _, withJournal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := &flaky{Store: store.Memory()}
			st.fail.Store(true)
			opt := Options{Store: st, Bodies: true}
			if withJournal {
				opt.Journal = openJournal(t, journal.Options{MaxBytes: 8 << 20})
			}
			l := openLedger(t, opt)
			body := make([]byte, 1000)
			const n = 60000
			var first [3]int // the request at which bodies, details, rows were dropped first
			for i := range n {
				j := journey(i)
				j.Attempts[0].Message = "something that takes room in the log"
				l.Body(j.ID, "request", body)
				l.Close(j)
				tot := l.Totals()
				for k, dropped := range []int64{tot.DroppedBodies, tot.DroppedDetails, tot.DroppedRows} {
					if dropped > 0 && first[k] == 0 {
						first[k] = i
					}
				}
				if i%100 == 0 {
					time.Sleep(retryMax) // the mover looks at how full it is
				}
			}
			if first[0] == 0 || first[1] <= first[0] || first[2] <= first[1] {
				t.Errorf("dropped first at %v: want bodies, then details, then rows", first)
			}
			st.fail.Store(false)
			time.Sleep(time.Minute)
			if err := l.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if sum := usageOf(t, st); sum.Requests != n || sum.Input != n*1200 {
				t.Errorf("usage: %+v, want %d requests", sum, n)
			}
			l.Close(journey(n + 1))
			if err := l.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if j, err := l.Get(ctx, journey(n+1).ID); err != nil || len(j.Attempts) != 1 {
				t.Errorf("details are kept again: %v", err)
			}
		})
	}
}

// TestP114NothingIsRetained: after many requests, aborted ones too, no intent, goroutine or byte stays.
func TestP114NothingIsRetained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, Options{Store: store.Memory(), Journal: openJournal(t, journal.Options{})})
		var wg sync.WaitGroup
		for w := range 20 {
			wg.Go(func() {
				for i := range 500 {
					j := journey(w*1000 + i)
					l.Begin(j)
					l.Begin(j) // a second attempt
					l.Close(j)
				}
			})
		}
		wg.Wait()
		time.Sleep(3 * batchAfter) // one to gather, one to find nothing more
		synctest.Wait()
		if tot := l.Totals(); tot.Open != 0 || tot.QueueBytes != 0 || tot.Stored != 10000 {
			t.Errorf("%+v", tot)
		}
		if !l.idle.Load() {
			t.Error("the mover does not sleep")
		}
		j := journey(999999)
		l.Close(j)
		time.Sleep(2 * batchAfter)
		synctest.Wait()
		if tot := l.Totals(); tot.Stored != 10001 {
			t.Error("the mover does not wake up")
		}
	})
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.Memory()
		l := openLedger(t, Options{Store: st, Retention: time.Hour})
		for i := range 3000 {
			j := benchJourney(time.Now())
			j.ID, j.EndedAt = gateway.RequestID(fmt.Sprint(i)), time.Now()
			l.Close(j)
		}
		time.Sleep(30 * time.Minute)
		fresh := benchJourney(time.Now())
		fresh.EndedAt = time.Now()
		l.Close(fresh)
		time.Sleep(time.Hour)
		synctest.Wait()
		rows, err := st.Requests(ctx, store.Filter{Limit: 1000})
		if err != nil || len(rows) != 1 || rows[0].ID != fresh.ID {
			t.Errorf("%d rows are left, %v", len(rows), err)
		}
		lines, err := st.Usage(ctx, time.Unix(0, 0), time.Now().Add(time.Hour))
		if err != nil || len(lines) == 0 || lines[0].Requests < 3000 {
			t.Errorf("usage is kept: %+v, %v", lines, err)
		}
	})
}

func TestBodies(t *testing.T) {
	for _, on := range []bool{true, false} {
		st := store.Memory()
		l := openLedger(t, Options{Store: st, Bodies: on, Retention: -1})
		l.Body("req_1", "request", make([]byte, 2*MaxBody))
		l.Close(journey(1))
		if err := l.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		got, err := st.Bodies(ctx, "req_1")
		if err != nil || len(got) == 1 != on || on && len(got[0].Data) != MaxBody {
			t.Errorf("bodies %v: %d kept, %v", on, len(got), err)
		}
	}
}
