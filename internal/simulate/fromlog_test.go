package simulate

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/internal/account"
	"spillway/internal/app"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/local"
	"spillway/internal/lab/scenario"
	"spillway/internal/simulate/record"
	"spillway/internal/store"
	"spillway/internal/store/sqlite"
	"spillway/internal/view"
)

// logged simulates a scenario and returns its report and its decision logs.
func logged(t *testing.T, name string) (r lab.RunReport, list []*gateway.Journey) {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	kept := store.Memory()
	err = InVirtualTime(func() (err error) {
		net := local.New()
		net.Travel = travel
		r, err = lab.RunScenario(context.Background(), lab.RunOptions{Scenario: s, Short: true, Net: net,
			Start: func(ctx context.Context, yaml []byte) (string, func(), error) {
				a, err := app.Open(ctx, app.Options{Store: kept, Transport: net, NoListener: true,
					Source: config.Source{Path: "t.yaml", Bytes: yaml, Env: func(string) (string, bool) { return "", false }}})
				if err != nil {
					return "", nil, err
				}
				net.Add(gatewayHost, local.Host{Handler: a.Handler()})
				return "http://" + gatewayHost, func() { _ = a.Close(ctx) }, nil
			}})
		if err == nil {
			err = net.Wait()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := store.Filter{Limit: 1000}
	for {
		page, next, err := account.Page(t.Context(), kept, f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page...)
		if next == 0 {
			return r, list
		}
		f.After = next
	}
}

// TestReplayOfALog: a log that is replayed under the settings that it was made under tells of the same success, of about
// as many attempts and of about the same times. Where two sources of different speed share the load, as in flap, half
// of the calls go to each: then the median lies at the one's or at the other's, and a few calls more or less decide at
// which. So what is compared is the mean of several replays, with more room for the median of the first content than
// for the time to the end, of which the sources' difference is a small part.
func TestReplayOfALog(t *testing.T) {
	for _, name := range []string{"flap", "account-429-storm", "correlated-bursts", "bad-key-rotation", "divergent"} {
		t.Run(name, func(t *testing.T) {
			was, list := logged(t, name)
			log := record.New(list)
			if log.Len() != was.Calls {
				t.Fatalf("%d of %d requests are replayed, left out %v", log.Len(), was.Calls, log.LeftOut)
			}
			s, err := log.Scenario("log")
			if err != nil {
				t.Fatal(err)
			}
			const replays = 5
			var mean lab.RunReport
			for range replays {
				reports, err := Run(t.Context(), Options{Scenario: s})
				if err != nil {
					t.Fatal(err)
				}
				r := reports[0]
				if r.Calls != was.Calls || math.Abs(share(r.Success, r.Calls)-share(was.Success, was.Calls)) > 0.02 {
					t.Errorf("success %d of %d, was %d of %d", r.Success, r.Calls, was.Success, was.Calls)
				}
				mean.AttemptsPerCall += r.AttemptsPerCall / replays
				mean.TTFCP50 += r.TTFCP50 / replays
				mean.EndP50 += r.EndP50 / replays
			}
			for _, c := range []struct {
				what     string
				got, was float64
				off      float64 // share of was
			}{
				{"attempts per call", mean.AttemptsPerCall, was.AttemptsPerCall, 0.07 / was.AttemptsPerCall},
				{"first content p50 ms", mean.TTFCP50, was.TTFCP50, 0.5},
				{"end p50 ms", mean.EndP50, was.EndP50, 0.2},
			} {
				t.Logf("%s: was %.3f, replayed %.3f", c.what, c.was, c.got)
				if math.Abs(c.got-c.was) > c.off*c.was {
					t.Errorf("%s: %.3f, was %.3f", c.what, c.got, c.was)
				}
			}
		})
	}
}

// TestLogsFromEveryPlace: a data directory, its file, JSON one by one and in an array tell the same.
func TestLogsFromEveryPlace(t *testing.T) {
	_, list := logged(t, "quota-wall")
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ledger := account.New(account.Options{Store: db})
	if err := ledger.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	var array []view.Request
	for _, j := range list {
		ledger.Begin(j)
		ledger.Close(j)
		array = append(array, view.JSON(j))
		if err := json.NewEncoder(&lines).Encode(view.JSON(j)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ledger.Flush(t.Context()); err != nil { // the database stays open, as that of a running gateway
		t.Fatal(err)
	}
	defer db.Close()
	defer ledger.Stop(context.WithoutCancel(t.Context()))
	one, all := filepath.Join(dir, "one.json"), filepath.Join(dir, "all.json")
	b, err := json.Marshal(array)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{one: []byte(lines.String()), all: b} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := record.New(list).Logged()
	for _, path := range []string{dir, filepath.Join(dir, sqlite.File), one, all} {
		log, err := record.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if got := log.Logged(); got.Calls != want.Calls || got.Answered != want.Answered || got.Attempts != want.Attempts {
			t.Errorf("%s: %d, %d, %d, want %d, %d, %d", path, got.Calls, got.Answered, got.Attempts, want.Calls, want.Answered, want.Attempts)
		}
		if _, err := log.Scenario("log"); err != nil {
			t.Error(err)
		}
	}
	if _, err := record.Open(t.Context(), filepath.Join(dir, "none")); err == nil {
		t.Error("a log that is not there was opened")
	}
}

func share(a, b int) float64 { return float64(a) / float64(b) }
