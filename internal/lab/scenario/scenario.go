// Package scenario answers one question: what is played at a gateway, and what must hold? It is keyed by the
// scenario's name. It reads scenario files strictly (an unknown field is an error with file and line), holds those that
// are shipped, and writes the gateway configuration that goes with one. It runs nothing.
package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/fault"
)

// Scenario is one file: sources, their faults, the load, and what must hold.
type Scenario struct {
	Name     string                        `yaml:"name"`
	About    string                        `yaml:"about"` // one sentence
	Seed     uint64                        `yaml:"seed"`  // of answers, chances and prompts; default 0
	Sources  []Source                      `yaml:"sources"`
	Accounts map[string]fault.BucketConfig `yaml:"accounts"` // token buckets shared by name
	IPs      map[string]fault.BucketConfig `yaml:"ips"`
	Gateway  Gateway                       `yaml:"gateway"`
	Load     Traffic                       `yaml:"load"`
	Holds    []Hold                        `yaml:"holds"`
	CI       CI                            `yaml:"ci"`

	File string `yaml:"-"` // where it was read from
}

// Gateway says how the gateway under test is set up, in the words of spillway.yaml.
type Gateway struct {
	Strategy string         `yaml:"strategy"` // of the combo and of each provider's connections; "" = priority, and each provider's default
	Options  map[string]any `yaml:"options"`  // options of the combo
	Combos   []any          `yaml:"combos"`   // instead of the one combo named lab
	Settings map[string]any `yaml:"settings"` // further top-level fields (limits, cache, resilience ...)
}

// Traffic is what the clients do.
type Traffic struct {
	Calls     int                `yaml:"calls"`     // 0 = as many as fit into duration
	Duration  time.Duration      `yaml:"duration"`  // no call begins later; 0 = no limit
	Workers   int                `yaml:"workers"`   // calls at once, when there is no rate; default 1
	Rate      float64            `yaml:"rate"`      // calls per second, whatever the answers do; 0 = by workers
	Steps     []Step             `yaml:"steps"`     // other rates or workers from a time on
	Repeats   float64            `yaml:"repeats"`   // share of calls that repeat an earlier prompt, 0-1
	Streamed  float64            `yaml:"streamed"`  // share of streamed calls, 0-1; -1 = none; 0 is read as 1
	Protocols []gateway.Protocol `yaml:"protocols"` // taken in turn; empty = openai
	Patience  time.Duration      `yaml:"patience"`  // a client gives up after this; 0 = 3 minutes
	Prompts   Prompts            `yaml:"prompts"`
	MaxTokens int                `yaml:"max_tokens"` // asked for by every call; 0 = not told
	Arrivals  []Arrival          `yaml:"arrivals"`   // the calls one by one, instead of rate, workers and what they ask
}

// Arrival is one call of a load that is given call by call.
type Arrival struct {
	At       time.Duration    `yaml:"at"`       // from the start; they must rise
	Model    string           `yaml:"model"`    // as the gateway is asked; "" = lab
	Stream   bool             `yaml:"stream"`   // default false
	Protocol gateway.Protocol `yaml:"protocol"` // default openai
	Words    int              `yaml:"words"`    // of the prompt; default 8
	Of       int              `yaml:"of"`       // it repeats the call of this number, counted from 1; 0 = it is new
}

// Step changes the load at a time from its start.
type Step struct {
	At      time.Duration `yaml:"at"`
	Rate    float64       `yaml:"rate"`
	Workers int           `yaml:"workers"`
}

// Prompts is the mix of prompt sizes, in words.
type Prompts struct {
	Words Range `yaml:"words"` // default 8..8
}

// Range is a count between two bounds.
type Range struct {
	Min int `yaml:"min"`
	Max int `yaml:"max"`
}

// Hold is one thing that must hold at the end. At least one of Min and Max is given.
type Hold struct {
	What   string   `yaml:"what"`   // a measure; see Measures
	Source string   `yaml:"source"` // of which source, where the measure is by source
	Min    *float64 `yaml:"min"`
	Max    *float64 `yaml:"max"`
}

// CI is the short form for continuous integration.
type CI struct {
	Calls int     `yaml:"calls"` // 0 = the whole
	Speed float64 `yaml:"speed"` // latencies of answers are divided by this; 0 = 1
}

// Measures are the names that a hold may use.
var Measures = []string{
	"success_rate", "wrong_success", "oracle_efficiency", "attempts_per_call", "rate_limited_share",
	"ttfc_p50_ms", "ttfc_p95_ms", "ttfc_p99_ms", "end_p99_ms", "attempts", "attempts_share", "peak_in_flight",
	"longest_outage_s", "unclean_errors", "gave_up", "end_p50_ms", "end_p95_ms", "attempts_vs_oracle", "dead_attempts",
}

// Measures that are taken of one source. dead_attempts may be, or of all.
var bySource = []string{"attempts", "attempts_share", "peak_in_flight", "longest_outage_s"}

