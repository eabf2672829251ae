package affinity

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

func ended(on string, k gateway.Kind) Event {
	return Event{Connection: on, Model: "m", Outcome: gateway.Outcome{Kind: k}, Tokens: 100}
}

func success(on string, tokens int) Event {
	e := ended(on, gateway.Success)
	e.Outcome.Usage.Input = tokens
	return e
}

func first(e Event) Event { e.First = true; return e }

func uncounted(e Event) Event { e.Outcome.Uncounted = true; return e }

// TestStep is section 6 of resilience.md, row by row.
func TestStep(t *testing.T) {
	cfg := Default()
	bound := Bond{Connection: "a", Model: "m", At: t0, Tokens: 30_000}
	for _, row := range []struct {
		name  string
		b     Bond
		e     Event
		after time.Duration
		want  Bond
	}{
		{"bound after success", Bond{}, success("a", 7), 0, Bond{Connection: "a", Model: "m", At: t0, Tokens: 7}},
		{"an upstream that does not count", Bond{}, ended("a", gateway.Success), 0, Bond{Connection: "a", Model: "m", At: t0, Tokens: 100}},
		{"renewed by success", bound, success("a", 40_000), time.Minute, Bond{Connection: "a", Model: "m", At: at(time.Minute), Tokens: 40_000}},
		{"moved by success elsewhere", bound, success("b", 7), time.Minute, Bond{Connection: "b", Model: "m", At: at(time.Minute), Tokens: 7}},
		{"a report from the past does not take time away", bound, success("a", 7), -time.Minute, Bond{Connection: "a", Model: "m", At: t0, Tokens: 7}},
		{"a first turn binds", Bond{}, first(success("a", 7)), 0, Bond{Connection: "a", Model: "m", At: t0, Tokens: 7}},
		{"a first turn takes nothing from a longer conversation", bound, first(success("b", 7)), time.Minute, bound},
		{"a first turn on the same connection forgets no cache", bound, first(success("a", 7)), time.Minute, Bond{Connection: "a", Model: "m", At: at(time.Minute), Tokens: 30_000}},
		{"a first turn after the end binds anew", bound, first(success("b", 7)), 2 * time.Hour, Bond{Connection: "b", Model: "m", At: at(2 * time.Hour), Tokens: 7}},
		{"dropped on failure", bound, ended("a", gateway.ServiceError), 0, Bond{}},
		{"dropped on 429", bound, ended("a", gateway.RateLimited), 0, Bond{}},
		{"dropped on a dead account", bound, ended("a", gateway.Banned), 0, Bond{}},
		{"not on a failure elsewhere", bound, ended("b", gateway.ServiceError), 0, bound},
		{"not when the client leaves", bound, ended("a", gateway.Canceled), 0, bound},
		{"not on the caller's fault", bound, ended("a", gateway.Alive), 0, bound},
		{"not on refused content", bound, ended("a", gateway.ContentRefused), 0, bound},
		{"not on our own fault", bound, ended("a", gateway.LocalError), 0, bound},
		{"not on what a rule does not count", bound, uncounted(ended("a", gateway.ServiceError)), 0, bound},
		{"a failure binds nothing", Bond{}, ended("a", gateway.ServiceError), 0, Bond{}},
		{"neither does the caller's fault", Bond{}, ended("a", gateway.Alive), 0, Bond{}},
	} {
		if have := row.b.step(cfg, row.e, at(row.after)); have != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, have, row.want)
		}
	}
}

func TestReturnAndPatience(t *testing.T) {
	cfg := Default()
	for _, row := range []struct {
		tokens    int
		idle      time.Duration
		mayReturn bool
		patience  time.Duration
	}{
		{19_999, 0, true, 0}, {20_000, 0, false, 5 * time.Second}, {20_000, 5 * time.Minute, false, 5 * time.Second},
		{20_000, 5*time.Minute + 1, true, 5 * time.Second}, {100_000, 0, false, 25 * time.Second}, {1_000_000, 0, false, 30 * time.Second},
	} {
		b := Bond{Connection: "a", At: t0, Tokens: row.tokens}
		if may, p := b.MayReturn(cfg, at(row.idle)), b.Patience(); may != row.mayReturn || p != row.patience {
			t.Errorf("%d tokens, idle %s: may return %t, patience %s", row.tokens, row.idle, may, p)
		}
	}
}

