package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"spillway/internal/lab"
	"spillway/internal/simulate"
	"spillway/internal/simulate/record"
)

type simulateCmd struct {
	Scenario string   `help:"Scenario to play: a shipped name (see lab list) or a YAML file." placeholder:"NAME|FILE"`
	FromLog  string   `help:"Instead of a scenario: replay the arrivals and outcomes of a request log. A data directory, a database file, or decision logs in JSON." placeholder:"DATA|FILE"`
	Policy   []string `help:"Settings to play it under: recommended, omniroute-oauth, omniroute-apikey, omniroute-local, polygateway, autorouter, round-robin, or a file like spillway.yaml, whose settings count. Repeat it to compare. Default: recommended." placeholder:"PRESET|FILE"`
	Calls    int      `help:"Calls of the scenario, instead of its own number." placeholder:"N"`
	Workers  int      `help:"Workers of the scenario, instead of its own number." placeholder:"N"`
	Hours    float64  `help:"Length of the load in hours of virtual time, instead of a number of calls." placeholder:"H"`
	Seed     *uint64  `help:"Seed of everything that is left to chance, instead of the scenario's." placeholder:"N"`
	Short    bool     `help:"The scenario's short form."`
	JSON     bool     `help:"Print the reports as JSON: one object, or an array when several policies are given."`
	HTML     string   `help:"Also write a page with plots." type:"path" placeholder:"FILE"`
	Profile  string   `help:"Write a CPU profile to this file, and allocations to FILE.allocs, for go tool pprof." placeholder:"FILE"`
}

// Run exits with 0 when everything holds, 1 when not, 2 on misuse.
func (c *simulateCmd) Run(ctx context.Context, o *out) error {
	options, err := c.options(ctx, o.err)
	if err != nil {
		return err
	}
	if c.Profile != "" {
		stop, err := profile(c.Profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	debug.SetGCPercent(200) // nothing of a simulation lives long
	// In virtual time one thing happens after the other. A second processor would find next to nothing to do, and handing
	// each step over to it would cost more than the step.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	reports, err := simulate.Run(ctx, options)
	if err != nil {
		return err
	}
	if c.HTML != "" {
		if err := writePage(c.HTML, reports); err != nil {
			return err
		}
	}
	if err := writeReports(o, reports, c.JSON, len(c.Policy) > 1); err != nil {
		return err
	}
	if slices.ContainsFunc(reports, func(r lab.RunReport) bool { return !r.OK() }) {
		return exitError(exitFailed)
	}
	return nil
}

func (c *simulateCmd) options(ctx context.Context, progress io.Writer) (simulate.Options, error) {
	o := simulate.Options{Calls: c.Calls, Workers: c.Workers, Duration: time.Duration(c.Hours * float64(time.Hour)), Seed: c.Seed,
		Short: c.Short, Progress: progress}
	switch {
	case (c.Scenario == "") == (c.FromLog == ""):
		return o, misuse("give one of --scenario NAME and --from-log DATA")
	case c.FromLog != "" && (c.Workers > 0 || c.Hours > 0 || c.Short):
		return o, misuse("a log has its own load: workers, hours and short do not go with it")
	case c.Hours < 0 || c.Calls < 0 || c.Workers < 0:
		return o, misuse("hours, calls and workers must not be negative")
	}
	if err := c.load(ctx, &o); err != nil {
		return o, err
	}
	for _, name := range c.Policy {
		p, err := simulate.ParsePolicy(name)
		if err != nil {
			return o, misuse(err.Error())
		}
		o.Policies = append(o.Policies, p)
	}
	return o, nil
}

// load reads the scenario or the log.
func (c *simulateCmd) load(ctx context.Context, o *simulate.Options) (err error) {
	if c.FromLog == "" {
		if o.Scenario, err = loadScenario(c.Scenario); err != nil {
			return misuse(err.Error())
		}
		return nil
	}
	log, err := record.Open(ctx, c.FromLog)
	if err != nil {
		return misuse(err.Error())
	}
	if o.Scenario, err = log.Scenario("log"); err != nil {
		return misuse(err.Error())
	}
	told := log.Logged()
	fmt.Fprintf(o.Progress, "log: %d requests, %d answered, %.2f attempts per request\n", told.Calls, told.Answered, float64(told.Attempts)/float64(max(told.Calls, 1)))
	for _, why := range slices.Sorted(maps.Keys(log.LeftOut)) {
		fmt.Fprintf(o.Progress, "log: %d requests left out: %s\n", log.LeftOut[why], why)
	}
	return nil
}

// writeReports prints reports as a table or as JSON.
func writeReports(w io.Writer, reports []lab.RunReport, asJSON, array bool) error {
	if !asJSON {
		return lab.WriteTable(w, reports...)
	}
	if !array {
		return reports[0].WriteJSON(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(reports)
}

func writePage(path string, reports []lab.RunReport) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = lab.WriteHTML(f, reports...)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
