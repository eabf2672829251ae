package lockout

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

type rig struct {
	t      testing.TB
	room   *Room
	cfg    Config
	family func(gateway.Candidate) string
	now    time.Time
	saved  map[string]resilience.Record
	heard  []resilience.Status
}

func newRig(t testing.TB) *rig {
	g := &rig{t: t, cfg: Default(gateway.APIKey), now: t0, saved: map[string]resilience.Record{}}
	g.room = g.open()
	return g
}

func (g *rig) open() *Room {
	return New(Options{
		Keep:     func(r resilience.Record) { g.saved[r.Key] = r },
		OnChange: func(s resilience.Status, _ time.Time) { g.heard = append(g.heard, s) },
	})
}

func (g *rig) restart() {
	g.room = g.open()
	var all []resilience.Record
	for _, r := range g.saved {
		all = append(all, r)
	}
	g.room.Restore(all, g.now)
}

func connection(id, account string) *gateway.Connection {
	return &gateway.Connection{ID: gateway.ConnectionID(id), Account: gateway.AccountID(account), Identity: id + "#1",
		Provider: &gateway.Provider{ID: "lab", PerModelQuota: true}}
}

func (g *rig) bind(c *gateway.Connection, model string) *Handle {
	of, cfg := gateway.Candidate{Connection: c, Model: gateway.ModelID(model)}, g.cfg
	if g.family != nil {
		cfg.Family = g.family(of)
	}
	return g.room.Bind(of, cfg)
}

func (g *rig) wait(d time.Duration) { g.now = g.now.Add(d) }

// try makes one whole attempt that takes 100 ms.
func (g *rig) try(h *Handle, o gateway.Outcome) {
	g.t.Helper()
	p, r := h.Allow(g.t.Context(), nil, g.now)
	if p == nil {
		g.t.Fatalf("refused: %+v", r)
	}
	o.BeganAt = g.now
	g.wait(100 * time.Millisecond)
	o.EndedAt = g.now
	p.Alive(g.now)
	p.Record(o, g.now)
}

// locked is how long the candidate is out; 0 = not at all.
func (g *rig) locked(h *Handle) time.Duration {
	g.t.Helper()
	r := h.Peek(nil, g.now)
	if r.OK() {
		return 0
	}
	if r.Verdict != resilience.Forbidden || r.Layer != gateway.LayerLockout || r.Reason != gateway.ModelLockout {
		g.t.Fatalf("locked by %+v", r)
	}
	if h.Peek(nil, r.Until.Add(-1)).OK() || !h.Peek(nil, r.Until).OK() {
		g.t.Fatalf("Until is not honest: %+v", r)
	}
	return r.Until.Sub(g.now)
}

func (g *rig) back(h *Handle) time.Duration {
	d := g.locked(h)
	g.wait(d)
	return d
}

var (
	success = gateway.Outcome{Kind: gateway.Success, Status: 200}
	missing = gateway.Outcome{Kind: gateway.ModelUnavailable, Scope: gateway.ScopeModel, Reason: gateway.ModelMissing, Status: 404}
	retired = gateway.Outcome{Kind: gateway.ModelUnavailable, Scope: gateway.ScopeModel, Reason: gateway.ModelRetired, Status: 404, Retired: true}
	limited = gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeModel, Reason: gateway.RateLimitHit, Status: 429}
	spent   = gateway.Outcome{Kind: gateway.QuotaExhausted, Scope: gateway.ScopeModel, Reason: gateway.QuotaHit, Status: 429}
	broken  = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.UpstreamStatus, Status: 503}
	empty   = gateway.Outcome{Kind: gateway.EmptyOutput, Scope: gateway.ScopeModel, Reason: gateway.NoContent, Status: 200}
	forbid  = gateway.Outcome{Kind: gateway.AuthError, Scope: gateway.ScopeConnection, Reason: gateway.KeyRefused, Status: 403}
)

func with(o gateway.Outcome, f func(*gateway.Outcome)) gateway.Outcome { f(&o); return o }

func hinted(o gateway.Outcome, d time.Duration) gateway.Outcome {
	o.RetryAfter, o.Hint = d, gateway.HintHeader
	return o
}

func ruled(o gateway.Outcome, s gateway.Scope, d time.Duration) gateway.Outcome {
	o.Rule, o.Scope = "r", s
	if d > 0 {
		o.RetryAfter, o.Hint = d, gateway.HintRule
	}
	return o
}

