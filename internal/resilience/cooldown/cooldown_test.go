package cooldown

import (
	"errors"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

func TestBackoffGrowsPerEpisodeAndOnlySuccessResetsIt(t *testing.T) {
	for _, tc := range []struct {
		name   string
		preset string
		class  gateway.Class
		o      gateway.Outcome
		want   []time.Duration
	}{
		{"apikey 429", "", gateway.APIKey, limited, secs(3, 6, 12, 24, 48, 96, 96)},
		{"apikey 403", "", gateway.APIKey, forbid, secs(3, 6, 12, 24, 48, 96, 96)},
		{"oauth 429", "", gateway.OAuth, limited, secs(5, 10, 20, 40, 80, 160, 320, 640, 900, 900)},
		{"omniroute-oauth 429", "omniroute-oauth", gateway.OAuth, limited, secs(60, 60, 60, 60, 80, 160)},
		{"omniroute-apikey 5xx", "omniroute-apikey", gateway.APIKey, overload, secs(3, 6, 12)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.cfg = Default(tc.class)
			if tc.preset != "" {
				g.cfg, _ = Preset(tc.preset)
			}
			g.cfg.Jitter, g.cfg.LearnEpisodes = 0, 0
			h := g.bind(connection("a", "A"))
			for i, want := range tc.want {
				g.try(h, tc.o)
				if got := g.back(h); got != want {
					t.Fatalf("episode %d cooled %s, want %s", i+1, got, want)
				}
				g.wait(time.Hour) // expiry and rest change nothing
			}
			g.try(h, success)
			g.wait(time.Minute)
			g.try(h, tc.o)
			if got := g.back(h); got != tc.want[0] {
				t.Fatalf("after a success: %s, want %s", got, tc.want[0])
			}
		})
	}
}

func secs(s ...float64) []time.Duration {
	out := make([]time.Duration, len(s))
	for i, v := range s {
		out[i] = time.Duration(v * float64(time.Second))
	}
	return out
}

func TestJitterOnlyLengthens(t *testing.T) {
	c := Default(gateway.APIKey)
	if lo, hi := c.backoff(0, 0), c.backoff(0, 0.999); lo != 3*time.Second || hi <= lo || hi > 3300*time.Millisecond {
		t.Fatalf("back-off %s to %s, want 3s to 3.3s", lo, hi)
	}
}

func TestHint(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    gateway.Outcome
		want time.Duration
	}{
		{"rate limit", hinted(limited, 42*time.Second), 42 * time.Second},
		{"rate limit, capped", hinted(limited, 18*24*time.Hour), 15 * time.Minute},
		{"quota", hinted(spent, 5*time.Hour), 5 * time.Hour},
		{"quota, capped", hinted(spent, 156*time.Hour), 24 * time.Hour},
		{"quota, no reset", spent, time.Hour},
		{"402 without a credits code", with(spent, func(o *gateway.Outcome) { o.Status = 402 }), 2 * time.Minute},
		{"rule", with(limited, func(o *gateway.Outcome) { o.RetryAfter, o.Hint = 6*time.Hour, gateway.HintRule }), 6 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			h := g.bind(connection("a", "A"))
			g.try(h, tc.o)
			if r := g.want(h, resilience.Forbidden, gateway.ConnectionCooldown); r.Until.Sub(g.now) != tc.want {
				t.Fatalf("cools %s, want %s", r.Until.Sub(g.now), tc.want)
			}
			g.back(h)
		})
	}
}

func with(o gateway.Outcome, f func(*gateway.Outcome)) gateway.Outcome { f(&o); return o }

func TestQuotaUntilMidnight(t *testing.T) {
	g := newRig(t)
	g.cfg, _ = Preset("omniroute-apikey")
	h := g.bind(connection("a", "A"))
	g.try(h, spent)
	want := time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)
	if r := h.Peek(ask(), g.now); !r.Until.Equal(want) {
		t.Fatalf("until %s, want %s", r.Until, want)
	}
}

