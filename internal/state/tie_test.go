package state

import (
	"testing"
	"time"
)

// What is read from a store has only a wall time, which a step of the clock moves; tied to the process it does not.
func TestTie(t *testing.T) {
	now := time.Now()
	stored, zero := now.Add(90*time.Second).Round(0), time.Time{}
	Tie(now, &stored, &zero)
	if !zero.IsZero() || stored == stored.Round(0) || !stored.Equal(now.Add(90*time.Second)) {
		t.Errorf("%s, %s", stored, zero)
	}
}
