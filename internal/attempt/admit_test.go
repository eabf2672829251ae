package attempt

import (
	"slices"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// TestUntouchedWasNeverSent: rooms that count what was sent tell a permit that was never used from an attempt that was
// left early by the instant at which it was sent. A half-taken set that counted as sent would use up an account's rate.
func TestUntouchedWasNeverSent(t *testing.T) {
	if o := untouched(time.Now()); !o.BeganAt.IsZero() || o.Failed() {
		t.Errorf("%+v", o)
	}
}

// told notes in which order permits are given back.
type told struct {
	place int
	order *[]int
}

func (told) Alive(time.Time)                     {}
func (x told) Record(gateway.Outcome, time.Time) { *x.order = append(*x.order, x.place) }

// Resilience 12.2: a slot that comes back wakes who waits for it, who must not be sent where this attempt has just been
// refused: what isolates learns first. A half-taken set gives back what it has, and all of them do so once.
func TestSlotsComeBackLast(t *testing.T) {
	for n := range 6 {
		var p permits
		var order []int
		for place := range n {
			p.add(told{place, &order})
		}
		p.record(untouched(time.Now()), time.Now())
		p.record(untouched(time.Now()), time.Now())
		if len(order) != n {
			t.Fatalf("%d of %d: %v", len(order), n, order)
		}
		slot := slices.Index(order, gated)
		for _, place := range []int{cooled, locked, broken} {
			if at := slices.Index(order, place); slot >= 0 && at > slot {
				t.Errorf("%d after the slot: %v", place, order)
			}
		}
	}
}
