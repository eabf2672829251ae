package breaker

import (
	"context"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// candidate is model m on connection id of provider p.
func candidate(p, id, m string) gateway.Candidate {
	prov := &gateway.Provider{ID: gateway.ProviderID(p)}
	return gateway.Candidate{Connection: &gateway.Connection{ID: gateway.ConnectionID(id), Provider: prov,
		Identity: id + "#1"}, Model: gateway.ModelID(m)}
}

func BenchmarkPeekHealthy(b *testing.B) {
	h := New(Options{}).Bind(candidate("p", "a", "m"), Recommended())
	ask := &resilience.Ask{Fallbacks: 1}
	b.ReportAllocs()
	for b.Loop() {
		if !h.Peek(ask, t0).OK() {
			b.Fatal("refused")
		}
	}
}

func BenchmarkPeekOpen(b *testing.B) {
	r := New(Options{})
	h := r.Bind(candidate("p", "a", "m"), Recommended())
	if err := r.Force("a#1", true, time.Time{}, "bench", t0); err != nil {
		b.Fatal(err)
	}
	ask := &resilience.Ask{Fallbacks: 1}
	b.ReportAllocs()
	for b.Loop() {
		if h.Peek(ask, t0).OK() {
			b.Fatal("allowed")
		}
	}
}

func BenchmarkAllowAliveRecord(b *testing.B) {
	h := New(Options{}).Bind(candidate("p", "a", "m"), Recommended())
	ask := &resilience.Ask{Fallbacks: 1}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		p, out := h.Allow(ctx, ask, t0)
		if !out.OK() {
			b.Fatal("refused")
		}
		p.Alive(t0)
		p.Record(gateway.Outcome{Kind: gateway.Success, Status: 200}, t0)
	}
}
