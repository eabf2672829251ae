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
	"time"

	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/local"
	"spillway/internal/lab/scenario"
)

// RunOptions are those of one scenario's run.
type RunOptions struct {
	Scenario scenario.Scenario

	// Net is a network inside this process that carries the sources, the gateway and the calls, for a run in virtual
	// time; nil = real listeners.
	Net *local.Network
	// Stopped is asked before each call; once it says yes no further one begins. nil = never.
	Stopped func() bool
	// Began hears of each call that begins. nil = nobody.
	Began func()

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

	// What follows is for tables and pages, not part of the JSON.

	// Ends counts the calls by how they ended, with an example of each end that was no success.
	Ends           map[string]int     `json:"-"`
	Attempts       int                `json:"-"`
	OracleAttempts int                `json:"-"`
	DeadAttempts   map[string]int     `json:"-"` // attempts that could not go well, by source
	OutageS        map[string]float64 `json:"-"` // by source: longest time healthy and never asked, in seconds
	TTFCP99        float64            `json:"-"`
	EndP50         float64            `json:"-"`
	EndP95         float64            `json:"-"`
	EndP99         float64            `json:"-"`
	Trace          *Trace             `json:"-"`
}

func (r *RunReport) dead() int {
	n := 0
	for _, d := range r.DeadAttempts {
		n += d
	}
	return n
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
		s.Load.Workers, s.Load.Steps = o.Workers, nil
	}
	if (o.Start == nil) == (o.URL == "") {
		return RunReport{}, errors.New("lab: give either a running gateway's URL or a way to start one")
	}
	srv, err := NewServer(ScenarioConfig(&s))
	if err != nil {
		return RunReport{}, err
	}
	if o.Net != nil {
		srv.Attach(o.Net)
	} else {
		if err := srv.Open(ctx); err != nil {
			return RunReport{}, err
		}
		defer srv.Close()
	}
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
			err = WriteTable(o.Progress, r)
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
	transport := o.Transport
	if o.Net != nil {
		transport = o.Net
	}
	c := client.New(transport)
	defer c.Close()
	watch := newLookout(s, srv)
	t := &traffic{s: s, client: c, stopped: o.Stopped,
		ask: client.Request{URL: url, Key: o.APIKey, Model: o.Model, MaxTokens: s.Load.MaxTokens, Patience: s.Limits().Patience}}
	if t.ask.Model == "" {
		t.ask.Model = scenario.Combo
	}
	t.note = func(now time.Time) {
		watch.look(now)
		if o.Began != nil {
			o.Began()
		}
	}
	began := time.Now()
	srv.Reset(began)
	calls := t.run(ctx)
	if err := ctx.Err(); err != nil {
		return RunReport{}, err
	}
	now := time.Now()
	m := measure{s: s, calls: calls, attempts: srv.Attempts(now), sights: watch.seen(), began: began, wall: now.Sub(began), peaks: map[string]int{}}
	for _, src := range srv.Sources() {
		m.peaks[src.Name()] = src.PeakInFlight()
	}
	r := m.report()
	if o.Net != nil {
		r.Engine = "simulated"
	}
	r.Policy = o.Policy
	if r.Policy == "" {
		r.Policy = "recommended"
	}
	return r, nil
}

// lookout notes, whenever a call begins, which sources are healthy.
type lookout struct {
	mu      sync.Mutex
	ask     fault.Ask
	watched []watched
}

// watched is a source that is looked at.
type watched struct {
	*Source
	key    string
	sights []sight
}

func newLookout(s *scenario.Scenario, srv *Server) *lookout {
	l := &lookout{ask: fault.Ask{Model: scenario.Model, Stream: s.Load.Streamed >= 0}}
	for _, src := range srv.Sources() {
		l.watched = append(l.watched, watched{Source: src, key: src.cfg.KeyOf()})
	}
	if len(s.Load.Protocols) > 0 {
		l.ask.Protocol = s.Load.Protocols[0]
	}
	return l
}

func (l *lookout) look(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.watched {
		src, a := &l.watched[i], l.ask
		a.Key, a.InFlight = src.key, src.InFlight()
		_, fails := src.Peek(a, now)
		src.sights = append(src.sights, sight{now, !fails})
	}
}

// seen is what was seen, by source.
func (l *lookout) seen() map[string][]sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string][]sight, len(l.watched))
	for _, src := range l.watched {
		out[src.Name()] = src.sights
	}
	return out
}

// rateLimited reports whether an attempt was answered with 429.
func rateLimited(a *Attempt) bool {
	return a.Status == http.StatusTooManyRequests || a.Fault == string(fault.RateLimit)
}
