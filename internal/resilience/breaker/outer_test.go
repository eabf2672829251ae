package breaker

import (
	"context"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// The outer gate acts in every scope: failures so far apart that neither a run of the threshold nor the window sees them,
// without one success, take the key out for its own time; a single success between them zeroes the count.
func TestOuterGateInEveryScope(t *testing.T) {
	fault := gateway.Outcome{Kind: gateway.ServiceError, Status: 500}
	for name, scope := range map[string]struct {
		scope    string
		perModel bool
		models   []gateway.ModelID
		out      []string // conn/model that must be out at the end
		in       []string
	}{
		"provider":                   {ScopeProvider, false, []gateway.ModelID{"m", "n"}, []string{"c1/m", "c1/n", "c2/m"}, nil},
		"connection":                 {ScopeConnection, false, []gateway.ModelID{"m", "n"}, []string{"c1/m", "c1/n"}, []string{"c2/m"}},
		"connection, models apart":   {ScopeConnection, true, []gateway.ModelID{"m", "n"}, []string{"c1/m", "c1/x"}, []string{"c2/m"}},
		"auto":                       {ScopeAuto, true, []gateway.ModelID{"m", "n"}, []string{"c1/m", "c1/x"}, []string{"c2/m"}},
		"auto, one model fails only": {ScopeAuto, true, []gateway.ModelID{"m"}, []string{"c1/m"}, []string{"c1/x", "c2/m"}},
	} {
		for _, class := range []gateway.Class{gateway.OAuth, gateway.APIKey, gateway.Local} {
			for _, rescued := range []bool{false, true} {
				cfg := Recommended().OuterGate(class)
				cfg.Scope, cfg.EvidencePerModel = scope.scope, scope.perModel
				cfg.ProviderCooldown.Enabled = true
				cfg.ConsecThreshold, cfg.EvidenceMode, cfg.OpenJitter = 1000, EvidenceOff, 0
				if err := cfg.Validate(); err != nil {
					t.Fatal(err)
				}
				room, now := New(Options{}), t0
				handle := func(conn string, m gateway.ModelID) *Handle { return room.Bind(candidate("p", conn, string(m)), cfg) }
				try := func(m gateway.ModelID, o gateway.Outcome) {
					p, r := handle("c1", m).Allow(context.Background(), &resilience.Ask{}, now)
					if !r.OK() {
						t.Fatalf("%s, %s: refused too early: %+v", name, class, r)
					}
					p.Record(o, now)
				}
				// Every model reaches the threshold by itself, two of them together earlier: so only the last round trips.
				n := cfg.WcountThreshold
				gap := cfg.WcountWindow / time.Duration(n+1)
				for i := range n {
					if rescued && i == n-1 {
						for _, m := range scope.models {
							try(m, gateway.Outcome{Kind: gateway.Success, Status: 200})
						}
					}
					m := scope.models[i%len(scope.models)]
					try(m, fault)
					if i < n-1 {
						now = now.Add(gap)
					}
				}
				for _, x := range scope.out {
					conn, m := x[:2], gateway.ModelID(x[3:])
					r := handle(conn, m).Peek(nil, now)
					if rescued == !r.OK() {
						t.Errorf("%s, %s, rescued %t: %s is %+v", name, class, rescued, x, r)
					}
					if !rescued && (r.Reason != gateway.ProviderCooldown || r.Until.Sub(now) != cfg.WcountOpen) {
						t.Errorf("%s, %s: %s is out because of %s for %s, want %s", name, class, x, r.Reason, r.Until.Sub(now), cfg.WcountOpen)
					}
				}
				for _, x := range scope.in {
					if r := handle(x[:2], gateway.ModelID(x[3:])).Peek(nil, now); !r.OK() {
						t.Errorf("%s, %s: %s is out: %+v", name, class, x, r)
					}
				}
			}
		}
	}
}

// Failures that come at one moment are one for the outer gate as for the run.
func TestOuterGateCountsABlipOnce(t *testing.T) {
	cfg := Recommended().OuterGate(gateway.Local)
	cfg.ProviderCooldown.Enabled = true
	r := compile(cfg, 0, time.Second)
	s := state{}
	for range 256 {
		s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: generic}, tnow)
	}
	if s.oc == causeWcount || s.wn > 1 {
		t.Errorf("cause %v, counted %d", s.oc, s.wn)
	}
}
