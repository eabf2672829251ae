package plan

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

// identity of the connection with an id.
func (p *Pool) identity(t testing.TB, id string) string {
	t.Helper()
	for _, c := range p.Candidates {
		if string(c.Candidate.Connection.ID) == id {
			return c.Candidate.Connection.Identity
		}
	}
	t.Fatalf("no connection %s", id)
	return ""
}

// Precedence: eligibility, then the session's own connection, then the strategy.
func TestSessionStaysWhileItsConnectionIsWell(t *testing.T) {
	for _, row := range []struct {
		name, strategy, home string
		mayReturn            bool
		out                  string // connections whose breaker is open
		first                string
		returns              bool
	}{
		{name: "inside its target", strategy: "priority", home: "a2", first: "a2"},
		{name: "in a lower target, much cached", strategy: "priority", home: "b2", first: "b2"},
		{name: "in a lower target, little cached", strategy: "priority", home: "b2", mayReturn: true, first: "a1", returns: true},
		{name: "no higher target is well", strategy: "priority", home: "b2", mayReturn: true, out: "a1 a2", first: "b2"},
		{name: "no order to go back to", strategy: "round-robin", home: "b2", mayReturn: true, first: "b2"},
		{name: "it is out", strategy: "priority", home: "a2", out: "a2", first: "a1"},
		{name: "it is out in a lower target", strategy: "priority", home: "b2", out: "b2", first: "a1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := open(t, "providers:\n"+provider("a", "strategy: priority")+provider("b", "strategy: priority")+
				"connections:\n"+keys("a", 2)+keys("b", 2)+"combos:\n  - {name: smart, strategy: "+row.strategy+", targets: [a/m, b/m]}\n")
			pool := h.pool(t, "smart")
			for _, c := range pool.Candidates {
				c.learn(t, left(10), gateway.Outcome{Kind: gateway.Success}, t0)
				if strings.Contains(row.out, string(c.Candidate.Connection.ID)) {
					c.trip(t, t0)
				}
			}
			pl := pool.Open()
			id := pl.Prefer(pool.identity(t, row.home), "m", row.mayReturn)
			if id < 0 || string(pool.Candidates[id].Candidate.Connection.ID) != row.home {
				t.Fatalf("candidate %d", id)
			}
			make1(pl, left(10), at(time.Second))
			if have, _, _ := strings.Cut(order(pl), " "); have != row.first || pl.Returns != row.returns || len(pl.Ranked) != 4 {
				t.Errorf("order %s, returns %t; want %s first", order(pl), pl.Returns, row.first)
			}
			pl.Close()
			if again := pool.Open(); again.home != -1 || again.Pinned() {
				t.Error("the next request inherits the session")
			}
		})
	}
}

func TestPreferWhatThePoolDoesNotHave(t *testing.T) {
	h := twoTargets(t)
	pool := h.pool(t, "smart")
	pl := pool.Open()
	if id := pl.Prefer("nobody#1", "m", false); id != -1 {
		t.Errorf("candidate %d", id)
	}
	if pl.Pin("nobody#1") {
		t.Error("pinned to nobody")
	}
	make1(pl, left(10), t0)
	if len(pl.Ranked) != len(pool.Candidates) || pl.Open == 0 {
		t.Errorf("order %s", order(pl))
	}
}

// A pin forbids everything else, by its own reason, and is not overruled by who is out.
func TestPinForbidsTheRest(t *testing.T) {
	h := twoTargets(t)
	pool := h.pool(t, "smart")
	pin := pool.Candidates[1]
	pin.trip(t, t0)
	pl := pool.Open()
	if !pl.Pin(pin.Candidate.Connection.Identity) || !pl.Pinned() {
		t.Fatal("not pinned")
	}
	make1(pl, left(10), at(time.Second))
	for _, c := range pl.Ranked {
		want := gateway.ObjectElsewhere
		if c.ID == pin.ID {
			want = gateway.CircuitOpen
		}
		if c.Ruling.OK() || c.Ruling.Reason != want {
			t.Errorf("%d: %s, want %s", c.ID, c.Ruling.Reason, want)
		}
	}
	if pl.Open != 0 {
		t.Errorf("%d open", pl.Open)
	}
}

// Whatever the session prefers: the order is a permutation, nobody who is out comes before somebody who is well because of
// it, and looking allocates nothing.
func TestPreferenceProperties(t *testing.T) {
	for _, kind := range []string{"priority", "round-robin", "weighted", "health-aware"} {
		pool, now := hundred(t, kind, 10, false)
		rapid.Check(t, func(t *rapid.T) {
			home := pool.Candidates[rapid.IntRange(0, len(pool.Candidates)-1).Draw(t, "home")]
			pl := pool.Open()
			defer pl.Close()
			pl.Prefer(home.Candidate.Connection.Identity, home.Candidate.Model, rapid.Bool().Draw(t, "may return"))
			ask := left(10)
			pl.Make(&ask, nil, now)
			seen := map[int]bool{}
			for _, c := range pl.Ranked {
				seen[c.ID] = true
			}
			if len(seen) != len(pool.Candidates) {
				t.Fatalf("%d of %d candidates in the order", len(seen), len(pool.Candidates))
			}
			well := pl.Ruling(home.ID).OK()
			if first := pl.Ranked[0]; well && !pl.Returns && first.ID != home.ID || !well && first.ID == home.ID {
				t.Fatalf("home is well: %t, first is %d, home %d", well, first.ID, home.ID)
			}
		})
		pl := pool.Open()
		pl.Prefer(pool.Candidates[95].Candidate.Connection.Identity, "m", false)
		ask := left(10)
		if n := testing.AllocsPerRun(100, func() { pl.Make(&ask, nil, now) }); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
		pl.Close()
	}
}