func TestUnhintedLimitWhileTheAccountWorksIsLeftToAIMD(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, success)
	g.wait(5 * time.Second)
	g.try(h, limited)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	g.wait(5 * time.Second)
	g.try(h, limited)
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)

	local := newRig(t)
	local.cfg = Default(gateway.Local)
	h = local.bind(connection("a", "A"))
	local.try(h, limited)
	local.want(h, resilience.Allowed, gateway.ReasonNone)
	local.try(h, hinted(limited, time.Second))
	local.want(h, resilience.Forbidden, gateway.ConnectionCooldown)
}

func TestHerdGuard(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	var permits []resilience.Permit
	for range 6 {
		permits = append(permits, g.allow(h))
	}
	began := g.now
	fail := func(i int, o gateway.Outcome) {
		o = g.stamp(o, 0)
		o.BeganAt, o.EndedAt = began, g.now
		permits[i].Record(o, g.now)
	}
	g.wait(time.Second)
	fail(0, limited)
	until := h.Peek(ask(), g.now).Until
	g.wait(time.Second)
	fail(1, limited)
	if got := h.Peek(ask(), g.now).Until; !got.Equal(until) {
		t.Fatalf("a failure of the same herd moved the deadline from %s to %s", until, got)
	}
	fail(2, hinted(limited, time.Second))
	if got := h.Peek(ask(), g.now).Until; !got.Equal(until) {
		t.Fatalf("a shorter hint moved the deadline from %s to %s", until, got)
	}
	fail(3, hinted(limited, 30*time.Second))
	if got, want := h.Peek(ask(), g.now).Until, g.now.Add(30*time.Second); !got.Equal(want) {
		t.Fatalf("a longer hint: until %s, want %s", got, want)
	}
	g.wait(time.Second)
	fail(4, success) // began before: says nothing about now
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)
	g.back(h)
	if s := h.account.Load(); s.Level != 1 {
		t.Fatalf("level %d after one episode, want 1", s.Level)
	}
	g.try(h, limited)
	if got := g.back(h); got != 6*time.Second {
		t.Fatalf("second episode cools %s, want 6s", got)
	}
	fail(5, limited)
	g.want(h, resilience.Allowed, gateway.Returning)
}

func TestScopeDecidesWhoRests(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		o                       gateway.Outcome
		self, sibling, stranger bool // usable afterwards
	}{
		{"429 of the account", limited, false, false, true},
		{"429 of one connection", scoped(limited, gateway.ScopeConnection), false, true, true},
		{"429 of one model", scoped(limited, gateway.ScopeModel), true, true, true},
		{"429 of a family", scoped(limited, gateway.ScopeFamily), true, true, true},
		{"403", forbid, false, true, true},
		{"403 of the account by rule", scoped(forbid, gateway.ScopeAccount), false, false, true},
		{"403 of one model by rule", scoped(forbid, gateway.ScopeModel), true, true, true},
		{"refused once for this request", scoped(forbid, gateway.ScopeRequest), true, true, true},
		{"5xx", overload, true, true, true},
		{"credits", credits, false, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			self, sibling, stranger := g.bind(connection("a1", "A")), g.bind(connection("a2", "A")), g.bind(connection("b", "B"))
			g.try(self, tc.o)
			for _, x := range []struct {
				name string
				h    *Handle
				want bool
			}{{"self", self, tc.self}, {"sibling", sibling, tc.sibling}, {"stranger", stranger, tc.stranger}} {
				if got := x.h.Peek(ask(), g.now).OK(); got != x.want {
					t.Errorf("%s usable: %v, want %v", x.name, got, x.want)
				}
			}
		})
	}
}

func scoped(o gateway.Outcome, s gateway.Scope) gateway.Outcome { o.Scope = s; return o }

func TestPerModelQuotaIsNotTheAccounts(t *testing.T) {
	g := newRig(t)
	c := connection("a", "A")
	c.Provider = &gateway.Provider{ID: "lab", PerModelQuota: true}
	h := g.bind(c)
	g.try(h, hinted(limited, time.Minute))
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	o := hinted(limited, time.Minute)
	o.Rule = "account-wide" // a rule that says account means it
	g.try(h, o)
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)
}

