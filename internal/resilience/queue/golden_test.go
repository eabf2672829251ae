package queue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/golden"
)

// job is one request of a script.
type job struct {
	at       time.Duration
	name     string
	key      gateway.ClientKeyID
	set      []int
	hold     time.Duration // how long it keeps what it got
	patience time.Duration // 0 = for ever
}

// scene is a script of testdata/*.txt:
//
//	slot ID N                                     a candidate with N places
//	join NAME KEY ID[,ID...] hold D [patience D]  somebody joins the line
//	wait D
//
// It runs through two drivers, the pure line alone and the pool in virtual time. Both must serve the same requests at the
// same instants on the same candidates.
type scene struct {
	slots map[int]int
	jobs  []job
}

// ending is how one request ended.
type ending struct {
	at   time.Duration
	name string
	on   int // -1 = gave up
}

func read(t *testing.T, text string) scene {
	t.Helper()
	sc := scene{slots: map[int]int{}}
	at := time.Duration(0)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	dur := func(s string) time.Duration {
		d, err := time.ParseDuration(s)
		must(err)
		return d
	}
	num := func(s string) int {
		n, err := strconv.Atoi(s)
		must(err)
		return n
	}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || w[0] == "#" || strings.HasPrefix(w[0], "#") {
			continue
		}
		switch w[0] {
		case "slot":
			sc.slots[num(w[1])] = num(w[2])
		case "wait":
			at += dur(w[1])
		case "join":
			j := job{at: at, name: w[1], key: gateway.ClientKeyID(w[2])}
			for id := range strings.SplitSeq(w[3], ",") {
				j.set = append(j.set, num(id))
			}
			for i := 4; i+1 < len(w); i += 2 {
				switch w[i] {
				case "hold":
					j.hold = dur(w[i+1])
				case "patience":
					j.patience = dur(w[i+1])
				}
			}
			sc.jobs = append(sc.jobs, j)
		default:
			t.Fatalf("no command %q", w[0])
		}
	}
	return sc
}

func show(ends []ending) string {
	slices.SortStableFunc(ends, func(a, b ending) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name)) })
	var out strings.Builder
	for _, e := range ends {
		if e.on < 0 {
			fmt.Fprintf(&out, "[+%v] %s gave up\n", e.at, e.name)
			continue
		}
		fmt.Fprintf(&out, "[+%v] %s on %d\n", e.at, e.name, e.on)
	}
	return out.String()
}

func TestGoldenThroughBothDrivers(t *testing.T) {
	golden.Scripts(t, 3, golden.Driver{Name: "line", Play: func(t *testing.T, text string) string {
		return show(playLine(read(t, text)))
	}}, golden.Driver{Name: "pool", Play: func(t *testing.T, text string) (got string) {
		synctest.Test(t, func(t *testing.T) { got = show(playPool(t, read(t, text))) })
		return got
	}})
}

// take takes the first free candidate of a set; -1 = none.
func take(free map[int]int, set []int) int {
	for _, id := range set {
		if free[id] > 0 {
			free[id]--
			return id
		}
	}
	return -1
}

// playLine is the driver that has nothing but the pure line: a list of instants, and nobody waits.
func playLine(sc scene) (ends []ending) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	line := NewLine(LineConfig{})
	free, freed := map[int]int{}, map[time.Duration][]int{}
	maps.Copy(free, sc.slots)
	places := map[*Place]job{}
	joined := 0
	for at := time.Duration(0); joined < len(sc.jobs) || len(places) > 0 || len(freed) > 0; {
		now := began.Add(at)
		for _, id := range freed[at] {
			free[id]++
		}
		if len(freed[at]) > 0 {
			delete(freed, at)
			line.Wake(now)
		}
		for p, j := range places {
			if j.patience > 0 && at == j.at+j.patience {
				line.Leave(p, false, now)
				delete(places, p)
				ends = append(ends, ending{at, j.name, -1})
			}
		}
		line.Tick(now)
		look := func() {
			for p := line.Next(now); p != nil; p = line.Next(now) {
				j := places[p]
				id := take(free, j.set)
				if id < 0 {
					line.Pass(p)
					continue
				}
				line.Leave(p, true, now)
				delete(places, p)
				freed[at+j.hold] = append(freed[at+j.hold], id)
				ends = append(ends, ending{at, j.name, id})
			}
		}
		look()
		for joined < len(sc.jobs) && sc.jobs[joined].at == at {
			j := sc.jobs[joined]
			joined++
			places[line.Join(j.key, j.set, now)] = j
			look()
		}
		next := time.Duration(1<<62 - 1)
		if joined < len(sc.jobs) {
			next = sc.jobs[joined].at
		}
		for t := range freed {
			next = min(next, t)
		}
		for _, j := range places {
			if j.patience > 0 {
				next = min(next, j.at+j.patience)
			}
		}
		if wake := line.WakeAt(); !wake.IsZero() {
			next = min(next, max(wake.Sub(began), at+1))
		}
		at = next
	}
	return ends
}

// playPool is the driver that runs the pool: one goroutine per request, in the time of the bubble.
func playPool(t *testing.T, sc scene) (ends []ending) {
	pool := New(Options{}).Pool("p")
	began := time.Now()
	var mu sync.Mutex
	free := map[int]int{}
	maps.Copy(free, sc.slots)
	var all sync.WaitGroup
	for _, j := range sc.jobs {
		time.Sleep(time.Until(began.Add(j.at)))
		w, no := pool.Join(Entry{Key: j.key, Set: j.set, Blind: true}, Config{}, time.Now())
		if no != nil {
			t.Fatalf("%s was refused: %v", j.name, no)
		}
		all.Go(func() {
			ctx := context.Background()
			if j.patience > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, j.patience)
				defer cancel()
			}
			for {
				err := w.Wait(ctx, time.Time{}, time.Time{})
				mu.Lock()
				id := -1
				if err == nil {
					id = take(free, j.set)
				}
				if id >= 0 || err != nil {
					ends = append(ends, ending{time.Since(began), j.name, id})
				}
				mu.Unlock()
				if err != nil {
					w.Leave(false)
					return
				}
				if id < 0 {
					continue // the next Wait passes the turn
				}
				w.Leave(true)
				time.Sleep(j.hold)
				mu.Lock()
				free[id]++
				mu.Unlock()
				pool.Wake()
				return
			}
		})
		synctest.Wait() // those that join at one instant join in their order
	}
	all.Wait()
	return ends
}
