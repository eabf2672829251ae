package next

import (
	"slices"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// goal is what a decision must be; zero fields are not compared but for the verb.
type goal struct {
	do      Do
	id      int
	why     gateway.Reason
	delayed bool // TryNow: not at once
	set     []int
	until   time.Duration // WaitUntil: from t0
}

func try(id int, why gateway.Reason) goal { return goal{do: TryNow, id: id, why: why} }
func fail(why gateway.Reason) goal        { return goal{do: Fail, why: why} }

func check(t *testing.T, have Step, want goal) {
	t.Helper()
	ok := have.Do == want.do && have.Why == want.why
	switch want.do {
	case TryNow:
		ok = ok && have.ID == want.id && (have.Delay > 0) == want.delayed
	case WaitUntil:
		ok = ok && slices.Equal(have.Set, want.set) && (want.until == 0 || have.Until.Equal(at(want.until)))
	}
	if !ok {
		t.Errorf("have %+v (why %s), want %+v (why %s)", have, have.Why, want, want.why)
	}
}

// TestRules is section 9 of resilience.md, rule by rule.
func TestRules(t *testing.T) {
	plain, order := settings(), ordered(settings())
	failover := plain
	failover.ContentFailover = true
	status := plain
	status.ExcludeStatus = []int{418, 503}
	last := plain
	last.AttemptLimit = 1
	noWaits := plain
	noWaits.WaitsEnabled = false
	in := func(d time.Duration) time.Time { return at(d) }
	const second, ms = time.Second, time.Millisecond

	for _, row := range []struct {
		name string
		game *game
		want goal
	}{
		{"the first attempt goes to the first candidate", newGame(plain, pool("a", "b")), try(0, gateway.FirstChoice)},
		{"what is out is passed over", newGame(plain, pool("a", "b")).set(0, out(gateway.CircuitOpen, in(15*second), 0)), try(1, gateway.FirstChoice)},
		{"what is full is passed over", newGame(plain, pool("a", "b")).set(0, delayed(gateway.ConcurrencyFull)), try(1, gateway.FirstChoice)},
		{"nothing configured", newGame(plain, nil), fail(gateway.NothingRunnable)},

		// 1. alive outcomes first
		{"1: an invalid request ends the walk", newGame(plain, pool("a", "b")).did(0, badCall), fail(gateway.StopHere)},
		{"1: a refusal of content ends the walk", newGame(plain, pool("a", "b")).did(0, refused), fail(gateway.StopHere)},
		{"1: unless the combo says so", newGame(failover, pool("aa", "b")).did(0, refused), try(2, gateway.NextCandidate)},
		{"1: too long for one model goes to another model", newGame(plain, pool("aa", "b")).did(0, tooLong), try(2, gateway.NextCandidate)},
		{"1: too long for the only model ends the walk", newGame(plain, pool("aaa")).did(0, tooLong), fail(gateway.StopHere)},
		{"1: too long stays true behind another failure", newGame(plain, pool("a", "b")).did(0, tooLong).did(1, timeout), try(1, gateway.NextCandidate).later()},
		{"1: a capability that one target lacks goes to another", newGame(plain, pool("aa", "b")).did(0, noTools), try(2, gateway.NextCandidate)},
		{"1: the same refusal from two targets ends the walk", newGame(plain, pool("a", "b", "c")).did(0, noTools).did(1, noTools), fail(gateway.StopHere)},
		{"1: another refusal does not", newGame(plain, pool("a", "b", "c")).did(0, noTools).did(1, noTools.named("vision")), try(2, gateway.NextCandidate)},
		{"1: a capability that the only target lacks ends the walk", newGame(plain, pool("aa")).did(0, noTools), fail(gateway.StopHere)},
		{"1: a status in exclude_status returns at once", newGame(status, pool("a", "b")).did(0, fault503), fail(gateway.StatusExcluded)},
		{"1: the client left", newGame(plain, pool("a", "b")).did(0, left), fail(gateway.ClientGone)},
		{"1: a lost race does not end anything", newGame(plain, pool("a", "b")).did(0, lostRace), try(1, gateway.NextCandidate)},

		// 2. same again
		{"2: a quick service error of an ordered strategy is tried again", newGame(order, pool("a", "b")).did(0, fault503), try(0, gateway.SameAgain).later()},
		{"2: a quick reset as well", newGame(order, pool("a", "b")).did(0, reset), try(0, gateway.SameAgain).later()},
		{"2: once", newGame(order, pool("a", "b")).did(0, fault503).did(0, fault503), try(1, gateway.NextCandidate)},
		{"2: once per provider", newGame(order, pool("aa", "b")).did(0, fault503).did(0, fault503).did(1, fault503), try(2, gateway.NextCandidate)},
		{"2: not without order", newGame(plain, pool("a", "b")).did(0, fault503), try(1, gateway.NextCandidate)},
		{"2: not after two seconds", newGame(order, pool("a", "b")).did(0, fault503.within(2001*ms)), try(1, gateway.NextCandidate)},
		{"2: not after a time-out", newGame(order, pool("a", "b")).did(0, timeout), try(1, gateway.NextCandidate)},
		{"2: not after slow", newGame(order, pool("a", "b")).did(0, slow.within(second)), try(1, gateway.NextCandidate)},
		{"2: not after a stall", newGame(order, pool("a", "b")).did(0, stall.within(second)), try(1, gateway.NextCandidate)},
		{"2: not when it is out by now", newGame(order, pool("a", "b")).did(0, fault503).set(0, out(gateway.CircuitOpen, in(15*second), 0)), try(1, gateway.NextCandidate)},
		{"2: not one that is degraded", newGame(order, pool("a", "b")).set(0, weak).did(0, fault503), try(1, gateway.NextCandidate)},
		{"2: not a probe", newGame(order, pool("a", "b")).set(0, probe).did(0, fault503), try(1, gateway.NextCandidate)},
		{"2: not before the time that it asked for", newGame(order, pool("a", "b")).did(0, fault503.backIn(5*second)), try(1, gateway.NextCandidate)},
		{"2: not with the only attempt that is left for a fallback", newGame(limit(order, 2), pool("a", "b")).did(0, fault503), try(1, gateway.NextCandidate)},
		{"2: but with the last one when there is no fallback", newGame(limit(order, 2), pool("a")).did(0, fault503), try(0, gateway.SameAgain).later()},
		{"2: not without a token", newGame(order, pool("a", "b")).did(0, fault503).broke(0, second), try(1, gateway.NextCandidate)},

		// 3. where to go next follows the scope
		{"3: account scope goes to another account of the target", newGame(plain, pool("aaa", "b")).did(0, limited), try(1, gateway.NextCandidate)},
		{"3: also when another target has the better rank", newGame(plain, pool("b", "aa")).rankedLast(0).did(1, limited), try(2, gateway.NextCandidate)},
		{"3: one account's other connections do not follow", newGame(plain, pool("aaa", "b")).sameAccount(0, 1).did(0, limited), try(2, gateway.NextCandidate)},
		{"3: connection scope goes to another connection", newGame(plain, pool("aa", "b")).did(0, badKey), try(1, gateway.NextCandidate)},
		{"3: provider scope allows one other connection", newGame(plain, pool("aaa", "b")).did(0, fault503), try(1, gateway.NextCandidate)},
		{"3: then another provider", newGame(plain, pool("aaa", "b")).did(0, fault503).did(1, fault503), try(3, gateway.NextCandidate)},
		{"3: attempt scope likewise", newGame(plain, pool("aaa", "b")).did(0, slow).did(1, slow), try(3, gateway.NextCandidate)},
		{"3: a missing model goes to another provider or model", newGame(plain, pool("aaa", "a")).did(0, noModel), try(3, gateway.NextCandidate)},
		{"3: an empty answer likewise", newGame(plain, pool("aa", "b")).did(0, empty), try(2, gateway.NextCandidate)},
		{"3: a model's quota belongs to the account", newGame(plain, pool("aa", "b")).did(0, limited.scoped(gateway.ScopeModel)), try(1, gateway.NextCandidate)},
		{"3: the limits only order: the rest of the pool follows", newGame(plain, pool("aaa")).did(0, timeout).did(1, timeout), try(2, gateway.NextCandidate)},
		{"3: also what has failed before", newGame(plain, pool("a")).did(0, fault503), try(0, gateway.NextCandidate).later()},

		{"3: who only waits for a slot is worth more than the rest", newGame(plain, pool("aaaa", "b")).did(0, fault503).did(1, fault503).set(4, delayed(gateway.Unproven)),
			goal{do: WaitUntil, why: gateway.WaitForSlot, set: []int{4}, until: 700 * ms}},
		{"3: but not for ever", newGame(plain, pool("aaaa", "b")).did(0, fault503).did(1, fault503).set(4, delayed(gateway.Unproven)).passes(500 * ms), try(0, gateway.NextCandidate)},
		{"3: and not for what does not follow", newGame(plain, pool("aaaa")).did(0, fault503).did(1, fault503).set(2, delayed(gateway.ConcurrencyFull)), try(0, gateway.NextCandidate).later()},

		// 4. wait for the preferred target
		{"4: the preferred target is back in a moment", newGame(order, pool("a", "b")).did(0, limited.backIn(2*second)).set(0, out(gateway.ConnectionCooldown, in(2100*ms), gateway.RateLimited)),
			goal{do: WaitUntil, why: gateway.PreferredBack, set: []int{0}, until: 2100 * ms}},
		{"4: never before its hint has passed", newGame(order, pool("a", "b")).did(0, limited.backIn(2*second)).set(0, out(gateway.ConnectionCooldown, in(second), gateway.RateLimited)),
			goal{do: WaitUntil, why: gateway.PreferredBack, set: []int{0}, until: 2100 * ms}},
		{"4: once per target", newGame(order, pool("a", "b")).did(0, limited.backIn(2*second)).set(0, out(gateway.ConnectionCooldown, in(2100*ms), gateway.RateLimited)).waitedFor(0), try(1, gateway.NextCandidate)},
		{"4: and asked when it is back", newGame(order, pool("a", "b")).did(0, limited.backIn(2*second)).waitedFor(0).passes(3 * second), try(0, gateway.PreferredBack)},
		{"4: once", newGame(order, pool("a", "b")).did(0, limited.backIn(2*second)).passes(3*second).waitedFor(0).did(0, limited.backIn(2*second)).passes(3 * second), try(1, gateway.NextCandidate)},
		{"4: not longer than prefer_wait", newGame(order, pool("a", "b")).did(0, limited.backIn(4*second)).set(0, out(gateway.ConnectionCooldown, in(4100*ms), gateway.RateLimited)), try(1, gateway.NextCandidate)},
		{"4: not when it stays out for longer than its hint says", newGame(order, pool("a", "b")).did(0, limited.backIn(second)).set(0, out(gateway.CircuitOpen, in(15*second), 0)), try(1, gateway.NextCandidate)},
		{"4: not while an equal candidate runs", newGame(order, pool("aa", "b")).did(0, limited.backIn(2*second)).set(0, out(gateway.ConnectionCooldown, in(2100*ms), gateway.RateLimited)), try(1, gateway.NextCandidate)},
		{"4: not without order", newGame(plain, pool("a", "b")).did(0, limited.backIn(2*second)).set(0, out(gateway.ConnectionCooldown, in(2100*ms), gateway.RateLimited)), try(1, gateway.NextCandidate)},
		{"4: not for a spent quota", newGame(order, pool("a", "b")).did(0, quota.backIn(2*second)).set(0, out(gateway.ConnectionCooldown, in(2100*ms), gateway.QuotaExhausted)), try(1, gateway.NextCandidate)},
		{"4: not beyond the deadline", newGame(order, pool("a", "b")).until(second).did(0, limited.backIn(2*second)).set(0, out(gateway.ConnectionCooldown, in(2100*ms), gateway.RateLimited)), try(1, gateway.NextCandidate)},

		// 5. rank of what failed
		{"5: one failure keeps the rank", newGame(plain, pool("a", "b")).did(0, fault503).did(1, fault503), try(0, gateway.NextCandidate).later()},
		{"5: a time-out goes to the tail", newGame(plain, pool("a", "b")).did(0, timeout).did(1, fault503), try(1, gateway.NextCandidate).later()},
		{"5: two failures go to the tail while somebody is well", newGame(plain, pool("aaa")).did(0, fault503).did(0, fault503).did(1, fault503), try(1, gateway.NextCandidate).later()},
		{"5: not while the rest is worse", newGame(plain, pool("aaa")).did(0, fault503).did(0, fault503).did(1, timeout).unwell(2), try(0, gateway.NextCandidate)},
		{"5: a silent one is not asked again while another is untried", newGame(plain, pool("aaa")).did(0, timeout).did(1, timeout), try(2, gateway.NextCandidate)},
		{"5: then it is", newGame(plain, pool("aa")).did(0, timeout).did(1, timeout), try(0, gateway.NextCandidate)},

		{"5: an untried one that faltered and is much worse comes behind one failure", newGame(plain, pool("a", "b")).faltered(1, 0.6).did(0, fault503), try(0, gateway.NextCandidate).later()},
		{"5: once", newGame(plain, pool("a", "b")).faltered(1, 0.6).did(0, fault503).did(0, fault503), try(1, gateway.NextCandidate)},
		{"5: one that is not much worse comes first", newGame(plain, pool("a", "b")).faltered(1, 0.8).did(0, fault503), try(1, gateway.NextCandidate)},
		{"5: and one that did not falter, wherever it ranks", newGame(plain, pool("a", "b", "c")).faltered(1, 0.2).did(0, fault503), try(2, gateway.NextCandidate)},
		{"5: also when it is worse", newGame(plain, pool("a", "b")).unwell(1).did(0, fault503), try(1, gateway.NextCandidate)},
		{"5: a silent one keeps no rank", newGame(plain, pool("a", "b")).faltered(1, 0.2).did(0, timeout), try(1, gateway.NextCandidate)},
		{"5: nor one with the kept attempts", newGame(limit(plain, 3), pool("a", "b")).faltered(1, 0.2).did(0, fault503).did(0, fault503), try(1, gateway.NextCandidate)},
		{"5: nor behind the deadline", newGame(plain, pool("a", "b")).until(200*ms).faltered(1, 0.2).did(0, fault503), try(1, gateway.NextCandidate)},
		{"5: nor without a token", newGame(plain, pool("a", "b")).faltered(1, 0.2).did(0, fault503).broke(0, second), try(1, gateway.NextCandidate)},

		// 6. wait, or fail
		{"6: what is full is waited for", newGame(plain, pool("a", "b")).set(0, delayed(gateway.ConcurrencyFull)).set(1, delayed(gateway.Paced)),
			goal{do: WaitUntil, why: gateway.WaitForSlot, set: []int{0, 1}}},
		{"6: what cools for a short time is waited for", newGame(plain, pool("a", "b")).set(0, out(gateway.ConnectionCooldown, in(20*second), gateway.RateLimited)).set(1, out(gateway.CircuitOpen, in(15*second), 0)),
			goal{do: WaitUntil, why: gateway.WaitForReturn, set: []int{0, 1}, until: 15 * second}},
		{"6: also what is full beside it", newGame(plain, pool("a", "b")).set(0, delayed(gateway.ConcurrencyFull)).set(1, out(gateway.CircuitOpen, in(15*second), 0)),
			goal{do: WaitUntil, why: gateway.WaitForSlot, set: []int{0, 1}, until: 15 * second}},
		{"a probe is not the last attempt while another candidate is only full", newGame(last, pool("a", "b")).set(0, trial).set(1, delayed(gateway.Paced)), goal{do: WaitUntil, why: gateway.WaitForSlot, set: []int{1}}},
		{"nor while one is back in a moment", newGame(last, pool("a", "b")).set(0, trial).set(1, out(gateway.ConnectionCooldown, in(5*second), gateway.RateLimited)), goal{do: WaitUntil, why: gateway.WaitForReturn, set: []int{1}}},
		{"but it may be, when the other one is out for long", newGame(last, pool("a", "b")).set(0, trial).set(1, out(gateway.CircuitOpen, in(5*time.Minute), 0)), try(0, gateway.FirstChoice)},
		{"or when another attempt is left", newGame(plain, pool("a", "b")).set(0, trial).set(1, delayed(gateway.Paced)), try(0, gateway.FirstChoice)},
		{"6: a probe that is out is waited for", newGame(plain, pool("a")).set(0, out(gateway.ProbeBusy, time.Time{}, 0)), goal{do: WaitUntil, why: gateway.WaitForProbe, set: []int{0}}},
		{"6: not longer than max_wait", newGame(plain, pool("a")).set(0, out(gateway.ConnectionCooldown, in(66*second), gateway.RateLimited)), fail(gateway.NothingRunnable)},
		{"6: not beyond the deadline", newGame(plain, pool("a")).until(10*second).set(0, out(gateway.CircuitOpen, in(15*second), 0)), fail(gateway.NothingRunnable)},
		{"6: not more often than max_attempts", newGame(plain, pool("a")).waitedSoFar(5, second).set(0, out(gateway.CircuitOpen, in(15*second), 0)), fail(gateway.NothingRunnable)},
		{"6: not more than the budget", newGame(plain, pool("a")).waitedSoFar(1, 290*second).set(0, out(gateway.CircuitOpen, in(15*second), 0)), fail(gateway.NothingRunnable)},
		{"6: not when waits are off", newGame(noWaits, pool("a")).set(0, out(gateway.CircuitOpen, in(15*second), 0)), fail(gateway.NothingRunnable)},
		{"6: never for a quota", newGame(plain, pool("a")).set(0, out(gateway.ConnectionCooldown, in(second), gateway.QuotaExhausted)), fail(gateway.NothingRunnable)},
		{"6: never for a key", newGame(plain, pool("a")).set(0, out(gateway.ConnectionCooldown, in(second), gateway.AuthError)), fail(gateway.NothingRunnable)},
		{"6: never for a missing model", newGame(plain, pool("a")).set(0, out(gateway.ModelLockout, in(second), gateway.ModelUnavailable)), fail(gateway.NothingRunnable)},
		{"6: never for a terminal state", newGame(plain, pool("a")).set(0, out(gateway.Terminal, in(second), gateway.Banned)), fail(gateway.NothingRunnable)},
		{"6: what may run but asked us to wait is waited for", newGame(plain, pool("a")).did(0, fault503.backIn(20*second)),
			goal{do: WaitUntil, why: gateway.NotBefore, until: 20100 * ms}},
		{"6: a service's hint is believed for a minute", newGame(plain, pool("a")).did(0, fault503.backIn(time.Hour)),
			goal{do: WaitUntil, why: gateway.NotBefore, until: 60100 * ms}},
		{"6: without waits it ends there", newGame(noWaits, pool("a")).did(0, fault503.backIn(20*second)), fail(gateway.NothingRunnable)},
		{"6: an unbounded 429 that nothing cools ends there", newGame(plain, pool("a")).did(0, limited.backIn(time.Hour)), fail(gateway.NothingRunnable)},

		// budgets
		{"the deadline ends everything", newGame(plain, pool("a", "b")).did(0, timeout.within(10*time.Minute)), fail(gateway.DeadlinePassed)},
		{"no attempt whose back-off ends behind the deadline", newGame(plain, pool("a")).until(200*ms).did(0, fault503), fail(gateway.DeadlinePassed)},
		{"429s end with the stall window", newGame(plain, pool("aaaa")).did(0, limited.within(2*time.Minute)), fail(gateway.StallWindow)},
		{"a success of the pool holds it open", newGame(plain, pool("aaaa")).served(time.Minute).did(0, limited.within(2*time.Minute)), try(1, gateway.NextCandidate)},
		{"repeating a provider needs a token", newGame(plain, pool("aa")).did(0, timeout).broke(0.5, second),
			goal{do: WaitUntil, why: gateway.RetryBudget, until: 11 * second}},
		{"a token too far away fails", newGame(plain, pool("aa")).did(0, timeout).broke(0, 2*time.Minute), fail(gateway.RetryBudget)},
		{"an untried provider is free", newGame(plain, pool("aa", "b")).did(0, timeout).broke(0, second), try(2, gateway.NextCandidate)},
		{"a host fault is tried twice", newGame(plain, pool("a")).did(0, hostFault).did(0, hostFault), fail(gateway.NothingRunnable)},
		{"a new key is tried at once", newGame(plain, pool("a")).did(0, newKey), try(0, gateway.NextCandidate)},
	} {
		t.Run(row.name, func(t *testing.T) { check(t, row.game.decide(), row.want) })
	}
}

func limit(cfg Config, attempts int) Config { cfg.AttemptLimit = attempts; return cfg }

// later says that the attempt must not begin at once.
func (g goal) later() goal { g.delayed = true; return g }

func (g *game) broke(tokens float64, in time.Duration) *game {
	g.Tokens, g.TokenIn = tokens, in
	return g
}

func (g *game) until(d time.Duration) *game { g.Deadline = at(d); return g }

func (g *game) served(d time.Duration) *game { g.LastSuccess = at(d); return g }

func (g *game) waitedFor(target int) *game { g.Preferred[target] = true; return g }

func (g *game) waitedSoFar(n int, d time.Duration) *game { g.Waits, g.WaitedFor = n, d; return g }

func (g *game) passes(d time.Duration) *game { g.Now = g.Now.Add(d); return g }

func (g *game) unwell(id int) *game { g.find(id).Health = 0.4; return g }

func (g *game) faltered(id int, health float64) *game {
	g.find(id).Faltered, g.find(id).Health = true, health
	return g
}

func (g *game) sameAccount(a, b int) *game { g.find(b).Account = g.find(a).Account; return g }

// rankedLast moves a candidate to the end of the order.
func (g *game) rankedLast(id int) *game {
	c := g.find(id)
	g.Candidates = append(slices.DeleteFunc(g.Candidates, func(x *Candidate) bool { return x.ID == id }), c)
	return g
}

// TestSameAgainDelay: 200 to 500 ms after the failure, not after the decision.
func TestSameAgainDelay(t *testing.T) {
	for jitter, want := range map[float64]time.Duration{0: 200 * time.Millisecond, 0.5: 350 * time.Millisecond, 0.999999: 500 * time.Millisecond} {
		g := newGame(ordered(settings()), pool("a", "b")).did(0, fault503)
		g.Jitter = jitter
		if d := g.decide().Delay; d.Round(time.Millisecond) != want {
			t.Errorf("jitter %v: %s, want %s", jitter, d, want)
		}
		g.Now = g.Now.Add(time.Second)
		if d := g.decide().Delay; d != 0 {
			t.Errorf("a second later: %s", d)
		}
	}
}

// TestBackOff: exponential between rounds, jittered on the upper half, bounded.
func TestBackOff(t *testing.T) {
	cfg := settings()
	cfg.AttemptLimit = 100
	for _, jitter := range []float64{0, 1} {
		g := newGame(cfg, pool("a"))
		g.Jitter = jitter
		for n, want := 0, roundBase/2; n < 9; n++ {
			g.did(0, fault503)
			have := g.decide()
			if d := want + time.Duration(jitter*float64(want)); have.Do != TryNow || have.Delay != d {
				t.Fatalf("round %d, jitter %v: %+v, want %s", n+1, jitter, have, d)
			}
			want = min(2*want, roundMax/2)
		}
	}
}

// TestDeadProvider: ten keys of a provider that is down and a healthy one behind: at most three attempts are lost.
func TestDeadProvider(t *testing.T) {
	for _, cfg := range []Config{settings(), ordered(settings())} {
		for _, e := range []end{fault503, reset, timeout, slow, fault503.within(5 * time.Second)} {
			g := newGame(cfg, pool("aaaaaaaaaa", "b"))
			dead := g.play(func(c *Candidate) end {
				if c.Provider == 'b' {
					return answered
				}
				return e
			})
			if last := g.History[len(g.History)-1]; dead > 3 || last.Provider != 'b' {
				t.Errorf("ordered %t, %s: %d attempts on the dead provider, the last on %c", cfg.Ordered, e.kind, dead, last.Provider)
			}
		}
	}
}

// play runs the request until it is answered or fails and returns the number of failed attempts.
func (g *game) play(upstream func(*Candidate) end) (failed int) {
	for range 2000 {
		switch step := g.decide(); step.Do {
		case Fail:
			return failed
		case WaitUntil:
			g.Now = later(g.Now, step.Until)
		case TryNow:
			g.Now = g.Now.Add(step.Delay)
			e := upstream(g.find(step.ID))
			g.did(step.ID, e)
			if e.kind == gateway.Success {
				return failed
			}
			failed++
		}
	}
	panic("no end")
}

// TestThirtyRefusedKeys: each is asked once, none twice, and they cost no attempt of the budget.
func TestThirtyRefusedKeys(t *testing.T) {
	for _, cfg := range []Config{settings(), ordered(settings())} {
		g := newGame(cfg, pool("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
		if n := g.play(func(*Candidate) end { return badKey }); n != 30 {
			t.Errorf("%d attempts", n)
		}
		for id := range 30 {
			if n := g.tries(id); n != 1 {
				t.Errorf("key %d was asked %d times", id, n)
			}
		}
		if left := Left(&cfg, g.History); left != cfg.AttemptLimit {
			t.Errorf("%d attempts left", left)
		}
		if step := g.decide(); step.Do != Fail {
			t.Errorf("after all of them: %+v", step)
		}
	}
}

// TestP48ExactAttempts: an upstream that always fails gets the attempts of the budget, not a multiple of it.
func TestP48ExactAttempts(t *testing.T) {
	for limit := 1; limit <= 12; limit++ {
		for _, p := range [][]*Candidate{pool("a"), pool("aaa"), pool("aa", "bb", "cc"), pool("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m")} {
			cfg := ordered(settings())
			cfg.AttemptLimit = limit
			if n := newGame(cfg, p).play(func(*Candidate) end { return fault503 }); n != limit {
				t.Errorf("%d attempts, the limit is %d", n, limit)
			}
			cfg.AttemptLimit, cfg.AttemptMax = 10, limit
			if n := newGame(cfg, p).play(func(*Candidate) end { return fault503 }); n != min(limit, 10) {
				t.Errorf("%d attempts, max_attempts is %d", n, limit)
			}
		}
	}
}

// TestMaxAttemptsIsStrict: attempts that cost nothing count as well.
func TestMaxAttemptsIsStrict(t *testing.T) {
	cfg := settings()
	cfg.AttemptMax = 3
	if n := newGame(cfg, pool("aaaaaaaaaa")).play(func(*Candidate) end { return badKey }); n != 3 {
		t.Errorf("%d attempts", n)
	}
}

// TestReserve: the last attempts are kept for providers that were not tried, while one of them can run.
func TestReserve(t *testing.T) {
	cfg := ordered(settings())
	tired := func() *game {
		g := newGame(cfg, pool("aaaaaaa", "b", "c", "d", "e"))
		for id := range 7 {
			g.did(id, fault503.within(3*time.Second))
		}
		return g
	}
	check(t, tired().decide(), try(7, gateway.NextCandidate))
	check(t, tired().set(7, out(gateway.CircuitOpen, at(time.Hour), 0)).decide(), try(8, gateway.NextCandidate))
	check(t, tired().did(7, fault503).decide(), try(8, gateway.NextCandidate)) // no courtesy for 7 with what is kept for 8
	alone := tired()
	for id := 7; id <= 10; id++ {
		alone.set(id, out(gateway.CircuitOpen, at(time.Hour), 0))
	}
	if step := alone.decide(); step.Do != TryNow || step.ID > 6 {
		t.Errorf("with no other provider the budget is for all: %+v", step)
	}
}

// TestRacing: what starts beside a live attempt is another candidate, sure and at once.
func TestRacing(t *testing.T) {
	g := newGame(settings(), pool("a", "b", "c")).set(0, probe).set(1, probe)
	g.begin(0)
	g.Racing = true
	check(t, g.decide(), try(2, gateway.ProbeRace))
	g.set(2, out(gateway.CircuitOpen, at(time.Second), 0))
	if step := g.decide(); step.Do == TryNow {
		t.Errorf("a second trial beside the first: %+v", step)
	}
	one := newGame(settings(), pool("a"))
	one.begin(0)
	one.Racing = true
	if step := one.decide(); step.Do == TryNow {
		t.Errorf("the live candidate again: %+v", step)
	}
}

// TestLargerWindow: who is known to have no larger window is not sent what was too long.
func TestLargerWindow(t *testing.T) {
	g := newGame(settings(), pool("a", "b", "c")).did(0, tooLong)
	g.WindowLarger = func(from, to int) bool { return from == 0 && to == 2 }
	check(t, g.decide(), try(2, gateway.NextCandidate))
	g.WindowLarger = func(int, int) bool { return false }
	check(t, g.decide(), fail(gateway.StopHere))
}

// TestCosts is the attempt budget column of resilience.md section 1.
func TestCosts(t *testing.T) {
	want := map[gateway.Kind]bool{gateway.InvalidResult: true, gateway.ServiceError: true, gateway.Timeout: true,
		gateway.Slow: true, gateway.Stall: true, gateway.EmptyOutput: true, gateway.LocalError: true}
	for k := range gateway.NumKinds {
		if Costs(k) != want[k] {
			t.Errorf("%s: costs %t", k, Costs(k))
		}
	}
}
