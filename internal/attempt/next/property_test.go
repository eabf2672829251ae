package next

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var reasons = []gateway.Reason{gateway.CircuitOpen, gateway.ProviderCooldown, gateway.ConnectionCooldown, gateway.ModelLockout,
	gateway.Terminal, gateway.ProbeBusy, gateway.Returning, gateway.NotBefore, gateway.Unavailable}

var ends = []end{answered, fault503, reset, timeout, slow, stall, empty, limited, quota, badKey, noModel, tooLong, badCall,
	refused, noTools, hostFault, newKey, lostRace, left,
	limited.backIn(3 * time.Second), fault503.backIn(20 * time.Second), limited.scoped(gateway.ScopeModel),
	noTools.named("vision"), {kind: gateway.Banned, scope: gateway.ScopeAccount}, {kind: gateway.RequestRejected, scope: gateway.ScopeConnection},
	{kind: gateway.CreditsExhausted, scope: gateway.ScopeAccount}, {kind: gateway.InvalidResult}}

// drawPool is any pool; rank order is any order.
func drawPool(t *rapid.T) []*Candidate {
	var c []*Candidate
	small := rapid.IntRange(0, 4)
	for id := range rapid.IntRange(0, 14).Draw(t, "candidates") {
		conn := small.Draw(t, "connection") + 5*small.Draw(t, "more")
		c = append(c, &Candidate{ID: id, Target: small.Draw(t, "target"), Provider: conn % 4, Connection: conn,
			Account: conn / 2, Model: small.Draw(t, "model"), Health: rapid.Float64Range(0, 1).Draw(t, "health"), Faltered: rapid.Bool().Draw(t, "faltered")})
	}
	return c
}

func drawConfig(t *rapid.T) Config {
	cfg := settings()
	cfg.Ordered = rapid.Bool().Draw(t, "ordered")
	cfg.AttemptLimit = rapid.IntRange(1, 12).Draw(t, "limit")
	cfg.AttemptMax = rapid.IntRange(0, 6).Draw(t, "max")
	cfg.WaitsEnabled = rapid.IntRange(0, 9).Draw(t, "waits") > 0
	cfg.ContentFailover = rapid.Bool().Draw(t, "content")
	return cfg
}

// weather draws rulings anew; rank order changes with it.
func (g *game) weather(t *rapid.T) {
	g.Candidates = rapid.Permutation(g.Candidates).Draw(t, "rank")
	for _, c := range g.Candidates {
		c.Ruling, c.Cause = resilience.Ruling{}, 0
		switch rapid.IntRange(0, 9).Draw(t, "ruling") {
		case 0:
			c.Ruling = resilience.Ruling{Verdict: resilience.Delayed, Reason: gateway.ConcurrencyFull}
		case 1, 2:
			c.Ruling = resilience.Ruling{Verdict: resilience.Forbidden, Reason: rapid.SampledFrom(reasons).Draw(t, "reason")}
			if wait := rapid.IntRange(0, 90).Draw(t, "wait"); wait > 0 {
				c.Ruling.Until = g.Now.Add(time.Duration(wait) * time.Second)
			}
			c.Cause = rapid.SampledFrom([]gateway.Kind{0, gateway.RateLimited, gateway.QuotaExhausted, gateway.AuthError}).Draw(t, "cause")
		case 3:
			c.Ruling.Probe = true
		}
	}
	g.Jitter = rapid.Float64Range(0, 0.999).Draw(t, "jitter")
	g.Tokens, g.TokenIn = 30, 0
	if rapid.IntRange(0, 9).Draw(t, "broke") == 0 {
		g.Tokens, g.TokenIn = 0.5, time.Duration(rapid.IntRange(1, 90_000).Draw(t, "token in"))*time.Millisecond
	}
}

