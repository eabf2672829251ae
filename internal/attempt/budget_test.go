package attempt

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBudget: starts full, pays one per repeat, gains 0.2 per first attempt and 3 per second, never above full.
func TestBudget(t *testing.T) {
	b := newBudget(t0)
	for i := range int(budgetFull) {
		if !b.take(t0) {
			t.Fatalf("empty after %d", i)
		}
	}
	tokens, in, _ := b.view(t0)
	if b.take(t0) || tokens != 0 || in.Round(time.Millisecond) != 333*time.Millisecond {
		t.Errorf("an empty bucket: %v tokens, one in %s", tokens, in)
	}
	for range 5 {
		b.first(t0)
	}
	if tokens, in, _ := b.view(t0); tokens != 1 || in != 0 {
		t.Errorf("after five first attempts: %v, %s", tokens, in)
	}
	if tokens, _, _ := b.view(t0.Add(2 * time.Second)); tokens != 7 {
		t.Errorf("two seconds later: %v", tokens)
	}
	if tokens, _, _ := b.view(t0.Add(time.Hour)); tokens != budgetFull {
		t.Errorf("an hour later: %v", tokens)
	}
	if tokens, _, _ := b.view(t0.Add(time.Minute)); tokens != budgetFull {
		t.Error("a clock that steps back takes tokens away")
	}
}

// TestBudgetBounds: in any stretch no more repeats pass than the bucket held and gained.
func TestBudgetBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBudget(t0)
		now, firsts, repeats := t0, 0, 0
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				b.first(now)
				firsts++
			default:
				before, _, _ := b.view(now)
				if took := b.take(now); took != (before >= 1) {
					t.Fatalf("%v tokens, took %t", before, took)
				} else if took {
					repeats++
				}
			}
		}
		most := budgetFull + budgetPerFirst*float64(firsts) + budgetPerSecond*now.Sub(t0).Seconds()
		if float64(repeats) > most+1e-6 {
			t.Fatalf("%d repeats, at most %v", repeats, most)
		}
	})
}

func TestBudgetSuccess(t *testing.T) {
	b := newBudget(t0)
	b.succeeded(t0.Add(time.Minute))
	b.succeeded(t0) // a late report
	if _, _, at := b.view(t0); !at.Equal(t0.Add(time.Minute)) {
		t.Errorf("last success %s", at)
	}
	if b.idle(t0.Add(5*time.Minute)) || !b.idle(t0.Add(12*time.Minute)) {
		t.Error("idle is ten minutes without success and a full bucket")
	}
}

// TestBudgetsAreBounded: pools can be named by clients; what is idle makes room.
func TestBudgetsAreBounded(t *testing.T) {
	e := New(Options{})
	for i := range maxBudgets {
		e.budgetOf(string(rune('a'+i%26)) + time.Duration(i).String()).filledAt = time.Now().Add(-time.Hour)
	}
	kept := e.budgetOf("one more")
	if e.budgetOf("one more") != kept || len(e.pools) > maxBudgets {
		t.Errorf("%d budgets", len(e.pools))
	}
}

func TestBuffersCount(t *testing.T) {
	b := NewBuffers(100)
	if !b.Take(60) || b.Take(41) || !b.Take(40) || b.Used() != 100 {
		t.Errorf("%d used", b.Used())
	}
	b.Give(100)
	if b.Used() != 0 {
		t.Errorf("%d used", b.Used())
	}
	if free := NewBuffers(0); !free.Take(1 << 50) {
		t.Error("no limit refuses")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if b.Take(30) {
					if b.Used() > 100+7*30 { // others may be on their way back
						t.Error("far above the limit")
					}
					b.Give(30)
				}
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 {
		t.Errorf("%d used after all", b.Used())
	}
}

// TestBuffersKeepTheirPromise: a buffer has the room that was asked for, is empty, and is not shared.
func TestBuffersKeepTheirPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuffers(0)
		out := map[*[]byte]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(out) > 0 && rapid.Bool().Draw(t, "put") {
				for p := range out {
					delete(out, p)
					if grow := rapid.IntRange(0, 100_000).Draw(t, "grow"); grow > 0 {
						*p = append(*p, make([]byte, grow)...)
					}
					b.Put(p)
					break
				}
				continue
			}
			size := rapid.IntRange(0, 4<<20).Draw(t, "size")
			p := b.Get(size)
			if len(*p) != 0 || cap(*p) < size || out[p] {
				t.Fatalf("asked for %d, got %d of %d, shared %t", size, len(*p), cap(*p), out[p])
			}
			out[p] = true
		}
		b.Put(nil)
	})
}
