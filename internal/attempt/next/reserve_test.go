package next

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

// TestReserveOfAnyBudget: whatever the budget is called, a third of it, three at most, goes to providers that were not
// tried, and none of it is lost.
func TestReserveOfAnyBudget(t *testing.T) {
	for budget := 1; budget <= 10; budget++ {
		for name, bound := range map[string]func(*Config){
			"attempts":     func(c *Config) { c.AttemptLimit = budget },
			"max_attempts": func(c *Config) { c.AttemptMax = budget },
			"emergency":    func(c *Config) { c.Kept = min(3, budget/3); c.AttemptLimit = budget - c.Kept },
		} {
			for _, e := range []end{fault503, fault503.within(3 * time.Second), timeout, empty, fault503.scoped(gateway.ScopeConnection)} {
				for _, isOrdered := range []bool{false, true} {
					cfg := settings()
					cfg.Ordered = isOrdered
					bound(&cfg)
					g := newGame(cfg, pool("aaaaaaaaaaaa", "b", "c", "d"))
					made := g.play(func(*Candidate) end { return e })
					others := g.tried(func(x *Try) bool { return x.Provider != 'a' })
					who := fmt.Sprintf("%s %d, ordered %t, %s/%s", name, budget, isOrdered, e.kind, e.scope)
					if others < min(3, budget/3) {
						t.Errorf("%s: %d attempts on providers that were not tried before", who, others)
					}
					if made != budget-cfg.Kept {
						t.Errorf("%s: %d attempts", who, made)
					}
					if g.History[0].Provider != 'a' {
						t.Errorf("%s: the first attempt is not the first candidate's", who)
					}
				}
			}
		}
	}
}

// TestThreeAttemptsReachTheFallback: the smallest budget with a reserve, with many keys of a provider that is down.
func TestThreeAttemptsReachTheFallback(t *testing.T) {
	for _, isOrdered := range []bool{false, true} {
		cfg := settings()
		cfg.Ordered, cfg.AttemptLimit = isOrdered, 3
		g := newGame(cfg, pool("aaaaaaaaaa", "b"))
		if dead := g.play(healthy('b', fault503)); dead > 2 || g.History[len(g.History)-1].Provider != 'b' {
			t.Errorf("ordered %t: %d attempts on the dead provider", isOrdered, dead)
		}
	}
}

// healthy answers for one provider and fails for all others.
func healthy(provider int, e end) func(*Candidate) end {
	return func(c *Candidate) end {
		if c.Provider == provider {
			return answered
		}
		return e
	}
}

// TestFreeAttemptsLeaveTheReserve: refused keys cost nothing, so they cannot use it up.
func TestFreeAttemptsLeaveTheReserve(t *testing.T) {
	cfg := ordered(settings())
	cfg.AttemptLimit = 3
	g := newGame(cfg, pool("aaaaaaaaaa", "b"))
	for id := range 8 {
		g.did(id, badKey)
	}
	g.did(8, timeout).did(9, timeout)
	check(t, g.decide(), try(10, gateway.NextCandidate))
}

// TestEarlierWalk: what another walk of the request did counts against the budget and against whom it blames, and ends
// nothing here.
func TestEarlierWalk(t *testing.T) {
	earlier := func(cfg Config, e end) *game {
		g := newGame(cfg, pool("aa", "b"))
		g.did(0, e)
		g.State.Earlier = len(g.History)
		return g
	}
	status := settings()
	status.ExcludeStatus = []int{503}
	for _, row := range []struct {
		name string
		game *game
		want goal
	}{
		{"a bad request of then", earlier(settings(), badCall), try(1, gateway.NextCandidate)},
		{"a status of then", earlier(status, fault503), try(1, gateway.NextCandidate)},
		{"no courtesy for who failed then", earlier(ordered(settings()), fault503), try(1, gateway.NextCandidate)},
		{"429s of then", earlier(settings(), limited.within(3*time.Minute)), try(1, gateway.NextCandidate)},
		{"a missing model of then is still missing", earlier(settings(), noModel), try(2, gateway.NextCandidate)},
		{"and now as well", earlier(settings(), fault503).did(2, badCall), fail(gateway.StopHere)},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.game.BeganAt = row.game.Now
			check(t, row.game.decide(), row.want)
		})
	}
	cfg := settings()
	cfg.AttemptLimit, cfg.AttemptMax = 5, 2
	g := earlier(cfg, fault503)
	if n := Left(&g.Config, g.History); n != 2 {
		t.Errorf("%d attempts left, max_attempts bounds this walk alone", n)
	}
	cfg.AttemptMax = 0
	g = earlier(cfg, fault503)
	if n := Left(&g.Config, g.History); n != 4 {
		t.Errorf("%d attempts left of five, one was made then", n)
	}
}

// TestAnyEarlierWalk: strangers in the history, numbered -1, confuse nothing.
func TestAnyEarlierWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGame(drawConfig(t), drawPool(t))
		for range rapid.IntRange(0, 5).Draw(t, "earlier") {
			e := rapid.SampledFrom(ends).Draw(t, "end")
			x := Try{ID: -1, Target: -1, Provider: -1, Connection: -1, Account: -1, Model: -1, Outcome: gateway.Outcome{BeganAt: g.Now}}
			if len(g.Candidates) > 0 && rapid.Bool().Draw(t, "known") {
				c := rapid.SampledFrom(g.Candidates).Draw(t, "candidate")
				x.ID, x.Target, x.Provider, x.Connection, x.Account, x.Model = c.ID, c.Target, c.Provider, c.Connection, c.Account, c.Model
			}
			g.History = append(g.History, x)
			g.finish(&g.History[len(g.History)-1], e)
		}
		g.State.Earlier = len(g.History)
		g.BeganAt = g.Now
		for range 300 {
			g.weather(t)
			switch step := g.decide(); step.Do {
			case Fail:
				if len(g.History) == g.State.Earlier && (step.Why == gateway.StopHere || step.Why == gateway.StatusExcluded ||
					step.Why == gateway.ClientGone || step.Why == gateway.StallWindow) {
					t.Fatalf("an end of the earlier walk ends this one: %s", step.Why)
				}
				return
			case WaitUntil:
				g.wait(t, step)
			case TryNow:
				if c := g.find(step.ID); !c.Ruling.OK() {
					t.Fatalf("tries what is %s", c.Ruling.Reason)
				}
				g.Now = g.Now.Add(step.Delay)
				g.did(step.ID, rapid.SampledFrom(ends).Draw(t, "end"))
			}
		}
		t.Fatal("no end")
	})
}
