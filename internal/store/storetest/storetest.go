// Package storetest is the suite that every implementation of [store.Store] passes.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/store"
)

// at is the instant that the suite's rows are made of.
var at = time.Date(2026, 3, 4, 10, 20, 30, 0, time.UTC)

// Run runs the suite; open returns an empty store, closed by the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Store)
	}{
		{"requests", testRequests}, {"filters", testFilters}, {"pages", testPages}, {"attempts", testAttempts},
		{"duplicates", testDuplicates}, {"usage", testUsage}, {"bodies", testBodies}, {"marks", testMarks},
		{"records", testRecords}, {"P112TrimInBatches", testTrim}, {"trim by size", testTrimSize}, {"keys", testKeys},
		{"settings", testSettings}, {"audit", testAudit}, {"models", testModels}, {"buffers are not kept", testBuffers},
		{"concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func request(i int) store.Request {
	return store.Request{ID: gateway.RequestID(fmt.Sprintf("req_%06d", i)), EndedAt: at.Add(time.Duration(i) * time.Second),
		Duration: 1500 * time.Millisecond, ClientKey: "dev", Model: "smart", Target: "openai/gpt-5.1", Connection: "a1",
		Status: 200, Attempts: 1, Usage: gateway.Usage{Input: 10, CachedInput: 4, Output: 5, Reasoning: 2},
		Detail: []byte{1, 0, 255, byte(i)}}
}

func put(t *testing.T, s store.Store, b store.Batch) {
	t.Helper()
	if err := s.Put(context.Background(), &b); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

func many(n int, change func(i int, r *store.Request)) (out []store.Request) {
	for i := range n {
		r := request(i)
		if change != nil {
			change(i, &r)
		}
		out = append(out, r)
	}
	return out
}

// same compares rows; usage of a request is in the ledger and in its detail, not in its row.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(store.Request{}, "Usage", "Cursor"),
		cmpopts.IgnoreFields(store.AuditRow{}, "ID")}
	if d := cmp.Diff(want, got, opts); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}

func ids(rows []store.Request) (out []string) {
	for _, r := range rows {
		out = append(out, string(r.ID))
	}
	return out
}

func testRequests(t *testing.T, s store.Store) {
	ctx := context.Background()
	if _, err := s.Request(ctx, "req_none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown id: %v, want ErrNotFound", err)
	}
	bare := store.Request{ID: "req_bare", EndedAt: at, Status: 400, Code: "invalid_request", Detail: []byte{}}
	rows := append(many(47, nil), bare) // more than one statement takes, and a rest
	put(t, s, store.Batch{Requests: rows})
	for _, want := range rows {
		got, err := s.Request(ctx, want.ID)
		if err != nil {
			t.Fatalf("Request(%s): %v", want.ID, err)
		}
		same(t, "request", got, want)
	}
}

func testFilters(t *testing.T, s store.Store) {
	put(t, s, store.Batch{Requests: many(6, func(i int, r *store.Request) {
		switch i {
		case 1:
			r.ClientKey, r.Model = "ci", "other"
		case 2:
			r.Target, r.Connection = "openai2/gpt-5.1", "b1" // a provider whose name begins like another's
		case 3:
			r.Status, r.Code, r.Outcome = 429, "rate_limited", "rate_limited"
		case 4:
			r.Duration = time.Minute
		}
	})})
	for _, c := range []struct {
		name string
		f    store.Filter
		want []string
	}{
		{"all, newest first", store.Filter{}, []string{"5", "4", "3", "2", "1", "0"}},
		{"limit", store.Filter{Limit: 2}, []string{"5", "4"}},
		{"client key", store.Filter{ClientKey: "ci"}, []string{"1"}},
		{"model", store.Filter{Model: "other"}, []string{"1"}},
		{"provider", store.Filter{Provider: "openai2"}, []string{"2"}},
		{"provider, not its namesake", store.Filter{Provider: "openai"}, []string{"5", "4", "3", "1", "0"}},
		{"connection", store.Filter{Connection: "b1"}, []string{"2"}},
		{"code", store.Filter{Code: "rate_limited"}, []string{"3"}},
		{"status", store.Filter{Status: 429}, []string{"3"}},
		{"failed", store.Filter{Failed: true}, []string{"3"}},
		{"slower", store.Filter{Slower: time.Minute}, []string{"4"}},
		{"since", store.Filter{Since: at.Add(4 * time.Second)}, []string{"5", "4"}},
		{"until", store.Filter{Until: at.Add(time.Second)}, []string{"0"}},
		{"nothing", store.Filter{ClientKey: "ci", Failed: true}, nil},
	} {
		got, err := s.Requests(context.Background(), c.f)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var want []string
		for _, w := range c.want {
			want = append(want, "req_00000"+w)
		}
		same(t, c.name, ids(got), want)
	}
}

