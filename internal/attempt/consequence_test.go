package attempt

import (
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// TestConsequencesAreWhatTheRoomsDo compares the words with real rooms, for every kind, scope and hint.
func TestConsequencesAreWhatTheRoomsDo(t *testing.T) {
	scopes := []gateway.Scope{gateway.ScopeRequest, gateway.ScopeModel, gateway.ScopeConnection, gateway.ScopeAccount, gateway.ScopeProvider}
	for k := range gateway.NumKinds {
		if k == gateway.Success || k == gateway.Slow { // an answer; a matter of what else happened
			continue
		}
		for _, scope := range scopes {
			for _, hint := range []time.Duration{0, time.Minute} {
				for _, uncounted := range []bool{false, true} {
					o := outcome(k)
					o.Scope, o.Rule, o.Uncounted, o.RetryAfter, o.Hint = scope, "r", uncounted, hint, gateway.HintRule
					compare(t, o)
				}
			}
		}
	}
}

func compare(t *testing.T, o gateway.Outcome) {
	t.Helper()
	h := newHouse(t)
	h.ends(o)
	said := map[string]string{}
	for _, c := range Consequences(o) {
		said[c.Who] = c.What
	}
	rests := !h.peek(h.cooldown).OK()
	locked := !h.peek(h.lockout).OK()
	if says := !strings.HasPrefix(said["cooldown"], "nothing"); says != rests {
		t.Errorf("%s/%s, hint %s, uncounted %t: cooldown %+v, but: %s", o.Kind, o.Scope, o.RetryAfter, o.Uncounted, h.peek(h.cooldown), said["cooldown"])
	}
	if says := !strings.HasPrefix(said["lockout"], "nothing"); says != locked {
		t.Errorf("%s/%s, hint %s, uncounted %t: lockout %+v, but: %s", o.Kind, o.Scope, o.RetryAfter, o.Uncounted, h.peek(h.lockout), said["lockout"])
	}
	h.times(12, o)
	if says := said["breaker"] == "counts a failure"; says != h.open() {
		t.Errorf("%s/%s, uncounted %t: breaker open %t, but: %s", o.Kind, o.Scope, o.Uncounted, h.open(), said["breaker"])
	}
	if out := h.peek(h.cooldown).Reason == gateway.Terminal; out && !strings.Contains(said["cooldown"], "until somebody acts") && !strings.Contains(said["cooldown"], "expired") && !strings.Contains(said["cooldown"], "banned") {
		t.Errorf("%s/%s: terminal, but: %s", o.Kind, o.Scope, said["cooldown"])
	}
}

func TestConsequencesNameTheTimes(t *testing.T) {
	for _, c := range []struct {
		o    gateway.Outcome
		who  string
		want string
	}{
		{gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount, RetryAfter: 18 * 24 * time.Hour, Hint: gateway.HintHeader}, "cooldown", "15m0s at most"},
		{gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount, TellAfter: time.Minute}, "client", "Retry-After 1m0s"},
		{gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Status: 503, RetryAfter: time.Hour, Hint: gateway.HintHeader}, "cooldown", "passed over for 1m0s"},
		{gateway.Outcome{Kind: gateway.ModelUnavailable, Scope: gateway.ScopeModel, RetryAfter: 6 * time.Hour, Hint: gateway.HintRule}, "lockout", "for 6h0m0s"},
		{gateway.Outcome{Kind: gateway.Alive, Scope: gateway.ScopeRequest, Reason: gateway.ContextTooLong}, "request", "larger or unknown"},
	} {
		found := false
		for _, q := range Consequences(c.o) {
			found = found || q.Who == c.who && strings.Contains(q.What, c.want)
		}
		if !found {
			t.Errorf("%s: %q is missing in %v", c.who, c.want, Consequences(c.o))
		}
	}
}
