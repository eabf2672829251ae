package ability

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

var (
	always = func(string) bool { return true }
	only   = func(f string) func(string) bool { return func(x string) bool { return x == f } }
)

// TestRefusals: one request proves nothing, two do for ten minutes.
func TestRefusals(t *testing.T) {
	type step struct {
		after   time.Duration
		request gateway.RequestID
		feature string
	}
	for _, row := range []struct {
		name  string
		steps []step
		ask   time.Duration
		holds bool
	}{
		{"one request", []step{{0, "a", "tools"}}, time.Second, false},
		{"one request twice", []step{{0, "a", "tools"}, {time.Second, "a", "tools"}}, 2 * time.Second, false},
		{"two requests", []step{{0, "a", "tools"}, {time.Second, "b", "tools"}}, 2 * time.Second, true},
		{"two features", []step{{0, "a", "tools"}, {time.Second, "b", "vision"}}, 2 * time.Second, false},
		{"too far apart", []step{{0, "a", "tools"}, {11 * time.Minute, "b", "tools"}}, 12 * time.Minute, false},
		{"until ten minutes behind the second", []step{{0, "a", "tools"}, {time.Minute, "b", "tools"}}, 11*time.Minute - 1, true},
		{"and no longer", []step{{0, "a", "tools"}, {time.Minute, "b", "tools"}}, 11 * time.Minute, false},
		{"a third prolongs it", []step{{0, "a", "tools"}, {time.Minute, "b", "tools"}, {9 * time.Minute, "b", "tools"}}, 18 * time.Minute, true},
		{"it begins anew when it is over", []step{{0, "a", "tools"}, {0, "b", "tools"}, {30 * time.Minute, "b", "tools"}}, 31 * time.Minute, false},
	} {
		var m memory
		for _, s := range row.steps {
			m = m.refuse(s.feature, s.request, at(s.after))
		}
		holds := slices.ContainsFunc(m.refusals[:], func(r refusal) bool { return r.feature == "tools" && r.holds(at(row.ask)) })
		if holds != row.holds {
			t.Errorf("%s: %t", row.name, holds)
		}
	}
}

func TestAnAnswerDisproves(t *testing.T) {
	m := memory{}.refuse("tools", "a", t0).refuse("tools", "b", t0).refuse("vision", "a", t0).refuse("vision", "b", t0).takes(128, t0)
	m = m.worked(only("tools"), 100)
	if m.refusals[0].feature != "" || m.refusals[1].feature != "vision" || m.limit(t0) != 128 {
		t.Errorf("%+v", m)
	}
	if m = m.worked(only(""), 129); m.limit(t0) != 0 {
		t.Error("129 tools worked, and the limit is still believed")
	}
}

func TestToolLimit(t *testing.T) {
	m := memory{}.takes(128, t0)
	if m.limit(at(LimitFor-1)) != 128 || m.limit(at(LimitFor)) != 0 {
		t.Error("a limit is believed for a day")
	}
	if m = m.takes(512, at(time.Hour)); m.limit(at(time.Hour)) != 512 {
		t.Error("the newest word counts")
	}
}

// TestMemoryProperties: bounded, never holds for longer than the window behind the last refusal, never by one request.
func TestMemoryProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m memory
		now := t0
		last := map[string]time.Time{}
		requests := map[string]map[gateway.RequestID]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "s")) * time.Second)
			f := fmt.Sprint("f", rapid.IntRange(0, 11).Draw(t, "feature"))
			r := gateway.RequestID(fmt.Sprint("r", rapid.IntRange(0, 3).Draw(t, "request")))
			m = m.refuse(f, r, now)
			last[f] = now
			if requests[f] == nil {
				requests[f] = map[gateway.RequestID]bool{}
			}
			requests[f][r] = true
			names := map[string]bool{}
			for _, x := range m.refusals {
				if x.feature == "" {
					continue
				}
				if names[x.feature] {
					t.Fatalf("%s is there twice", x.feature)
				}
				names[x.feature] = true
				if x.holds(now) && (len(requests[x.feature]) < 2 || x.until.After(last[x.feature].Add(Window))) {
					t.Fatalf("%+v after %v", x, requests[x.feature])
				}
			}
			if !names[f] {
				t.Fatalf("%s was refused just now and is forgotten", f)
			}
		}
		if !m.blank(now.Add(Window)) {
			t.Fatal("something outlives the window")
		}
	})
}

func candidate(provider, model string) gateway.Candidate {
	p := &gateway.Provider{ID: gateway.ProviderID(provider), BaseURL: "http://" + provider + ".test/v1"}
	return gateway.Candidate{Connection: &gateway.Connection{ID: "c", Provider: p}, Model: gateway.ModelID(model)}
}

func refused(feature string, request gateway.RequestID) gateway.Outcome {
	return gateway.Outcome{Kind: gateway.Alive, Reason: gateway.CapabilityRefused, Quirk: feature, Request: request}
}

