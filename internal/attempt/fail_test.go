package attempt

import (
	"testing"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// TestDeadlineKeepsUpstreamStatus: a request whose time runs out between two attempts still says what the upstream said.
func TestDeadlineKeepsUpstreamStatus(t *testing.T) {
	for _, x := range []struct {
		name   string
		o      gateway.Outcome
		why    gateway.Reason
		status int
		code   gateway.Code
	}{
		{"500", gateway.Outcome{Kind: gateway.ServiceError, Status: 500}, gateway.DeadlinePassed, 500, gateway.UpstreamError},
		{"401", gateway.Outcome{Kind: gateway.AuthError, Status: 401}, gateway.DeadlinePassed, 401, gateway.UpstreamError},
		{"reset", gateway.Outcome{Kind: gateway.ServiceError}, gateway.DeadlinePassed, 504, gateway.DeadlineExceeded},
		{"silence", gateway.Outcome{Kind: gateway.Timeout}, gateway.DeadlinePassed, 504, gateway.DeadlineExceeded},
		{"empty", gateway.Outcome{Kind: gateway.EmptyOutput, Status: 200}, gateway.DeadlinePassed, 504, gateway.DeadlineExceeded},
		{"500, nothing left", gateway.Outcome{Kind: gateway.ServiceError, Status: 500}, gateway.NothingRunnable, 500, gateway.UpstreamError},
		{"reset, nothing left", gateway.Outcome{Kind: gateway.ServiceError}, gateway.NothingRunnable, 502, gateway.UpstreamError},
	} {
		r := &run{lastError: &flight{outcome: x.o}}
		if e := r.upstreamError(x.why); e.HTTPStatus() != x.status || e.Code != x.code {
			t.Errorf("%s: %d %s, must be %d %s", x.name, e.HTTPStatus(), e.Code, x.status, x.code)
		}
	}
}

// TestRefusedKeysAreNoRateLimit: while refused keys rest, a client must not be told that it asks too often.
func TestRefusedKeysAreNoRateLimit(t *testing.T) {
	out := func(layer gateway.Layer, reason gateway.Reason, cause gateway.Kind) *next.Candidate {
		return &next.Candidate{Cause: cause, Ruling: resilience.Ruling{Verdict: resilience.Forbidden, Layer: layer, Reason: reason}}
	}
	refused := out(gateway.LayerCooldown, gateway.ConnectionCooldown, gateway.AuthError)
	limited := out(gateway.LayerCooldown, gateway.ConnectionCooldown, gateway.RateLimited)
	locked := out(gateway.LayerLockout, gateway.ModelLockout, gateway.AuthError)
	open := out(gateway.LayerBreaker, gateway.CircuitOpen, gateway.AuthError) // the cause means nothing here
	d := &gateway.Diagnostics{PoolSize: 2, Earliest: time.Unix(1e9, 0)}
	for _, x := range []struct {
		name string
		list []*next.Candidate
		code gateway.Code
	}{
		{"refused", []*next.Candidate{refused, refused}, gateway.AllCoolingDown},
		{"limited", []*next.Candidate{limited, limited}, gateway.ModelCooldown},
		{"locked", []*next.Candidate{locked, limited}, gateway.ModelCooldown},
		{"refused and limited", []*next.Candidate{refused, limited}, gateway.AllCoolingDown},
		{"open", []*next.Candidate{open, open}, gateway.ProviderCircuitOpen},
		{"open and refused", []*next.Candidate{open, refused}, gateway.AllCoolingDown},
	} {
		if e := nothingRuns(x.list, d); e.Code != x.code {
			t.Errorf("%s: %s, must be %s", x.name, e.Code, x.code)
		}
	}
}