func TestNotBeforeNeedsSomewhereElseToGo(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, hinted(overload, 10*time.Minute))
	r := g.want(h, resilience.Forbidden, gateway.NotBefore)
	if r.Until.Sub(g.now) != time.Minute {
		t.Fatalf("not before %s, want 1m", r.Until.Sub(g.now))
	}
	if r := h.Peek(lone(), g.now); !r.OK() {
		t.Fatalf("a lone caller was refused: %+v", r)
	}
	g.wait(time.Minute)
	g.want(h, resilience.Allowed, gateway.ReasonNone)

	for _, o := range []gateway.Outcome{
		hinted(with(overload, func(o *gateway.Outcome) { o.Status = 500 }), time.Minute), overload,
	} {
		g := newRig(t)
		h := g.bind(connection("a", "A"))
		g.try(h, o)
		g.want(h, resilience.Allowed, gateway.ReasonNone)
	}
}

func TestEndpointFaultRaisesNoLevelAndIsNoEvidence(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	o := refused
	o.Endpoint = true
	for range 8 {
		g.try(h, o)
		if got := g.back(h); got != 3*time.Second {
			t.Fatalf("cools %s, want 3s", got)
		}
		g.wait(10 * time.Second)
	}
	if got := h.Status(g.now); got != "active" {
		t.Fatalf("status %s", got)
	}
}

func TestDisableCoolingSkipsCooldownsNotTerminals(t *testing.T) {
	g := newRig(t)
	c := connection("a", "A")
	c.DisableCooling = true
	h := g.bind(c)
	g.try(h, hinted(limited, time.Hour))
	g.try(h, hinted(spent, time.Hour))
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	g.try(h, ban)
	g.wait(11 * time.Second)
	g.try(h, ban)
	g.want(h, resilience.Forbidden, gateway.Terminal)
}

func TestCallersFaultsAndOurOwnTeachNothing(t *testing.T) {
	for k := range gateway.NumKinds {
		switch k {
		case gateway.RateLimited, gateway.QuotaExhausted, gateway.CreditsExhausted, gateway.Banned, gateway.AuthError,
			gateway.RequestRejected, gateway.Success:
			continue
		}
		g := newRig(t)
		h := g.bind(connection("a", "A"))
		for range 10 {
			g.try(h, gateway.Outcome{Kind: k, Scope: gateway.ScopeAccount, Status: 400, RetryAfter: time.Hour})
		}
		g.want(h, resilience.Allowed, gateway.ReasonNone)
		if len(g.saved)+len(g.heard) != 0 {
			t.Errorf("%s was written down: %v", k, g.saved)
		}
	}
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	o := hinted(limited, time.Hour)
	o.Uncounted = true
	g.try(h, o)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
}

func TestStallCoolsOnlyWhenAsked(t *testing.T) {
	o := gateway.Outcome{Kind: gateway.Stall, Scope: gateway.ScopeAttempt, Reason: gateway.TooSlow}
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	g.try(h, o)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	g.cfg.StreamStallCooldown = true
	h = g.bind(connection("a", "A"))
	g.try(h, o)
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)
}

