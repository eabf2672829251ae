package attempt

import (
	"testing"
	"time"
)

// TestUntouchedWasNeverSent: rooms that count what was sent tell a permit that was never used from an attempt that was
// left early by the instant at which it was sent. A half-taken set that counted as sent would use up an account's rate.
func TestUntouchedWasNeverSent(t *testing.T) {
	if o := untouched(time.Now()); !o.BeganAt.IsZero() || o.Failed() {
		t.Errorf("%+v", o)
	}
}
