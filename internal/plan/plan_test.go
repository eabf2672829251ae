package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var down = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.UpstreamStatus, Status: 503}

// trip opens the breaker of a candidate; it is due again after half a minute.
func (c *Candidate) trip(t testing.TB, now time.Time) {
	t.Helper()
	for i := range 20 {
		if !c.Breaker.Peek(nil, now).OK() {
			return
		}
		p, _ := c.Breaker.Allow(t.Context(), nil, now)
		o := down
		o.BeganAt, o.EndedAt = now, now
		p.Record(o, now.Add(time.Duration(i)*time.Second))
		now = now.Add(time.Second)
	}
	t.Fatal("the breaker does not open")
}

func make1(pl *Plan, ask resilience.Ask, now time.Time) *Plan {
	pl.Make(&ask, nil, now)
	return pl
}

func left(n int) resilience.Ask { return resilience.Ask{AttemptsLeft: n} }

// twoTargets: target 0 has the connections a1 a2, target 1 has b1 b2.
func twoTargets(t testing.TB, more ...string) *house {
	return open(t, "providers:\n"+provider("a", more...)+provider("b")+"connections:\n"+keys("a", 2)+keys("b", 2)+
		"combos:\n  - {name: smart, targets: [a/m, b/m]}\n")
}

func TestTargetsThenConnections(t *testing.T) {
	h := twoTargets(t, "strategy: priority")
	pool := h.pool(t, "smart")
	if !pool.Ordered || pool.Connections != 4 || len(pool.Candidates) != 4 {
		t.Fatalf("pool %+v", pool)
	}
	pl := pool.Open()
	defer pl.Close()
	if got := order(make1(pl, left(10), t0)); !strings.HasPrefix(got, "a1 a2 b") {
		t.Errorf("order %s", got)
	}
	// With the first target out, the second leads, and what is out stays in the order.
	pool.Candidates[0].trip(t, t0)
	pool.Candidates[1].trip(t, t0)
	if got := order(make1(pl, left(10), t0.Add(5*time.Second))); !strings.HasPrefix(got, "b") || !strings.HasSuffix(got, "a1 a2") {
		t.Errorf("order %s", got)
	}
	// What is due for a trial is runnable: the preferred target leads again.
	if got := order(make1(pl, left(10), at(5*time.Minute))); !strings.HasPrefix(got, "a1 a2 b") || !pl.Ranked[0].Ruling.Probe {
		t.Errorf("order %s", got)
	}
}

// TestConnectionOutInsideATarget: a connection that is out stands behind its siblings and its target keeps its rank.
func TestConnectionOutInsideATarget(t *testing.T) {
	h := twoTargets(t, "strategy: priority")
	pool := h.pool(t, "smart")
	pool.Candidates[0].learn(t, left(10), gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount, Status: 429,
		RetryAfter: time.Minute, Hint: gateway.HintHeader}, t0)
	pl := make1(pool.Open(), left(10), at(2*time.Second))
	defer pl.Close()
	if got := order(pl); !strings.HasPrefix(got, "a2 a1 b") {
		t.Errorf("order %s", got)
	}
	out := pl.Ranked[1]
	if out.Ruling.Reason != gateway.ConnectionCooldown || out.Cause != gateway.RateLimited || pl.Open != 3 {
		t.Errorf("%+v, %d open", out, pl.Open)
	}
	if pl.Fallbacks(0) != 3 || pl.Fallbacks(1) != 2 {
		t.Errorf("fallbacks %d for who is out, %d for who runs", pl.Fallbacks(0), pl.Fallbacks(1))
	}
}

// TestCauseOfALockout: the walk must know that a missing model is not waited for.
func TestCauseOfALockout(t *testing.T) {
	pool := twoTargets(t).pool(t, "smart")
	pool.Candidates[0].learn(t, left(10), gateway.Outcome{Kind: gateway.ModelUnavailable, Scope: gateway.ScopeModel, Status: 404}, t0)
	pl := make1(pool.Open(), left(10), at(2*time.Second))
	defer pl.Close()
	i := slices.IndexFunc(pl.Ranked, func(c *next.Candidate) bool { return c.ID == 0 })
	if c := pl.Ranked[i]; c.Ruling.Layer != gateway.LayerLockout || c.Cause != gateway.ModelUnavailable {
		t.Errorf("%+v", c)
	}
}

