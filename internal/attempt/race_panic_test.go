package attempt

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/protocol/families"
	"spillway/internal/resilience"
)

// Resilience 12.6: a panic of the request itself in the middle of a race leaves nobody to take the results; what is in
// the air comes back all the same, and nobody is blamed.
func TestPanicBesideAFlyingProbe(t *testing.T) {
	for name, probe := range map[string]script{
		"about to answer": {2*time.Second + 10*time.Millisecond, 200}, "silent": {}, "failing": {2*time.Second + 10*time.Millisecond, 500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrack(t, probe, script{time.Second, 200})
				began := time.Now()
				env, _ := envelope.Decode([]byte(`{"model":"smart","stream":true}`), envelope.Options{Protocol: gateway.OpenAI})
				panicked := false
				func() {
					defer func() { panicked = recover() != nil }()
					_ = tr.engine.Run(t.Context(), &Job{Envelope: env, Bodies: &envelope.Readers{}, Family: families.For(gateway.OpenAI),
						Pool: tr.pool, Rules: tr.snapshot.Config().RuleSet(), Header: http.Header{}, Door: &client{},
						Journey: &gateway.Journey{ID: "r", At: began}, Walk: next.Config{Ordered: true, AttemptLimit: 5},
						Allowed: func(*gateway.Connection) bool {
							if time.Since(began) >= raceMin {
								panic("in the race")
							}
							return true
						}})
				}()
				if !panicked {
					t.Fatal("nothing panicked")
				}
				if took := time.Since(began); took > raceMin+20*time.Millisecond {
					t.Errorf("what was in the air was waited for: %s", took)
				}
				tr.nothingHeld()
				ask := &resilience.Ask{Fallbacks: 1, AttemptsLeft: 5}
				if r := tr.probe.Breaker.Peek(ask, time.Now()); !r.OK() || !r.Probe {
					t.Errorf("the probe's permit did not come back, or the probe was blamed: %+v", r)
				}
			})
		})
	}
}

// A probe that ends in the instant in which the next candidate starts: what the second attempt needs to know of its
// request is read before it flies, not while the request writes its history. (The race detector is the judge.)
func TestProbeEndsWhileTheNextStarts(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			tr := newTrack(t, script{2 * time.Second, 500}, script{time.Second, 200})
			if _, j, gerr := tr.ask(); gerr != nil || j.Connection != "other" {
				t.Errorf("%q answered: %v", j.Connection, gerr)
			}
			tr.nothingHeld()
		})
	}
}
