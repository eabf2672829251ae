package lockout

import (
	"errors"
	"fmt"
	"time"

	"spillway/internal/gateway"
)

// Config tunes the room for one connection. Default gives the profile `recommended`; Preset the seeds' numbers.
type Config struct {
	// Enabled lets 403 and the 5xx codes of error_codes lock a model. A missing or retired model, per-model rate limits
	// and rules with scope model always lock. Default false.
	Enabled bool `yaml:"enabled"`
	// ErrorCodes are the upstream statuses that count while enabled; an empty answer counts as 502. Values outside 100
	// to 599 are dropped. Default [403, 404, 429, 502, 503, 504].
	ErrorCodes []int `yaml:"error_codes"`
	// Base is the first lock; the n-th without enough successes between lasts base * 2^(n-1). Default 120s; at least 1ms.
	Base time.Duration `yaml:"base"`
	// MaxCooldown caps such a lock. Default 30m; base to 24h.
	MaxCooldown time.Duration `yaml:"max_cooldown"`
	// MaxBackoffSteps is how often a lock may double. Default 10; 0 to 32.
	MaxBackoffSteps int `yaml:"max_backoff_steps"`
	// Exponential makes repeated locks longer. Default true.
	Exponential bool `yaml:"exponential"`

	// Retired is how long a model that is gone for good is locked at every account of its provider. Default 24h; above
	// 0, at most 24h.
	Retired time.Duration `yaml:"retired"`
	// MaxRule caps the time that a rule declares. Default 24h (presets omniroute-*: max_cooldown); above 0, at most 24h.
	MaxRule time.Duration `yaml:"max_rule"`
	// MaxHint caps the hint of a per-model rate limit. Default 15m; above 0, at most 24h.
	MaxHint time.Duration `yaml:"max_hint"`
	// MaxQuota caps the time until a model quota's reset. Default 24h (presets omniroute-*: max_cooldown); above 0, at
	// most 24h.
	MaxQuota time.Duration `yaml:"max_quota"`
	// QuotaCooldown holds for a spent model quota whose reset nobody named. Default 1h; above 0.
	QuotaCooldown time.Duration `yaml:"quota_cooldown"`
	// QuotaMidnight makes such a quota last until the next local midnight. Default false, omniroute presets true.
	QuotaMidnight bool `yaml:"quota_midnight"`
	// PaymentCooldown holds for a 402 that carries no credits code. Default 2m; above 0.
	PaymentCooldown time.Duration `yaml:"payment_cooldown"`

	// IgnoreUnhinted leaves a per-model 429 without a hint to AIMD alone. Default true for local, else false.
	IgnoreUnhinted bool `yaml:"ignore_unhinted"`
	// SuccessGrace: so does a success of the same account and model within it. Default 10s; 0 = off (omniroute presets).
	SuccessGrace time.Duration `yaml:"success_grace"`

	// Persist keeps locks over a restart; false drops them, those of the last run included. Default true.
	Persist bool `yaml:"persist"`

	// Family is the quota that the model shares with others of its provider; "" = none. Whoever binds knows it.
	Family string `yaml:"-"`
}

// Default returns the profile `recommended` for a class of credential.
func Default(class gateway.Class) Config {
	return Config{
		ErrorCodes: []int{403, 404, 429, 502, 503, 504},
		Base:       120 * time.Second, MaxCooldown: 30 * time.Minute, MaxBackoffSteps: 10, Exponential: true,
		Retired: maxLock, MaxRule: maxLock, MaxHint: 15 * time.Minute, MaxQuota: maxLock,
		QuotaCooldown: time.Hour, PaymentCooldown: 2 * time.Minute,
		IgnoreUnhinted: class == gateway.Local, SuccessGrace: 10 * time.Second, Persist: true,
	}
}

// Preset returns a named profile: omniroute-oauth, omniroute-apikey, omniroute-local, polygateway, autorouter, or
// recommended (for API keys). polygateway and autorouter have no lockout to reproduce and take the recommended one.
func Preset(name string) (Config, bool) {
	switch name {
	case "recommended", "polygateway", "autorouter":
		return Default(gateway.APIKey), true
	case "omniroute-oauth", "omniroute-apikey", "omniroute-local":
		c := Default(gateway.APIKey)
		c.Retired, c.MaxRule, c.MaxHint, c.MaxQuota = c.MaxCooldown, c.MaxCooldown, c.MaxCooldown, c.MaxCooldown
		c.QuotaMidnight, c.SuccessGrace = true, 0
		return c, true
	}
	return Config{}, false
}

// Validate reports every problem of the configuration, each with the name of its field first.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Base < time.Millisecond {
		bad("base: must be at least 1ms")
	}
	if c.MaxCooldown < c.Base {
		bad("max_cooldown: must be at least base")
	}
	if c.MaxBackoffSteps < 0 || c.MaxBackoffSteps > 32 {
		bad("max_backoff_steps: must be 0 to 32")
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"retired", c.Retired}, {"max_rule", c.MaxRule}, {"max_hint", c.MaxHint}, {"max_quota", c.MaxQuota},
		{"quota_cooldown", c.QuotaCooldown}, {"payment_cooldown", c.PaymentCooldown}, {"max_cooldown", c.MaxCooldown},
	} {
		if f.d <= 0 || f.d > maxLock {
			bad("%s: must be above 0 and at most 24h", f.name)
		}
	}
	if c.SuccessGrace < 0 {
		bad("success_grace: must not be negative")
	}
	return errors.Join(errs...)
}

// counts reports whether a status may lock while the room is enabled.
func (c *Config) counts(status int) bool {
	for _, code := range c.ErrorCodes {
		if code == status && code >= 100 && code <= 599 {
			return true
		}
	}
	return false
}

// backoff is how long the lock after count earlier ones lasts.
func (c *Config) backoff(count int) time.Duration {
	d := c.Base
	if c.Exponential {
		for range min(count, c.MaxBackoffSteps) {
			if d >= c.MaxCooldown/2 {
				return c.MaxCooldown
			}
			d *= 2
		}
	}
	return min(d, c.MaxCooldown)
}

// quota is how long a spent quota holds when nobody named its reset.
func (c *Config) quota(status int, now time.Time) time.Duration {
	d := c.QuotaCooldown
	switch {
	case status == 402:
		d = c.PaymentCooldown
	case c.QuotaMidnight:
		y, m, day := now.Date()
		d = time.Date(y, m, day+1, 0, 0, 0, 0, now.Location()).Sub(now)
	}
	return min(d, c.MaxQuota)
}
