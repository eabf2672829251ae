package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"time"

	"spillway/internal/lab"
	"spillway/internal/simulate"
)

type simulateCmd struct {
	Scenario string   `help:"Scenario to play: a shipped name (see lab list) or a YAML file." placeholder:"NAME|FILE"`
	Policy   []string `help:"Settings to play it under: recommended, omniroute-oauth, omniroute-apikey, omniroute-local, polygateway, autorouter, round-robin, or a file like spillway.yaml, whose settings count. Repeat it to compare. Default: recommended." placeholder:"PRESET|FILE"`
	Calls    int      `help:"Calls of the scenario, instead of its own number." placeholder:"N"`
	Workers  int      `help:"Workers of the scenario, instead of its own number." placeholder:"N"`
	Hours    float64  `help:"Length of the load in hours of virtual time, instead of a number of calls." placeholder:"H"`
	Seed     *uint64  `help:"Seed of everything that is left to chance, instead of the scenario's." placeholder:"N"`
	Short    bool     `help:"The scenario's short form."`
	JSON     bool     `help:"Print the reports as JSON: one object, or an array when several policies are given."`
	HTML     string   `help:"Also write a page with plots." type:"path" placeholder:"FILE"`
}

// Run exits with 0 when everything holds, 1 when not, 2 on misuse.
func (c *simulateCmd) Run(ctx context.Context, o *out) error {
	options, err := c.options(o.err)
	if err != nil {
		return err
	}
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

func (c *simulateCmd) options(progress io.Writer) (simulate.Options, error) {
	o := simulate.Options{Calls: c.Calls, Workers: c.Workers, Duration: time.Duration(c.Hours * float64(time.Hour)), Seed: c.Seed,
		Short: c.Short, Progress: progress}
	switch {
	case c.Scenario == "":
		return o, misuse("give --scenario NAME")
	case c.Hours < 0 || c.Calls < 0 || c.Workers < 0:
		return o, misuse("hours, calls and workers must not be negative")
	}
	var err error
	if o.Scenario, err = loadScenario(c.Scenario); err != nil {
		return o, misuse(err.Error())
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