// TestTrial: who may use a breaker that is due depends on what else can run.
func TestTrial(t *testing.T) {
	due := at(5 * time.Minute)
	for _, row := range []struct {
		name   string
		others int // sound candidates beside the one on trial
		left   int
		probe  bool
	}{
		{"a request that can fall back probes", 1, 10, true},
		{"the last attempt is better spent on what runs", 1, 1, false},
		{"also with many alternatives", 3, 1, false},
		{"with nothing else the last attempt probes", 0, 1, true},
		{"and so does any other", 0, 10, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := open(t, "providers:\n"+provider("a")+provider("b")+"connections:\n"+keys("a", 1)+keys("b", 3)+
				"combos:\n  - {name: smart, targets: [a/m, b/m]}\n")
			pool := h.pool(t, "smart")
			pool.Candidates[0].trip(t, t0)
			for _, c := range pool.Candidates[1+row.others:] {
				p := gateway.Outcome{Kind: gateway.QuotaExhausted, Scope: gateway.ScopeAccount, Status: 429, RetryAfter: time.Hour, Hint: gateway.HintHeader}
				c.learn(t, left(10), p, t0)
			}
			pl := make1(pool.Open(), left(row.left), due)
			defer pl.Close()
			if r := pl.Ruling(0); r.OK() != row.probe || r.OK() && !r.Probe {
				t.Errorf("%+v", r)
			}
			if pl.Open != row.others {
				t.Errorf("%d open, want %d", pl.Open, row.others)
			}
		})
	}
}

// TestNotBefore: a Retry-After on a 503 holds while there is an alternative, and only then.
func TestNotBefore(t *testing.T) {
	busy := down
	busy.RetryAfter, busy.Hint = 40*time.Second, gateway.HintHeader
	h := twoTargets(t)
	pool := h.pool(t, "smart")
	pool.Candidates[0].learn(t, left(10), busy, t0)
	pl := pool.Open()
	defer pl.Close()
	if r := make1(pl, left(10), at(2*time.Second)).Ruling(0); r.Reason != gateway.NotBefore || r.OK() {
		t.Errorf("with alternatives: %+v", r)
	}
	for _, c := range pool.Candidates[1:] {
		c.learn(t, left(10), busy, at(2*time.Second))
	}
	for id := range pool.Candidates {
		if r := make1(pl, left(10), at(4*time.Second)).Ruling(id); !r.OK() {
			t.Errorf("with every one told to wait, candidate %d: %+v", id, r)
		}
		if n := pl.Fallbacks(id); n < 0 {
			t.Errorf("candidate %d has %d fallbacks", id, n)
		}
	}
	alone := open(t, "providers:\n"+provider("a")+"connections:\n"+keys("a", 1)).pool(t, "a/m")
	alone.Candidates[0].learn(t, left(10), busy, t0)
	if r := make1(alone.Open(), left(10), at(2*time.Second)).Ruling(0); !r.OK() {
		t.Errorf("alone: %+v", r)
	}
}

func TestAllowList(t *testing.T) {
	pool := twoTargets(t).pool(t, "smart")
	pl := pool.Open()
	defer pl.Close()
	only := func(id gateway.ConnectionID) func(*gateway.Connection) bool {
		return func(c *gateway.Connection) bool { return c.ID == id }
	}
	ask := left(10)
	pl.Make(&ask, only("b2"), t0)
	if got := order(pl); !strings.HasPrefix(got, "b2") || pl.Open != 1 {
		t.Errorf("order %s, %d open", got, pl.Open)
	}
	for _, c := range pl.Ranked[1:] {
		if c.Ruling.OK() || c.Ruling.Reason != gateway.Unavailable || c.Ruling.Layer != gateway.LayerRoute {
			t.Errorf("candidate %d: %+v", c.ID, c.Ruling)
		}
	}
	// With nothing runnable the second look must not let in what the list forbids.
	pl.Make(&ask, only("nobody"), t0)
	for _, c := range pl.Ranked {
		if c.Ruling.OK() {
			t.Errorf("candidate %d is allowed", c.ID)
		}
	}
}

