package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
	"spillway/internal/lab/scenario"
	"spillway/internal/lab/wire"
)

// Options are those of the failover suite.
type Options struct {
	// Start boots a fresh gateway over two sources, given by their root URLs, and returns its root URL. It is called
	// once per case and protocol, from several goroutines. The gateway must offer each case's model as a priority
	// combo of the two; SuiteYAML writes that configuration. stop is called when the case is over.
	Start func(ctx context.Context, primary, fallback string) (gatewayURL string, stop func(), err error)

	// URL is the root URL of a running gateway of any make, used when Start is nil. It must already route each case's
	// model to the primary, then to the fallback, which listen on the two ports.
	URL          string
	PrimaryPort  int // 0 = PortA
	FallbackPort int // 0 = PortB

	APIKey    string
	Protocols []gateway.Protocol // empty = openai
	Only      []string           // ids of cases; empty = all
	Model     string             // how the gateway is asked for a case's model; {model} stands for it; "" = {model}
	Parallel  int                // cases at once; 0 = all with Start, 1 with URL
	Profile   string             // told in the report; "" = default
	Transport http.RoundTripper  // of the clients; nil = one of their own
	Progress  io.Writer          // a line per case and the table at the end, or with JSON the report; nil = none
	JSON      bool

	cases []scenario.Case // instead of the shipped ones, for tests
}

// CaseReport is the verdict on one case.
type CaseReport struct {
	ID               string  `json:"id"`
	Verdict          Verdict `json:"verdict"`
	AttemptsPrimary  int     `json:"attempts_primary"`
	AttemptsFallback int     `json:"attempts_fallback"`
	WallS            float64 `json:"wall_s"`
	Note             string  `json:"note"`

	About string `json:"-"`
}

// Report is the outcome of the suite.
type Report struct {
	Suite     string       `json:"suite"`
	Profile   string       `json:"profile"`
	Pass      int          `json:"pass"`
	Partial   int          `json:"partial"`
	Safe      int          `json:"safe"`
	Fail      int          `json:"fail"`
	Scenarios []CaseReport `json:"scenarios"`
}

// OK reports whether every case passed.
func (r Report) OK() bool { return r.Pass == len(r.Scenarios) && r.Pass > 0 }

// WriteJSON writes the report as one object.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// WriteTable writes the report for people.
func (r Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "case\tverdict\tprimary\tfallback\tseconds\twhat happens\tnote")
	for _, c := range r.Scenarios {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f\t%s\t%s\n", c.ID, c.Verdict, c.AttemptsPrimary, c.AttemptsFallback, c.WallS, c.About, c.Note)
	}
	fmt.Fprintf(t, "\n%d pass, %d partial, %d safe, %d fail\n", r.Pass, r.Partial, r.Safe, r.Fail)
	return t.Flush()
}

// SuiteModels are the models that the suite asks a gateway for, in the order of the cases.
func SuiteModels() []string {
	cases, err := scenario.Failover()
	if err != nil {
		panic(err) // a test reads the embedded file
	}
	var out []string
	for _, c := range cases {
		out = append(out, c.Model)
	}
	return out
}

// SuiteYAML is the configuration of a Spillway for the suite: everything default, a priority combo per case.
func SuiteYAML(primaryURL, fallbackURL string) ([]byte, error) {
	cases, err := scenario.Failover()
	if err != nil {
		return nil, err
	}
	return scenario.CasesYAML(cases, primaryURL, fallbackURL)
}

// suite is one run.
type suite struct {
	o      Options
	client *client.Client
	shared *Server // with URL: the two listeners of all cases
	mu     sync.Mutex
}

// job is one case in one protocol.
type job struct {
	c scenario.Case
	p gateway.Protocol
}

