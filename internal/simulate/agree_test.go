//go:build !race

package simulate

// Not with the race detector: it makes the real side so slow that time itself differs.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"spillway/internal/app"
	"spillway/internal/config"
	"spillway/internal/lab"
	"spillway/internal/lab/scenario"
	"spillway/internal/store"
)

// realGateway boots a gateway with a listener of its own.
func realGateway(ctx context.Context, yaml []byte) (string, func(), error) {
	a, err := app.Open(ctx, app.Options{Store: store.Memory(), Source: config.Source{Path: "real.yaml", Bytes: yaml,
		Env: func(string) (string, bool) { return "", false }, Flags: config.Flags{Listen: "127.0.0.1:0"}}})
	if err != nil {
		return "", nil, err
	}
	return "http://" + a.Addr().String(), func() { _ = a.Close(context.WithoutCancel(ctx)) }, nil
}

// brief is a short form of a shipped scenario that takes about 45 s of real time: what lasts long lasts
// shorter, and p6 is not kept waiting by its silent source.
func brief(t *testing.T, name string) scenario.Scenario {
	s := load(t, name).Short()
	const most = 45 * time.Second
	if l := &s.Load; l.Rate > 0 && len(l.Steps) == 0 {
		l.Calls = min(l.Calls, int(l.Rate*most.Seconds()))
	}
	s.Sources = slices.Clone(s.Sources)
	for i := range s.Sources {
		src := &s.Sources[i]
		src.Faults = slices.Clone(src.Faults)
		for j := range src.Faults {
			src.Faults[j].For = min(src.Faults[j].For, most/2)
		}
		if name == "p6" && src.Name == "black-hole" {
			src.Connection = tree{"timeouts": tree{"total": "10s"}}
		}
	}
	if name == "p6" {
		s.Load.Calls = 300
	}
	return s
}

// TestTheSimulatorAgreesWithTheEngine plays a brief form of every shipped scenario for real, all at once, and five
// times in virtual time. The real run must lie within what the simulated runs span, widened by a percentage point of
// success and by 5 % of attempts. Short runs have few failures and few second attempts, and what is left to chance (the
// strategies draw lots) differs from run to run, so twice the counting noise of those is allowed as well.
func TestTheSimulatorAgreesWithTheEngine(t *testing.T) {
	type played struct {
		report lab.RunReport
		err    error
	}
	real := map[string]chan played{}
	for _, name := range scenario.Names() {
		s := brief(t, name)
		done := make(chan played, 1)
		real[name] = done
		go func() {
			r, err := lab.RunScenario(t.Context(), lab.RunOptions{Scenario: s, Start: realGateway})
			done <- played{r, err}
		}()
	}
	low, high := map[string]figures{}, map[string]figures{}
	for _, name := range scenario.Names() {
		low[name], high[name] = span(t, name)
	}
	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			got := <-real[name]
			if got.err != nil {
				t.Fatal(got.err)
			}
			problems := differences(t, got.report, low[name], high[name])
			if len(problems) == 0 {
				return
			}
			t.Logf("%v; once more, alone: a busy machine is no disagreement", problems)
			again, err := lab.RunScenario(t.Context(), lab.RunOptions{Scenario: brief(t, name), Start: realGateway})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range differences(t, again, low[name], high[name]) {
				t.Error(p)
			}
		})
	}
}

// differences are what a real run and the span of simulated ones do not agree in.
func differences(t *testing.T, got lab.RunReport, low, high figures) (out []string) {
	t.Logf("real: %d of %d in %.1f s, %.3f attempts per call; simulated: %.4f to %.4f, %.3f to %.3f", got.Success, got.Calls, got.WallS,
		got.AttemptsPerCall, low.success, high.success, low.attempts, high.attempts)
	differ := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if got.Engine != "real" || math.Abs(float64(got.Calls-low.calls)) > 0.15*float64(low.calls) { // a slow machine asks less in a time
		differ("%s: %d calls, simulated %d", got.Engine, got.Calls, low.calls)
	}
	noise := func(events float64) float64 { return 2 * math.Sqrt(max(events, 1)) / float64(got.Calls) }
	lost, more := noise((1-low.success)*float64(got.Calls)), noise((high.attempts-1)*float64(got.Calls))
	if rate := share(got.Success, got.Calls); rate < low.success-0.01-lost || rate > high.success+0.01+lost {
		differ("success %.4f, simulated %.4f to %.4f", rate, low.success, high.success)
	}
	if per := got.AttemptsPerCall; per < 0.95*low.attempts-more || per > 1.05*high.attempts+more {
		differ("attempts per call %.3f, simulated %.3f to %.3f", per, low.attempts, high.attempts)
	}
	if got.WrongSuccess > 0 {
		differ("%d wrong successes", got.WrongSuccess)
	}
	return out
}

type figures struct {
	calls             int
	success, attempts float64
}

// span simulates a scenario five times.
func span(t *testing.T, name string) (low, high figures) {
	s := brief(t, name)
	for i := range 5 {
		reports, err := Run(t.Context(), Options{Scenario: s})
		if err != nil {
			t.Fatal(err)
		}
		r := reports[0]
		f := figures{r.Calls, share(r.Success, r.Calls), r.AttemptsPerCall}
		if i == 0 {
			low, high = f, f
		}
		low.success, high.success = min(low.success, f.success), max(high.success, f.success)
		low.attempts, high.attempts = min(low.attempts, f.attempts), max(high.attempts, f.attempts)
	}
	return low, high
}
