package cooldown

import (
	"errors"
	"fmt"
	"time"

	"spillway/internal/gateway"
)

// Config tunes the room for one connection. Default gives the profile `recommended`; Preset the seeds' numbers.
type Config struct {
	// Base is the first back-off; the n-th episode without a success cools for base * 2^(n-1). Default 3s (apikey,
	// local), 5s (oauth); 1ms to max_backoff.
	Base time.Duration `yaml:"base"`
	// MaxBackoffSteps is how often the back-off may double. Default 5 (apikey, local), 8 (oauth); 0 to 32.
	MaxBackoffSteps int `yaml:"max_backoff_steps"`
	// MaxBackoff caps a back-off, before jitter. Default 15m; at least base.
	MaxBackoff time.Duration `yaml:"max_backoff"`
	// Jitter lengthens a back-off by a random share of it, so that accounts that fell together do not return together.
	// Default 0.1; 0 to 1.
	Jitter float64 `yaml:"jitter"`

	// UseRetryHints takes the time that the upstream names. Default true.
	UseRetryHints bool `yaml:"use_retry_hints"`
	// MaxHint caps the hint of a rate limit or an auth fault; behind a capped hint waits exactly one canary. Default
	// 15m; greater than 0.
	MaxHint time.Duration `yaml:"max_hint"`
	// MaxQuota caps the time until a quota's reset, likewise. Default 24h; greater than 0.
	MaxQuota time.Duration `yaml:"max_quota"`
	// QuotaCooldown holds for a spent quota whose reset nobody named. Default 1h; greater than 0.
	QuotaCooldown time.Duration `yaml:"quota_cooldown"`
	// QuotaMidnight makes such a quota last until the next local midnight instead. Default false, omniroute presets true.
	QuotaMidnight bool `yaml:"quota_midnight"`
	// PaymentCooldown holds for a 402 that carries no credits code. Default 2m; greater than 0.
	PaymentCooldown time.Duration `yaml:"payment_cooldown"`

	// IgnoreUnhinted leaves a 429 without a hint to AIMD alone. Default true for local, else false.
	IgnoreUnhinted bool `yaml:"ignore_unhinted"`
	// SuccessGrace: a 429 without a hint is left to AIMD while another attempt on the account succeeded within it.
	// Default 10s; 0 = off (omniroute presets).
	SuccessGrace time.Duration `yaml:"success_grace"`
	// RateLimitCooldown is the least cooldown of a 429 without a hint. Default 0 = plain back-off; omniroute-oauth 60s.
	RateLimitCooldown time.Duration `yaml:"rate_limit_cooldown"`

	// NotBeforeMax caps the Retry-After of a 503 or 529, which keeps traffic away while another candidate is runnable.
	// Default 60s; 0 = ignored.
	NotBeforeMax time.Duration `yaml:"not_before_max"`
	// ServiceBackoff cools the connection for service errors as well. Default false, omniroute presets true.
	ServiceBackoff bool `yaml:"service_backoff"`
	// StreamStallCooldown cools the connection for a stalled stream. Default false.
	StreamStallCooldown bool `yaml:"stream_stall_cooldown"`

	// ConfirmAfter is the least time between the two observations that make a terminal state. Default 10s; at least 1ms.
	ConfirmAfter time.Duration `yaml:"confirm_after"`
	// KeyWindow: a client key seen on the account within it is active; then a terminal state needs two keys. Default 10m.
	KeyWindow time.Duration `yaml:"key_window"`
	// ExpiredRetries is how many retries a 401 gets before the connection is expired. Default 3; 0 to 10.
	ExpiredRetries int `yaml:"expired_retries"`
	// RejectLimit is how many distinct rejected requests without a success between them mean a ban. Default 3; at least 2.
	RejectLimit int `yaml:"reject_limit"`
	// RecheckEvery is the pace at which one request may try an expired or credits_exhausted connection. Default 1h.
	RecheckEvery time.Duration `yaml:"recheck_every"`
	// RecheckLater is that pace once the state is older than RecheckLaterAfter. Default 24h.
	RecheckLater time.Duration `yaml:"recheck_later"`
	// RecheckLaterAfter is the age at which the slower pace begins. Default 168h.
	RecheckLaterAfter time.Duration `yaml:"recheck_later_after"`

	// RampStep is the time after which a returning connection is given twice as many attempts, if no success came
	// sooner. Default 250ms; 0 = no ramp (omniroute presets).
	RampStep time.Duration `yaml:"ramp_step"`
	// CanaryLease is how long the one canary behind a capped hint holds its place without a sign of life. Default 30s;
	// greater than 0.
	CanaryLease time.Duration `yaml:"canary_lease"`

	// LearnEpisodes is how many episodes without a hint within LearnWindow make the room infer a rate. Default 3; 2 or
	// 3; 0 = off.
	LearnEpisodes int `yaml:"learn_episodes"`
	// LearnWindow is their window. Default 10m.
	LearnWindow time.Duration `yaml:"learn_window"`
	// LearnStep is the time after which the inferred rate is raised by a tenth. Default 5m; greater than 0.
	LearnStep time.Duration `yaml:"learn_step"`
}

