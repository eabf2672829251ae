package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"spillway/internal/app"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/scenario"
	"spillway/internal/store"
)

type labCmd struct {
	Serve labServeCmd `cmd:"" help:"Run fake upstreams: lab-a fails in five ways by turns, lab-b is healthy."`
	Run   labRunCmd   `cmd:"" help:"Run the failover suite or a scenario, against a gateway of its own or a running one."`
	List  labListCmd  `cmd:"" help:"List the scenarios."`
}

type labServeCmd struct {
	Scenario string `help:"Run the sources of this scenario (a shipped name or a YAML file) instead." placeholder:"NAME|FILE"`
}

// Run serves the sources until the process is told to stop.
func (l *labServeCmd) Run(ctx context.Context, o *out) error {
	cfg := lab.ServeConfig()
	if l.Scenario != "" {
		s, err := loadScenario(l.Scenario)
		if err != nil {
			return err
		}
		cfg = lab.ScenarioConfig(&s)
	}
	return lab.Serve(ctx, cfg, o)
}

type labRunCmd struct {
	Suite    string   `help:"Suite to run: failover (16 scenarios, about two minutes)." placeholder:"NAME"`
	Scenario string   `help:"Scenario to run: a shipped name (see lab list) or a YAML file." placeholder:"NAME|FILE"`
	Against  string   `help:"Root URL of a running gateway, of any make, that routes to the lab's sources. Default: a fresh Spillway with default settings." placeholder:"URL"`
	Key      string   `help:"Client key for --against." env:"SPILLWAY_KEY" placeholder:"KEY"`
	Protocol []string `help:"Client protocols of the suite." default:"openai" enum:"openai,responses,anthropic,gemini"`
	Only     []string `help:"Cases of the suite to run, by id." placeholder:"ID"`
	Calls    int      `help:"Calls of the scenario, instead of its own number." placeholder:"N"`
	Workers  int      `help:"Workers of the scenario, instead of its own number." placeholder:"N"`
	Short    bool     `help:"The scenario's short form."`
	JSON     bool     `help:"Print the report as JSON."`
	HTML     string   `help:"Also write a page with plots about a scenario." type:"path" placeholder:"FILE"`
}

// Run exits with 0 when everything holds, 1 when not, 2 on misuse.
func (l *labRunCmd) Run(ctx context.Context, o *out) error {
	switch {
	case (l.Suite == "") == (l.Scenario == ""):
		return misuse("give one of --suite failover and --scenario NAME")
	case l.Scenario != "":
		return l.scenario(ctx, o)
	case l.HTML != "":
		return misuse("--html is for scenarios")
	case l.Suite != "failover":
		return misuse("the only suite is failover")
	}
	options := lab.Options{URL: l.Against, APIKey: l.Key, Only: l.Only, Progress: o, JSON: l.JSON}
	for _, name := range l.Protocol {
		p, err := gateway.ParseProtocol(name)
		if err != nil {
			return err
		}
		options.Protocols = append(options.Protocols, p)
	}
	if l.Against == "" {
		options.Start = func(ctx context.Context, primary, fallback string) (string, func(), error) {
			yaml, err := lab.SuiteYAML(primary, fallback)
			if err != nil {
				return "", nil, err
			}
			return start(ctx, yaml)
		}
	}
	report, err := lab.RunSuite(ctx, options)
	if err != nil {
		return err
	}
	if report.Fail > 0 || !report.OK() && report.Pass < enough(len(report.Scenarios)) {
		return exitError(exitFailed)
	}
	return nil
}

// enough is how many cases must pass for exit code 0: 13 of 16. The three mid-stream ones may end in a clean error.
func enough(cases int) int { return cases * 13 / 16 }

func (l *labRunCmd) scenario(ctx context.Context, o *out) error {
	s, err := loadScenario(l.Scenario)
	if err != nil {
		return err
	}
	options := lab.RunOptions{Scenario: s, URL: l.Against, APIKey: l.Key, Calls: l.Calls, Workers: l.Workers, Short: l.Short,
		Progress: o, JSON: l.JSON}
	if l.Against == "" {
		options.Start = start
	}
	report, err := lab.RunScenario(ctx, options)
	if err != nil {
		return err
	}
	if l.HTML != "" {
		if err := writePage(l.HTML, []lab.RunReport{report}); err != nil {
			return err
		}
	}
	if !report.OK() {
		return exitError(exitFailed)
	}
	return nil
}

// start boots a fresh gateway in this process: default settings, nothing kept.
func start(ctx context.Context, yaml []byte) (string, func(), error) {
	a, err := app.Open(ctx, app.Options{
		Source: config.Source{Path: "lab.yaml", Bytes: yaml, Env: noEnv, Flags: config.Flags{Listen: "127.0.0.1:0"}},
		Store:  store.Memory(),
	})
	if err != nil {
		return "", nil, err
	}
	return "http://" + a.Addr().String(), func() { _ = a.Close(context.WithoutCancel(ctx)) }, nil
}

// noEnv hides the environment: a lab run must not depend on the keys of who runs it.
func noEnv(string) (string, bool) { return "", false }

func loadScenario(name string) (scenario.Scenario, error) {
	if !strings.ContainsAny(name, "./\\") {
		s, err := scenario.Load(name)
		if err != nil {
			return s, misuse(err.Error())
		}
		return s, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return scenario.Scenario{}, err
	}
	return scenario.Decode(name, data)
}

type labListCmd struct{}

// Run lists what is shipped.
func (labListCmd) Run(o *out) error {
	t := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t%s\n", name, s.About)
	}
	return t.Flush()
}
