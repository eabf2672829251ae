package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func openTest(t testing.TB, opt Options) *Journal {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	j, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// readAll reads what is written and not read, as strings.
func readAll(t testing.TB, r *Reader) (out []string) {
	t.Helper()
	for {
		recs, err := r.Next(7)
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 && r.Lag() == 0 {
			return out
		}
		for _, rec := range recs {
			out = append(out, string(rec))
		}
	}
}

// crash gives up the file locks as the end of a process would, without flushing or deleting anything.
func crash(j *Journal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	close(j.quit)
	closeAll(j.segs)
	closeAll(j.old)
	j.segs, j.old = nil, nil
}

// leftBehind scans all segments of dead processes.
func leftBehind(t testing.TB, j *Journal) (out []string) {
	t.Helper()
	for _, l := range j.Left() {
		data, err := l.Read()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Scan(data, func(_ int64, rec []byte) error { out = append(out, string(rec)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestThroughIsInTheFile(t *testing.T) {
	for _, sync := range []bool{false, true} {
		dir := t.TempDir()
		j := openTest(t, Options{Dir: dir, Sync: sync})
		for i := range 20 {
			if err := j.Append(fmt.Appendf(nil, "record %d", i), true); err != nil {
				t.Fatal(err)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "*.journal"))
			b, err := os.ReadFile(files[0])
			if err != nil || !bytes.Contains(b, fmt.Appendf(nil, "record %d", i)) {
				t.Fatalf("sync=%v: record %d is not in the file when Append returns", sync, i)
			}
		}
		j.Close()
	}
}

// TestLateRecordsAreWrittenSoon: an intent that travels with no other record is written within FlushAfter.
func TestLateRecordsAreWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openTest(t, Options{})
		j.Append([]byte("settled"), true)
		j.Append([]byte("intent"), false) // within a millisecond of a write: stays in memory
		if j.Stats().Pending == 0 {
			t.Fatal("the intent was written at once; this test is about the other case")
		}
		time.Sleep(FlushAfter + time.Millisecond)
		synctest.Wait()
		if p := j.Stats().Pending; p != 0 {
			t.Errorf("%d bytes are still in memory", p)
		}
		time.Sleep(time.Minute)
		j.mu.Lock()
		if j.armed {
			t.Error("the flusher still ticks although there is nothing to do")
		}
		j.mu.Unlock()
		j.Append([]byte("lonely"), false) // nothing was written lately: at once
		if p := j.Stats().Pending; p != 0 {
			t.Errorf("%d bytes are in memory", p)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestConcurrentAppendAndRead(t *testing.T) {
	for _, sync := range []bool{false, true} {
		testConcurrent(t, sync)
	}
}

func testConcurrent(t *testing.T, syncs bool) {
	const writers, each = 8, 300
	j := openTest(t, Options{SegmentBytes: 4096, Sync: syncs})
	r := j.Reader()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := j.Append(fmt.Appendf(nil, "%d-%d", w, i), i%3 != 0); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	seen := map[string]int{}
	last := map[byte]int{}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for finished := false; !finished; {
		select {
		case <-done:
			finished = true
			if err := j.Flush(); err != nil {
				t.Fatal(err)
			}
		default:
		}
		for _, rec := range readAll(t, r) {
			seen[rec]++
			var w, i int
			fmt.Sscanf(rec, "%d-%d", &w, &i)
			if i < last[byte(w)] {
				t.Fatalf("writer %d: record %d after %d", w, i, last[byte(w)])
			}
			last[byte(w)] = i
		}
		if _, err := j.Release(r.Pos()); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != writers*each {
		t.Errorf("read %d of %d records", len(seen), writers*each)
	}
	for rec, n := range seen {
		if n != 1 {
			t.Errorf("%s was read %d times", rec, n)
		}
	}
	if n := len(j.segs); n != 1 {
		t.Errorf("%d segments are left after everything was released", n)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(j.opt.Dir, "*.journal")); len(files) != 0 {
		t.Errorf("files left after a clean close: %v", files)
	}
}

func TestRotationCarries(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, Options{Dir: dir, SegmentBytes: 1024})
	j.CarryFrom(func(add func([]byte)) { add([]byte("still open")) })
	r := j.Reader()
	for i := range 100 {
		j.Append(fmt.Appendf(nil, "record %d %s", i, strings.Repeat("x", 50)), true)
	}
	readAll(t, r)
	deleted, err := j.Release(r.Pos())
	if err != nil || len(deleted) == 0 {
		t.Fatalf("deleted %v, %v", deleted, err)
	}
	crash(j)
	j2 := openTest(t, Options{Dir: dir})
	if got := leftBehind(t, j2); len(got) == 0 || got[0] != "still open" {
		t.Errorf("left behind: %q", got)
	}
}

func TestCrashThenAdopt(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, Options{Dir: dir})
	j.Append([]byte("one"), true)
	alive := openTest(t, Options{Dir: dir}) // a second process while the first lives
	if n := len(alive.Left()); n != 0 {
		t.Fatalf("took %d segments from a living process", n)
	}
	crash(j)
	next := openTest(t, Options{Dir: dir})
	if got := leftBehind(t, next); len(got) != 1 || got[0] != "one" {
		t.Fatalf("left behind: %q", got)
	}
	if err := next.Forget(next.Left()[0].Name); err != nil {
		t.Fatal(err)
	}
	next.Close()
	alive.Close()
	if got := leftBehind(t, openTest(t, Options{Dir: dir})); len(got) != 0 {
		t.Errorf("came back after Forget: %q", got)
	}
}

func TestFullDiskNeverFailsTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openTest(t, Options{})
		j.Append([]byte("before"), true)
		good := j.segs[0].file
		bad, err := os.Open(good.Name()) // read-only: every write fails
		if err != nil {
			t.Fatal(err)
		}
		j.segs[0].file = bad
		for i := range 50 {
			if err := j.Append(fmt.Appendf(nil, "during %d", i), true); err != nil && !errors.Is(err, ErrLate) {
				t.Fatal(err)
			}
		}
		if s := j.Stats(); s.Errors == 0 || s.Pending == 0 || s.LastFail == "" {
			t.Errorf("trouble is not visible: %+v", s)
		}
		big := make([]byte, MaxRecord)
		err = nil
		for i := 0; i < 100 && (err == nil || errors.Is(err, ErrLate)); i++ {
			err = j.Append(big, true)
		}
		if !errors.Is(err, ErrFull) || j.Stats().Pending > maxPending {
			t.Errorf("%v with %d bytes in memory, want ErrFull within bounds", err, j.Stats().Pending)
		}
		synctest.Wait()
		j.mu.Lock()
		j.segs[0].file = good
		j.mu.Unlock()
		time.Sleep(time.Second) // the flusher tries again by itself
		synctest.Wait()
		bad.Close()
		got := readAll(t, j.Reader())
		if len(got) < 51 || got[0] != "before" || got[1] != "during 0" || got[50] != "during 49" {
			t.Errorf("%d records after the disk came back", len(got))
		}
		j.Close()
	})
}

func TestBoundedOnDisk(t *testing.T) {
	j := openTest(t, Options{MaxBytes: 64 << 10})
	r := j.Reader()
	rec := make([]byte, 1000)
	n := 0
	for ; n < 1000; n++ {
		if err := j.Append(rec, true); err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if n == 1000 || j.Fill() < 0.9 {
		t.Fatalf("%d records taken, fill %.2f", n, j.Fill())
	}
	readAll(t, r)
	if _, err := j.Release(r.Pos()); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(rec, true); err != nil || j.Fill() > 0.5 {
		t.Errorf("after release: %v, fill %.2f", err, j.Fill())
	}
	if err := j.Append(make([]byte, MaxRecord+1), true); !errors.Is(err, ErrSize) {
		t.Errorf("too large: %v", err)
	}
	j.Close()
	if err := j.Append(rec, true); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestScanDamage: whatever is damaged, what stands before it is read, and so is what stands behind it.
func TestScanDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 60), 1, 20).Draw(t, "records")
		data := bytes.Clone(magic)
		var ends []int
		for _, r := range recs {
			data = appendFrame(data, r)
			ends = append(ends, len(data))
		}
		cut := rapid.IntRange(len(magic), len(data)).Draw(t, "cut")
		flip := rapid.IntRange(len(magic), len(data)-1).Draw(t, "flip")
		torn := bytes.Clone(data[:cut])
		var got [][]byte
		if _, err := Scan(torn, func(_ int64, r []byte) error { got = append(got, bytes.Clone(r)); return nil }); err != nil {
			t.Fatal(err)
		}
		for i := range recs {
			if ends[i] <= cut && (i >= len(got) || !bytes.Equal(got[i], recs[i])) {
				t.Fatalf("record %d stands before the torn end and is lost", i)
			}
		}
		data[flip] ^= 0x40
		read := map[string]int{}
		if _, err := Scan(data, func(_ int64, r []byte) error { read[string(r)]++; return nil }); err != nil {
			t.Fatal(err)
		}
		for i, r := range recs {
			begin := len(magic)
			if i > 0 {
				begin = ends[i-1]
			}
			if hit := flip >= begin && flip < ends[i]; !hit {
				if read[string(r)]--; read[string(r)] < 0 {
					t.Fatalf("record %d is intact and lost", i)
				}
			}
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add(appendFrame(bytes.Clone(magic), []byte("hello")), 3)
	f.Add([]byte{markA, markB, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, tail []byte, n int) {
		// A sound record, then anything: the sound one is always read, nothing panics.
		data := append(appendFrame(bytes.Clone(magic), []byte("sound")), tail...)
		first := true
		skipped, err := Scan(data, func(end int64, rec []byte) error {
			if first && string(rec) != "sound" {
				t.Errorf("first record is %q", rec)
			}
			first = false
			return nil
		})
		if err != nil || first || skipped > int64(len(tail)) {
			t.Errorf("%v, skipped %d of %d, read=%v", err, skipped, len(tail), !first)
		}
		Scan(tail, func(int64, []byte) error { return nil })
	})
}

func BenchmarkAppend(b *testing.B) {
	j := openTest(b, Options{MaxBytes: 1 << 40})
	rec := make([]byte, 200)
	r := j.Reader()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := j.Append(rec, true); err != nil {
			b.Fatal(err)
		}
		if n++; n%50000 == 0 {
			b.StopTimer()
			readAll(b, r)
			j.Release(r.Pos())
			b.StartTimer()
		}
	}
}
