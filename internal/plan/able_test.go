package plan

import (
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/ability"
)

// Plans are used again: what one request was told about refused features is not the next one's, once nothing is known.
func TestDemotedIsOfOneRequest(t *testing.T) {
	h := twoTargets(t)
	pool := h.pool(t, "smart")
	room := ability.New(ability.Options{})
	for _, c := range pool.Candidates {
		c.Ability = room.Bind(c.Candidate)
	}
	refused := gateway.Outcome{Kind: gateway.Alive, Reason: gateway.CapabilityRefused, Quirk: "images"}
	for _, id := range []gateway.RequestID{"r1", "r2"} {
		refused.Request = id
		pool.Candidates[0].Ability.Learn(refused, 0, t0)
	}
	asks := func(*gateway.Envelope, string) bool { return true }
	pl := pool.Open()
	pl.Want(&gateway.Envelope{}, asks)
	if make1(pl, left(10), at(time.Second)); len(pl.Demoted) != 1 {
		t.Fatalf("%+v", pl.Demoted)
	}
	pl.Close()
	pool.Candidates[0].Ability.Worked(func(string) bool { return true }, 0, at(2*time.Second))
	pl.Want(&gateway.Envelope{}, asks) // the same plan, for another request
	if make1(pl, left(10), at(3*time.Second)); len(pl.Demoted) != 0 {
		t.Errorf("told to another request: %+v", pl.Demoted)
	}
}