// disk is a store of records in which the later one of a key wins, as a real one does.
type disk struct {
	records map[string]resilience.Record
	writes  int
}

func (d *disk) keep(r resilience.Record) {
	d.writes++
	k := r.Room + "/" + r.Key
	if old, ok := d.records[k]; ok && !r.At.After(old.At) {
		panic("a record that is not later than the one before")
	}
	d.records[k] = r
}

func (d *disk) all() (out []resilience.Record) {
	for _, r := range d.records {
		if len(r.Value) > 0 {
			out = append(out, r)
		}
	}
	return out
}

func newDisk() *disk { return &disk{records: map[string]resilience.Record{}} }

func TestBondsAndPinsSurviveARestart(t *testing.T) {
	d := newDisk()
	r := New(Options{Keep: d.keep})
	busy, old, moved, object := KeyOf("k", "busy"), KeyOf("k", "old"), KeyOf("k", "moved"), KeyOf("k", "resp_1")
	r.Record(old, success("a", 1), t0)
	r.Record(moved, success("a", 1), t0)
	r.Record(moved, success("b", 30_000), at(time.Minute))
	r.RecordPin(object, "c", t0)
	for i := range 600 { // ten minutes of one turn per second
		r.Record(busy, success("a", 1), at(time.Duration(i)*time.Second))
	}
	if d.writes > 8 {
		t.Errorf("%d records for 603 requests", d.writes)
	}
	again := New(Options{Keep: d.keep})
	now := at(64 * time.Minute)
	again.Restore(d.all(), now)
	if b, may, ok := again.Peek(busy, now); !ok || b.Connection != "a" || !may {
		t.Errorf("busy: %+v %t %t", b, may, ok)
	}
	if _, _, ok := again.Peek(moved, now); ok {
		t.Error("a session without a turn for over an hour is still bound")
	}
	if c, ok := again.PeekPin(object, now); !ok || c != "c" {
		t.Errorf("object: %q %t", c, ok)
	}
	if n := len(d.all()); n != 2 {
		t.Errorf("%d records are left in the store", n)
	}
	if _, ok := again.PeekPin(object, at(721*time.Hour)); ok {
		t.Error("an object is remembered for ever")
	}
	later := New(Options{Keep: d.keep})
	later.Restore(append(d.all(), resilience.Record{Room: BondRoom, Key: "zz", Value: []byte(`{"c":"a"}`), At: t0},
		resilience.Record{Room: PinRoom, Key: fmt.Sprintf("%x", object), Value: []byte(`{`), At: t0}), at(-time.Hour)) // the clock was set back
	if b, _, ok := later.Peek(busy, at(-time.Hour)); !ok || b.At.After(at(-time.Hour)) {
		t.Errorf("a clock that was set back: %+v %t", b, ok)
	}
}

// A batch of first turns costs the store nothing and takes nothing from those who talk; the second turn is kept.
func TestFirstTurnsAreCheap(t *testing.T) {
	d := newDisk()
	r := New(Options{Keep: d.keep, Sessions: 8})
	talk := KeyOf("talk")
	r.Record(talk, first(success("a", 1)), t0)
	if d.writes != 0 {
		t.Errorf("%d records for a first turn", d.writes)
	}
	if b, _, ok := r.Peek(talk, t0); !ok || b.Connection != "a" {
		t.Errorf("the first turn binds to %+v, %t", b, ok)
	}
	r.Record(talk, success("a", 1), at(time.Second))
	for i := range 1000 {
		r.Record(KeyOf("batch", fmt.Sprint(i)), first(success("b", 1)), at(time.Minute))
	}
	if _, _, ok := r.Peek(talk, at(time.Minute)); !ok || d.writes != 1 || r.Sessions() != 3 {
		t.Errorf("still bound: %t, %d records, %d sessions", ok, d.writes, r.Sessions())
	}
	r.Record(talk, ended("a", gateway.ServiceError), at(time.Minute))
	if d.writes != 2 || len(d.all()) != 0 {
		t.Errorf("%d records, left %v", d.writes, d.all())
	}
}