func TestRoom(t *testing.T) {
	r := New(Options{})
	h, other, elsewhere := r.Bind(candidate("a", "m")), r.Bind(candidate("a", "n")), r.Bind(candidate("b", "m"))
	if !h.Idle() || h.Hot() {
		t.Error("an empty room")
	}
	h.Learn(refused("tools", "1"), 3, t0)
	h.Learn(refused("tools", "2"), 3, t0)
	if h.Idle() || other.Hot() || elsewhere.Hot() {
		t.Error("what a model refuses says nothing about another, or about another provider's")
	}
	if f, until := r.Bind(candidate("a", "m")).Refuses(always, t0); f != "tools" || !until.Equal(at(Window)) {
		t.Errorf("%q until %s", f, until)
	}
	if f, _ := h.Refuses(only("vision"), t0); f != "" {
		t.Error("a request without tools is no matter of tools")
	}
	if f, _ := h.Refuses(always, at(Window)); f != "" || !h.Idle() {
		t.Error("it is over, and still asked for")
	}
	for _, o := range []gateway.Outcome{{Kind: gateway.Alive, Reason: gateway.CallerFault, Quirk: "tools", Request: "3"},
		{Kind: gateway.Alive, Reason: gateway.CapabilityRefused, Quirk: "tools", Request: "4", Uncounted: true}} {
		h.Learn(o, 3, at(Window))
	}
	var none *Handle
	none.Learn(refused("tools", "1"), 1, t0)
	none.Worked(always, 1, t0)
	if !h.Idle() || !none.Idle() {
		t.Error("learned from what teaches nothing")
	}
}

func TestLimitsAreKept(t *testing.T) {
	kept := map[string]resilience.Record{}
	r := New(Options{Keep: func(rec resilience.Record) { kept[rec.Key] = rec }})
	h := r.Bind(candidate("a", "m"))
	many := refused("tool_count", "1")
	many.ToolLimit = 128
	h.Learn(many, 128, t0)
	if n, _ := h.Tools(t0); n != 0 {
		t.Error("a limit that the request keeps is none")
	}
	h.Learn(many, 129, t0)
	if n, until := h.Tools(t0); n != 128 || !until.Equal(at(LimitFor)) {
		t.Errorf("%d until %s", n, until)
	}
	records := func() (out []resilience.Record) {
		for _, rec := range kept {
			out = append(out, rec)
		}
		return out
	}
	again := New(Options{})
	again.Restore(records(), at(time.Hour))
	if n, _ := again.Bind(candidate("a", "m")).Tools(at(time.Hour)); n != 128 {
		t.Errorf("%d after a restart", n)
	}
	if n, _ := again.Bind(candidate("b", "m")).Tools(at(time.Hour)); n != 0 {
		t.Error("restored for another provider")
	}
	gone := 0
	late := New(Options{Keep: func(rec resilience.Record) {
		if len(rec.Value) == 0 {
			gone++
		}
	}})
	late.Restore(records(), at(25*time.Hour))
	if !late.Bind(candidate("a", "m")).Idle() || gone != 1 {
		t.Errorf("restored what is over, or left it in the store: %d", gone)
	}
	back := New(Options{}) // the clock was set back by two days
	back.Restore(records(), at(-48*time.Hour))
	if n, until := back.Bind(candidate("a", "m")).Tools(at(-47 * time.Hour)); n != 128 || !until.Equal(at(-24*time.Hour)) {
		t.Errorf("%d until %s", n, until)
	}
	h.Worked(only(""), 200, t0)
	for _, rec := range kept {
		if len(rec.Value) > 0 {
			t.Errorf("kept %s", rec.Value)
		}
	}
}

func TestTheRoomIsBounded(t *testing.T) {
	r := New(Options{})
	for i := range maxHeld + 50 {
		h := r.Bind(candidate("a", fmt.Sprint("m", i)))
		h.Learn(refused("tools", "1"), 1, t0)
	}
	if n := len(r.held); n > maxHeld || r.known.Load() != int64(n) {
		t.Errorf("%d models, %d counted", n, r.known.Load())
	}
}

func TestStatus(t *testing.T) {
	r := New(Options{})
	h := r.Bind(candidate("a", "m"))
	h.Learn(refused("vision", "1"), 1, t0)
	if len(r.Status(t0)) != 0 {
		t.Error("one request proves nothing")
	}
	h.Learn(refused("vision", "2"), 1, t0)
	many := refused("tool_count", "1")
	many.ToolLimit = 1
	h.Learn(many, 2, t0)
	var lines []string
	for _, s := range r.Status(t0) {
		lines = append(lines, s.Key+" "+s.State)
	}
	if have := strings.Join(lines, ", "); have != "model:a/m refuses vision, model:a/m takes 1 tool at most" {
		t.Error(have)
	}
}

func BenchmarkIdle(b *testing.B) {
	h := New(Options{}).Bind(candidate("a", "m"))
	b.ReportAllocs()
	for b.Loop() {
		if !h.Idle() {
			b.Fatal("not idle")
		}
	}
}