func TestEgressFamilyRestsTogether(t *testing.T) {
	family := &gateway.Provider{ID: "fam", EgressFamily: "f"}
	other := &gateway.Provider{ID: "other", EgressFamily: "f"}
	make := func(id, account, proxy, ip string, p *gateway.Provider) *gateway.Connection {
		c := connection(id, account)
		c.Provider, c.Proxy, c.EgressIP = p, proxy, ip
		return c
	}
	g := newRig(t)
	a := make("a", "A", "p1", "", family)
	sameProxy := make("b", "B", "p1", "", other)
	otherProxy := make("c", "C", "p2", "", family)
	byIP := make("d", "D", "p1", "1.2.3.4", family)
	dead := make("e", "E", "p1", "", family)
	free := connection("f", "F")
	free.Proxy = "p1"
	g.room.Retain([]*gateway.Connection{a, sameProxy, otherProxy, byIP, dead, free})
	ha, hDead := g.bind(a), g.bind(dead)
	g.try(hDead, ban)
	g.back(hDead)
	g.wait(10 * time.Second)
	g.try(hDead, ban)

	g.try(ha, hinted(limited, time.Minute))
	until := h0(ha, g).Until
	for _, tc := range []struct {
		c     *gateway.Connection
		rests bool
	}{{sameProxy, true}, {otherProxy, false}, {byIP, false}, {free, false}} {
		r := g.bind(tc.c).Peek(ask(), g.now)
		if r.OK() == tc.rests || tc.rests && !r.Until.Equal(until) {
			t.Errorf("%s: %+v, want resting %v until %s", tc.c.ID, r, tc.rests, until)
		}
	}
	if got := hDead.Status(g.now); got != "banned" {
		t.Errorf("a banned sibling became %s", got)
	}
	hs := g.bind(sameProxy)
	g.room.Restore([]resilience.Record{}, g.now)
	// A sibling that rests longer keeps its own deadline.
	hs.Learn(g.stamp(hinted(scoped(limited, gateway.ScopeConnection), 10*time.Minute), 0), g.now.Add(1))
	long := hs.Peek(ask(), g.now).Until
	ha.Learn(g.stamp(hinted(limited, 2*time.Minute), 0), g.now.Add(2))
	if got := hs.Peek(ask(), g.now).Until; !got.Equal(long) {
		t.Errorf("the sibling's cooldown was changed from %s to %s", long, got)
	}
}

func h0(h *Handle, g *rig) resilience.Ruling { return h.Peek(ask(), g.now) }

func TestClear(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	_, account := h.Keys()
	if err := g.room.Clear("account:none", "ann", false, g.now); !errors.Is(err, ErrUnknownKey) {
		t.Fatalf("unknown key: %v", err)
	}
	late := g.allow(h)
	lateOutcome := g.stamp(limited, time.Minute)
	g.try(h, hinted(limited, 10*time.Minute))
	g.wait(time.Second)
	if err := g.room.Clear(account, "ann", false, g.now); err != nil {
		t.Fatal(err)
	}
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	if last := g.heard[len(g.heard)-1]; last.Detail["actor"] != "ann" || last.State != "active" {
		t.Fatalf("heard %+v", last)
	}
	if len(g.saved[account].Value) != 0 {
		t.Fatalf("a clean state was stored: %s", g.saved[account].Value)
	}
	late.Record(lateOutcome, g.now)
	g.want(h, resilience.Allowed, gateway.ReasonNone)

	g.try(h, ban)
	g.back(h)
	g.wait(10 * time.Second)
	g.try(h, ban)
	if err := g.room.Clear(account, "ann", false, g.now); !errors.Is(err, ErrTerminal) {
		t.Fatalf("a ban was cleared as if it were a cooldown: %v", err)
	}
	g.want(h, resilience.Forbidden, gateway.Terminal)
	if err := g.room.Clear(account, "ann", true, g.now); err != nil {
		t.Fatal(err)
	}
	g.want(h, resilience.Allowed, gateway.ReasonNone)
	g.wait(time.Second)
	if err := g.room.Disable(account, "bob", g.now); err != nil {
		t.Fatal(err)
	}
	if h.Status(g.now) != "disabled" || !h.Peek(ask(), g.now.Add(1000*time.Hour)).Until.IsZero() {
		t.Fatalf("disabled: %s", h.Status(g.now))
	}
	g.restart()
	if h = g.bind(connection("a", "A")); h.Status(g.now) != "disabled" {
		t.Fatal("a restart enabled it")
	}
}

