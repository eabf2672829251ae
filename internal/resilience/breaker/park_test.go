package breaker

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"spillway/internal/resilience"
)

// Clients choose the names of models: they fill neither the room nor the group of a provider, and what is out, or in
// somebody's hands, is not forgotten for it.
func TestMadeUpModelsDoNotFillTheRoom(t *testing.T) {
	deleted := map[string]bool{}
	r := New(Options{Keep: func(rec resilience.Record) { deleted[rec.Key] = len(rec.Value) == 0 }})
	held := r.Bind(candidate("p", "c", "held"), quick())
	out := r.Bind(candidate("p", "c", "out"), quick())
	once := r.Bind(candidate("p", "c", "failed-once"), quick())
	times(5, func() { try(out, fail(), t0) })
	try(once, fail(), t0)
	if try(out, ok(), t0) {
		t.Fatal("the breaker is not open")
	}
	most := 0
	for i := range 3 * maxCells {
		try(r.Bind(candidate("p", "c", fmt.Sprint("made-up-", i)), quick()), ok(), t0.Add(time.Duration(i)*time.Second))
		most = max(most, len(r.cells))
	}
	if most > maxCells+1 || len(r.groups["p"].members["c#1"].models) > maxCells+1 {
		t.Errorf("%d cells, %d in the group", most, len(r.groups["p"].members["c#1"].models))
	}
	runtime.GC()
	r.mu.Lock()
	r.parkAt = 0
	r.park(nil)
	parked := len(r.parked)
	r.mu.Unlock()
	if parked > maxCells/10 {
		t.Errorf("%d names of forgotten cells", parked)
	}
	if r.cells["c#1/out"] == nil || r.Bind(candidate("p", "c", "out"), quick()).own != out.own {
		t.Error("an open breaker was let go of")
	}
	if !held.own.parked.Load() {
		t.Error("a plain one is still there")
	}
	if r.cells["c#1/failed-once"] != nil {
		t.Error("an old failure is kept for ever")
	}
	if again := r.Bind(candidate("p", "c", "held"), quick()); again.own != held.own || held.own.parked.Load() {
		t.Error("two cells for one key")
	}
	runtime.KeepAlive(once)
}

// A parked cell is the room's again as soon as it has something to tell: in its status, and for its provider.
func TestParkedCellComesBack(t *testing.T) {
	r := New(Options{})
	a, b := r.Bind(candidate("p", "a", "m"), quick()), r.Bind(candidate("p", "b", "m"), quick())
	r.mu.Lock()
	r.parkAt = 0
	r.park(nil)
	r.mu.Unlock()
	if len(r.cells) != 2 || !a.own.parked.Load() {
		t.Fatalf("%d cells", len(r.cells))
	}
	times(5, func() { try(a, fail(), t0) })
	times(5, func() { try(b, fail(), t0) })
	if a.own.parked.Load() || r.cells["a#1/m"] != a.own || r.Bind(candidate("p", "a", "m"), quick()).own != a.own {
		t.Error("it tripped and is not there")
	}
	shown := 0
	for _, s := range r.Status(t0) {
		if s.Key == "a#1/m" || s.Key == "b#1/m" || s.Key == "provider:p/m" {
			shown++
		}
	}
	if shown != 3 {
		t.Errorf("%+v", r.Status(t0))
	}
}
