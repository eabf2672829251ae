package state

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type counter struct {
	n    atomic.Int64
	name string // makes it an object of its own for the collector
}

func fresh() *counter { return &counter{name: "made"} }

func TestIndexOneCellPerKey(t *testing.T) {
	x := NewIndex[string, counter](2, nil)
	a := x.Get("a", fresh)
	if x.Get("a", func() *counter { t.Error("made twice"); return fresh() }) != a || x.Find("a") != a {
		t.Error("two cells of one key")
	}
	if x.Find("b") != nil || x.Len() != 1 {
		t.Error("Find made a cell")
	}
	b := x.Get("b", fresh)
	if all := x.Snapshot(); len(all) != 2 || all["a"] != a || all["b"] != b {
		t.Errorf("%v", all)
	}
	runtime.KeepAlive(a)
}

// collect runs the collector until the living cells are down to n; weak pointers are cleared by its sweep.
func collect[V any](t *testing.T, x *Index[string, V], n int) {
	t.Helper()
	for range 50 {
		runtime.GC()
		if len(x.Snapshot()) <= n {
			return
		}
	}
	t.Fatalf("%d cells live, want %d", len(x.Snapshot()), n)
}

func TestIndexForgetsWhatNobodyHolds(t *testing.T) {
	for _, keep := range []int{0, 1, 8} {
		x := NewIndex[string, counter](keep, nil)
		held := x.Get("held", fresh)
		held.n.Store(7)
		for i := range 1000 {
			x.Get(fmt.Sprint(i), fresh)
			if i%100 == 0 {
				runtime.GC()
			}
		}
		collect(t, x, keep+1)
		if n := len(x.Snapshot()); n != keep+1 {
			t.Errorf("keep %d: %d cells live", keep, n)
		}
		for i := range keep { // the newest are still there
			if x.Find(fmt.Sprint(999-i)) == nil {
				t.Errorf("keep %d: the %dth newest is gone", keep, i)
			}
		}
		if x.Get("held", fresh).n.Load() != 7 {
			t.Errorf("keep %d: a held cell was split in two", keep)
		}
		for i := range 4 * minSweep { // each makes at most one name; dead ones are swept
			x.Get(fmt.Sprint("late", i), fresh)
			if i%16 == 0 {
				runtime.GC()
			}
		}
		if n := x.Len(); n > 2*minSweep {
			t.Errorf("keep %d: %d names are remembered", keep, n)
		}
		runtime.KeepAlive(held)
	}
}

func TestIndexOwnsItsKeys(t *testing.T) {
	body := strings.Repeat("x", 1<<10) + "model"
	x := NewIndex[string, counter](1, strings.Clone)
	x.Get(body[1<<10:], fresh)
	for k := range x.Snapshot() {
		if k != "model" || unsafe.StringData(k) == unsafe.StringData(body[1<<10:]) {
			t.Errorf("%q still lies in the body", k)
		}
	}
}

func TestIndexUnderConcurrency(t *testing.T) {
	x := NewIndex[string, counter](1, nil)
	held := x.Get("k", fresh)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				x.Get("k", fresh).n.Add(1)
				x.Get(fmt.Sprint(w, i), fresh).n.Add(1)
				x.Find("k")
				if i%100 == 0 {
					x.Snapshot()
					runtime.GC()
				}
			}
		})
	}
	wg.Wait()
	if n := held.n.Load(); n != 2000 {
		t.Errorf("%d of 2000 were counted", n)
	}
}

func step(c *Cell[int], v int, n News) bool {
	c.Lock()
	defer c.Unlock()
	c.State = v
	return c.Note(n)
}

func TestCellPublishes(t *testing.T) {
	type heard struct {
		s int
		n News
	}
	var got []heard
	var c Cell[int]
	out := func(s int, n News) {
		if !c.TryLock() {
			t.Fatal("published with the mutex held")
		}
		c.Unlock()
		got = append(got, heard{s, n})
	}
	if step(&c, 1, News{At: t0}) {
		t.Error("nothing to publish")
	}
	if c.Publish(out); len(got) != 0 || c.Load() != 1 || !c.At.Equal(t0) {
		t.Errorf("%v", got)
	}
	if !step(&c, 2, News{At: t0, Keep: true, Actor: "ann"}) || !step(&c, 3, News{At: t0.Add(1)}) {
		t.Error("a step that changes nothing hides an earlier one")
	}
	c.Publish(out)
	c.Publish(out)
	if len(got) != 1 || got[0].s != 3 || got[0].n.Actor != "ann" || !got[0].n.Keep || got[0].n.Tell || !got[0].n.At.Equal(t0.Add(1)) {
		t.Errorf("%+v", got)
	}
	if step(&c, 4, News{At: t0}) {
		t.Error("published twice")
	}
}

