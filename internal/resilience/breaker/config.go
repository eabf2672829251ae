package breaker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"spillway/internal/gateway"
)

// Values of the enumerated settings.
const (
	ScopeProvider   = "provider"   // one breaker for all connections of a provider
	ScopeConnection = "connection" // one per connection
	ScopeAuto       = "auto"       // one per connection; the provider is out, too, when its members say so

	CountLeaky       = "leaky"       // a success takes one failure back
	CountConsecutive = "consecutive" // a success zeroes the count
	CountCumulative  = "cumulative"  // a success changes nothing until the breaker closes

	EvidenceOff      = "off"
	EvidenceSuppress = "suppress" // a run does not open while the window's rate is below rate_threshold
	EvidenceRunTest  = "run_test" // a run opens only when it is implausible for a source that flaky

	OpenStreak  = "streak"  // open time grows with the number of failed probes
	OpenEpisode = "episode" // open time is half of how long the episode already lasts

	StreakResetNone    = "none"
	StreakResetOnClose = "on_close"
	StreakResetStable  = "stable"

	ProbeLive             = "live"               // any request may probe
	ProbeLiveWithFallback = "live_with_fallback" // only a request that can still fall back, or has nothing else

	ClassCount   = "count"
	ClassNeutral = "neutral"
	ClassAlive   = "alive"
	ClassDead    = "dead"
)

// Config is the policy of one breaker. The zero value is not usable: start from Recommended or a Preset. The numbers
// of all presets stand in spec breaker.md section 3.
type Config struct {
	// Scope is what one breaker isolates: provider | connection | auto. Recommended: auto.
	Scope string `yaml:"scope"`
	// AutoWindow is how near to each other the trips of a provider's connections must lie for scope auto. Recommended
	// 30s, range 1s-1h.
	AutoWindow time.Duration `yaml:"auto_window"`
	// EvidencePerModel keeps evidence per (scope, exact model) and per scope, so that one dead model does not take its
	// connection out. Recommended: true.
	EvidencePerModel bool `yaml:"evidence_per_model"`

	// CountMode is what a success does to the failure count: leaky | consecutive | cumulative. Recommended: consecutive.
	CountMode string `yaml:"count_mode"`
	// ConsecThreshold is the failure count that opens. Recommended 5, range 1-1000.
	ConsecThreshold int `yaml:"consec_threshold"`
	// ConsecConcFactor raises the threshold to factor x max_concurrent of the connection. Recommended 0 (off), 0-100.
	ConsecConcFactor int `yaml:"consec_conc_factor"`
	// CountGap: failures within it of the last counted one count once for the run. Recommended 200ms, 0 (off)-1m.
	CountGap time.Duration `yaml:"count_gap"`
	// DegradeThreshold is the failure count from which a closed breaker is shown degraded. Recommended 3, 0 = off.
	DegradeThreshold int `yaml:"degrade_threshold"`
	// DegradeRate is the failure rate from which a closed breaker is shown degraded. Recommended 0.3, 0 = off, 0-1.
	DegradeRate float64 `yaml:"degrade_rate"`

	// RateThreshold is the failure rate in the window that opens. Recommended 0.5, 0 = off, 0-1.
	RateThreshold float64 `yaml:"rate_threshold"`
	// RateMinCalls is how many attempts the window must hold before its rate says anything. Recommended 20, 2-100000.
	RateMinCalls int `yaml:"rate_min_calls"`
	// RateWindow is the length of the window, kept in two halves. Recommended 60s, 1s-24h.
	RateWindow time.Duration `yaml:"rate_window"`
	// RateBuckets is the number of buckets of the window; only 2 is built, 0 means 2.
	RateBuckets int `yaml:"rate_buckets"`
	// EvidenceMode is how the window may veto a run: off | suppress | run_test. Recommended: run_test.
	EvidenceMode string `yaml:"evidence_mode"`

	// ProviderCooldown switches the outer window gate on: many failures over a long time without a single success between
	// them. Recommended: off.
	ProviderCooldown ProviderCooldown `yaml:"provider_cooldown"`
	// WcountThreshold is how many failures within WcountWindow open the outer gate; one success zeroes them. Default 10
	// (oauth), 15 (apikey), 2 (local); 0 = off.
	WcountThreshold int `yaml:"wcount_threshold"`
	// WcountWindow is the window of the outer gate. Default 15m (oauth), 30m (apikey), 5m (local); 0-24h.
	WcountWindow time.Duration `yaml:"wcount_window"`
	// WcountOpen is how long the outer gate stays open; 0 = open_base. Default 5m (oauth), 10m (apikey), 60s (local); 0-24h.
	WcountOpen time.Duration `yaml:"wcount_open"`

	// OpenBase is the shortest open time. Recommended 10s, 1ms-24h.
	OpenBase time.Duration `yaml:"open_base"`
	// OpenFactor multiplies the open time per failed probe in open_growth streak. 1-10.
	OpenFactor int `yaml:"open_factor"`
	// OpenMax caps the open time. Recommended 300s, open_base-24h.
	OpenMax time.Duration `yaml:"open_max"`
	// OpenGrowth is how the open time grows: streak | episode. Recommended: episode.
	OpenGrowth string `yaml:"open_growth"`
	// EscalateAfter is the streak up to which the open time does not grow (open_growth streak). 0-100.
	EscalateAfter int `yaml:"escalate_after"`
	// StreakOn lists the causes that raise the streak: probe, rate, wcount, consecutive, kind.
	StreakOn []string `yaml:"streak_on"`
	// StreakReset is when the streak ends: none | on_close | stable. Recommended: stable.
	StreakReset string `yaml:"streak_reset"`
	// StableFactor: the streak, or the episode, ends after stable_factor x the open time, closed. Recommended 2, 0-100.
	StableFactor int `yaml:"stable_factor"`
	// OpenJitter shortens the open time by up to this share. Recommended 0.1, 0-0.5.
	OpenJitter float64 `yaml:"open_jitter"`
	// HonourRetryAfter raises the open time to the Retry-After of a 503 or 529, up to open_max. Recommended: true.
	HonourRetryAfter bool `yaml:"honour_retry_after"`

	// ProbePermits is how many probes may be in flight. Recommended 1, 1-16.
	ProbePermits int `yaml:"probe_permits"`
	// ProbeInterval is the least time between two probes. Recommended 0, 0-1h.
	ProbeInterval time.Duration `yaml:"probe_interval"`
	// ProbeTTL is the lease of a probe; 0 = the longest first-content limit + 5s. 0-24h.
	ProbeTTL time.Duration `yaml:"probe_ttl"`
	// ProbeRenew says that attempts renew their lease (Permit.Renew), so probe_ttl may be shorter than an attempt.
	// Recommended: true.
	ProbeRenew bool `yaml:"probe_renew"`
	// ProbeSource is which requests may probe: live | live_with_fallback. Recommended: live_with_fallback.
	ProbeSource string `yaml:"probe_source"`
	// SuccessThreshold is how many probes must succeed to close. Recommended 2, 1-100.
	SuccessThreshold int `yaml:"success_threshold"`

	// Kinds is the policy per kind of outcome, by the kind's name (service_error, timeout, rate_limited ...).
	Kinds map[string]KindPolicy `yaml:"kinds"`
	// CountedStatuses are the HTTP statuses of a service_error that count; empty = all. An error without a status (or
	// behind a 2xx) always counts.
	CountedStatuses []int `yaml:"counted_statuses"`
	// CountNon2xx makes every answer with a status of 300 or more a failure, whatever its kind (preset autorouter).
	CountNon2xx bool `yaml:"count_non_2xx"`

	// BackendDown is what happens while a shared state store is unreachable: local | local_shadow | fail_closed |
	// fail_open | error. The memory back end is never down. Recommended: local_shadow.
	BackendDown string `yaml:"backend_down"`
}