// Which of five candidates an outcome at (a1, m) locks, and for how long.
func TestWhatLocksWhat(t *testing.T) {
	plain := &gateway.Provider{ID: "lab"}
	for _, tc := range []struct {
		name                                            string
		enabled, family, plain                          bool
		o                                               gateway.Outcome
		self, sameAccount, otherAccount, kin, unrelated time.Duration
	}{
		{name: "missing", o: missing, self: 120e9},
		{name: "missing, with a family", family: true, o: missing, self: 120e9},
		{name: "retired", o: retired, self: 24 * time.Hour, sameAccount: 24 * time.Hour, otherAccount: 24 * time.Hour},
		{name: "per-model 429", o: limited, self: 120e9, sameAccount: 120e9},
		{name: "per-model 429 with a hint", o: hinted(limited, time.Minute), self: time.Minute, sameAccount: time.Minute},
		{name: "per-model 429, hint capped", o: hinted(limited, 18*24*time.Hour), self: 15 * time.Minute, sameAccount: 15 * time.Minute},
		{name: "per-model 429 of a family", family: true, o: limited, self: 120e9, sameAccount: 120e9, kin: 120e9},
		{name: "429 by the status table, provider counts per model", o: with(limited, scope(gateway.ScopeAccount)), self: 120e9, sameAccount: 120e9},
		{name: "429 of the account", plain: true, o: with(limited, scope(gateway.ScopeAccount))},
		{name: "429 of the account by rule", o: ruled(limited, gateway.ScopeAccount, time.Hour)},
		{name: "model quota", o: spent, self: time.Hour, sameAccount: time.Hour},
		{name: "model quota with reset", o: hinted(spent, 5*time.Hour), self: 5 * time.Hour, sameAccount: 5 * time.Hour},
		{name: "model quota, reset capped", o: hinted(spent, 99*time.Hour), self: 24 * time.Hour, sameAccount: 24 * time.Hour},
		{name: "402", o: with(spent, func(o *gateway.Outcome) { o.Status = 402 }), self: 120e9, sameAccount: 120e9},
		{name: "5xx", o: broken},
		{name: "5xx, enabled", enabled: true, family: true, o: broken, self: 120e9},
		{name: "500 is not listed", enabled: true, o: with(broken, func(o *gateway.Outcome) { o.Status = 500 })},
		{name: "below HTTP, enabled", enabled: true, o: with(broken, func(o *gateway.Outcome) { o.Status, o.BelowHTTP = 0, true })},
		{name: "endpoint fault, enabled", enabled: true, o: with(broken, func(o *gateway.Outcome) { o.Endpoint = true })},
		{name: "truncated, enabled", enabled: true, o: with(broken, func(o *gateway.Outcome) { o.Status = 200 }), self: 120e9},
		{name: "empty", o: empty},
		{name: "empty, enabled", enabled: true, family: true, o: empty, self: 120e9},
		{name: "403", o: forbid},
		{name: "403, enabled", enabled: true, o: forbid, self: 120e9},
		{name: "403, enabled, family", enabled: true, family: true, o: forbid, self: 120e9, kin: 120e9},
		{name: "401, enabled", enabled: true, o: with(forbid, func(o *gateway.Outcome) { o.Status = 401 })},
		{name: "rule with scope model", o: ruled(with(forbid, func(o *gateway.Outcome) { o.Status = 400 }), gateway.ScopeModel, 6*time.Hour), self: 6 * time.Hour},
		{name: "rule, no time", o: ruled(broken, gateway.ScopeModel, 0), self: 120e9},
		{name: "rule, 403, family", family: true, o: ruled(forbid, gateway.ScopeModel, 6*time.Hour), self: 6 * time.Hour, kin: 6 * time.Hour},
		{name: "rule, capped", o: ruled(forbid, gateway.ScopeModel, 99*time.Hour), self: 24 * time.Hour},
		{name: "rule that does not count", o: with(ruled(forbid, gateway.ScopeModel, time.Hour), func(o *gateway.Outcome) { o.Uncounted = true })},
		{name: "rule with scope connection", o: ruled(forbid, gateway.ScopeConnection, time.Hour)},
		{name: "caller's fault", enabled: true, o: gateway.Outcome{Kind: gateway.Alive, Status: 404}},
		{name: "caller's fault by rule", o: ruled(gateway.Outcome{Kind: gateway.Alive, Status: 400}, gateway.ScopeModel, time.Hour)},
		{name: "timeout, enabled", enabled: true, o: gateway.Outcome{Kind: gateway.Timeout, Scope: gateway.ScopeProvider}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.cfg.Enabled = tc.enabled
			if tc.family {
				g.family = func(c gateway.Candidate) string {
					if c.Model == "m" || c.Model == "kin" {
						return "fam"
					}
					return ""
				}
			}
			a1, a2, b := connection("a1", "A"), connection("a2", "A"), connection("b", "B")
			if tc.plain {
				a1.Provider, a2.Provider, b.Provider = plain, plain, plain
			}
			g.try(g.bind(a1, "m"), tc.o)
			for _, x := range []struct {
				name string
				h    *Handle
				want time.Duration
			}{
				{"self", g.bind(a1, "m"), tc.self}, {"same account", g.bind(a2, "m"), tc.sameAccount},
				{"other account", g.bind(b, "m"), tc.otherAccount}, {"kin", g.bind(a1, "kin"), tc.kin},
				{"unrelated", g.bind(a1, "x"), tc.unrelated},
			} {
				if got := g.locked(x.h); got != x.want {
					t.Errorf("%s is out for %s, want %s", x.name, got, x.want)
				}
			}
		})
	}
}