// TestAnyRequest plays whole requests in any weather and checks every step.
func TestAnyRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGame(drawConfig(t), drawPool(t))
		usual := rapid.SliceOfN(rapid.SampledFrom(ends), 1, 4).Draw(t, "usual") // mostly one thing goes wrong
		for steps := 0; ; steps++ {
			if steps > 500 {
				t.Fatalf("no end after %d steps: %d attempts, %s", steps, len(g.History), g.Now.Sub(t0))
			}
			g.weather(t)
			before := g.State
			step := g.decide()
			if again := Decide(&before); !sameStep(step, again) {
				t.Fatalf("not a function: %+v, then %+v", step, again)
			}
			switch step.Do {
			case Fail:
				return
			case WaitUntil:
				g.checkWait(t, step)
				g.wait(t, step)
			case TryNow:
				g.checkTry(t, step)
				g.Now = g.Now.Add(step.Delay)
				e := rapid.SampledFrom(usual).Draw(t, "end")
				if rapid.IntRange(0, 4).Draw(t, "surprise") == 0 {
					e = rapid.SampledFrom(ends).Draw(t, "another end")
				}
				g.did(step.ID, e)
				if e.kind == gateway.Success {
					return
				}
			}
		}
	})
}

func sameStep(a, b Step) bool {
	return a.Do == b.Do && a.ID == b.ID && a.Delay == b.Delay && a.Until.Equal(b.Until) && a.Why == b.Why &&
		slices.Equal(a.Set, b.Set) && a.Repeat == b.Repeat && a.Prefer == b.Prefer && a.Else == b.Else && a.Transient == b.Transient
}

// wait is what the loop of a request does with a wait.
func (g *game) wait(t *rapid.T, step Step) {
	began := g.Now
	if step.Until.IsZero() || rapid.IntRange(0, 3).Draw(t, "woken") == 0 && len(step.Set) > 0 {
		g.Now = g.Now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "event")) * time.Second)
	} else {
		g.Now = later(g.Now.Add(time.Millisecond), step.Until)
	}
	if step.Prefer > 0 {
		g.Preferred[step.Prefer-1] = true
	}
	if step.Transient {
		g.Waits++
		g.WaitedFor += g.Now.Sub(began)
	}
}

func (g *game) checkWait(t *rapid.T, step Step) {
	if len(step.Set) == 0 && step.Until.IsZero() {
		t.Fatalf("a wait for nothing: %+v", step)
	}
	if step.Prefer > 0 && (g.Preferred[step.Prefer-1] || !g.Ordered || step.Until.Sub(g.Now) > g.PreferWait) {
		t.Fatalf("a wait for the preferred target that is none: %+v", step)
	}
	if step.Transient {
		if !g.WaitsEnabled || g.Waits >= g.MaxWaits {
			t.Fatalf("wait %d: %+v", g.Waits+1, step)
		}
		if d := step.Until.Sub(g.Now); !step.Until.IsZero() && (d > g.MaxWait || g.WaitedFor+d > g.WaitBudget || step.Until.After(g.Deadline)) {
			t.Fatalf("a wait of %s after %s: %+v", d, g.WaitedFor, step)
		}
	}
	for _, id := range step.Set {
		c := g.find(id)
		if c.Ruling.OK() || c.Ruling.Verdict == resilience.Forbidden && !transient(c) {
			t.Fatalf("waits for a candidate that is out for %s (%s): %+v", c.Ruling.Reason, c.Cause, step)
		}
	}
	if g.Tokens < 1 || step.Prefer > 0 {
		return
	}
	for _, c := range g.Candidates {
		if c.Ruling.OK() && g.tries(c.ID) == 0 && g.restsUntil(c).IsZero() && g.usable(c) && (!step.Else || g.follows(c)) &&
			!(c.Trial && g.tooDear(c)) {
			t.Fatalf("waits although %d is there: %+v", c.ID, step)
		}
	}
}