// ProviderCooldown is the switch of the outer window gate.
type ProviderCooldown struct {
	// Enabled turns wcount_* on. Default false.
	Enabled bool `yaml:"enabled"`
}

// KindPolicy is what one kind of outcome means to the breaker. Zero fields keep the built-in meaning.
type KindPolicy struct {
	// Class: count | neutral | alive | dead; "" = as spec resilience.md section 1 has it.
	Class string `yaml:"class"`
	// Threshold is the count of this kind alone that opens; 0 = off.
	Threshold int `yaml:"threshold"`
	// Immediate opens at the first one.
	Immediate bool `yaml:"immediate"`
	// OpenMS replaces open_base for a trip by this kind, in milliseconds; it may exceed open_max. 0 = off.
	OpenMS int64 `yaml:"open_ms"`
	// Weight is how much one failure adds to the run; 0 is read as 1. 0-1000.
	Weight int `yaml:"weight"`
}

const day = 24 * time.Hour

// Validate returns all problems joined, each beginning with the field's name.
func (c Config) Validate() error {
	var v problems
	v.oneOf("scope", c.Scope, ScopeProvider, ScopeConnection, ScopeAuto)
	v.oneOf("count_mode", c.CountMode, CountLeaky, CountConsecutive, CountCumulative)
	v.oneOf("evidence_mode", c.EvidenceMode, EvidenceOff, EvidenceSuppress, EvidenceRunTest)
	v.oneOf("open_growth", c.OpenGrowth, OpenStreak, OpenEpisode)
	v.oneOf("streak_reset", c.StreakReset, StreakResetNone, StreakResetOnClose, StreakResetStable)
	v.oneOf("probe_source", c.ProbeSource, ProbeLive, ProbeLiveWithFallback)
	v.oneOf("backend_down", c.BackendDown, "local", "local_shadow", "fail_closed", "fail_open", "error")
	for _, s := range c.StreakOn {
		v.oneOf("streak_on", s, "probe", "rate", "wcount", "consecutive", "kind")
	}
	v.between("consec_threshold", c.ConsecThreshold, 1, 1000)
	v.between("consec_conc_factor", c.ConsecConcFactor, 0, 100)
	v.between("open_factor", c.OpenFactor, 1, 10)
	v.between("escalate_after", c.EscalateAfter, 0, 100)
	v.between("stable_factor", c.StableFactor, 0, 100)
	v.between("probe_permits", c.ProbePermits, 1, maxLeases)
	v.between("success_threshold", c.SuccessThreshold, 1, 100)
	v.span("count_gap", c.CountGap, 0, time.Minute)
	v.span("probe_interval", c.ProbeInterval, 0, time.Hour)
	v.span("probe_ttl", c.ProbeTTL, 0, day)
	v.span("open_base", c.OpenBase, time.Millisecond, day)
	v.span("open_max", c.OpenMax, 0, day)
	v.check(c.OpenMax >= c.OpenBase, "open_max", "must be at least open_base")
	v.check(c.OpenJitter >= 0 && c.OpenJitter <= 0.5, "open_jitter", "must be between 0 and 0.5")
	v.check(c.DegradeThreshold >= 0 && c.DegradeThreshold < max(c.ConsecThreshold, 1), "degrade_threshold",
		"must be below consec_threshold, or it is never seen")
	if c.Scope == ScopeAuto {
		v.span("auto_window", c.AutoWindow, time.Second, time.Hour)
	}
	c.validateWindow(&v)
	c.validateKinds(&v)
	return errors.Join(v...)
}