func scope(s gateway.Scope) func(*gateway.Outcome) { return func(o *gateway.Outcome) { o.Scope = s } }

func TestLocksGrowAndSuccessHalves(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	for _, want := range []time.Duration{2, 4, 8, 16, 30, 30} {
		g.try(h, missing)
		if got := g.back(h); got != want*time.Minute {
			t.Fatalf("locked %s, want %dm", got, want)
		}
		g.wait(time.Hour)
	}
	g.try(h, success) // 6 -> 3
	g.try(h, missing)
	if got := g.back(h); got != 16*time.Minute {
		t.Fatalf("locked %s after one success, want 16m", got)
	}
	for range 3 {
		g.try(h, success)
	}
	if st := g.room.Status(g.now); len(st) != 0 || len(g.saved[h.Keys()[0]].Value) != 0 {
		t.Fatalf("at 0 something is left: %+v", st)
	}
	g.try(h, missing)
	if got := g.locked(h); got != 2*time.Minute {
		t.Fatalf("locked %s after a clean start, want 2m", got)
	}

	g = newRig(t)
	g.cfg.Exponential = false
	h = g.bind(connection("a", "A"), "m")
	for range 4 {
		g.try(h, missing)
		if got := g.back(h); got != 2*time.Minute {
			t.Fatalf("locked %s, want 2m each time", got)
		}
	}
}

func TestHerdAndTheLongerLock(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	began := g.now
	late := func(o gateway.Outcome) { o.BeganAt, o.EndedAt = began, g.now; h.Learn(o, g.now) }
	g.wait(time.Second)
	g.try(h, hinted(spent, 5*time.Hour))
	until := h.Peek(nil, g.now).Until
	late(missing)
	late(hinted(limited, time.Minute))
	late(success)
	if got := h.Peek(nil, g.now).Until; !got.Equal(until) {
		t.Fatalf("the lock moved from %s to %s", until, got)
	}
	late(hinted(spent, 7*time.Hour))
	if got := g.locked(h); got != 7*time.Hour {
		t.Fatalf("the longer lock did not win: %s", got)
	}
	if h.Cause(g.now) != gateway.QuotaExhausted || h.Status(g.now) != "locked" {
		t.Fatalf("%s because of %s", h.Status(g.now), h.Cause(g.now))
	}
	if st := g.room.Status(g.now); st[0].Detail["count"] == "3" {
		t.Fatalf("the herd counted: %+v", st)
	}
}

// A success is older than a hint that came while it ran.
func TestSuccessDoesNotLiftALaterHint(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	old := hinted(limited, 10*time.Minute)
	old.BeganAt = g.now
	g.wait(time.Second)
	g.try(h, limited)
	g.back(h)
	fresh := success
	fresh.BeganAt = g.now
	g.wait(time.Second)
	old.EndedAt = g.now
	h.Learn(old, g.now)
	h.Learn(fresh, g.now.Add(time.Second))
	if got := g.locked(h); got != 10*time.Minute {
		t.Fatalf("locked %s, want 10m", got)
	}
}

