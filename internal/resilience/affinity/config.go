package affinity

import (
	"errors"
	"time"
)

// Config tunes the room. It has the fields of the setting resilience.affinity.
type Config struct {
	// TTL is how long a session stays bound after its last success; 0 = off. Default 1h.
	TTL time.Duration
	// ReturnIdle: a session idle for longer goes back to a higher target. Default 5m.
	ReturnIdle time.Duration
	// ReturnTokens: so does one whose last prompt had fewer tokens. Default 20000.
	ReturnTokens int
	// PinTTL is how long stored objects are remembered; 0 = not at all. Default 720h.
	PinTTL time.Duration
}

// Default returns the defaults.
func Default() Config {
	return Config{TTL: time.Hour, ReturnIdle: 5 * time.Minute, ReturnTokens: 20_000, PinTTL: 720 * time.Hour}
}

// Validate reports every problem of the configuration, each with the name of its field first.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		bad  bool
	}{{"ttl", c.TTL < 0}, {"return_idle", c.ReturnIdle < 0}, {"return_tokens", c.ReturnTokens < 0}, {"pin_ttl", c.PinTTL < 0}} {
		if f.bad {
			errs = append(errs, errors.New(f.name+": must not be negative"))
		}
	}
	return errors.Join(errs...)
}
