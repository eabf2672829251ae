package lockout

import (
	"testing"
	"time"

	"spillway/internal/gateway"
)

// With persist: false nothing outlives a restart: not what was locked since, nor what an earlier run had kept.
func TestPersistSwitchedOff(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	g.try(h, hinted(spent, 5*time.Hour))
	g.try(g.bind(connection("a", "A"), "x"), missing)
	g.restart()
	if g.locked(g.bind(connection("a", "A"), "m")) == 0 {
		t.Fatal("forgotten although it is to be kept")
	}

	g.cfg.Persist = false
	g.restart()
	for _, m := range []string{"m", "x"} {
		if d := g.locked(g.bind(connection("a", "A"), m)); d != 0 {
			t.Errorf("%s is still locked for %s", m, d)
		}
	}
	for key, r := range g.saved {
		if len(r.Value) > 0 {
			t.Errorf("the store still holds %s: %s", key, r.Value)
		}
	}

	h = g.bind(connection("a", "A"), "m")
	g.try(h, missing)
	if h = g.bind(connection("a", "A"), "m"); g.locked(h) == 0 { // bound again, as by a reload: this process keeps it
		t.Error("a lock of this process is gone")
	}
	g.restart()
	if g.locked(g.bind(connection("a", "A"), "m")) != 0 {
		t.Error("locked after a restart")
	}
}

// Every setting of the room does what it says, one at a time.
func TestEverySettingActs(t *testing.T) {
	status := func(code int) gateway.Outcome { return with(broken, func(o *gateway.Outcome) { o.Status = code }) }
	for name, tc := range map[string]struct {
		set  func(*Config)
		seq  []gateway.Outcome
		want time.Duration // the last lock
	}{
		"enabled":                   {func(c *Config) { c.Enabled = true }, []gateway.Outcome{status(503)}, 2 * time.Minute},
		"not enabled":               {func(c *Config) {}, []gateway.Outcome{status(503)}, 0},
		"error_codes":               {func(c *Config) { c.Enabled, c.ErrorCodes = true, []int{500} }, []gateway.Outcome{status(500)}, 2 * time.Minute},
		"not among error_codes":     {func(c *Config) { c.Enabled, c.ErrorCodes = true, []int{500} }, []gateway.Outcome{status(503)}, 0},
		"99 and 600 are dropped":    {func(c *Config) { c.Enabled, c.ErrorCodes = true, []int{99, 600, 700} }, []gateway.Outcome{status(600)}, 0},
		"base":                      {func(c *Config) { c.Base = time.Second }, []gateway.Outcome{missing}, time.Second},
		"max_cooldown":              {func(c *Config) { c.MaxCooldown = 3 * time.Minute }, []gateway.Outcome{missing, missing, missing}, 3 * time.Minute},
		"max_backoff_steps":         {func(c *Config) { c.MaxBackoffSteps = 1 }, []gateway.Outcome{missing, missing, missing}, 4 * time.Minute},
		"no max_backoff_steps":      {func(c *Config) { c.MaxBackoffSteps = 0 }, []gateway.Outcome{missing, missing}, 2 * time.Minute},
		"exponential":               {func(c *Config) {}, []gateway.Outcome{missing, missing, missing}, 8 * time.Minute},
		"not exponential":           {func(c *Config) { c.Exponential = false }, []gateway.Outcome{missing, missing}, 2 * time.Minute},
		"retired":                   {func(c *Config) { c.Retired = time.Hour }, []gateway.Outcome{retired}, time.Hour},
		"max_rule":                  {func(c *Config) { c.MaxRule = time.Hour }, []gateway.Outcome{ruled(forbid, gateway.ScopeModel, 5*time.Hour)}, time.Hour},
		"max_hint":                  {func(c *Config) { c.MaxHint = time.Minute }, []gateway.Outcome{hinted(limited, time.Hour)}, time.Minute},
		"max_quota":                 {func(c *Config) { c.MaxQuota = 2 * time.Hour }, []gateway.Outcome{hinted(spent, 5*time.Hour)}, 2 * time.Hour},
		"quota_cooldown":            {func(c *Config) { c.QuotaCooldown = 10 * time.Minute }, []gateway.Outcome{spent}, 10 * time.Minute},
		"payment_cooldown":          {func(c *Config) { c.PaymentCooldown = time.Minute }, []gateway.Outcome{with(spent, func(o *gateway.Outcome) { o.Status = 402 })}, time.Minute},
		"ignore_unhinted":           {func(c *Config) { c.IgnoreUnhinted = true }, []gateway.Outcome{limited}, 0},
		"success_grace":             {func(c *Config) {}, []gateway.Outcome{success, limited}, 0},
		"no success_grace":          {func(c *Config) { c.SuccessGrace = 0 }, []gateway.Outcome{success, limited}, 2 * time.Minute},
		"404 locks though disabled": {func(c *Config) { c.ErrorCodes = nil }, []gateway.Outcome{missing}, 2 * time.Minute},
	} {
		g := newRig(t)
		tc.set(&g.cfg)
		if err := g.cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h := g.bind(connection("a", "A"), "m")
		var got time.Duration
		for _, o := range tc.seq {
			g.wait(time.Minute) // apart from the lock before it
			g.wait(g.locked(h))
			if o.Kind == gateway.RateLimited {
				g.try(h, success)
				if o.RetryAfter == 0 && name != "success_grace" && name != "no success_grace" {
					g.wait(time.Minute)
				}
			}
			g.try(h, o)
			got = g.locked(h)
		}
		if got != tc.want {
			t.Errorf("%s: locked for %s, want %s", name, got, tc.want)
		}
	}
	g := newRig(t) // quota_midnight
	g.cfg.QuotaMidnight = true
	h := g.bind(connection("a", "A"), "m")
	g.try(h, spent)
	if until := h.Peek(nil, g.now).Until; until.Hour() != 0 || until.Minute() != 0 || until.Day() != 5 {
		t.Errorf("quota_midnight: until %s", until)
	}
}
