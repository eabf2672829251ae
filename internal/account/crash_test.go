package account

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/journal"
	"spillway/internal/resilience"
	"spillway/internal/store"
	"spillway/internal/store/sqlite"
)

const crashEnv = "SPILLWAY_TEST_CRASH_DIR"

func crashDir() string { return os.Getenv(crashEnv) }

// crashChild runs requests until it is killed. It says "begun ID" once an intent must survive, "done ID" once a
// settlement must, and "kept N" for room records; each line is one write.
func crashChild(dir string) {
	st, err := sqlite.Open(context.Background(), dir)
	if err != nil {
		panic(err)
	}
	jr, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), SegmentBytes: 64 << 10})
	if err != nil {
		panic(err)
	}
	l := New(Options{Journal: jr, Store: st})
	if err := l.Open(context.Background()); err != nil {
		panic(err)
	}
	keep := l.Keep()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				j := benchJourney(time.Now())
				l.Begin(j)
				if w == 0 && i%50 == 0 { // a long one: its intent travels through many segments
					go func() {
						time.Sleep(4 * journal.FlushAfter)
						fmt.Println("begun", j.ID)
					}()
					continue
				}
				if w == 1 {
					keep(resilience.Record{Room: "breaker", Key: "a", Value: fmt.Append(nil, i+1), At: time.Now()})
					fmt.Println("kept", i+1)
				}
				l.Close(j)
				fmt.Println("done", j.ID)
			}
		})
	}
	wg.Wait()
}

// TestKillNine kills a process that accounts for requests, at random moments, several times over the same data: every
// request that it said was done is there once with its tokens, every one that it said had begun is shown as
// interrupted, and the newest room record is back.
func TestKillNine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("file locks do not work there; one process per directory is the operator's duty")
		return
	}
	dir := t.TempDir()
	done, begun := map[gateway.RequestID]bool{}, map[gateway.RequestID]bool{}
	kept := 0
	for range 6 {
		kept = runAndKill(t, dir, time.Duration(40+rand.IntN(200))*time.Millisecond, done, begun)
	}
	if len(done) < 100 || len(begun) == 0 || kept == 0 {
		t.Fatalf("the child did too little: %d done, %d begun, %d kept", len(done), len(begun), kept)
	}
	st, err := sqlite.Open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for range 2 { // a second start changes nothing
		l := openLedger(t, Options{Journal: openJournal(t, journal.Options{Dir: filepath.Join(dir, "journal")}), Store: st})
		checkAfterKill(t, l, st, done, begun, kept)
		if err := l.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "journal", "*")); len(files) != 0 {
		t.Errorf("journal files are left: %v", files)
	}
	if marks, err := st.Marks(ctx); err != nil || len(marks) != 0 {
		t.Errorf("marks are left: %v, %v", marks, err)
	}
}