// RunSuite runs the failover suite. An error means that it could not be run, not that a case failed.
func RunSuite(ctx context.Context, o Options) (Report, error) {
	cases := o.cases
	if cases == nil {
		var err error
		if cases, err = scenario.Failover(); err != nil {
			return Report{}, err
		}
	}
	if err := o.fill(cases); err != nil {
		return Report{}, err
	}
	s := &suite{o: o, client: client.New(o.Transport)}
	defer s.client.Close()
	if o.Start == nil {
		if err := s.openShared(ctx, cases); err != nil {
			return Report{}, err
		}
		defer s.shared.Close()
	}
	var jobs []job
	for _, p := range o.Protocols {
		for _, c := range cases {
			if len(o.Only) == 0 || slices.Contains(o.Only, c.ID) {
				jobs = append(jobs, job{c, p})
			}
		}
	}
	reports, err := s.all(ctx, jobs)
	r := summarize(reports, o.Profile)
	if err == nil && o.Progress != nil {
		if o.JSON {
			err = r.WriteJSON(o.Progress)
		} else {
			err = r.WriteTable(o.Progress)
		}
	}
	return r, err
}

func (o *Options) fill(cases []scenario.Case) error {
	if (o.Start == nil) == (o.URL == "") {
		return errors.New("lab: give either a running gateway's URL or a way to start one")
	}
	for _, id := range o.Only {
		if !slices.ContainsFunc(cases, func(c scenario.Case) bool { return c.ID == id }) {
			return fmt.Errorf("lab: the suite has no case %q", id)
		}
	}
	if len(o.Protocols) == 0 {
		o.Protocols = []gateway.Protocol{gateway.OpenAI}
	}
	if o.Model == "" {
		o.Model = "{model}"
	}
	if o.Profile == "" {
		o.Profile = "default"
	}
	if o.PrimaryPort == 0 {
		o.PrimaryPort = PortA
	}
	if o.FallbackPort == 0 {
		o.FallbackPort = PortB
	}
	if o.Parallel <= 0 {
		o.Parallel = 1
		if o.Start != nil {
			o.Parallel = len(cases) * len(o.Protocols)
		}
	}
	return nil
}

// openShared starts the listeners for a gateway that is already there. Each case has sources of its own behind them,
// told apart by the model.
func (s *suite) openShared(ctx context.Context, cases []scenario.Case) error {
	var cfg Config
	for _, c := range cases {
		p, f := c.Primary, c.Fallback
		p.Name, p.Provider, p.Port, p.Models = "primary-"+c.ID, "primary", s.o.PrimaryPort, []string{c.Model}
		f.Name, f.Provider, f.Port, f.Models = "fallback-"+c.ID, "fallback", s.o.FallbackPort, []string{c.Model}
		cfg.Sources = append(cfg.Sources, p, f)
	}
	var err error
	if s.shared, err = NewServer(cfg); err != nil {
		return err
	}
	if err := s.shared.Open(ctx); err != nil {
		return err
	}
	id := cases[0].ID
	s.tell("primary   %s\nfallback  %s\n", s.shared.URL("primary-"+id), s.shared.URL("fallback-"+id))
	return nil
}

func (s *suite) tell(format string, args ...any) {
	if s.o.Progress == nil || s.o.JSON {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.o.Progress, format, args...)
}

// all runs the jobs, so many at once. The cases of a shared pair of listeners run one protocol after the other.
func (s *suite) all(ctx context.Context, jobs []job) ([]CaseReport, error) {
	reports, errs := make([]CaseReport, len(jobs)), make([]error, len(jobs))
	slots := make(chan struct{}, s.o.Parallel)
	locks := map[string]*sync.Mutex{}
	for _, j := range jobs {
		locks[j.c.ID] = &sync.Mutex{}
	}
	var wg sync.WaitGroup
	for i, j := range jobs {
		wg.Go(func() {
			if s.shared != nil {
				locks[j.c.ID].Lock()
				defer locks[j.c.ID].Unlock()
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] != nil {
				return
			}
			reports[i], errs[i] = s.one(ctx, j)
			s.tell("%-8s %-8s %s\n", reports[i].ID, reports[i].Verdict, reports[i].Note)
		})
	}
	wg.Wait()
	return reports, errors.Join(errs...)
}

