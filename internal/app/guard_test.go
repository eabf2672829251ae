package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// kinds are the ends of the attempts of the request that ended last.
func (b *bubble) kinds() (out []gateway.Kind) {
	for _, a := range b.Journeys()[0].Attempts {
		out = append(out, a.Kind)
	}
	return out
}

func guards(more string) string { return "resilience: {streams: {watchdog: {" + more + "}}}\n" }

// crawl is a source that says one word of some 14 bytes per seven seconds: two bytes per second.
var crawl = lab.Fault{Kind: fault.Trickle, Interval: 7 * time.Second}

// A stream that begins too slowly fails over before the client has seen any of it.
func TestStartGuardFailsOverUnseen(t *testing.T) {
	for name, f := range map[string]lab.Fault{
		"too slow":        crawl,
		"cut while held":  {Kind: fault.Cut, Tokens: 2},
		"ends while held": {Kind: fault.EndEarly, Tokens: 2},
		"error mid-held":  {Kind: fault.ErrorMid, Tokens: 2},
	} {
		for _, p := range []gateway.Protocol{gateway.OpenAI, gateway.Responses, gateway.Anthropic, gateway.Gemini} {
			t.Run(fmt.Sprintf("%s/%s", name, p), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("slow", f)
					b.Source("good")
					b.Open(providers("slow", "good") + combo("slow", "good") + guards("start_guard: true"))
					r := b.Ask(client.Request{Protocol: p, Model: "smart", Stream: true})
					b.Right(r, "")
					if r.EndedAfter > 20*time.Second {
						t.Errorf("took %s", r.EndedAfter)
					}
					kinds := b.kinds()
					if want := map[bool]gateway.Kind{true: gateway.Stall, false: gateway.ServiceError}[name == "too slow"]; len(kinds) < 2 || kinds[0] != want {
						t.Errorf("attempts %v, the first should be %s\n%s", kinds, want, b.Story())
					}
					if name == "too slow" {
						b.NothingOut()
					}
				})
			})
		}
	}
}

// A stream of ordinary speed, and a short answer, are let go as soon as they have proven themselves.
func TestStartGuardLetsGoodStreamsGo(t *testing.T) {
	for _, words := range []int{1, 60} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.SourceOf(scenario.Source{Name: "good", Tokens: words, Latency: scenario.Between(time.Second, time.Second),
				Interval: scenario.Between(200*time.Millisecond, 200*time.Millisecond)})
			b.Open(providers("good") + combo("good") + guards("start_guard: true"))
			r := b.Ask(chat(true))
			if why := wrong(r, "", words); why != "" {
				t.Errorf("%d words: %s", words, why)
			}
			// 40 bytes, the text of ten seconds at the least rate, come within some two seconds.
			if r.FirstAfter > 4*time.Second {
				t.Errorf("%d words: first content after %s", words, r.FirstAfter)
			}
		})
	}
}

// What is held is bounded: above hold_events it goes out as it is, and the stall then is an error in the stream.
func TestStartGuardHoldsNoMoreThanAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("slow", crawl)
		b.Source("good")
		b.Open(providers("slow", "good") + combo("slow", "good") +
			"resilience: {streams: {continuation: off, hold_events: 2, watchdog: {start_guard: true}}}\n")
		r := b.Ask(chat(true))
		if r.End == client.Complete || r.Text == "" || !r.InStream {
			t.Errorf("want some text and an error in the stream: %s", describe(r))
		}
		if k := b.kinds(); len(k) != 1 || k[0] != gateway.Stall {
			t.Errorf("attempts %v", k)
		}
	})
}

// Without the guards a slow stream is left alone.
func TestGuardsAreOff(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("slow", crawl)
		b.Source("good")
		b.Open(providers("slow", "good") + combo("slow", "good"))
		b.Right(b.Ask(chat(true)), "")
		if k := b.kinds(); len(k) != 1 || k[0] != gateway.Success {
			t.Errorf("attempts %v", k)
		}
	})
}

// The throughput watchdog ends a stream that trickles for a whole window behind the warm-up; the bytes of events and of
// heartbeats are no text. Whether that cools the connection is a setting of its own.
func TestThroughputWatchdog(t *testing.T) {
	for _, cools := range []bool{false, true} {
		for _, p := range []gateway.Protocol{gateway.OpenAI, gateway.Responses, gateway.Anthropic, gateway.Gemini} {
			t.Run(fmt.Sprintf("%s/cools=%t", p, cools), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					f := crawl
					f.Tokens = 20
					b.Source("slow", f)
					b.Open(providers("slow") + combo("slow") + fmt.Sprintf(
						"resilience: {cooldown: {stream_stall_cooldown: %t}, streams: {continuation: off, watchdog: {throughput: true}}}\n", cools))
					r := b.Ask(client.Request{Protocol: p, Model: "smart", Stream: true})
					if r.End == client.Complete || r.EndedAfter < time.Minute || r.EndedAfter > 70*time.Second {
						t.Errorf("want an end after some 60 s: %s", describe(r))
					}
					if k := b.kinds(); len(k) != 1 || k[0] != gateway.Stall {
						t.Errorf("attempts %v", k)
					}
					if out := strings.Join(b.Out(), "; "); cools != strings.Contains(out, "unavailable") {
						t.Errorf("isolated: %q", out)
					}
				})
			})
		}
	}
}

// While another candidate is untried an attempt gets a share of the deadline, so the other one is asked as well.
func TestDeadlineIsShared(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, second := range []string{"silent", "good"} {
			t.Run(fmt.Sprintf("stream=%t/then %s", stream, second), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("first", always(fault.Silence))
					if second == "good" {
						b.Source("second")
					} else {
						b.Source("second", always(fault.Silence))
					}
					b.Open(providers("first", "second") + combo("first", "second") + "timeouts: {request: 10s}\n")
					for i := range 3 {
						r := b.Ask(chat(stream))
						if second == "good" {
							b.Right(r, "")
						} else if r.End != client.Failed || r.Status != 504 {
							t.Errorf("request %d: %s", i, describe(r))
						}
						if r.EndedAfter > 11*time.Second {
							t.Errorf("request %d took %s", i, r.EndedAfter)
						}
						if n := len(b.Calls("second")); n != i+1 {
							t.Errorf("request %d: the second source was asked %d times in all\n%s", i, n, b.Story())
						}
					}
				})
			})
		}
	}
}

// A candidate whose whole answers are known to take most of the deadline is not cut at half of it.
func TestDeadlineShareFollowsWhatWasSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "first", Latency: scenario.Between(7*time.Second, 7*time.Second), Interval: scenario.Between(time.Millisecond, time.Millisecond)})
		b.SourceOf(scenario.Source{Name: "second", Latency: scenario.Between(7*time.Second, 7*time.Second), Interval: scenario.Between(time.Millisecond, time.Millisecond)})
		b.Open(providers("first", "second") + combo("first", "second") + "timeouts: {request: 10s}\n")
		b.Ask(chat(false)) // cut at 5 s, and what is left is too short for the second
		for i := range 30 {
			if why := wrong(b.Ask(chat(false)), "", 60); why != "" {
				t.Errorf("request %d: %s\n%s", i, why, b.Story())
			}
		}
	})
}
