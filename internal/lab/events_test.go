package lab

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestEventsComeInOrder: what is popped is always the first of all that is there.
func TestEventsComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queue events
		var all []event
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(all) == 0 || rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				e := event{at: time.Duration(rapid.IntRange(0, 9).Draw(t, "at")), n: n}
				queue.push(e)
				all = append(all, e)
				continue
			}
			first := slices.MinFunc(all, func(a, b event) int {
				if a.before(&b) {
					return -1
				}
				return 1
			})
			if got := queue.pop(); got != first {
				t.Fatalf("%v came, %v is first", got, first)
			}
			all = slices.DeleteFunc(all, func(e event) bool { return e == first })
		}
		if len(queue) != len(all) {
			t.Errorf("%d events are left of %d", len(queue), len(all))
		}
	})
}