func summarize(reports []CaseReport, profile string) Report {
	r := Report{Suite: "failover", Profile: profile, Scenarios: reports}
	for _, c := range reports {
		switch c.Verdict {
		case Pass:
			r.Pass++
		case Partial:
			r.Partial++
		case Safe:
			r.Safe++
		case Fail:
			r.Fail++
		}
	}
	return r
}

// one runs a case in a protocol and judges it.
func (s *suite) one(ctx context.Context, j job) (CaseReport, error) {
	out := CaseReport{ID: j.c.ID, About: j.c.About}
	if len(s.o.Protocols) > 1 {
		out.ID += "/" + j.p.String()
	}
	url, primary, fallback, stop, err := s.stage(ctx, j)
	if err != nil {
		return out, fmt.Errorf("%s: %w", out.ID, err)
	}
	defer stop()
	e := s.play(ctx, j, url, primary, fallback)
	if err := ctx.Err(); err != nil {
		return out, err
	}
	out.Verdict, out.Note = judge(j.c, e)
	out.AttemptsPrimary, out.AttemptsFallback = len(e.primary), len(e.second)
	for _, r := range e.results {
		out.WallS = max(out.WallS, r.BeganAt.Add(r.EndedAfter).Sub(e.began).Seconds())
	}
	return out, nil
}

// stage sets up the sources of a case, and the gateway if it is ours to start.
func (s *suite) stage(ctx context.Context, j job) (url string, primary, fallback *Source, stop func(), err error) {
	if s.shared != nil {
		return s.o.URL, s.shared.Source("primary-" + j.c.ID), s.shared.Source("fallback-" + j.c.ID), func() {}, nil
	}
	srv, err := NewServer(Config{Sources: []SourceConfig{j.c.Primary, j.c.Fallback}})
	if err != nil {
		return "", nil, nil, nil, err
	}
	if err := srv.Open(ctx); err != nil {
		return "", nil, nil, nil, err
	}
	url, end, err := s.o.Start(ctx, srv.URL("primary"), srv.URL("fallback"))
	if err != nil {
		srv.Close()
		return "", nil, nil, nil, err
	}
	return url, srv.Source("primary"), srv.Source("fallback"), func() { end(); srv.Close() }, nil
}

// play makes the requests of a case and gathers the evidence.
func (s *suite) play(ctx context.Context, j job, url string, primary, fallback *Source) evidence {
	e := evidence{began: time.Now(), results: make([]client.Result, j.c.Requests), texts: make([]string, j.c.Requests),
		words: j.c.Fallback.Words()}
	primary.Reset(e.began)
	fallback.Reset(e.began)
	var wg sync.WaitGroup
	for i := range j.c.Requests {
		if pause(ctx, time.Until(e.began.Add(time.Duration(i)*j.c.Every))) != nil {
			break
		}
		ask := fmt.Sprintf("failover suite, case %s over %s, question %d of %d", j.c.ID, j.p, i, e.began.UnixNano())
		e.texts[i] = wire.Text(ask, j.c.Fallback.Seed, j.c.Fallback.Words())
		wg.Go(func() {
			e.results[i] = s.client.Call(ctx, client.Request{URL: url, Key: s.o.APIKey, Protocol: j.p, Prompt: ask,
				Model: strings.ReplaceAll(s.o.Model, "{model}", j.c.Model), Stream: true, Patience: j.c.Patience})
		})
	}
	wg.Wait()
	now := time.Now()
	e.primary, e.second = sourceAttempts(primary, now), sourceAttempts(fallback, now)
	return e
}

// sourceAttempts is the log of one side; behind a shared listener the name of the case is taken off.
func sourceAttempts(s *Source, now time.Time) []Attempt {
	list := s.Attempts(now)
	for i := range list {
		list[i].Source, _, _ = strings.Cut(list[i].Source, "-")
	}
	return list
}