func TestUnhintedModelLimitWhileItWorksIsLeftToAIMD(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	other := g.bind(connection("a", "A"), "x")
	g.try(h, success)
	g.try(h, limited)
	if g.locked(h) != 0 {
		t.Fatal("locked while it works")
	}
	g.try(other, limited) // another model's success is no excuse
	if g.locked(other) == 0 {
		t.Fatal("not locked")
	}
	g.wait(11 * time.Second)
	g.try(h, limited)
	if g.locked(h) == 0 {
		t.Fatal("not locked without a recent success")
	}
}

func TestPresetOmniRouteCapsAtMaxCooldown(t *testing.T) {
	for _, o := range []gateway.Outcome{retired, ruled(forbid, gateway.ScopeModel, 6*time.Hour), spent, hinted(spent, 5*time.Hour)} {
		g := newRig(t)
		g.cfg, _ = Preset("omniroute-apikey")
		h := g.bind(connection("a", "A"), "m")
		g.try(h, o)
		if got := g.locked(h); got != 30*time.Minute {
			t.Errorf("%s: locked %s, want 30m", o.Reason, got)
		}
	}
}

// One 5xx, even a synthetic one, on one model locked all models of its family; a 404 did so too, or locked the whole
// connection.
func TestO5StatusDecidesScope(t *testing.T) {
	g := newRig(t)
	g.cfg.Enabled = true
	g.family = func(gateway.Candidate) string { return "gpt-5*" }
	c := connection("a", "A")
	luna, sol := g.bind(c, "gpt-5.6-luna"), g.bind(c, "gpt-5.6-sol")
	for _, o := range []gateway.Outcome{broken, empty, missing} {
		g.try(luna, o)
		if g.locked(luna) == 0 || g.locked(sol) != 0 {
			t.Fatalf("%s: luna out for %s, sol out for %s", o.Kind, g.locked(luna), g.locked(sol))
		}
		g.back(luna)
	}
}

// A retired model was retried every 15 to 45 minutes, around the clock, by every account.
func TestO24RetiredModelIsLeftAloneByAllAccounts(t *testing.T) {
	g := newRig(t)
	var all []*Handle
	for i := range 3 {
		all = append(all, g.bind(connection(fmt.Sprint("c", i), fmt.Sprint("A", i)), "gemini-old"))
	}
	tries := 0
	for end := g.now.Add(7 * 24 * time.Hour); g.now.Before(end); g.wait(time.Minute) {
		for _, h := range all {
			if h.Peek(nil, g.now).OK() {
				g.try(h, retired)
				tries++
			}
		}
		if g.now.Sub(t0) > time.Hour && g.now.Sub(t0) < 2*time.Hour {
			g.restart()
			for i := range all {
				all[i] = g.bind(connection(fmt.Sprint("c", i), fmt.Sprint("A", i)), "gemini-old")
			}
		}
	}
	if tries > 8 {
		t.Fatalf("%d tries in a week", tries)
	}
	if g.locked(g.bind(connection("c0", "A0"), "gemini-new")) != 0 {
		t.Fatal("another model is locked too")
	}
}

// O23's part here: what is locked is refused whatever session asks for it; and a failure never extends a stay by
// retrying, because nothing is retried.
func TestO23EligibilityComesFirst(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	g.try(h, spent)
	if h.Peek(&resilience.Ask{Session: "pinned"}, g.now).OK() {
		t.Fatal("a pinned session got through")
	}
}

func TestRestart(t *testing.T) {
	g := newRig(t)
	c := connection("a", "A")
	h := g.bind(c, "m")
	g.try(h, hinted(spent, 5*time.Hour))
	g.wait(time.Minute)
	want := g.locked(h)
	g.restart()
	h = g.bind(c, "m")
	if got := g.locked(h); got != want {
		t.Fatalf("locked %s after the restart, want %s", got, want)
	}
	g.now = g.now.Add(-365 * 24 * time.Hour) // the clock was set back
	g.restart()
	h = g.bind(c, "m")
	if got := g.back(h); got > 24*time.Hour {
		t.Fatalf("locked %s", got)
	}
	g.try(h, success)
	if st := g.room.Status(g.now); len(st) != 0 {
		t.Fatalf("%+v", st)
	}

	g = newRig(t)
	g.cfg.Persist = false
	g.try(g.bind(c, "m"), spent)
	if len(g.saved) != 0 {
		t.Fatalf("stored although told not to: %v", g.saved)
	}
	r := New(Options{})
	r.Restore([]resilience.Record{{Room: "cooldown", Key: "k", Value: []byte(`{"count":3}`)}, {Room: RoomName, Key: "k", Value: []byte(`{`)}}, t0)
	if len(r.Status(t0)) != 0 {
		t.Fatal("took over what is not its own")
	}
}

