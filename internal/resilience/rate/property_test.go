package rate

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sent is what the property keeps about one request: the reference against which windows are summed.
type sent struct {
	at      time.Time
	tokens  int // as reserved, less what was given back
	counted bool
}

// Property 4: over random traffic with settlements, cancellations and restarts no window of 60 s ever holds more requests
// than rpm, nor is a request let through when what is reserved and settled leaves no room for it.
func TestRatesHoldInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := gateway.RateLimits{RPM: rapid.SampledFrom([]int{0, 1, 5, 60, 700}).Draw(t, "rpm"),
			TPM:         rapid.SampledFrom([]int{0, 100, 1000}).Draw(t, "tpm"),
			MinInterval: rapid.SampledFrom([]time.Duration{0, 30 * time.Millisecond, 7 * time.Second}).Draw(t, "interval")}
		var records []resilience.Record
		fresh := func() *Room {
			return New(Options{Keep: func(rec resilience.Record) { records = []resilience.Record{rec} }})
		}
		r := fresh()
		h := r.Bind(candidate(l), Default())
		now := t0
		type flight struct {
			p resilience.Permit
			i int
		}
		var log []sent
		var live []flight
		step := rapid.SampledFrom([]time.Duration{time.Millisecond, 40 * time.Millisecond, time.Second, 20 * time.Second}).Draw(t, "step")
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(step)).Draw(t, "dt")))
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 6 || len(live) == 0 && what < 9:
				ask := resilience.Ask{Tokens: rapid.IntRange(0, 150).Draw(t, "tokens")}
				peeked := h.Peek(&ask, now)
				p, ruling := h.Allow(t.Context(), &ask, now)
				if peeked != ruling {
					t.Fatalf("peeked %+v, ruled %+v", peeked, ruling)
				}
				if p == nil {
					checkUntil(t, h, &ask, ruling, now)
					if rapid.IntRange(0, 2).Draw(t, "waits") == 0 { // who waits comes at that very instant
						now = ruling.Until
					}
					continue
				}
				tokens := ask.Tokens
				if own, ok := p.(*permit); ok {
					tokens = own.tokens
				}
				checkRoom(t, log, l, tokens, now)
				log = append(log, sent{now, tokens, true})
				live = append(live, flight{p, len(log) - 1})
			case what < 9:
				n := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				f := live[n]
				live = append(live[:n], live[n+1:]...)
				o := gateway.Outcome{BeganAt: log[f.i].at, EndedAt: now}
				switch rapid.IntRange(0, 3).Draw(t, "end") {
				case 0: // never sent
					o.Kind, o.BeganAt = gateway.Canceled, time.Time{}
					log[f.i].counted, log[f.i].tokens = false, 0
				case 1: // left early: the upstream may have worked on all of it
					o.Kind = gateway.Canceled
				case 2:
					o.Kind = gateway.ServiceError
					log[f.i].tokens = 0
				default:
					o.Kind = gateway.Success
					o.Usage.Input = rapid.IntRange(1, 400).Draw(t, "used")
					if o.Usage.Input > log[f.i].tokens {
						log = append(log, sent{now, o.Usage.Input - log[f.i].tokens, false})
					} else {
						log[f.i].tokens = o.Usage.Input
					}
				}
				f.p.Record(o, now)
				f.p.Record(o, now)
			default: // restart: what the old process has sent still counts
				for _, f := range live {
					f.p.Record(gateway.Outcome{Kind: gateway.Canceled, BeganAt: now}, now)
				}
				live = nil
				now = now.Add(100 * time.Millisecond) // a process does not start in less
				old := records
				r = fresh()
				r.Restore(old, now)
				h = r.Bind(candidate(l), Default())
			}
		}
	})
}

// checkRoom fails when a request that was let through breaks a limit.
func checkRoom(t *rapid.T, log []sent, l gateway.RateLimits, tokens int, now time.Time) {
	requests, sum, last := 0, 0, time.Time{}
	for _, s := range log {
		if now.Sub(s.at) < time.Minute {
			sum += s.tokens
			if s.counted {
				requests++
			}
		}
		if s.counted && s.at.After(last) {
			last = s.at
		}
	}
	switch {
	case l.RPM > 0 && requests+1 > l.RPM:
		t.Fatalf("%d requests in a minute, %d allowed", requests+1, l.RPM)
	case l.TPM > 0 && sum > 0 && sum+tokens > l.TPM:
		t.Fatalf("%d tokens in a minute, %d allowed", sum+tokens, l.TPM)
	case l.MinInterval > 0 && !last.IsZero() && now.Sub(last) < l.MinInterval:
		t.Fatalf("%s after the last one", now.Sub(last))
	}
}

// checkUntil fails unless a refusal tells exactly when the request would go.
func checkUntil(t *rapid.T, h *Handle, ask *resilience.Ask, ruling resilience.Ruling, now time.Time) {
	if ruling.Verdict != resilience.Delayed || ruling.Reason != gateway.Paced || !ruling.Until.After(now) {
		t.Fatalf("a refusal must be a delay with a time: %+v", ruling)
	}
	if r := h.Peek(ask, ruling.Until.Add(-time.Nanosecond)); r.OK() {
		t.Fatalf("goes before %s", ruling.Until)
	}
	if r := h.Peek(ask, ruling.Until); !r.OK() {
		t.Fatalf("does not go at %s: %+v", ruling.Until, r)
	}
}

func candidate(l gateway.RateLimits) gateway.Candidate {
	return gateway.Candidate{Model: "m", Connection: &gateway.Connection{ID: "c", Account: "acct", Identity: "c#1", RateLimits: l,
		Provider: &gateway.Provider{ID: "p"}}}
}
