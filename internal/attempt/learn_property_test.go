package attempt

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

// Resilience 12.11: nothing learns from the gateway's own errors or the caller's faults, whatever comes in whatever order,
// and also while something is already known.
func TestNothingLearnsFromCallersAndOurselves(t *testing.T) {
	harmless := []gateway.Kind{gateway.Alive, gateway.ContentRefused, gateway.InvalidResult, gateway.Canceled, gateway.LocalError}
	rapid.Check(t, func(rt *rapid.T) {
		h := newHouse(t, lockoutOn, perModel)
		h.gap = time.Duration(rapid.IntRange(1, 5000).Draw(rt, "gap")) * time.Millisecond
		for range rapid.IntRange(1, 40).Draw(rt, "n") {
			var o gateway.Outcome
			if rapid.IntRange(0, 3).Draw(rt, "uncounted") == 0 {
				o = outcome(gateway.Kind(rapid.IntRange(0, int(gateway.NumKinds)-1).Draw(rt, "kind")))
				o.Uncounted = true
			} else {
				o = outcome(rapid.SampledFrom(harmless).Draw(rt, "kind"))
				o.Status = rapid.SampledFrom([]int{0, 400, 401, 403, 404, 413, 422, 429, 500, 503}).Draw(rt, "status")
				o.RetryAfter = time.Duration(rapid.IntRange(0, 3600).Draw(rt, "hint")) * time.Second
				if o.Kind == gateway.LocalError {
					o.Scope = gateway.Scope(rapid.IntRange(0, int(gateway.ScopeProvider)).Draw(rt, "scope"))
				}
			}
			h.times(1, o)
		}
		v := h.health.View(h.now)
		if h.open() || !h.peek(h.cooldown).OK() || !h.peek(h.lockout).OK() || v.Success != 1 || v.InFlight != 0 {
			rt.Fatalf("open %t, cooldown %+v, lockout %+v, health %+v", h.open(), h.peek(h.cooldown), h.peek(h.lockout), v)
		}
		if l := h.health.Learned(true, 0, h.now); l.LongestCut != 0 {
			rt.Fatalf("clocks learned: %+v", l)
		}
	})
}
