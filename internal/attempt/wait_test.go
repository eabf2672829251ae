package attempt

import (
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// What one request tells the others in line to be refused must be refused to each of them, whatever it asks for and
// however long it has waited.
func TestOnlyWhatIsRefusedToEverybodyIsTold(t *testing.T) {
	later := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	delayed := func(why gateway.Reason, until time.Time) resilience.Ruling {
		return resilience.Ruling{Verdict: resilience.Delayed, Layer: gateway.LayerPacing, Reason: why, Until: until}
	}
	forbidden := func(why gateway.Reason) resilience.Ruling {
		return resilience.Ruling{Verdict: resilience.Forbidden, Reason: why, Until: later}
	}
	for _, c := range []struct {
		ruling resilience.Ruling
		want   bool
	}{
		{resilience.Ruling{}, false},
		{resilience.Ruling{Reason: gateway.CircuitOpen, Probe: true}, false}, // allowed, on trial
		{delayed(gateway.ConcurrencyFull, time.Time{}), true},
		{delayed(gateway.Paced, time.Time{}), true}, // as many as the account takes
		{delayed(gateway.Paced, later), false},      // by a rate: perhaps of tokens
		{delayed(gateway.QuotaPreflight, later), false},
		{delayed(gateway.Unproven, time.Time{}), false}, // gives way with the time that one has waited
		{delayed(gateway.Returning, later), false},
		{forbidden(gateway.CircuitOpen), true},
		{forbidden(gateway.ProbeBusy), true},
		{forbidden(gateway.ConnectionCooldown), true},
		{forbidden(gateway.ModelLockout), true},
		{forbidden(gateway.NotBefore), false}, // only while there is an elsewhere
		{forbidden(gateway.Terminal), false},
		{forbidden(gateway.ObjectElsewhere), false},
		{forbidden(gateway.Unavailable), false},
	} {
		if got := alike(c.ruling); got != c.want {
			t.Errorf("%+v: %t", c.ruling, got)
		}
	}
}
