package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// RunOptions are those of one scenario's run.
type RunOptions struct {
	Scenario scenario.Scenario

	// Start boots a gateway with a configuration in YAML, whose combo scenario.Combo offers all sources.
	Start func(ctx context.Context, config []byte) (gatewayURL string, stop func(), err error)
	// URL is the root URL of a running gateway, used when Start is nil. The sources listen on the ports that the
	// scenario gives, and on free ones where it gives none.
	URL string

	APIKey    string
	Model     string // as the gateway is asked; "" = scenario.Combo
	Calls     int    // instead of the scenario's; 0 = the scenario's
	Workers   int    // likewise
	Short     bool   // the scenario's short form
	Policy    string // told in the report; "" = recommended
	Transport http.RoundTripper
	Progress  io.Writer // the addresses at the start and the table at the end, or with JSON the report; nil = none
	JSON      bool
}

// HoldReport says whether one thing held.
type HoldReport struct {
	What  string  `json:"what"`
	OK    bool    `json:"ok"`
	Value float64 `json:"value"`
	Limit string  `json:"limit"`
}

// RunReport is the judge's report on one run of a scenario.
type RunReport struct {
	Scenario         string         `json:"scenario"`
	Policy           string         `json:"policy"`
	Engine           string         `json:"engine"`
	Calls            int            `json:"calls"`
	Success          int            `json:"success"`
	WrongSuccess     int            `json:"wrong_success"`
	OracleSuccess    int            `json:"oracle_success"`
	OracleEfficiency float64        `json:"oracle_efficiency"`
	AttemptsPerCall  float64        `json:"attempts_per_call"`
	AttemptsBySource map[string]int `json:"attempts_by_source"`
	RateLimitedShare float64        `json:"rate_limited_share"`
	TTFCP50          float64        `json:"ttfc_p50_ms"`
	TTFCP95          float64        `json:"ttfc_p95_ms"`
	WallS            float64        `json:"wall_s"`
	Holds            []HoldReport   `json:"holds"`

	// Ends counts the calls by how they ended, with an example of each end that was no success. Not part of the JSON.
	Ends map[string]int `json:"-"`
}

// OK reports whether everything held.
func (r RunReport) OK() bool {
	return !slices.ContainsFunc(r.Holds, func(h HoldReport) bool { return !h.OK })
}

// WriteJSON writes the report as one object.
func (r RunReport) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// WriteTable writes the report for people.
func (r RunReport) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "scenario\t%s (policy %s, %s)\n", r.Scenario, r.Policy, r.Engine)
	fmt.Fprintf(t, "calls\t%d in %.1f s\n", r.Calls, r.WallS)
	fmt.Fprintf(t, "success\t%d, wrong %d, oracle %d (efficiency %.3f)\n", r.Success, r.WrongSuccess, r.OracleSuccess, r.OracleEfficiency)
	fmt.Fprintf(t, "first content\tp50 %.0f ms, p95 %.0f ms\n", r.TTFCP50, r.TTFCP95)
	fmt.Fprintf(t, "attempts per call\t%.2f, rate limited %.1f %%\n", r.AttemptsPerCall, 100*r.RateLimitedShare)
	for _, name := range sortedKeys(r.AttemptsBySource) {
		fmt.Fprintf(t, "  at %s\t%d\n", name, r.AttemptsBySource[name])
	}
	for _, end := range sortedKeys(r.Ends) {
		fmt.Fprintf(t, "  ended: %s\t%d\n", end, r.Ends[end])
	}
	for _, h := range r.Holds {
		word := "holds"
		if !h.OK {
			word = "BROKEN"
		}
		fmt.Fprintf(t, "%s\t%s %.4g, limit %s\n", word, h.What, h.Value, h.Limit)
	}
	return t.Flush()
}

func sortedKeys(m map[string]int) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// ScenarioConfig is the sources of a scenario as a server takes them. A provider's sources are told apart by their keys.
func ScenarioConfig(s *scenario.Scenario) Config {
	cfg := Config{Accounts: s.Accounts, IPs: s.IPs}
	for _, src := range s.Sources {
		if src.Provider != "" {
			src.Keys = []string{src.KeyOf()}
		}
		cfg.Sources = append(cfg.Sources, src)
	}
	return cfg
}

// RunScenario plays a scenario at a gateway and judges it. An error means that it could not be played.
func RunScenario(ctx context.Context, o RunOptions) (RunReport, error) {
	s := o.Scenario
	if o.Short {
		s = s.Short()
	}
	if o.Calls > 0 {
		s.Load.Calls = o.Calls
	}
	if o.Workers > 0 && s.Load.Rate == 0 {
		s.Load.Workers = o.Workers
	}
	if (o.Start == nil) == (o.URL == "") {
		return RunReport{}, errors.New("lab: give either a running gateway's URL or a way to start one")
	}
	srv, err := NewServer(ScenarioConfig(&s))
	if err != nil {
		return RunReport{}, err
	}
	if err := srv.Open(ctx); err != nil {
		return RunReport{}, err
	}
	defer srv.Close()
	url, stop, err := o.gateway(ctx, &s, srv)
	if err != nil {
		return RunReport{}, err
	}
	defer stop()
	r, err := o.play(ctx, &s, srv, url)
	if err == nil && o.Progress != nil {
		if o.JSON {
			err = r.WriteJSON(o.Progress)
		} else {
			err = r.WriteTable(o.Progress)
		}
	}
	return r, err
}

func (o *RunOptions) gateway(ctx context.Context, s *scenario.Scenario, srv *Server) (string, func(), error) {
	urls := map[string]string{}
	for _, src := range srv.Sources() {
		urls[src.Name()] = srv.URL(src.Name())
		if o.Progress != nil && !o.JSON {
			fmt.Fprintf(o.Progress, "%-12s %s\n", src.Name(), urls[src.Name()])
		}
	}
	if o.Start == nil {
		return o.URL, func() {}, nil
	}
	config, err := s.GatewayYAML(urls)
	if err != nil {
		return "", nil, err
	}
	return o.Start(ctx, config)
}

func (o *RunOptions) play(ctx context.Context, s *scenario.Scenario, srv *Server, url string) (RunReport, error) {
	c := client.New(o.Transport)
	defer c.Close()
	patience := s.Load.Patience
	if patience == 0 {
		patience = 3 * time.Minute
	}
	var mu sync.Mutex
	seer := newOracle(s, srv)
	t := &traffic{s: s, client: c, ask: client.Request{URL: url, Key: o.APIKey, Model: o.Model, Patience: patience}}
	if t.ask.Model == "" {
		t.ask.Model = scenario.Combo
	}
	t.note = func(i int, now time.Time) {
		mu.Lock()
		defer mu.Unlock()
		seer.look(ask(s, i), now, patience)
	}
	began := time.Now()
	srv.Reset(began)
	results := t.run(ctx)
	if err := ctx.Err(); err != nil {
		return RunReport{}, err
	}
	now := time.Now()
	m := measure{s: s, results: results, attempts: srv.Attempts(now), oracle: seer, wall: now.Sub(began), peaks: map[string]int{}}
	for _, src := range srv.Sources() {
		m.peaks[src.Name()] = src.PeakInFlight()
	}
	r := m.report()
	r.Policy = o.Policy
	if r.Policy == "" {
		r.Policy = "recommended"
	}
	return r, nil
}

// rateLimited reports whether an attempt was answered with 429.
func rateLimited(a Attempt) bool {
	return a.Status == http.StatusTooManyRequests || a.Fault == string(fault.RateLimit)
}