func TestPinnedConnection(t *testing.T) {
	h := open(t, "providers:\n"+provider("a")+"connections:\n"+keys("a", 3)+
		"combos:\n  - {name: pinned, targets: [{target: a/m, connection: a3}, a/m]}\n")
	pool := h.pool(t, "pinned")
	pl := make1(pool.Open(), left(10), t0)
	defer pl.Close()
	if got := order(pl); !strings.HasPrefix(got, "a3 ") || len(pl.Ranked) != 4 {
		t.Errorf("order %s", got)
	}
	if pool.Connections != 3 {
		t.Errorf("%d connections", pool.Connections)
	}
	// The pinned candidate and the other of the same connection and model are one thing to the walk.
	same := 0
	for _, c := range pool.Candidates {
		if c.Connection == pool.Candidates[0].Connection && c.Model == pool.Candidates[0].Model {
			same++
		}
	}
	if same != 2 {
		t.Errorf("%d candidates of the pinned connection", same)
	}
}

func TestProtocolMismatch(t *testing.T) {
	h := open(t, "providers:\n"+provider("a")+"  c:\n    protocols: [anthropic]\n    base_url: http://c.test\nconnections:\n"+
		keys("a", 1)+keys("c", 2)+"combos:\n  - {name: mixed, targets: [c/m, a/m, a/broken]}\n")
	pool := h.pool(t, "mixed")
	if len(pool.Candidates) != 1 || len(pool.Excluded) != 3 {
		t.Fatalf("%d candidates, excluded %+v", len(pool.Candidates), pool.Excluded)
	}
	for i, want := range []gateway.Reason{gateway.ProtocolMismatch, gateway.ProtocolMismatch, gateway.Unavailable} {
		if e := pool.Excluded[i]; e.Reason != want || e.Layer != gateway.LayerRoute {
			t.Errorf("exclusion %d: %+v", i, e)
		}
	}
	if pl := make1(pool.Open(), left(10), t0); len(pl.Ranked) != 1 || pl.Ranked[0].Target != 1 {
		t.Errorf("ranked %+v", pl.Ranked)
	}
	if other := h.Board.Pool(pool.Combo, gateway.Anthropic, gateway.Generate); len(other.Candidates) != 2 {
		t.Errorf("the same combo for another protocol has %d candidates", len(other.Candidates))
	}
}

func TestPoolIsCompiledOnce(t *testing.T) {
	h := twoTargets(t)
	first, second := h.pool(t, "smart"), h.pool(t, "smart")
	if first != second {
		t.Error("compiled twice")
	}
}

// TestRoundRobinOfTargets: what was used moves on, on both levels.
func TestRoundRobinOfTargets(t *testing.T) {
	h := open(t, "providers:\n"+provider("a", "strategy: round-robin")+provider("b", "strategy: round-robin")+"connections:\n"+
		keys("a", 2)+keys("b", 2)+"combos:\n  - {name: smart, strategy: round-robin, targets: [a/m, b/m]}\n")
	pool := h.pool(t, "smart")
	pl := pool.Open()
	defer pl.Close()
	var firsts []string
	for range 8 {
		make1(pl, left(10), t0)
		firsts = append(firsts, strings.Fields(order(pl))[0])
		pl.Used(pl.Ranked[0].ID)
	}
	if got := strings.Join(firsts, " "); got != "a1 b1 a2 b2 a1 b1 a2 b2" {
		t.Errorf("turns %s", got)
	}
}

// TestProven: the cap of the unproven is for pools in which somebody is proven.
func TestProven(t *testing.T) {
	pool := twoTargets(t).pool(t, "smart")
	pl := pool.Open()
	defer pl.Close()
	ask := left(10)
	pl.Make(&ask, nil, t0)
	if pl.Proven || ask.PoolProven || ask.PoolSize != 4 || ask.Fallbacks != 4 {
		t.Errorf("at start: %t %+v", pl.Proven, ask)
	}
	pool.Candidates[3].learn(t, ask, gateway.Outcome{Kind: gateway.Success}, t0)
	pl.Make(&ask, nil, at(2*time.Second))
	if !pl.Proven || !ask.PoolProven {
		t.Error("a success proves nothing")
	}
}