func TestSwitchedOff(t *testing.T) {
	d := newDisk()
	r := New(Options{Keep: d.keep})
	r.Record(KeyOf("s"), success("a", 1), t0)
	r.Configure(Config{})
	if _, _, ok := r.Peek(KeyOf("s"), t0); ok || r.On() {
		t.Error("a session is bound though affinity is off")
	}
	r.Record(KeyOf("t"), success("a", 1), t0)
	r.RecordPin(KeyOf("o"), "a", t0)
	if r.Sessions() != 1 || r.Objects() != 0 || d.writes != 1 {
		t.Errorf("%d sessions, %d objects, %d records", r.Sessions(), r.Objects(), d.writes)
	}
}

func TestForgetPin(t *testing.T) {
	d := newDisk()
	r := New(Options{Keep: d.keep})
	r.RecordPin(KeyOf("o"), "a", t0)
	r.ForgetPin(KeyOf("o"), t0)
	r.ForgetPin(KeyOf("o"), t0)
	if _, ok := r.PeekPin(KeyOf("o"), t0); ok || len(d.all()) != 0 || d.writes != 2 {
		t.Errorf("still there: %v, %d writes", d.all(), d.writes)
	}
}

func TestKeys(t *testing.T) {
	first, again := KeyOf("x", "y"), KeyOf("x", "y")
	if KeyOf("a", "bc") == KeyOf("ab", "c") || KeyOf("a") == KeyOf("a", "") || first != again {
		t.Error("keys do not tell names apart")
	}
	if s := KeyOf("x").Short(); len(s) != 8 {
		t.Errorf("short form %q", s)
	}
}

// Whatever happens: a session has at most one bond, to a connection that has served it; the bond is at most TTL old, its
// age counts from a success, and neither memory nor store hold more than they may.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 5
		d := newDisk()
		r := New(Options{Keep: d.keep, Sessions: limit, Objects: limit})
		cfg := Default()
		served := map[Key]map[string]time.Time{} // last success by session and connection
		now := t0
		kinds := []gateway.Kind{gateway.Success, gateway.Success, gateway.ServiceError, gateway.RateLimited, gateway.Canceled, gateway.Alive, gateway.LocalError}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "seconds")) * time.Second)
			k := KeyOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(t, "session"))
			conn := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "connection")
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			was, _, wasBound := r.Peek(k, now)
			ev := ended(conn, kind)
			ev.First = rapid.Bool().Draw(t, "first")
			r.Record(k, ev, now)
			b, _, bound := r.Peek(k, now)
			if kind == gateway.Success {
				if served[k] == nil {
					served[k] = map[string]time.Time{}
				}
				served[k][conn] = now
				if !bound {
					t.Fatal("a success leaves the session unbound")
				}
			} else if bound && (!wasBound || b != was) {
				t.Fatalf("%s changed %+v to %+v", kind, was, b)
			}
			if bound && !served[k][b.Connection].Equal(b.At) {
				t.Fatalf("bound to %+v, served at %v", b, served[k])
			}
			if ev.Outcome.Failed() && bound && b.Connection == conn {
				t.Fatal("bound to what just failed")
			}
			if bound && now.Sub(b.At) > cfg.TTL {
				t.Fatalf("a bond of %s", now.Sub(b.At))
			}
			r.RecordPin(k, conn, now)
			if r.Sessions() > limit+1 || r.Objects() > limit || len(d.all()) > 2*limit {
				t.Fatalf("%d sessions, %d objects, %d records", r.Sessions(), r.Objects(), len(d.all()))
			}
		}
		again := New(Options{Sessions: limit, Objects: limit})
		again.Restore(d.all(), now)
		for k := range served {
			have, _, ok := again.Peek(k, now)
			want, _, had := r.Peek(k, now)
			if ok && (!had || have.Connection != want.Connection || have.At.After(want.At)) {
				t.Fatalf("after a restart %+v, before %+v %t", have, want, had)
			}
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	r := New(Options{})
	k := KeyOf("key", "pool", "session")
	now := t0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		r.Record(k, success("a", 1), now)
		_, _, _ = r.Peek(k, now)
	}
}