// Validate reports every problem, each beginning with the path of its field.
func (s *Scenario) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Name == "" {
		bad("name: is missing")
	}
	if len(s.Sources) == 0 {
		bad("sources: at least one is needed")
	}
	seen := map[string]bool{}
	for i := range s.Sources {
		src := &s.Sources[i]
		for _, e := range Split(src.Validate()) {
			bad("sources[%d].%w", i, e)
		}
		if seen[src.Name] {
			bad("sources[%d].name: %q is used twice", i, src.Name)
		}
		seen[src.Name] = true
		if _, ok := s.Accounts[src.Account]; src.Account != "" && !ok {
			bad("sources[%d].account: %q is not in accounts", i, src.Account)
		}
		if _, ok := s.IPs[src.IP]; src.IP != "" && !ok {
			bad("sources[%d].ip: %q is not in ips", i, src.IP)
		}
	}
	for name, b := range s.Accounts {
		for _, e := range Split(b.Validate()) {
			bad("accounts.%s.%w", name, e)
		}
	}
	for name, b := range s.IPs {
		for _, e := range Split(b.Validate()) {
			bad("ips.%s.%w", name, e)
		}
	}
	errs = append(errs, s.Load.validate()...)
	for i, h := range s.Holds {
		if err := h.validate(seen); err != nil {
			bad("holds[%d].%w", i, err)
		}
	}
	if s.CI.Calls < 0 || s.CI.Speed < 0 {
		bad("ci: calls and speed must not be negative")
	}
	return errors.Join(errs...)
}

func (l Traffic) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("load."+format, args...)) }
	if l.Calls <= 0 && l.Duration <= 0 {
		bad("calls: calls or duration must be above 0")
	}
	if l.Workers < 0 || l.Rate < 0 {
		bad("rate: rate and workers must not be negative")
	}
	if l.Repeats < 0 || l.Repeats > 1 {
		bad("repeats: must be between 0 and 1")
	}
	if l.Streamed != -1 && (l.Streamed < 0 || l.Streamed > 1) {
		bad("streamed: must be between 0 and 1, or -1")
	}
	for i, a := range l.Arrivals {
		if i > 0 && a.At < l.Arrivals[i-1].At || a.At < 0 {
			bad("arrivals[%d].at: must not fall", i)
		}
		if a.Of < 0 || a.Of > i {
			bad("arrivals[%d].of: must be the number of an earlier call", i)
		}
	}
	for i, st := range l.Steps {
		if i > 0 && st.At <= l.Steps[i-1].At {
			bad("steps[%d].at: must rise", i)
		}
		if (st.Rate > 0) == (st.Workers > 0) || (l.Rate > 0) != (st.Rate > 0) {
			bad("steps[%d].rate: a step changes what the load has, rate or workers", i)
		}
	}
	if w := l.Prompts.Words; w.Min < 0 || w.Max < w.Min {
		bad("prompts.words: the bounds must not be negative and must rise")
	}
	return errs
}

func (h Hold) validate(sources map[string]bool) error {
	switch {
	case !slices.Contains(Measures, h.What):
		return fmt.Errorf("what: unknown measure %q", h.What)
	case h.Min == nil && h.Max == nil:
		return errors.New("min: min or max is needed")
	case h.Source != "" && !sources[h.Source]:
		return fmt.Errorf("source: %q is not a source", h.Source)
	case h.What != "dead_attempts" && slices.Contains(bySource, h.What) != (h.Source != ""):
		return fmt.Errorf("source: %s is given by source: %v", h.What, slices.Contains(bySource, h.What))
	}
	return nil
}

// Short returns the form for continuous integration.
func (s Scenario) Short() Scenario {
	if s.CI.Calls > 0 {
		s.Load.Calls = s.CI.Calls
	}
	if s.CI.Speed > 0 {
		s.Sources = slices.Clone(s.Sources)
		for i := range s.Sources {
			s.Sources[i].Latency = s.Sources[i].Latency.Over(s.CI.Speed)
			s.Sources[i].Interval = s.Sources[i].Interval.Over(s.CI.Speed)
			s.Sources[i].Paces = faster(s.Sources[i].Paces, s.CI.Speed)
		}
	}
	return s
}

// Reseeded is the scenario with other luck and other prompts. Its own seed gives the scenario itself.
func (s Scenario) Reseeded(seed uint64) Scenario {
	change := seed ^ s.Seed
	s.Seed = seed
	s.Sources = slices.Clone(s.Sources)
	for i := range s.Sources {
		s.Sources[i].Seed ^= change
	}
	s.Accounts, s.IPs = reseeded(s.Accounts, change), reseeded(s.IPs, change)
	return s
}

func reseeded(in map[string]fault.BucketConfig, change uint64) map[string]fault.BucketConfig {
	out := maps.Clone(in)
	for name, b := range out {
		b.Seed ^= change
		out[name] = b
	}
	return out
}