func testPages(t *testing.T, s store.Store) {
	put(t, s, store.Batch{Requests: many(25, nil)})
	var seen []string
	f := store.Filter{Limit: 10}
	for range 4 {
		page, err := s.Requests(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, ids(page)...)
		if len(page) > 0 {
			f.After = page[len(page)-1].Cursor
		}
	}
	if len(seen) != 25 || seen[0] != "req_000024" || seen[24] != "req_000000" {
		t.Errorf("pages gave %d rows: %v", len(seen), seen)
	}
}

func testAttempts(t *testing.T, s store.Store) {
	two := request(1)
	two.Attempts, two.Connection = 2, "b1"
	failed := request(2)
	failed.Status, failed.Code, failed.Outcome = 502, "upstream_error", "service_error"
	a := func(r store.Request, n int, conn, outcome string, status int) store.Attempt {
		return store.Attempt{Request: r.ID, N: n, Target: r.Target, Connection: conn, Outcome: outcome, Status: status,
			EndedAt: r.EndedAt, Duration: time.Second}
	}
	rows := []store.Attempt{a(two, 1, "a1", "service_error", 503), a(two, 2, "b1", "success", 200),
		a(failed, 1, "a1", "service_error", 500)}
	put(t, s, store.Batch{Requests: []store.Request{request(0), two, failed}, Attempts: rows})
	inline := a(request(0), 1, "a1", "success", 200)
	inline.Duration = request(0).Duration
	got, err := s.Attempts(context.Background(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "attempts", got, []store.Attempt{rows[2], rows[0], rows[1], inline})
	if got, err = s.Attempts(context.Background(), store.Filter{Connection: "b1"}); err != nil {
		t.Fatal(err)
	}
	same(t, "attempts of a connection", got, []store.Attempt{rows[1]})
}

func testDuplicates(t *testing.T, s store.Store) {
	put(t, s, store.Batch{Requests: many(30, nil)})
	changed := many(60, func(i int, r *store.Request) { r.Status = 500 })
	put(t, s, store.Batch{Requests: append(changed, changed[59])})
	got, err := s.Request(context.Background(), "req_000003")
	if err != nil || got.Status != 200 {
		t.Errorf("the first row must stay: %+v, %v", got, err)
	}
	use, err := s.Usage(context.Background(), at.Add(-time.Hour), at.Add(time.Hour))
	if err != nil || len(use) != 1 || use[0].Requests != 60 {
		t.Errorf("usage counts each request once: %+v, %v", use, err)
	}
}

func testUsage(t *testing.T, s store.Store) {
	hour := at.Truncate(time.Hour)
	put(t, s, store.Batch{Requests: many(3, func(i int, r *store.Request) {
		if i == 2 {
			r.Code, r.Usage.Estimated = "upstream_error", true
		}
	})})
	late := request(9)
	late.EndedAt = at.Add(time.Hour)
	put(t, s, store.Batch{Requests: []store.Request{late}, Usage: []store.Usage{{Hour: hour, ClientKey: "dev",
		Target: "openai/gpt-5.1", Connection: "a1", Requests: 7, Failed: 1, Input: 100}}})
	want := []store.Usage{
		{Hour: hour, ClientKey: "dev", Target: "openai/gpt-5.1", Connection: "a1", Requests: 10, Failed: 2, Input: 130,
			CachedInput: 12, Output: 15, Reasoning: 6, Estimated: 1},
		{Hour: hour.Add(time.Hour), ClientKey: "dev", Target: "openai/gpt-5.1", Connection: "a1", Requests: 1, Input: 10,
			CachedInput: 4, Output: 5, Reasoning: 2},
	}
	got, err := s.Usage(context.Background(), hour, hour.Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "usage", got, want)
	if got, err = s.Usage(context.Background(), hour.Add(time.Hour), hour.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	same(t, "usage of one hour", got, want[1:])
}

func testBodies(t *testing.T, s store.Store) {
	rows := []store.Body{{Request: "req_1", Part: "answer", At: at, Data: []byte("{}")},
		{Request: "req_1", Part: "request", At: at, Data: []byte(`{"a":1}`)}}
	put(t, s, store.Batch{Bodies: rows})
	put(t, s, store.Batch{Bodies: []store.Body{{Request: "req_1", Part: "answer", At: at, Data: []byte("late")}}})
	got, err := s.Bodies(context.Background(), "req_1")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "bodies", got, rows)
}

func testMarks(t *testing.T, s store.Store) {
	put(t, s, store.Batch{Mark: store.Mark{Segment: "a", Offset: 10}})
	put(t, s, store.Batch{Mark: store.Mark{Segment: "a", Offset: 7}})
	put(t, s, store.Batch{Mark: store.Mark{Segment: "b", Offset: 3}})
	got, err := s.Marks(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "marks", got, []store.Mark{{Segment: "a", Offset: 10}, {Segment: "b", Offset: 3}})
	put(t, s, store.Batch{Done: []string{"a"}})
	if got, err = s.Marks(context.Background()); err != nil {
		t.Fatal(err)
	}
	same(t, "marks after done", got, []store.Mark{{Segment: "b", Offset: 3}})
}

func testRecords(t *testing.T, s store.Store) {
	rec := func(key, value string, after time.Duration) resilience.Record {
		return resilience.Record{Room: "cooldown", Key: key, Value: []byte(value), At: at.Add(after)}
	}
	list := func() []resilience.Record {
		t.Helper()
		got, err := s.Records(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	put(t, s, store.Batch{Records: []resilience.Record{rec("a", "1", 2), rec("b", "1", 1), rec("a", "old", 1)}})
	put(t, s, store.Batch{Records: []resilience.Record{rec("b", "2", 1)}})
	same(t, "an older write loses, a later one of the same instant wins", list(),
		[]resilience.Record{rec("a", "1", 2), rec("b", "2", 1)})
	put(t, s, store.Batch{Records: []resilience.Record{rec("a", "", 5)}})
	same(t, "deleted", list(), []resilience.Record{rec("b", "2", 1)})
	put(t, s, store.Batch{Records: []resilience.Record{rec("a", "late", 4)}})
	same(t, "a late write does not bring back what was deleted", list(), []resilience.Record{rec("b", "2", 1)})
	put(t, s, store.Batch{Records: []resilience.Record{rec("a", "new", 6)}})
	same(t, "a newer one does", list(), []resilience.Record{rec("a", "new", 6), rec("b", "2", 1)})
}

// testTrim deletes more rows than fit one statement's parameters (P112) and leaves nothing behind.
func testTrim(t *testing.T, s store.Store) {
	const n = 4000
	var b store.Batch
	b.Requests = many(n, func(i int, r *store.Request) {
		if i%10 == 0 {
			r.Attempts = 2
			b.Attempts = append(b.Attempts, store.Attempt{Request: r.ID, N: 1, Outcome: "timeout", EndedAt: r.EndedAt},
				store.Attempt{Request: r.ID, N: 2, Outcome: "success", EndedAt: r.EndedAt})
			b.Bodies = append(b.Bodies, store.Body{Request: r.ID, Part: "request", At: r.EndedAt, Data: []byte("x")})
		}
	})
	put(t, s, b)
	cut, left := at.Add((n-100)*time.Second), n
	for range n {
		got, err := s.Trim(context.Background(), cut, 0, 400)
		if err != nil {
			t.Fatal(err)
		}
		left -= got
		if got < 400 {
			break
		}
	}
	if left != 100 {
		t.Errorf("%d rows left, want 100", left)
	}
	if got, err := s.Trim(context.Background(), cut, 0, 400); err != nil || got != 0 {
		t.Errorf("a second trim deleted %d, %v", got, err)
	}
	rows, err := s.Requests(context.Background(), store.Filter{Limit: 1000})
	if err != nil || len(rows) != 100 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if bodies, err := s.Bodies(context.Background(), "req_000000"); err != nil || len(bodies) != 0 {
		t.Errorf("bodies of a deleted request: %v, %v", bodies, err)
	}
	attempts, err := s.Attempts(context.Background(), store.Filter{Limit: 1000})
	if err != nil || len(attempts) != 110 {
		t.Errorf("%d attempts, want 110, %v", len(attempts), err)
	}
	use, err := s.Usage(context.Background(), time.Unix(0, 0), at.Add(24*time.Hour))
	var sum int64
	for _, u := range use {
		sum += u.Requests
	}
	if err != nil || sum != n {
		t.Errorf("usage after trim counts %d, want %d, %v", sum, n, err)
	}
}

func testTrimSize(t *testing.T, s store.Store) {
	put(t, s, store.Batch{Requests: many(2000, func(i int, r *store.Request) { r.Detail = make([]byte, 1000) })})
	deleted := 0
	for range 100 {
		n, err := s.Trim(context.Background(), time.Time{}, 1<<20, 100)
		if err != nil {
			t.Fatal(err)
		}
		if deleted += n; n == 0 {
			break
		}
	}
	if deleted < 500 || deleted > 1900 {
		t.Errorf("deleted %d of 2000 rows of about 1.2 KB to get below 1 MiB", deleted)
	}
	if _, err := s.Request(context.Background(), "req_001999"); err != nil {
		t.Errorf("the newest must stay: %v", err)
	}
}

func testKeys(t *testing.T, s store.Store) {
	ctx := context.Background()
	k := store.Key{ClientKey: gateway.ClientKey{Name: "dev", Hash: [32]byte{1, 2, 3}, Scopes: []string{"inference", "diagnostics"},
		Models: []string{"gpt-*"}, Connections: []gateway.ConnectionID{"a1"}, RPM: 60}, CreatedAt: at}
	other := store.Key{ClientKey: gateway.ClientKey{Name: "ci", Hash: [32]byte{9}}, CreatedAt: at}
	for _, key := range []store.Key{k, other} {
		if err := s.CreateKey(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	twice := k
	twice.Name = "dev2"
	for _, key := range []store.Key{k, twice} {
		if err := s.CreateKey(ctx, key); !errors.Is(err, store.ErrExists) {
			t.Errorf("CreateKey(%s) twice: %v, want ErrExists", key.Name, err)
		}
	}
	if err := s.RevokeKey(ctx, "dev", at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeKey(ctx, "dev", at.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeKey(ctx, "nobody", at); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("RevokeKey of none: %v", err)
	}
	k.RevokedAt = at.Add(time.Hour)
	got, err := s.ListKeys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "keys", got, []store.Key{other, k})
}

func testSettings(t *testing.T, s store.Store) {
	ctx := context.Background()
	if _, _, err := s.Setting(ctx, "token"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown setting: %v", err)
	}
	for i, c := range []struct {
		version, want int64
		err           error
	}{{1, 0, store.ErrConflict}, {0, 1, nil}, {0, 0, store.ErrConflict}, {1, 2, nil}, {1, 0, store.ErrConflict}, {-1, 3, nil}} {
		got, err := s.PutSetting(ctx, "token", fmt.Appendf(nil, "v%d", i), c.version)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("step %d: version %d, %v; want %d, %v", i, got, err, c.want, c.err)
		}
	}
	value, version, err := s.Setting(ctx, "token")
	if string(value) != "v5" || version != 3 || err != nil {
		t.Errorf("got %q, %d, %v", value, version, err)
	}
}

func testAudit(t *testing.T, s store.Store) {
	ctx := context.Background()
	var want []store.AuditRow
	for i := range 5 {
		r := store.AuditRow{At: at.Add(time.Duration(i) * time.Second), Who: "token", What: fmt.Sprint("change ", i), After: []byte("{}")}
		if err := s.AppendAudit(ctx, r); err != nil {
			t.Fatal(err)
		}
		want = append([]store.AuditRow{r}, want...)
	}
	page, err := s.ListAudit(ctx, 0, 3)
	if err != nil || len(page) != 3 {
		t.Fatalf("%d rows, %v", len(page), err)
	}
	rest, err := s.ListAudit(ctx, page[2].ID, 3)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "audit", append(page, rest...), want)
}

func testModels(t *testing.T, s store.Store) {
	ctx := context.Background()
	if err := s.PutModels(ctx, "openai", []byte(`["a"]`), at); err != nil {
		t.Fatal(err)
	}
	if err := s.PutModels(ctx, "openai", []byte(`["a","b"]`), at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Models(ctx, "openai", at); err != nil || string(got) != `["a","b"]` {
		t.Errorf("got %q, %v", got, err)
	}
	for _, c := range []struct {
		name string
		now  time.Time
	}{{"openai", at.Add(time.Hour)}, {"other", at}} {
		if _, err := s.Models(ctx, c.name, c.now); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s at %v: %v, want ErrNotFound", c.name, c.now, err)
		}
	}
}

func testBuffers(t *testing.T, s store.Store) {
	ctx := context.Background()
	buf := []byte("detail")
	r := request(0)
	r.Detail = buf
	put(t, s, store.Batch{Requests: []store.Request{r}, Records: []resilience.Record{{Room: "r", Key: "k", Value: buf, At: at}},
		Bodies: []store.Body{{Request: r.ID, Part: "request", At: at, Data: buf}}})
	copy(buf, "XXXXXX")
	got, _ := s.Request(ctx, r.ID)
	recs, _ := s.Records(ctx)
	bodies, _ := s.Bodies(ctx, r.ID)
	if len(recs) != 1 || len(bodies) != 1 {
		t.Fatalf("%d records, %d bodies", len(recs), len(bodies))
	}
	for _, b := range [][]byte{got.Detail, recs[0].Value, bodies[0].Data} {
		if !bytes.Equal(b, []byte("detail")) {
			t.Errorf("kept the caller's buffer: %q", b)
		}
	}
}

// testConcurrent has writers and readers at once; afterwards everything is there once.
func testConcurrent(t *testing.T, s store.Store) {
	ctx := context.Background()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				if err := s.Put(ctx, &store.Batch{Requests: []store.Request{request(w*1000 + i)}}); err != nil {
					t.Errorf("Put: %v", err)
				}
				if _, err := s.PutSetting(ctx, "counter", nil, -1); err != nil {
					t.Errorf("PutSetting: %v", err)
				}
				if _, err := s.Requests(ctx, store.Filter{Limit: 5}); err != nil {
					t.Errorf("Requests: %v", err)
				}
			}
		})
	}
	wg.Wait()
	rows, err := s.Requests(ctx, store.Filter{Limit: 1000})
	if err != nil || len(rows) != 100 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if _, v, err := s.Setting(ctx, "counter"); err != nil || v != 100 {
		t.Errorf("version %d, %v", v, err)
	}
}
