package app

import (
	"slices"
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
				began := time.Now()
				for range calls {
					b.running.Go(func() { b.Right(b.Ask(ask), "") })
				}
				b.running.Wait()
				busy := map[gateway.ConnectionID]time.Duration{}
				last := map[gateway.ConnectionID]time.Time{}
				for _, j := range b.Journeys()[:calls] { // the last ones
					for _, a := range j.Attempts {
						busy[a.Connection] += a.EndedAt.Sub(a.BeganAt)
						if a.EndedAt.After(last[a.Connection]) {
							last[a.Connection] = a.EndedAt
						}
					}
				}
				for _, id := range []gateway.ConnectionID{"one", "two"} {
					idle := last[id].Sub(began) - busy[id]
					if idle < 0 {
						t.Errorf("%s had more than one attempt at once", id)
					}
					if idle > 50*time.Millisecond {
						t.Errorf("%s was idle for %s of %s while others waited\n%s", id, idle, last[id].Sub(began), b.Story())
					}
				}
			})
		})
	}
}

// An account that returns lets twice as many through with each first content. Who waits for that hears of it at once, also
// when the candidate has been known to answer all the time.
func TestARampWidensWithFirstContent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		even := func(d time.Duration) scenario.Spread { return scenario.Between(d, d) }
		b.SourceOf(scenario.Source{Name: "one", Latency: even(20 * time.Millisecond), Interval: even(100 * time.Millisecond),
			Faults: []fault.Fault{{Kind: fault.Status, Status: 429, RetryAfter: 2 * time.Second, After: 16 * time.Second, For: 2500 * time.Millisecond}}})
		b.Open(providers("one") + combo("one"))
		ask := client.Request{Protocol: gateway.OpenAI, Model: "smart", Stream: true, MaxTokens: 100}
		b.Right(b.Ask(ask), "")      // it is known to answer
		time.Sleep(11 * time.Second) // long enough for its account not to be slowed down instead
		for range 8 {
			b.running.Go(func() { b.Right(b.Ask(ask), "") })
		}
		b.running.Wait()
		var back []gateway.Attempt
		for _, j := range b.Journeys()[:8] { // the last ones
			for _, a := range j.Attempts {
				if a.Kind == gateway.Success {
					back = append(back, a)
				}
			}
		}
		slices.SortFunc(back, func(a, b gateway.Attempt) int { return a.BeganAt.Compare(b.BeganAt) })
		if len(back) != 8 {
			t.Fatalf("%d came back\n%s", len(back), b.Story())
		}
		for i, by := range []int{0, 0, 0, 1, 1, 1, 1} { // the canary lets two in, each of them two more
			if i > 0 && back[i].BeganAt.Sub(back[by].ContentAt) > time.Millisecond {
				t.Errorf("attempt %d began %s after the content that let it in\n%s", i, back[i].BeganAt.Sub(back[by].ContentAt), b.Story())
			}
		}
	})
}
