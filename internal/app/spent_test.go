package app

import (
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// Who takes the last free slot tells the line so, and the next in line does not look for nothing. Yet nobody waits a
// moment longer than there is no room: slots of several connections, taken and given back at different times, are never
// idle while somebody stands in line.
func TestNoSlotIsIdleWhileSomebodyWaits(t *testing.T) {
	const calls = 30
	for name, down := range map[string]bool{"all well": false, "one out": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				slow := func(name string, d time.Duration) {
					b.SourceOf(scenario.Source{Name: name, Latency: scenario.Between(d, d)})
				}
				slow("one", 700*time.Millisecond)
				slow("two", 300*time.Millisecond)
				pool := []string{"one", "two"}
				if down {
					b.Source("dead", always(fault.Status))
					pool = append([]string{"dead"}, pool...)
				}
				yaml := strings.ReplaceAll(providers(pool...), ", key: ", ", max_concurrent: 1, key: ")
				b.Open(yaml + combo(pool...))
				ask := client.Request{Protocol: gateway.OpenAI, Model: "smart", MaxTokens: 100}
				for range 12 { // both have proven themselves, and what is dead is out
					b.running.Go(func() { b.Right(b.Ask(ask), "") })
				}
				b.running.Wait()
				seen := len(b.Journeys())
				began := time.Now()
				for range calls {
					b.running.Go(func() { b.Right(b.Ask(ask), "") })
				}
				b.running.Wait()
				busy := map[gateway.ConnectionID]time.Duration{}
				last := map[gateway.ConnectionID]time.Time{}
				for _, j := range b.Journeys()[seen:] {
					for _, a := range j.Attempts {
						busy[a.Connection] += a.EndedAt.Sub(a.BeganAt)
						if a.EndedAt.After(last[a.Connection]) {
							last[a.Connection] = a.EndedAt
						}
					}
				}
				for _, id := range []gateway.ConnectionID{"one", "two"} {
					if idle := last[id].Sub(began) - busy[id]; idle > 50*time.Millisecond {
						t.Errorf("%s was idle for %s of %s while others waited\n%s", id, idle, last[id].Sub(began), b.Story())
					}
				}
			})
		})
	}
}