func (c Config) validateWindow(v *problems) {
	v.check(c.RateThreshold >= 0 && c.RateThreshold <= 1, "rate_threshold", "must be between 0 and 1")
	v.check(c.DegradeRate >= 0 && c.DegradeRate <= 1, "degrade_rate", "must be between 0 and 1")
	v.check(c.RateBuckets == 0 || c.RateBuckets == 2, "rate_buckets", "must be 2")
	if c.RateThreshold > 0 || c.DegradeRate > 0 {
		v.between("rate_min_calls", c.RateMinCalls, 2, 100_000)
		v.span("rate_window", c.RateWindow, time.Second, day)
	}
	if c.EvidenceMode != EvidenceOff {
		v.check(c.RateThreshold > 0, "evidence_mode", "needs rate_threshold")
	}
	if c.EvidenceMode == EvidenceRunTest {
		v.check(c.CountMode == CountConsecutive, "evidence_mode", "run_test needs count_mode consecutive")
		v.check(c.RateThreshold <= 0.6, "rate_threshold", "must be at most 0.6 with evidence_mode run_test")
	}
	v.between("wcount_threshold", c.WcountThreshold, 0, 100_000)
	v.span("wcount_window", c.WcountWindow, 0, day)
	v.span("wcount_open", c.WcountOpen, 0, day)
	if c.ProviderCooldown.Enabled {
		v.check(c.WcountThreshold > 0, "wcount_threshold", "must be set when provider_cooldown is enabled")
		v.check(c.WcountWindow > 0, "wcount_window", "must be set when provider_cooldown is enabled")
	}
}

func (c Config) validateKinds(v *problems) {
	names := make([]string, 0, len(c.Kinds))
	for name := range c.Kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p, field := c.Kinds[name], "kinds."+name
		var k gateway.Kind
		if err := k.UnmarshalText([]byte(name)); err != nil {
			v.check(false, field, err.Error())
			continue
		}
		v.check(k != gateway.Success && k != gateway.LocalError && k != gateway.Canceled, field, "has a fixed meaning")
		v.oneOf(field+".class", p.Class, "", ClassCount, ClassNeutral, ClassAlive, ClassDead)
		v.between(field+".threshold", p.Threshold, 0, 1000)
		v.between(field+".weight", p.Weight, 0, 1000)
		v.check(p.OpenMS >= 0 && p.OpenMS <= day.Milliseconds(), field+".open_ms", "must be between 0 and 24 hours")
	}
	for _, s := range c.CountedStatuses {
		v.check(s >= 100 && s <= 599, "counted_statuses", fmt.Sprintf("%d is no HTTP status", s))
	}
}

// problems collects what is wrong with a configuration.
type problems []error

func (v *problems) check(ok bool, field, text string) {
	if !ok {
		*v = append(*v, fmt.Errorf("%s: %s", field, text))
	}
}

func (v *problems) between(field string, n, lo, hi int) {
	v.check(n >= lo && n <= hi, field, fmt.Sprintf("must be between %d and %d", lo, hi))
}

func (v *problems) span(field string, d, lo, hi time.Duration) {
	v.check(d >= lo && d <= hi, field, fmt.Sprintf("must be between %v and %v", lo, hi))
}

func (v *problems) oneOf(field, s string, allowed ...string) {
	v.check(slices.Contains(allowed, s), field, fmt.Sprintf("%q is not one of %q", s, allowed))
}
