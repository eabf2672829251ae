package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func join(l *Line, key string, set ...int) *Place {
	return l.Join(gateway.ClientKeyID(key), set, t0)
}

// serveAll lets everybody run in the order of their turns.
func serveAll(l *Line) (order []*Place) {
	for {
		p := l.Next(t0)
		if p == nil {
			return order
		}
		order = append(order, p)
		l.Leave(p, true, t0)
	}
}

func TestLineIsFIFOWithinAKey(t *testing.T) {
	l := NewLine(LineConfig{})
	var want []*Place
	for range 50 {
		want = append(want, join(l, "k", 1, 2))
	}
	if got := serveAll(l); !slices.Equal(got, want) {
		t.Fatalf("served out of order")
	}
}

func TestLineIsFairBetweenKeys(t *testing.T) {
	l := NewLine(LineConfig{})
	for range 1000 {
		join(l, "greedy", 1)
	}
	modest := join(l, "modest", 1)
	second := join(l, "modest", 1)
	order := serveAll(l)
	if i := slices.Index(order, modest); i > 1 {
		t.Errorf("the only request of a key was served after %d of the flood", i)
	}
	if i := slices.Index(order, second); i > 3 {
		t.Errorf("the second request of a key was served after %d", i)
	}
}

func TestLineACancelledFloodCostsItsKeyNothing(t *testing.T) {
	l := NewLine(LineConfig{})
	var flood []*Place
	for range 1000 {
		flood = append(flood, join(l, "k", 1))
	}
	for _, p := range flood {
		l.Leave(p, false, t0)
	}
	for range 10 {
		join(l, "other", 1)
	}
	again := join(l, "k", 1)
	if i := slices.Index(serveAll(l), again); i > 1 {
		t.Errorf("served after %d others", i)
	}
}

func TestLineOnlyOneLooksAndPassesOn(t *testing.T) {
	l := NewLine(LineConfig{})
	a, same, other := join(l, "k", 1, 2), join(l, "k", 2, 1), join(l, "k", 1, 3)
	if l.Next(t0) != a {
		t.Fatal("the first must look first")
	}
	if p := l.Next(t0); p != nil {
		t.Fatal("two look at once")
	}
	l.Pass(a)
	if p := l.Next(t0); p != other {
		t.Fatalf("after a pass the next with another set must look, got %v", p)
	}
	l.Pass(other)
	if p := l.Next(t0); p != nil {
		t.Fatal("nobody may find anything in this round")
	}
	l.Wake(t0)
	if l.Next(t0) != a {
		t.Fatal("a new round begins with the first again: the place is kept")
	}
	l.Leave(a, true, t0)
	if l.Next(t0) != same {
		t.Fatal("after a grant the next looks in the same round")
	}
}

func TestLineNobodyLooksForWhatIsSpent(t *testing.T) {
	l := NewLine(LineConfig{})
	a, same, other, again := join(l, "k", 1, 2), join(l, "k", 1, 2), join(l, "k", 1, 3), join(l, "k", 2)
	if l.Next(t0) != a {
		t.Fatal("the first must look first")
	}
	l.Spent(a, []int{1, 2}, t0.Add(300*time.Millisecond), t0)
	l.Leave(a, true, t0)
	if p := l.Next(t0); p != other {
		t.Fatalf("only who waits for something else may look, got %v", p)
	}
	l.Pass(other)
	if p := l.Next(t0); p != nil {
		t.Fatalf("%v looks for what the first took", p)
	}
	if at := l.WakeAt(); !at.Equal(t0.Add(300 * time.Millisecond)) {
		t.Fatalf("the line looks again at +%v", at.Sub(t0))
	}
	l.Tick(l.WakeAt())
	if l.Next(t0) != same {
		t.Fatal("when the time has come the next in order looks")
	}
	l.Wake(t0) // something came free while it looked: what it finds spent is not known of the new round
	l.Spent(same, []int{1, 2, 3}, time.Time{}, t0)
	l.Leave(same, true, t0)
	if p := l.Next(t0); p != other {
		t.Fatalf("a change during the look was lost, got %v", p)
	}
	l.Spent(again, []int{2}, time.Time{}, t0) // it has no turn, so it knows nothing
	l.Pass(other)
	if p := l.Next(t0); p != again {
		t.Fatalf("who did not look has told what is spent, got %v", p)
	}
}

func TestLineSubsetOfWhatWasRefusedIsNotAsked(t *testing.T) {
	l := NewLine(LineConfig{})
	wide := join(l, "k", 1, 2, 3)
	join(l, "k", 1)
	join(l, "k", 2, 3)
	last := join(l, "k", 3, 4)
	if l.Next(t0) != wide {
		t.Fatal("order")
	}
	l.Pass(wide)
	if got := l.Next(t0); got != last {
		t.Fatal("only the one with a candidate nobody looked at may look")
	}
}