func TestClearAndAnnounce(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	g.try(h, hinted(limited, 10*time.Minute))
	var key string
	for _, st := range g.room.Status(g.now) {
		key = st.Key
	}
	if key != "account:lab/A/m" || len(g.heard) != 1 || g.heard[0].State != "locked" || g.heard[0].Detail["model"] != "m" {
		t.Fatalf("%q, heard %+v", key, g.heard)
	}
	if err := g.room.Clear("nope", "ann", false, g.now); !errors.Is(err, ErrUnknownKey) {
		t.Fatal(err)
	}
	if err := g.room.Clear(key, "ann", false, g.now); err != nil {
		t.Fatal(err)
	}
	if g.locked(h) != 0 || g.heard[1].State != "open" || g.heard[1].Detail["actor"] != "ann" || len(g.saved[key].Value) != 0 {
		t.Fatalf("heard %+v, stored %s", g.heard, g.saved[key].Value)
	}
	g.try(h, missing)
	if g.locked(h) == 0 {
		t.Fatal("a failure right after the clearing was ignored")
	}
}

func TestRetainKeepsLocksThatHold(t *testing.T) {
	g := newRig(t)
	a, b := connection("a", "A"), connection("b", "B")
	ha, hb := g.bind(a, "m"), g.bind(b, "m")
	g.try(ha, missing)
	g.back(ha)
	g.try(hb, hinted(missing, time.Hour))
	g.room.Retain(nil)
	st := g.room.Status(g.now)
	if len(st) != 1 || st[0].Key != "connection:b#1/m" {
		t.Fatalf("%+v", st)
	}
}

// Clients choose model names; neither they nor the locks that they provoke may fill the memory.
func TestKeysAreBounded(t *testing.T) {
	g := newRig(t)
	c := connection("a", "A")
	g.room.limit = 1000
	keep := g.bind(c, "kept")
	g.try(keep, retired)
	for i := range 3 * g.room.limit {
		h := g.bind(c, fmt.Sprint("random-", i))
		o := missing
		o.BeganAt = g.now
		h.Learn(o, g.now)
		g.wait(time.Second)
		if i%100 == 0 {
			runtime.GC()
		}
	}
	if n := len(g.room.held); n > g.room.limit+1 {
		t.Fatalf("%d locks are held", n)
	}
	living := 0
	for range 50 {
		runtime.GC()
		if living = len(g.room.cells.Snapshot()); living <= g.room.limit+8 {
			break
		}
		runtime.Gosched()
	}
	if living > g.room.limit+8 {
		t.Fatalf("%d cells live, %d held", living, len(g.room.held))
	}
	if n := g.room.cells.Len(); n > 3*g.room.limit {
		t.Fatalf("%d names are remembered", n)
	}
	if keep.Peek(nil, t0.Add(23*time.Hour)).OK() {
		t.Fatal("a lock that holds was forgotten")
	}
}

func TestPropertyNeverShorterNeverMorePermissive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newRig(t)
		g.cfg.Enabled = true
		c := connection("a", "A")
		h := g.bind(c, "m")
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			g.wait(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, time.Hour, 25 * time.Hour}).Draw(rt, "pause"))
			o := rapid.SampledFrom([]gateway.Outcome{success, missing, retired, limited, spent, broken, empty, forbid}).Draw(rt, "outcome")
			if rapid.Bool().Draw(rt, "hint") {
				o = hinted(o, time.Duration(rapid.Int64Range(1, int64(99*time.Hour)).Draw(rt, "for")))
			}
			o.BeganAt = g.now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "took")))
			o.EndedAt = g.now
			var before [provider]lock
			for i, cell := range h.cells {
				before[i] = cell.Load()
			}
			h.Learn(o, g.now)
			for i, cell := range h.cells {
				a, b := cell.Load(), before[i]
				switch {
				case o.Kind != gateway.Success && (a.Until.Before(b.Until) || a.Count < b.Count):
					rt.Fatalf("%s: %s made %+v of %+v", cell.key, o.Kind, a, b)
				case a.Count > b.Count+1 || a.Count > b.Count && !o.BeganAt.After(b.EpisodeAt):
					rt.Fatalf("%s: counted an old failure: %+v of %+v", cell.key, a, b)
				case o.Kind == gateway.Success && a.Count != b.Count && a.Count != b.Count/2:
					rt.Fatalf("%s: a success made %d of %d", cell.key, a.Count, b.Count)
				case a.Until.After(b.Until) && a.Until.Sub(g.now) > 24*time.Hour:
					rt.Fatalf("locked for %s", a.Until.Sub(g.now))
				}
			}
		}
		want := h.Peek(nil, g.now)
		g.restart()
		if got := g.bind(c, "m").Peek(nil, g.now); got != want {
			rt.Fatalf("%+v before the restart, %+v after it", want, got)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	g := newRig(t)
	c := connection("a", "A")
	var mu sync.Mutex
	last := map[string][]byte{}
	g.room = New(Options{Keep: func(r resilience.Record) { mu.Lock(); defer mu.Unlock(); last[r.Key] = r.Value }})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				now := t0.Add(time.Duration(i*8+w) * time.Minute)
				h := g.bind(c, fmt.Sprint("m", i%3))
				h.Learn(with([]gateway.Outcome{success, missing, limited, retired}[(i+w)%4], func(o *gateway.Outcome) { o.BeganAt = now }), now)
				h.Peek(nil, now)
				g.room.Status(now)
			}
		})
	}
	wg.Wait()
	for _, st := range g.room.Status(t0) {
		l := g.room.held[st.Key].Load()
		if string(last[st.Key]) != string(l.encode()) {
			t.Fatalf("%s: stored %s, holds %s", st.Key, last[st.Key], l.encode())
		}
	}
}

