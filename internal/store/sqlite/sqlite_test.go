package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"spillway/internal/store"
	"spillway/internal/store/storetest"
)

func openTest(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return openTest(t, t.TempDir()) })
}

// TestP111ReadThenWrite: 8 connections with 50 read-then-write transactions each, all of which must go through. With a
// deferred transaction, or with a busy timeout that the driver ignores, some would fail with SQLITE_BUSY.
func TestP111ReadThenWrite(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	const conns, rounds = 8, 50
	var wg sync.WaitGroup
	for range conns {
		other := openTest(t, dir) // as a second process would: its own writing connection
		wg.Go(func() {
			for range rounds {
				if _, err := other.PutSetting(context.Background(), "n", nil, -1); err != nil { // reads the version, then writes
					t.Errorf("read-then-write: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if _, v, err := s.Setting(context.Background(), "n"); err != nil || v != conns*rounds {
		t.Errorf("version %d, %v; want %d", v, err, conns*rounds)
	}
}

func TestPragmas(t *testing.T) {
	s := openTest(t, t.TempDir())
	for _, c := range []struct {
		db           *sql.DB
		pragma, want string
	}{
		{s.write, "busy_timeout", "30000"}, {s.read, "busy_timeout", "30000"}, {s.write, "journal_mode", "wal"},
		{s.write, "synchronous", "1"}, {s.read, "query_only", "1"},
	} {
		var got string
		if err := c.db.QueryRow("PRAGMA " + c.pragma).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s is %q, %v; want %q", c.pragma, got, err, c.want)
		}
	}
}

func TestFileModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data #1?") // characters that mean something in a URI
	s := openTest(t, dir)
	if _, err := s.PutSetting(context.Background(), "x", nil, 0); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, File): 0o600,
		filepath.Join(dir, File+"-wal"): 0o600} {
		fi, err := os.Stat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, fi.Mode().Perm(), want)
		}
	}
}

func TestMigrateTwiceAndAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := Open(context.Background(), dir)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
	s := openTest(t, dir)
	if _, err := s.write.Exec(`INSERT INTO migrations (n, name) VALUES (99, 'from the future')`); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), dir); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer schema: %v, want a refusal", err)
	}
}