func TestLineWakeDuringALookIsNotLost(t *testing.T) {
	l := NewLine(LineConfig{})
	a := join(l, "k", 1)
	l.Next(t0)
	l.Wake(t0) // between its look and its pass
	l.Pass(a)
	if l.Next(t0) != a {
		t.Fatal("lost wake-up")
	}
}

func TestLineNewcomerLooksUnlessKnownHopeless(t *testing.T) {
	l := NewLine(LineConfig{})
	a := join(l, "k", 1)
	l.Next(t0)
	l.Pass(a)
	join(l, "k", 1)
	if l.Next(t0) != nil {
		t.Error("its set was refused in this round")
	}
	c := join(l, "k", 2)
	if l.Next(t0) != c {
		t.Error("nobody looked for candidate 2")
	}
}

func TestLineTimeBeginsARound(t *testing.T) {
	l := NewLine(LineConfig{Relook: time.Second})
	a := join(l, "k", 1)
	l.Next(t0)
	l.Pass(a)
	l.Await(a, t0.Add(300*time.Millisecond), t0)
	if at := l.WakeAt(); !at.Equal(t0.Add(300 * time.Millisecond)) {
		t.Fatalf("wakes at %v", at.Sub(t0))
	}
	l.Tick(t0.Add(299 * time.Millisecond))
	if l.Next(t0) != nil {
		t.Fatal("too early")
	}
	now := t0.Add(300 * time.Millisecond)
	l.Tick(now)
	if l.Next(now) != a {
		t.Fatal("its time came")
	}
	l.Pass(a)
	if at := l.WakeAt(); !at.Equal(now.Add(time.Second)) {
		t.Fatalf("looks again by itself at %v", at.Sub(now))
	}
}

func TestLinePastTimeDoesNotSpin(t *testing.T) {
	l := NewLine(LineConfig{})
	a := join(l, "k", 1)
	l.Next(t0)
	l.Pass(a)
	l.Await(a, t0.Add(-time.Hour), t0)
	if at := l.WakeAt(); at.Before(t0.Add(minPause)) {
		t.Fatalf("wakes after %v", at.Sub(t0))
	}
}

// O8: a look that never ends does not wedge the line.
func TestO8LookThatNeverEndsPassesOn(t *testing.T) {
	l := NewLine(LineConfig{LookLimit: time.Second, Relook: time.Minute})
	stuck, b := join(l, "k", 1), join(l, "k", 1)
	l.Next(t0)
	now := t0.Add(time.Second)
	if !l.WakeAt().Equal(now) {
		t.Fatalf("wakes at %v", l.WakeAt().Sub(t0))
	}
	l.Tick(now)
	if l.Next(now) != b {
		t.Fatal("the turn must go on")
	}
	l.Pass(stuck) // comes back late
	l.Leave(b, true, now)
	l.Wake(now)
	if l.Next(now) != stuck {
		t.Fatal("whoever came back is in line again")
	}
}

func TestLineAhead(t *testing.T) {
	l := NewLine(LineConfig{})
	a := join(l, "k", 1, 2)
	if !l.Ahead([]int{2, 9}) || l.Ahead([]int{3}) || l.Ahead(nil) {
		t.Error("ahead is about shared candidates")
	}
	l.Next(t0)
	if !l.Ahead([]int{1}) {
		t.Error("who looks is still ahead")
	}
	l.Leave(a, true, t0)
	if l.Ahead([]int{1}) {
		t.Error("nobody is left")
	}
}

func TestLineEstimate(t *testing.T) {
	l := NewLine(LineConfig{})
	now := t0
	for range 20 {
		l.Join("k", []int{1}, now)
	}
	if _, known := l.Estimate("k", now); known {
		t.Fatal("nothing was served yet")
	}
	for range 10 { // one every 2 s
		now = now.Add(2 * time.Second)
		l.Leave(l.Next(now), true, now)
	}
	wait, known := l.Estimate("k", now)
	if !known || wait < 18*time.Second || wait > 26*time.Second {
		t.Errorf("10 ahead at one per 2 s: %v %v", wait, known)
	}
	fresh, _ := l.Estimate("other", now)
	if fresh > 6*time.Second {
		t.Errorf("a key that has nothing in line waits %v", fresh)
	}
	if _, known := l.Estimate("k", now.Add(2*time.Hour)); known {
		t.Error("an old rate is no rate")
	}
}