// runAndKill runs a child for a while, kills it with SIGKILL and adds what it said to done and begun.
func runAndKill(t *testing.T, dir string, life time.Duration, done, begun map[gateway.RequestID]bool) (kept int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	started := false
	for lines.Scan() {
		if !started { // its life begins with its first word
			started = true
			timer := time.AfterFunc(life, func() { cmd.Process.Kill() })
			defer timer.Stop()
		}
		verb, id, ok := strings.Cut(lines.Text(), " ")
		switch {
		case !ok:
		case verb == "done" && len(id) == 28: // a whole line
			done[gateway.RequestID(id)] = true
		case verb == "begun" && len(id) == 28:
			begun[gateway.RequestID(id)] = true
		case verb == "kept":
			fmt.Sscan(id, &kept)
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the child was not killed: %v", cmd.ProcessState)
	}
	return kept
}

func checkAfterKill(t *testing.T, l *Ledger, st *sqlite.Store, done, begun map[gateway.RequestID]bool, kept int) {
	t.Helper()
	logged := map[gateway.RequestID]*gateway.Journey{}
	interrupted := int64(0)
	for f := (store.Filter{Limit: 1000}); ; {
		page, next, err := l.Recent(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page {
			if logged[j.ID] != nil {
				t.Errorf("%s is in the log twice", j.ID)
			}
			logged[j.ID] = j
			if j.Code == string(Interrupted) {
				interrupted++
			}
		}
		if f.After = next; next == 0 {
			break
		}
	}
	rows, lost, wrong := int64(len(logged)), 0, 0
	for id := range done {
		switch j := logged[id]; {
		case j == nil:
			lost++
		case j.Code != "" || j.Usage.Input != 1200 || len(j.Attempts) != 1:
			wrong++
		}
	}
	for id := range begun {
		switch j := logged[id]; {
		case done[id]:
		case j == nil:
			lost++
		case j.Code != string(Interrupted) || j.Model != "smart":
			wrong++
		}
	}
	if lost+wrong > 0 {
		t.Errorf("of %d done and %d begun requests %d are lost and %d are wrong", len(done), len(begun), lost, wrong)
	}
	// The ledger agrees with the rows: each was counted once.
	lines, err := st.Usage(ctx, time.Unix(0, 0), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var sum store.Usage
	for _, u := range lines {
		sum.Requests += u.Requests
		sum.Failed += u.Failed
		sum.Input += u.Input
	}
	if sum.Requests != rows || sum.Failed != interrupted || sum.Input < 1200*(rows-interrupted) {
		t.Errorf("%d rows, %d interrupted, but the ledger says %+v", rows, interrupted, sum)
	}
	recs, err := l.Records(ctx)
	if err != nil || len(recs) != 1 {
		t.Fatalf("records %v, %v", recs, err)
	}
	var got int
	if fmt.Sscan(string(recs[0].Value), &got); got < kept {
		t.Errorf("room record %d, the child said %d was kept", got, kept)
	}
}

// TestIntentSurvivesRotation: a request outlives the segments in which it began; after a crash it is still known, and
// one that ended long ago is not brought back. The crash is a copy of the files: what kill -9 would leave.
func TestIntentSurvivesRotation(t *testing.T) {
	st, dir, after := store.Memory(), t.TempDir(), t.TempDir()
	l := openLedger(t, Options{Store: st, Retention: -1, Journal: openJournal(t, journal.Options{Dir: dir, SegmentBytes: 8 << 10})})
	long, cutOff := journey(900001), journey(900002)
	long.Attempts, cutOff.Attempts = nil, nil
	l.Begin(long)
	l.Begin(cutOff)
	begun := cutOff.ID
	cutOff.Attempts = []gateway.Attempt{{N: 1, Connection: "openai-1", BeganAt: t0}}
	cutOff.Usage = gateway.Usage{}
	l.Begin(cutOff) // again, at dispatch: the interruption tells more
	for i := range 500 {
		j := journey(i)
		l.Begin(j)
		l.Close(j)
		if i%100 == 99 {
			if err := l.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.Close(long)
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if l.way.Mark().Segment[len(l.way.Mark().Segment)-len("-00000001.journal"):] == "-00000001.journal" {
		t.Fatal("no segment was finished: the test proves nothing")
	}
	if err := os.CopyFS(filepath.Join(after, "journal"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	l2 := openLedger(t, Options{Store: st, Retention: -1, Journal: openJournal(t, journal.Options{Dir: filepath.Join(after, "journal")})})
	got, err := l2.Get(ctx, begun)
	if err != nil || got.Code != string(Interrupted) || got.Usage != (gateway.Usage{Input: 1180, Estimated: true}) {
		t.Errorf("the request that was cut off: %+v, %v", got, err)
	}
	if got, err := l2.Get(ctx, long.ID); err != nil || got.Code != "" {
		t.Errorf("the request that ended: %+v, %v", got, err)
	}
	if tot := l2.Totals(); tot.Interrupted != 1 || tot.Stored != 1 {
		t.Errorf("%+v", tot)
	}
	if sum := usageOf(t, st); sum.Requests != 502 {
		t.Errorf("usage counts %d requests, want 502", sum.Requests)
	}
}