// Default returns the profile `recommended` for a class of credential.
func Default(class gateway.Class) Config {
	c := Config{
		Base: 3 * time.Second, MaxBackoffSteps: 5, MaxBackoff: 15 * time.Minute, Jitter: 0.1,
		UseRetryHints: true, MaxHint: 15 * time.Minute, MaxQuota: 24 * time.Hour,
		QuotaCooldown: time.Hour, PaymentCooldown: 2 * time.Minute, SuccessGrace: 10 * time.Second,
		NotBeforeMax: time.Minute,
		ConfirmAfter: 10 * time.Second, KeyWindow: 10 * time.Minute, ExpiredRetries: 3, RejectLimit: 3,
		RecheckEvery: time.Hour, RecheckLater: 24 * time.Hour, RecheckLaterAfter: 7 * 24 * time.Hour,
		RampStep: 250 * time.Millisecond, CanaryLease: 30 * time.Second,
		LearnEpisodes: 3, LearnWindow: 10 * time.Minute, LearnStep: 5 * time.Minute,
	}
	switch class {
	case gateway.OAuth:
		c.Base, c.MaxBackoffSteps = 5*time.Second, 8
	case gateway.Local:
		c.IgnoreUnhinted = true
	}
	return c
}

// Preset returns a named profile: omniroute-oauth, omniroute-apikey, omniroute-local, polygateway, autorouter, or
// recommended (for API keys). polygateway and autorouter have no cooldown of their own to reproduce, so they take the
// recommended one. The hint caps stay in every preset: a hint is never a one-way latch.
func Preset(name string) (Config, bool) {
	switch name {
	case "recommended", "polygateway", "autorouter":
		return Default(gateway.APIKey), true
	case "omniroute-oauth":
		c := omniroute(gateway.OAuth)
		c.RateLimitCooldown = time.Minute
		return c, true
	case "omniroute-apikey":
		return omniroute(gateway.APIKey), true
	case "omniroute-local":
		return omniroute(gateway.Local), true
	}
	return Config{}, false
}

func omniroute(class gateway.Class) Config {
	c := Default(class)
	c.IgnoreUnhinted = false
	c.Jitter, c.SuccessGrace, c.RampStep, c.LearnEpisodes = 0, 0, 0, 0
	c.MaxBackoff, c.MaxHint = 30*time.Minute, 24*time.Hour
	c.QuotaMidnight, c.ServiceBackoff = true, true
	return c
}

// Validate reports every problem of the configuration, each with the name of its field first.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Base < time.Millisecond {
		bad("base: must be at least 1ms")
	}
	if c.MaxBackoff < c.Base {
		bad("max_backoff: must be at least base")
	}
	if c.MaxBackoff > maxStored/2 {
		bad("max_backoff: must be at most 12h")
	}
	if c.MaxBackoffSteps < 0 || c.MaxBackoffSteps > 32 {
		bad("max_backoff_steps: must be 0 to 32")
	}
	if !(c.Jitter >= 0 && c.Jitter <= 1) {
		bad("jitter: must be 0 to 1")
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"max_hint", c.MaxHint}, {"max_quota", c.MaxQuota}, {"quota_cooldown", c.QuotaCooldown},
		{"payment_cooldown", c.PaymentCooldown}, {"key_window", c.KeyWindow}, {"recheck_every", c.RecheckEvery},
		{"recheck_later", c.RecheckLater}, {"recheck_later_after", c.RecheckLaterAfter},
		{"canary_lease", c.CanaryLease}, {"learn_window", c.LearnWindow}, {"learn_step", c.LearnStep},
	} {
		if f.d <= 0 {
			bad("%s: must be greater than 0", f.name)
		}
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"success_grace", c.SuccessGrace}, {"rate_limit_cooldown", c.RateLimitCooldown},
		{"not_before_max", c.NotBeforeMax}, {"ramp_step", c.RampStep},
	} {
		if f.d < 0 {
			bad("%s: must not be negative", f.name)
		}
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"max_hint", c.MaxHint}, {"max_quota", c.MaxQuota}, {"payment_cooldown", c.PaymentCooldown},
		{"rate_limit_cooldown", c.RateLimitCooldown}, {"confirm_after", c.ConfirmAfter},
	} {
		if f.d > maxStored {
			bad("%s: must be at most 24h", f.name)
		}
	}
	if c.NotBeforeMax > maxNotBefore {
		bad("not_before_max: must be at most 10m")
	}
	if c.ConfirmAfter < time.Millisecond {
		bad("confirm_after: must be at least 1ms")
	}
	if c.ExpiredRetries < 0 || c.ExpiredRetries > 10 {
		bad("expired_retries: must be 0 to 10")
	}
	if c.RejectLimit < 2 {
		bad("reject_limit: must be at least 2")
	}
	if c.LearnEpisodes != 0 && c.LearnEpisodes != 2 && c.LearnEpisodes != maxBouts {
		bad("learn_episodes: must be 0, 2 or %d", maxBouts)
	}
	return errors.Join(errs...)
}

// backoff is base * 2^level, capped, then lengthened by the share u (0 to 1) of the jitter.
func (c *Config) backoff(level int, u float64) time.Duration {
	d := c.Base
	for range min(level, c.MaxBackoffSteps) {
		if d >= c.MaxBackoff/2 {
			d = c.MaxBackoff
			break
		}
		d *= 2
	}
	d = min(d, c.MaxBackoff)
	return d + time.Duration(float64(d)*c.Jitter*u)
}

// quota is how long a spent quota holds when nobody named its reset.
func (c *Config) quota(status int, now time.Time) time.Duration {
	switch {
	case status == 402:
		return c.PaymentCooldown
	case c.QuotaMidnight:
		y, m, d := now.Date()
		return min(time.Date(y, m, d+1, 0, 0, 0, 0, now.Location()).Sub(now), c.MaxQuota)
	}
	return min(c.QuotaCooldown, c.MaxQuota)
}