// TestLineProperties runs a line against a model: a pool of candidates with capacities, places that join, look, cancel,
// and a world that frees slots with and without telling.
func TestLineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const candidates = 4
		l := NewLine(LineConfig{Relook: time.Second, LookLimit: time.Second})
		now := t0
		free := make([]int, candidates)
		var line []*Place               // everybody, by arrival
		running := map[int]int{}        // attempts per candidate
		served := map[string][]uint64{} // per key: arrival numbers in the order of service
		looking := func() *Place { return l.looker }

		look := func(p *Place) { // what a request does when it is its turn
			for _, id := range p.group.set {
				if free[id] > 0 {
					free[id]--
					running[id]++
					var spent []int
					for id := range free {
						if free[id] == 0 {
							spent = append(spent, id)
						}
					}
					l.Spent(p, spent, time.Time{}, now)
					l.Leave(p, true, now)
					line = slices.DeleteFunc(line, func(q *Place) bool { return q == p })
					name := string(p.key) + "/" + p.group.name
					served[name] = append(served[name], p.seq)
					return
				}
			}
			l.Pass(p)
		}
		drain := func() {
			for steps := 0; ; steps++ {
				p := looking()
				if p == nil {
					p = l.Next(now)
				}
				if p == nil {
					return
				}
				if steps > 2*len(line)+2*candidates+4 {
					t.Fatalf("a herd: %d looks in one round with %d in line", steps, len(line))
				}
				look(p)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				set := rapid.SliceOfNDistinct(rapid.IntRange(0, candidates-1), 1, candidates, rapid.ID[int]).Draw(t, "set")
				key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
				line = append(line, l.Join(gateway.ClientKeyID(key), set, now))
			},
			"cancel": func(t *rapid.T) {
				if len(line) == 0 {
					t.Skip("nobody")
				}
				i := rapid.IntRange(0, len(line)-1).Draw(t, "who")
				l.Leave(line[i], false, now)
				l.Leave(line[i], true, now) // idempotent
				line = slices.Delete(line, i, i+1)
			},
			"free": func(t *rapid.T) {
				free[rapid.IntRange(0, candidates-1).Draw(t, "candidate")]++
				l.Wake(now)
			},
			"free while somebody looks": func(t *rapid.T) {
				l.Next(now)
				free[rapid.IntRange(0, candidates-1).Draw(t, "candidate")]++
				l.Wake(now)
			},
			"free silently": func(t *rapid.T) {
				free[rapid.IntRange(0, candidates-1).Draw(t, "candidate")]++
				now = now.Add(1100 * time.Millisecond)
				l.Tick(now)
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
				l.Tick(now)
			},
			"": func(t *rapid.T) {
				drain()
				// O8: nobody waits for what is free.
				for _, p := range line {
					for _, id := range p.group.set {
						if free[id] > 0 {
							t.Fatalf("%d free of candidate %d, and a place waits for %v", free[id], id, p.group.set)
						}
					}
				}
				if l.Len() != len(line) {
					t.Fatalf("len %d, want %d", l.Len(), len(line))
				}
				for name, seqs := range served {
					if !slices.IsSorted(seqs) {
						t.Fatalf("%q not served in order of arrival: %v", name, seqs)
					}
				}
				if at := l.WakeAt(); len(line) > 0 && (at.IsZero() || at.After(now.Add(time.Second))) {
					t.Fatalf("nobody looks within a second")
				}
			},
		})
		for _, p := range line {
			l.Leave(p, false, now)
		}
		if l.Len() != 0 || len(l.groups)+len(l.order)+len(l.lanes)+len(l.waiting) != 0 || l.looker != nil {
			t.Fatalf("something is left: %+v", l)
		}
	})
}

func TestLineAKeyThatComesLateOvertakesNobodyByMoreThanItsShare(t *testing.T) {
	l := NewLine(LineConfig{})
	for range 110 {
		join(l, "early", 1)
	}
	for range 100 {
		l.Leave(l.Next(t0), true, t0)
	}
	for range 20 {
		join(l, "late", 1)
	}
	early := 0
	for _, p := range serveAll(l)[:10] {
		if p.key == "early" {
			early++
		}
	}
	if early < 4 || early > 6 {
		t.Errorf("of the next ten %d are of the key that waits longer", early)
	}
}

func TestLineWaitingForAnything(t *testing.T) {
	l := NewLine(LineConfig{})
	a, b := join(l, "k"), join(l, "k")
	c := join(l, "k", 1)
	l.Pass(l.Next(t0))
	if l.Next(t0) != c {
		t.Error("one that waits for anything has looked; the next of them would find the same")
	}
	l.Leave(c, true, t0)
	l.Wake(t0)
	if got := serveAll(l); !slices.Equal(got, []*Place{a, b}) {
		t.Error("both are served in a new round")
	}
}

func TestLineManySets(t *testing.T) {
	l := NewLine(LineConfig{})
	for i := range 300 {
		join(l, fmt.Sprint(i), i, i+1000)
	}
	if len(serveAll(l)) != 300 {
		t.Error("all must be served")
	}
}
