package health

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the numbers of spec resilience.md section 10.
type Config struct {
	// Alpha is the weight of one attempt in the success rate. Default 0.2, range (0, 1].
	Alpha float64 `yaml:"alpha"`
	// HalfLife is the time in which the success rate drifts half-way back to 1 without traffic. Default 5m, at least 1s.
	HalfLife time.Duration `yaml:"half_life"`
	// Absence is how long a candidate may go without content before it is no longer proven. Default 60s, at least 1s.
	Absence time.Duration `yaml:"absence"`
	// MinSamples is how many waits must be known before their p95 is used. Default 20, range 1-10000.
	MinSamples int `yaml:"min_samples"`
}

// Default is the recommended configuration.
func Default() Config {
	return Config{Alpha: 0.2, HalfLife: 5 * time.Minute, Absence: time.Minute, MinSamples: 20}
}

// Validate reports every problem, each starting with the field's name.
func (c Config) Validate() error {
	var errs []error
	if !(c.Alpha > 0 && c.Alpha <= 1) {
		errs = append(errs, fmt.Errorf("alpha: must be above 0 and at most 1, is %g", c.Alpha))
	}
	if c.HalfLife < time.Second {
		errs = append(errs, fmt.Errorf("half_life: must be at least 1s, is %s", c.HalfLife))
	}
	if c.Absence < time.Second {
		errs = append(errs, fmt.Errorf("absence: must be at least 1s, is %s", c.Absence))
	}
	if c.MinSamples < 1 || c.MinSamples > 10000 {
		errs = append(errs, fmt.Errorf("min_samples: must be between 1 and 10000, is %d", c.MinSamples))
	}
	return errors.Join(errs...)
}
