package app

import (
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// A candidate that has never answered is not waited for longer because the one that does answer is busy: the request
// leaves it at the usual limit and stands in line (found by simulating p6, in which such a request waited for ten
// minutes).
func TestASilentCandidateIsLeftForABusyOne(t *testing.T) {
	for name, stream := range map[string]bool{"streamed": true, "whole": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Source("hole", always(fault.Silence))
				b.SourceOf(scenario.Source{Name: "busy", Latency: scenario.Between(time.Second, time.Second), Interval: scenario.Between(500*time.Millisecond, 500*time.Millisecond)})
				b.Open("providers:\n" + provider("hole") + provider("busy") + "connections:\n  - {id: hole, provider: hole, key: k}\n" +
					"  - {id: busy, provider: busy, key: k, max_concurrent: 1}\n" + combo("hole", "busy"))
				ask := client.Request{Protocol: gateway.OpenAI, Model: "smart", Stream: stream, MaxTokens: 100}
				b.Right(b.Ask(ask), "") // busy has shown that it answers
				var second client.Result
				b.running.Go(func() { second = b.Ask(ask) })
				time.Sleep(10 * time.Millisecond)
				busy := b.Ask(client.Request{Protocol: gateway.OpenAI, Model: "busy/m", Stream: true}) // takes the only slot
				b.Right(busy, "")
				b.running.Wait()
				b.Right(second, "")
				if second.EndedAfter > 3*time.Minute {
					t.Errorf("answered after %s\n%s", second.EndedAfter, b.Story())
				}
			})
		})
	}
}

// The same for a probe: it is raced as soon as the busy candidate has a slot.
func TestAProbeIsRacedByABusyCandidate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "sick", Latency: scenario.Between(20*time.Millisecond, 20*time.Millisecond),
			Faults: []fault.Fault{{Kind: fault.ResetBeforeHeaders, For: 5 * time.Second}, {Kind: fault.Silence, After: 5 * time.Second}}})
		b.SourceOf(scenario.Source{Name: "busy", Interval: scenario.Between(500*time.Millisecond, 500*time.Millisecond)})
		b.Open("providers:\n" + provider("sick") + provider("busy") + "connections:\n  - {id: sick, provider: sick, key: k}\n" +
			"  - {id: busy, provider: busy, key: k, max_concurrent: 1}\n" + combo("sick", "busy"))
		for range 12 { // until sick is out; its answers to come are silence
			b.Right(b.Ask(client.Request{Protocol: gateway.OpenAI, Model: "smart", Stream: true}), "")
		}
		raced := 0
		for range 20 {
			var busy, smart client.Result
			b.running.Go(func() { busy = b.Ask(client.Request{Protocol: gateway.OpenAI, Model: "busy/m", Stream: true}) })
			time.Sleep(time.Second)
			b.running.Go(func() { smart = b.Ask(client.Request{Protocol: gateway.OpenAI, Model: "smart", Stream: true}) })
			b.running.Wait()
			b.Right(busy, "")
			b.Right(smart, "")
			if smart.EndedAfter > 2*time.Minute {
				t.Errorf("answered after %s\n%s", smart.EndedAfter, b.Story())
			}
			time.Sleep(20 * time.Second)
		}
		for _, j := range b.Journeys() {
			for _, a := range j.Attempts {
				if a.Probe && a.Reason == gateway.RaceLost {
					raced++
				}
			}
		}
		if raced == 0 {
			t.Error("no probe was raced")
		}
	})
}

// Asking the same candidate again is for hiccups: once others have failed there too, a request that paused for its second
// try goes elsewhere instead.
func TestADegradedCandidateIsNotAskedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("down", always(fault.Status))
		b.Source("up")
		b.Open(providers("down", "up") + combo("down", "up"))
		for range 25 {
			b.running.Go(func() { b.Right(b.Ask(chat(true)), "") })
			time.Sleep(201 * time.Millisecond)
		}
		b.running.Wait()
		for _, j := range b.Journeys() {
			for _, a := range j.Attempts {
				if a.Why == gateway.SameAgain && a.Before != "closed" {
					t.Errorf("asked again while %s\n%s", a.Before, b.Story())
				}
			}
		}
	})
}
