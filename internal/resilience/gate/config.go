package gate

import (
	"errors"
	"fmt"
	"time"
)

// Modes of AIMD.
const (
	AIMDOff      = "off"
	AIMDOnDemand = "on_demand" // engaged by a 429 that comes while the account succeeds
	AIMDAlways   = "always"    // engaged from the start
)

// Config holds the caps that belong to no single connection, and the numbers of pacing. The caps of a connection and of
// a model at a connection are fields of the connection.
type Config struct {
	// GlobalConcurrency caps attempts in flight over everything. Default 0 = off, at most 100000.
	GlobalConcurrency int `yaml:"global_concurrency"`
	// ProviderConcurrency caps attempts in flight per provider. Default 0 = off, at most 100000.
	ProviderConcurrency int `yaml:"provider_concurrency"`
	// DefaultLimit is what a candidate without any cap is thought to carry, for scoring only. Default 64, 1-100000.
	DefaultLimit int `yaml:"default_limit"`
	// UnprovenCap is how many attempts a candidate carries until its first first-content. Default 2, 0 = no such cap.
	UnprovenCap int `yaml:"unproven_cap"`
	// UnprovenStep is by how much that cap grows per UnprovenEvery that a request has waited while no candidate of its
	// pool is proven. Default 2, 0 = never.
	UnprovenStep int `yaml:"unproven_step"`
	// UnprovenEvery is the time per step. Default 2s, 10ms-1h.
	UnprovenEvery time.Duration `yaml:"unproven_every"`
	// AIMD paces an account and model by its 429s.
	AIMD AIMD `yaml:"aimd"`
}

// AIMD holds the numbers of the adaptive limit.
type AIMD struct {
	// Mode is off, on_demand (default) or always.
	Mode string `yaml:"mode"`
	// Start is the first limit in mode always. Default 8, 1-100000.
	Start float64 `yaml:"start"`
	// Cut is what a congestion leaves of the limit. Default 0.5, above 0, below 1.
	Cut float64 `yaml:"cut"`
	// Max bounds growth. Default 0 = by the caps only.
	Max int `yaml:"max"`
	// Calm is how long no more than half of the limit may be used before it is dropped (on_demand). Default 5m, >= 1s.
	Calm time.Duration `yaml:"calm"`
	// SuccessWithin is how recent a success must be for a 429 to engage the limit. Default 10s, >= 1s.
	SuccessWithin time.Duration `yaml:"success_within"`
}

// Default is the profile recommended.
func Default() Config {
	return Config{DefaultLimit: 64, UnprovenCap: 2, UnprovenStep: 2, UnprovenEvery: 2 * time.Second, AIMD: AIMD{
		Mode: AIMDOnDemand, Start: 8, Cut: 0.5, Calm: 5 * time.Minute, SuccessWithin: 10 * time.Second}}
}

// Preset returns the numbers of a profile by name: recommended, polygateway (seed 001), or one that knows neither AIMD
// nor the cap of the unproven (omniroute-*, autorouter). ok is false for another name.
func Preset(name string) (c Config, ok bool) {
	c = Default()
	switch name {
	case "recommended":
	case "polygateway":
		c.AIMD.Mode, c.UnprovenCap = AIMDAlways, 0
	case "omniroute-oauth", "omniroute-apikey", "omniroute-local", "autorouter":
		c.AIMD.Mode, c.UnprovenCap = AIMDOff, 0
	default:
		return c, false
	}
	return c, true
}

// Validate reports every problem, each starting with the field's name.
func (c Config) Validate() error {
	var errs []error
	within := func(name string, n, low, high int) {
		if n < low || n > high {
			errs = append(errs, fmt.Errorf("%s: must be between %d and %d, is %d", name, low, high, n))
		}
	}
	within("global_concurrency", c.GlobalConcurrency, 0, 100000)
	within("provider_concurrency", c.ProviderConcurrency, 0, 100000)
	within("default_limit", c.DefaultLimit, 1, 100000)
	within("unproven_cap", c.UnprovenCap, 0, 100000)
	within("unproven_step", c.UnprovenStep, 0, 100000)
	if c.UnprovenEvery < 10*time.Millisecond || c.UnprovenEvery > time.Hour {
		errs = append(errs, fmt.Errorf("unproven_every: must be between 10ms and 1h, is %s", c.UnprovenEvery))
	}
	return errors.Join(append(errs, c.AIMD.validate()...)...)
}

func (a AIMD) validate() []error {
	var errs []error
	switch a.Mode {
	case AIMDOff, AIMDOnDemand, AIMDAlways:
	default:
		errs = append(errs, fmt.Errorf("aimd.mode: must be off, on_demand or always, is %q", a.Mode))
	}
	if !(a.Start >= 1 && a.Start <= 100000) {
		errs = append(errs, fmt.Errorf("aimd.start: must be between 1 and 100000, is %g", a.Start))
	}
	if !(a.Cut > 0 && a.Cut < 1) {
		errs = append(errs, fmt.Errorf("aimd.cut: must be above 0 and below 1, is %g", a.Cut))
	}
	if a.Max < 0 || a.Max > 100000 {
		errs = append(errs, fmt.Errorf("aimd.max: must be between 0 and 100000, is %d", a.Max))
	}
	if a.Calm < time.Second {
		errs = append(errs, fmt.Errorf("aimd.calm: must be at least 1s, is %s", a.Calm))
	}
	if a.SuccessWithin < time.Second {
		errs = append(errs, fmt.Errorf("aimd.success_within: must be at least 1s, is %s", a.SuccessWithin))
	}
	return errs
}