// A step made while somebody publishes comes out after it, from the same caller.
func TestCellPublishesInOrder(t *testing.T) {
	var c Cell[int]
	var got []int
	var out func(int, News)
	out = func(s int, _ News) {
		got = append(got, s)
		if s < 5 {
			step(&c, s+1, News{At: t0, Tell: true})
			c.Publish(out) // returns at once
			if got[len(got)-1] != s {
				t.Error("published inside of a publication")
			}
		}
	}
	step(&c, 1, News{At: t0, Tell: true})
	c.Publish(out)
	if !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
		t.Errorf("%v", got)
	}
}

// The last record has the newest state and the latest time, whatever instants the callers come with.
func TestCellRecordsRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cell[int]
		var last resilience.Record
		if rapid.Bool().Draw(t, "restored") {
			last.At = t0.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "stored")))
			c.Follow(last.At)
			c.Follow(last.At.Add(-time.Hour)) // an older one changes nothing
		}
		for i := range rapid.IntRange(1, 20).Draw(t, "steps") {
			at := t0.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, "at")))
			step(&c, i, News{At: at, Keep: true, Tell: true})
			c.Publish(func(s int, n News) {
				r := n.Record("room", "key", fmt.Append(nil, s))
				if !r.At.After(last.At) || !n.At.Equal(at) {
					t.Fatalf("%v after %v, step of %v", r.At, last.At, n.At)
				}
				last = r
			})
			if string(last.Value) != fmt.Sprint(i) || last.Room != "room" || last.Key != "key" {
				t.Fatalf("%+v", last)
			}
		}
	})
}

func TestCellUnderConcurrency(t *testing.T) {
	var c Cell[int]
	var store resilience.Record // as a store keeps it: the later record wins
	var out = func(s int, n News) {
		if r := n.Record("r", "k", fmt.Append(nil, s)); r.At.After(store.At) {
			store = r
		}
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				c.Lock()
				c.State++
				c.Note(News{At: t0.Add(time.Duration(i - w)), Keep: true})
				c.Unlock()
				c.Publish(out)
			}
		})
	}
	wg.Wait()
	if c.Load() != 2000 || string(store.Value) != "2000" {
		t.Errorf("the state is %d, stored is %s", c.Load(), store.Value)
	}
}

func TestNewsSign(t *testing.T) {
	line := func() resilience.Status { return resilience.Status{Detail: map[string]string{}} }
	if d := (News{}).Sign(line()).Detail; len(d) != 0 {
		t.Errorf("%v", d)
	}
	if d := (News{Actor: "ann"}).Sign(line()).Detail; d["actor"] != "ann" {
		t.Errorf("%v", d)
	}
}

func TestDecode(t *testing.T) {
	type value struct{ N int }
	good, _ := json.Marshal(value{3})
	records := []resilience.Record{
		{Room: "mine", Key: "a", Value: good, At: t0}, {Room: "other", Key: "b", Value: good},
		{Room: "mine", Key: "c"}, {Room: "mine", Key: "d", Value: []byte(`{"N":"x"}`)}, {Room: "mine", Key: "e", Value: []byte(`{}`)},
	}
	got := map[string]int{}
	for rec, v := range Decode[value]("mine", records) {
		got[rec.Key] = v.N
	}
	if len(got) != 2 || got["a"] != 3 || got["e"] != 0 {
		t.Errorf("%v", got)
	}
	for rec := range Decode[value]("mine", records) {
		if rec.Key != "a" {
			t.Errorf("went on to %s", rec.Key)
		}
		break
	}
}

func TestIdentity(t *testing.T) {
	if id := Identity(&gateway.Connection{ID: "a"}); id != "a" {
		t.Error(id)
	}
	if id := Identity(&gateway.Connection{ID: "a", Identity: "a#1"}); id != "a#1" {
		t.Error(id)
	}
}

func BenchmarkIndexGet(b *testing.B) {
	x := NewIndex[string, counter](16, strings.Clone)
	held := x.Get("k", fresh)
	b.ReportAllocs()
	for b.Loop() {
		if x.Get("k", fresh) != held {
			b.Fatal("split")
		}
	}
}
