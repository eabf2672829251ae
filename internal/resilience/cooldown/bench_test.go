package cooldown

import (
	"testing"
	"time"

	"spillway/internal/gateway"
)

func BenchmarkPeekHealthy(b *testing.B) {
	g := newRig(b)
	h, a := g.bind(connection("a", "A")), ask()
	b.ReportAllocs()
	for b.Loop() {
		if !h.Peek(a, g.now).OK() {
			b.Fatal("refused")
		}
	}
}

func BenchmarkPeekCooling(b *testing.B) {
	g := newRig(b)
	h, a := g.bind(connection("a", "A")), ask()
	g.try(h, hinted(limited, time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		if h.Peek(a, g.now).OK() {
			b.Fatal("allowed")
		}
	}
}

func BenchmarkAllowAndRecordHealthy(b *testing.B) {
	g := newRig(b)
	h, a := g.bind(connection("a", "A")), ask()
	o := gateway.Outcome{Kind: gateway.Success, BeganAt: g.now, EndedAt: g.now}
	b.ReportAllocs()
	for b.Loop() {
		p, _ := h.Allow(b.Context(), a, g.now)
		p.Record(o, g.now)
	}
}

// Peek must not allocate, whatever the state.
func TestPeekAllocatesNothing(t *testing.T) {
	g := newRig(t)
	h, a := g.bind(connection("a", "A")), ask()
	check := func(name string) {
		if n := testing.AllocsPerRun(100, func() { h.Peek(a, g.now) }); n != 0 {
			t.Errorf("%s: %.0f allocations", name, n)
		}
	}
	check("healthy")
	g.try(h, hinted(limited, time.Hour))
	check("cooling")
	g.back(h)
	g.allow(h)
	check("returning")
}