func TestStatusAndCause(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	if len(g.room.Status(g.now)) != 0 || h.Status(g.now) != "active" || h.Cause(g.now) != gateway.LocalError {
		t.Fatal("a healthy room has something to say")
	}
	o := spent
	o.Message, o.Code = "daily quota", "quota_exceeded"
	g.try(h, o)
	st := g.room.Status(g.now)
	if len(st) != 1 || st[0].Key != "account:lab/A" || st[0].State != "unavailable" || st[0].Layer != gateway.LayerCooldown ||
		st[0].Detail["last_error"] != "daily quota" || st[0].Detail["error_code"] != "quota_exceeded" ||
		st[0].Detail["last_error_kind"] != "quota_exhausted" || st[0].Detail["backoff_level"] != "1" {
		t.Fatalf("status %+v", st)
	}
	if h.Status(g.now) != "unavailable" || h.Cause(g.now) != gateway.QuotaExhausted {
		t.Fatalf("%s because of %s", h.Status(g.now), h.Cause(g.now))
	}
	g.back(h)
	g.try(h, success)
	if st := g.room.Status(g.now); len(st) != 0 {
		t.Fatalf("a success left %+v", st)
	}
}

func TestSuccessClearsNothingNewer(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	old := g.allow(h)
	oldOutcome := g.stamp(success, time.Second)
	g.wait(100 * time.Millisecond)
	g.try(h, hinted(limited, time.Minute))
	g.wait(time.Second)
	old.Record(oldOutcome, g.now)
	g.want(h, resilience.Forbidden, gateway.ConnectionCooldown)
	if s := h.account.Load(); s.Last.Kind != gateway.RateLimited {
		t.Fatal("the newer error was wiped")
	}
}

// A canary's success is older than a hint that came while it ran.
func TestSuccessDoesNotLiftALaterHint(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	herd := g.allow(h)
	herdOutcome := g.stamp(hinted(limited, time.Minute), 10*time.Second)
	g.try(h, limited)
	g.back(h)
	canary := g.allow(h)
	canaryOutcome := g.stamp(success, 2*time.Second)
	g.now = herdOutcome.EndedAt
	herd.Record(herdOutcome, g.now)
	until := g.want(h, resilience.Forbidden, gateway.ConnectionCooldown).Until
	g.wait(time.Second)
	canary.Record(canaryOutcome, g.now)
	if r := g.want(h, resilience.Forbidden, gateway.ConnectionCooldown); !r.Until.Equal(until) {
		t.Fatalf("until %s, want %s", r.Until, until)
	}
}

func TestRecordCountsOnce(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"))
	p := g.allow(h)
	p.Record(g.stamp(success, 0), g.now)
	g.wait(time.Minute)
	p.Record(g.stamp(hinted(limited, time.Hour), 0), g.now)
	p.Record(gateway.Outcome{Kind: gateway.Canceled}, g.now)
	g.want(h, resilience.Allowed, gateway.ReasonNone)
}

func TestConfig(t *testing.T) {
	for _, name := range []string{"recommended", "omniroute-oauth", "omniroute-apikey", "omniroute-local", "polygateway", "autorouter"} {
		c, ok := Preset(name)
		if !ok || c.Validate() != nil {
			t.Errorf("%s: %v %v", name, ok, c.Validate())
		}
	}
	for _, class := range []gateway.Class{gateway.APIKey, gateway.OAuth, gateway.Local} {
		if err := Default(class).Validate(); err != nil {
			t.Errorf("%s: %v", class, err)
		}
	}
	if _, ok := Preset("nope"); ok {
		t.Error("an unknown preset exists")
	}
	err := Config{Jitter: 2, MaxBackoffSteps: 33, NotBeforeMax: time.Hour, MaxHint: 48 * time.Hour, LearnEpisodes: 1}.Validate()
	for _, field := range []string{"base:", "jitter:", "max_backoff_steps:", "not_before_max:", "max_hint:", "max_quota:",
		"reject_limit:", "confirm_after:", "recheck_every:", "canary_lease:", "learn_episodes:", "learn_step:"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+field) {
			t.Errorf("no complaint about %s in %v", field, err)
		}
	}
}