// TestPeekOrder: the first layer that says no names itself; a delay is the answer only when none forbids.
func TestPeekOrder(t *testing.T) {
	h := open(t, "providers:\n"+provider("a")+"connections:\n"+keys("a", 1, "max_concurrent: 1")+"  - {id: spare, provider: a, key: k}\n")
	c := h.pool(t, "a/m").Candidates[0]
	ask := left(10)
	hold, _ := c.Gate.Allow(t.Context(), &ask, t0)
	if r := c.Peek(&ask, t0); r.Verdict != resilience.Delayed || r.Layer != gateway.LayerPacing {
		t.Errorf("full: %+v", r)
	}
	for _, row := range []struct {
		layer gateway.Layer
		learn func()
	}{
		{gateway.LayerLockout, func() {
			c.Lockout.Learn(gateway.Outcome{Kind: gateway.ModelUnavailable, Scope: gateway.ScopeModel, Status: 404, BeganAt: t0}, t0)
		}},
		{gateway.LayerCooldown, func() {
			c.Cooldown.Learn(gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount, Status: 429, RetryAfter: time.Minute, Hint: gateway.HintHeader, BeganAt: t0}, t0)
		}},
		{gateway.LayerBreaker, func() { c.trip(t, t0) }},
	} {
		row.learn()
		if r := c.Peek(&ask, at(time.Second)); r.Verdict != resilience.Forbidden || r.Layer != row.layer {
			t.Errorf("%s: %+v", row.layer, r)
		}
	}
	hold.Record(gateway.Outcome{Kind: gateway.Canceled}, t0)
}

// hundred is a pool of 100 candidates, spread over so many targets; all have a past and, unless well, some are out.
func hundred(t testing.TB, strategy string, spread int, well bool) (*Pool, time.Time) {
	var providers, conns, targets strings.Builder
	for i := range spread {
		name := fmt.Sprintf("p%c", 'a'+i)
		providers.WriteString(provider(name, "strategy: "+strategy))
		conns.WriteString(keys(name, 100/spread))
		targets.WriteString(name + "/m, ")
	}
	h := open(t, "providers:\n"+providers.String()+"connections:\n"+conns.String()+
		"combos:\n  - {name: big, strategy: "+strategy+", targets: ["+strings.TrimSuffix(targets.String(), ", ")+"]}\n")
	pool := h.pool(t, "big")
	now := t0
	for i, c := range pool.Candidates {
		c.learn(t, left(10), gateway.Outcome{Kind: gateway.Success}, now)
		if well {
			continue
		}
		switch i % 10 {
		case 3:
			c.trip(t, now)
		case 7:
			c.learn(t, left(10), gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount, Status: 429,
				RetryAfter: time.Minute, Hint: gateway.HintHeader}, now)
		}
	}
	return pool, now.Add(4 * time.Second)
}

func TestMakeDoesNotAllocate(t *testing.T) {
	for _, kind := range []string{"priority", "round-robin", "weighted", "health-aware"} {
		pool, now := hundred(t, kind, 10, false)
		pl := pool.Open()
		ask := left(10)
		if n := testing.AllocsPerRun(100, func() { pl.Make(&ask, nil, now) }); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
		if pl.Open != 80 {
			t.Errorf("%s: %d of 100 open", kind, pl.Open)
		}
		pl.Close()
	}
}

func BenchmarkMake(b *testing.B) {
	for _, row := range []struct {
		name, strategy string
		spread         int
		well           bool
	}{{"priority", "priority", 10, true}, {"health-aware", "health-aware", 10, true}, {"health-aware, a hundred keys of one", "health-aware", 1, true},
		{"health-aware, a fifth out", "health-aware", 10, false}} {
		pool, now := hundred(b, row.strategy, row.spread, row.well)
		b.Run(row.name, func(b *testing.B) {
			pl := pool.Open()
			defer pl.Close()
			ask := left(10)
			b.ReportAllocs()
			for b.Loop() {
				pl.Make(&ask, nil, now)
			}
		})
	}
	pool, now := hundred(b, "health-aware", 10, true)
	b.Run("peek", func(b *testing.B) {
		ask := left(10)
		b.ReportAllocs()
		for b.Loop() {
			for _, c := range pool.Candidates {
				_ = c.Peek(&ask, now)
			}
		}
	})
	b.Run("view", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, c := range pool.Candidates {
				_ = c.Health.View(now)
				_ = c.Gate.Limit(now)
			}
		}
	})
}

// Names of models come from clients: as many as anybody makes up, what is asked for again is not compiled again.
func TestMadeUpNamesLeaveRoomForReal(t *testing.T) {
	h := twoTargets(t)
	for i := range maxPools + 10 {
		h.pool(t, fmt.Sprint("a/made-up-", i))
	}
	if first := h.pool(t, "smart"); h.pool(t, "smart") != first {
		t.Error("compiled for every request")
	}
	if n := len(h.Board.pools); n > maxPools {
		t.Errorf("%d pools", n)
	}
}
