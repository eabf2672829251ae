package simulate

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/internal/lab"
	"spillway/internal/lab/scenario"
)

func load(t *testing.T, name string) scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestShippedScenariosHold plays every shipped scenario in whole, under the default settings; with the race detector in
// its short form, which takes the same ways.
func TestShippedScenariosHold(t *testing.T) {
	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			reports, err := Run(t.Context(), Options{Scenario: load(t, name), Short: raced})
			if err != nil {
				t.Fatal(err)
			}
			r := reports[0]
			for _, h := range r.Holds {
				if !h.OK {
					t.Errorf("%s is %.4g, limit %s", h.What, h.Value, h.Limit)
				}
			}
			if t.Failed() {
				var b bytes.Buffer
				_ = lab.WriteTable(&b, r)
				t.Log(b.String())
			}
		})
	}
}

// TestP6WithOneNumberOfWorkers plays the soak with 64 and with 100 workers from beginning to end, with other luck too;
// with the race detector a quarter of it.
func TestP6WithOneNumberOfWorkers(t *testing.T) {
	calls := 8000
	if raced {
		calls = 2000
	}
	for workers, seed := range map[int]uint64{64: 6, 100: 7} {
		reports, err := Run(t.Context(), Options{Scenario: load(t, "p6"), Calls: calls, Workers: workers, Seed: &seed})
		if err != nil {
			t.Fatal(err)
		}
		r := reports[0]
		if r.Calls != calls || !r.OK() {
			t.Errorf("%d workers, seed %d: %d calls, %+v", workers, seed, r.Calls, r.Holds)
		}
		for _, h := range r.Holds {
			if !raced && h.What == "attempts_vs_oracle" && h.Value > 1.1 { // the scenario itself allows for a short form
				t.Errorf("%d workers, seed %d: %.3f times the oracle's attempts", workers, seed, h.Value)
			}
		}
	}
}

// TestPresets: every preset plays, and isolation is worth something: plain round-robin does worse than the default.
func TestPresets(t *testing.T) {
	o := Options{Scenario: load(t, "p6"), Calls: 800}
	for _, name := range Presets() {
		p, err := ParsePolicy(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Policies = append(o.Policies, p)
	}
	reports, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var best, plain lab.RunReport
	for i, r := range reports {
		if r.Policy != Presets()[i] || r.Engine != "simulated" || r.Calls != 800 {
			t.Errorf("report %d: policy %s, %s, %d calls", i, r.Policy, r.Engine, r.Calls)
		}
		switch r.Policy {
		case "recommended":
			best = r
		case "round-robin":
			plain = r
		}
	}
	if best.Success <= plain.Success || 5*best.DeadAttempts["black-hole"] > plain.DeadAttempts["black-hole"] {
		t.Errorf("recommended %d with %v dead, round-robin %d with %v", best.Success, best.DeadAttempts, plain.Success, plain.DeadAttempts)
	}
}

func TestPolicyFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spillway.yaml")
	file := func(text string) Policy {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := ParsePolicy(path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s := load(t, "p6")
	p := file("listen: 127.0.0.1:1\nstrategy: priority\nproviders: {a: {}}\nconnections: [{id: healthy, provider: a, key: k, max_concurrent: 3}]\n" +
		"limits: {attempts: 7}\nresilience: {breaker: {consec_threshold: 9}}\n")
	got := p.Connections(p.Apply(s))
	limits := got.Gateway.Settings["limits"].(tree)
	if got.Gateway.Strategy != "priority" || limits["attempts"] == s.Gateway.Settings["limits"].(tree)["attempts"] || got.Gateway.Settings["cache"] == nil ||
		got.Gateway.Settings["resilience"] == nil || got.Gateway.Settings["listen"] != nil || got.Gateway.Settings["providers"] != nil {
		t.Errorf("%+v", got.Gateway)
	}
	if c := got.Sources[0].Connection; c["max_concurrent"] == nil || c["key"] != nil || s.Sources[0].Connection["max_concurrent"] != nil {
		t.Errorf("%v", c)
	}
	if _, err := Run(t.Context(), Options{Scenario: s, Calls: 5, Policies: []Policy{file("resilience: {breaker: {no_such_field: 1}}\n")}}); err == nil ||
		!strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"nonesuch", filepath.Join(t.TempDir(), "none.yaml")} {
		if _, err := ParsePolicy(name); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestSeedsDecide: a seed fixes the questions, the load and the sources' luck; what the strategies draw stays free, so
// runs of one seed are near each other. Another seed is another load.
func TestSeedsDecide(t *testing.T) {
	run := func(seed uint64) lab.RunReport {
		reports, err := Run(t.Context(), Options{Scenario: load(t, "flap"), Seed: &seed, Short: true})
		if err != nil {
			t.Fatal(err)
		}
		return reports[0]
	}
	a, b, other := run(17), run(17), run(18)
	if a.Calls != b.Calls || a.Calls != other.Calls || a.OracleSuccess != b.OracleSuccess || a.OracleAttempts != b.OracleAttempts {
		t.Errorf("calls %d %d %d, oracle %d %d", a.Calls, b.Calls, other.Calls, a.OracleSuccess, b.OracleSuccess)
	}
	if math.Abs(a.AttemptsPerCall-b.AttemptsPerCall) > 0.05 || math.Abs(float64(a.Success-b.Success)) > 5 {
		t.Errorf("attempts %.3f and %.3f, success %d and %d", a.AttemptsPerCall, b.AttemptsPerCall, a.Success, b.Success)
	}
	if a.TTFCP50 == other.TTFCP50 && a.TTFCP95 == other.TTFCP95 {
		t.Error("another seed changed nothing")
	}
}

func TestHalfAnHourTakesSeconds(t *testing.T) {
	var progress bytes.Buffer
	began := time.Now()
	reports, err := Run(t.Context(), Options{Scenario: load(t, "flap"), Duration: 30 * time.Minute, Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	if r := reports[0]; r.Calls != 9000 || r.WallS < 1799 || r.WallS > 1810 || r.Success < 8950 {
		t.Errorf("%d of %d calls in %.0f s", r.Success, r.Calls, r.WallS)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %s", took)
	} else if took > 2500*time.Millisecond && !strings.Contains(progress.String(), "policy recommended: ") {
		t.Errorf("progress %q", progress.String())
	}
}

func TestASimulationCanBeStopped(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Run(ctx, Options{Scenario: load(t, "flap"), Duration: 1000 * time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if time.Since(began) > 20*time.Second {
		t.Errorf("stopped after %s", time.Since(began))
	}
}