func (g *game) checkTry(t *rapid.T, step Step) {
	c := g.find(step.ID)
	if !c.Ruling.OK() {
		t.Fatalf("tries a candidate that is %s: %s", c.Ruling.Verdict, c.Ruling.Reason)
	}
	cost := 0
	for i := range g.History {
		if Costs(g.History[i].Outcome.Kind) {
			cost++
		}
	}
	if cost >= g.AttemptLimit || g.AttemptMax > 0 && len(g.History) >= g.AttemptMax {
		t.Fatalf("attempt %d of which %d cost: %+v", len(g.History)+1, cost, g.Config)
	}
	begins := g.Now.Add(step.Delay)
	if begins.After(g.Deadline) {
		t.Fatalf("begins %s behind the deadline", begins.Sub(g.Deadline))
	}
	repeated := g.tried(func(x *Try) bool { return x.Provider == c.Provider }) > 0
	if step.Repeat != repeated || repeated && g.Tokens < 1 {
		t.Fatalf("repeat %t, tokens %v: %+v", repeated, g.Tokens, step)
	}
	if g.tries(step.ID) == 0 && step.Delay > 0 {
		t.Fatalf("an untried candidate waits: %+v", step)
	}
	untried := false
	for _, o := range g.Candidates {
		if g.tries(c.ID) == 1 && step.Why == gateway.NextCandidate && !(o.Faltered && o.Health < falteredShare*c.Health) && g.follows(o) && g.runnable(o) {
			t.Fatalf("asks %d again although %d follows", c.ID, o.ID)
		}
		untried = untried || o.ID != c.ID && g.tries(o.ID) == 0 && o.Ruling.OK() && g.usable(o) && !g.restsUntil(o).After(g.Now)
	}
	for i := range g.History {
		x := &g.History[i]
		same := x.ID == c.ID
		switch x.Outcome.Kind {
		case gateway.AuthError, gateway.Banned, gateway.CreditsExhausted, gateway.QuotaExhausted, gateway.ModelUnavailable, gateway.RequestRejected:
			if same {
				t.Fatalf("asks again after %s", x.Outcome.Kind)
			}
		case gateway.Timeout, gateway.Slow, gateway.Stall:
			if same && untried {
				t.Fatalf("asks a silent candidate again while another is untried")
			}
		case gateway.Alive:
			if x.Outcome.Reason == gateway.ContextTooLong && x.Model == c.Model {
				t.Fatalf("sends a prompt that is too long to the same model again")
			}
			if x.Outcome.Reason == gateway.CallerFault {
				t.Fatalf("goes on after an invalid request")
			}
		}
		if same && x.BackAt.After(begins) && (x.Outcome.Kind != gateway.ServiceError || x.Outcome.EndedAt.Add(hintMost).After(begins)) {
			t.Fatalf("asks %s before Retry-After has passed", x.BackAt.Sub(begins))
		}
	}
	g.checkReserve(t, c)
}

// checkReserve: while only the kept attempts are left and an untried provider can run, it is one of those.
func (g *game) checkReserve(t *rapid.T, c *Candidate) {
	budget := g.AttemptLimit
	if g.AttemptMax > 0 {
		budget = min(budget, g.AttemptMax)
	}
	if len(g.History) == 0 || Left(&g.Config, g.History) > min(3, budget/3) || g.providerTried(c.Provider) == false {
		return
	}
	for _, o := range g.Candidates {
		if !g.providerTried(o.Provider) && o.Ruling.OK() && g.usable(o) && !g.restsUntil(o).After(g.Now) {
			t.Fatalf("an attempt kept for provider %d goes to %d again", o.Provider, c.Provider)
		}
	}
}

// TestAnyRace: beside live attempts never a live one, never its connection and model, never another trial.
func TestAnyRace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGame(drawConfig(t), drawPool(t))
		for range rapid.IntRange(0, 3).Draw(t, "before") {
			g.weather(t)
			if step := g.decide(); step.Do == TryNow {
				g.did(step.ID, rapid.SampledFrom(ends).Draw(t, "end"))
			}
		}
		g.weather(t)
		step := g.decide()
		if step.Do != TryNow {
			return
		}
		live := g.begin(step.ID)
		g.Now = g.Now.Add(2 * time.Second)
		g.weather(t)
		g.Racing = true
		second := g.decide()
		if second.Do != TryNow {
			return
		}
		c := g.find(second.ID)
		if c.ID == live.ID || c.Connection == live.Connection && c.Model == live.Model || c.Ruling.Probe || !c.Ruling.OK() {
			t.Fatalf("beside %+v: %+v", live, c)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	var names []string
	for range 10 {
		names = append(names, "abcdefghij")
	}
	g := newGame(ordered(settings()), pool(names...))
	g.did(0, fault503).did(0, fault503).did(1, timeout)
	b.ReportAllocs()
	for b.Loop() {
		if g.decide().Do != TryNow {
			b.Fatal("no try")
		}
	}
}