// A store lets the later record of a key win: see the test of the same name in cooldown.
func TestRecordsRise(t *testing.T) {
	g := newRig(t)
	key := "provider:lab/m"
	g.bind(connection("a", "A"), "m").Learn(retired, t0.Add(time.Second))
	first := g.saved[key]
	if err := g.room.Clear(key, "ann", false, t0); err != nil {
		t.Fatal(err)
	}
	if second := g.saved[key]; !second.At.After(first.At) || len(second.Value) != 0 {
		t.Errorf("%s at %s after %s", second.Value, second.At, first.At)
	}
	g.saved[key] = first
	g.now = t0.Add(-time.Hour)
	g.restart()
	if err := g.room.Clear(key, "ann", false, g.now); err != nil {
		t.Fatal(err)
	}
	if r := g.saved[key]; !r.At.After(first.At) || len(r.Value) != 0 {
		t.Errorf("%s at %s after %s", r.Value, r.At, first.At)
	}
}

func TestConfig(t *testing.T) {
	for _, name := range []string{"recommended", "omniroute-oauth", "omniroute-apikey", "omniroute-local", "polygateway", "autorouter"} {
		if c, ok := Preset(name); !ok || c.Validate() != nil {
			t.Errorf("%s: %v %v", name, ok, c.Validate())
		}
	}
	if _, ok := Preset("nope"); ok {
		t.Error("an unknown preset exists")
	}
	err := Config{MaxBackoffSteps: -1, SuccessGrace: -1}.Validate()
	for _, field := range []string{"base:", "max_cooldown:", "max_backoff_steps:", "retired:", "max_rule:", "success_grace:"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+field) {
			t.Errorf("no complaint about %s in %v", field, err)
		}
	}
	c := Default(gateway.APIKey)
	c.ErrorCodes = []int{99, 600, 503}
	if c.Validate() != nil || c.counts(99) || c.counts(600) || !c.counts(503) {
		t.Error("codes outside 100 to 599 must be dropped")
	}
}

func TestPeekAllocatesNothing(t *testing.T) {
	g := newRig(t)
	h := g.bind(connection("a", "A"), "m")
	for _, o := range []gateway.Outcome{success, spent} {
		g.try(h, o)
		if n := testing.AllocsPerRun(100, func() { h.Peek(nil, g.now) }); n != 0 {
			t.Errorf("after %s: %.0f allocations", o.Kind, n)
		}
	}
}

func BenchmarkPeekHealthy(b *testing.B) {
	g := newRig(b)
	h := g.bind(connection("a", "A"), "m")
	b.ReportAllocs()
	for b.Loop() {
		if !h.Peek(nil, g.now).OK() {
			b.Fatal("refused")
		}
	}
}

func BenchmarkPeekLocked(b *testing.B) {
	g := newRig(b)
	h := g.bind(connection("a", "A"), "m")
	g.try(h, spent)
	b.ReportAllocs()
	for b.Loop() {
		if h.Peek(nil, g.now).OK() {
			b.Fatal("allowed")
		}
	}
}
