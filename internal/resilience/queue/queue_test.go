package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
)

// slots is a gate: n places, and a wake-up per place that comes back.
type slots struct {
	free  atomic.Int64
	looks atomic.Int64
	wake  func()
}

func (s *slots) take() bool {
	s.looks.Add(1)
	for {
		n := s.free.Load()
		if n <= 0 {
			return false
		}
		if s.free.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

func (s *slots) give() { s.free.Add(1); s.wake() }

// run is what attempt does: look, join, wait, run, give back.
func (s *slots) run(ctx context.Context, p *Pool, key string, set []int, work time.Duration) error {
	if p.Ahead(set) || !s.take() {
		w, no := p.Join(Entry{Key: gateway.ClientKeyID(key), Set: set}, Config{}, time.Now())
		if no != nil {
			return no
		}
		defer w.Leave(false)
		for {
			if err := w.Wait(ctx, time.Time{}, time.Time{}); err != nil {
				return err
			}
			if s.take() {
				if s.free.Load() == 0 {
					w.LeaveSpent(set, time.Time{})
				} else {
					w.Leave(true)
				}
				break
			}
		}
	}
	defer s.give()
	time.Sleep(work) // virtual: the bubble's clock
	return nil
}

func TestPoolTenThousandWaitersOneSlotEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := r.Pool("p")
		s := &slots{wake: r.Wake}
		s.free.Store(8)
		var done sync.WaitGroup
		const n = 10_000
		for i := range n {
			done.Go(func() {
				if err := s.run(t.Context(), p, fmt.Sprint(i%7), []int{1, 2}, 10*time.Millisecond); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if p.Len() != n-8 {
			t.Errorf("%d in line", p.Len())
		}
		done.Wait()
		if s.free.Load() != 8 || p.Len() != 0 || r.Len() != 0 || r.busy.Load() != 0 {
			t.Errorf("free %d, in line %d", s.free.Load(), p.Len())
		}
		if looks := s.looks.Load(); looks > 4*n {
			t.Errorf("a herd: %d looks for %d requests", looks, n)
		}
	})
}

func TestPoolServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := r.Pool("p")
		s := &slots{wake: r.Wake}
		var mu sync.Mutex
		var order []int
		for i := range 50 {
			go func() {
				if s.run(t.Context(), p, "k", []int{1}, time.Millisecond) == nil {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		s.give()
		time.Sleep(time.Second)
		synctest.Wait()
		for i, got := range order {
			if i != got {
				t.Fatalf("order %v", order)
			}
		}
		if len(order) != 50 {
			t.Fatalf("%d served", len(order))
		}
	})
}

func TestPoolCancelledWaiterPassesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Line: LineConfig{Relook: time.Hour, LookLimit: time.Hour}})
		p := r.Pool("p")
		first, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
		second, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for { // the turn may be taken or the error may come: both are legal, neither may lose the turn
			if err := first.Wait(ctx, time.Time{}, time.Time{}); err != nil {
				break
			}
		}
		first.Leave(false)
		first.Leave(true)
		if err := second.Wait(t.Context(), time.Time{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		second.Leave(true)
		if p.Len() != 0 {
			t.Error("somebody is left")
		}
	})
}

// The turn that comes with joining is used by the first Wait, and what nobody looked at is not taken for refused.
func TestPoolFirstTurnIsNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Line: LineConfig{Relook: time.Hour, LookLimit: time.Hour}}).Pool("p")
		first, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
		second, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
		began := time.Now()
		first.Pass()
		if err := first.Wait(t.Context(), time.Time{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		first.Leave(true)
		if err := second.Wait(t.Context(), time.Time{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		second.Leave(true)
		if time.Since(began) != 0 {
			t.Errorf("the second had to wait %v for a turn", time.Since(began))
		}
	})
}

func TestPoolWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{}).Pool("p")
		w, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
		defer w.Leave(false)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		for {
			err := w.Wait(ctx, time.Time{}, time.Time{})
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestPoolWaitEndsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := New(Options{}).Pool("p"), time.Now()
		w, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, began)
		defer w.Leave(false)
		if err := w.Wait(t.Context(), time.Time{}, began.Add(5*time.Second)); err != nil { // the first look is at once
			t.Fatal(err)
		}
		limit := began.Add(700 * time.Millisecond) // before the line looks again by itself
		if err := w.Wait(t.Context(), time.Time{}, limit); err != context.DeadlineExceeded || time.Since(began) != 700*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		if err := w.Wait(t.Context(), time.Time{}, began.Add(5*time.Second)); err != nil { // a later limit holds from then on
			t.Fatal(err)
		}
		if err := w.Wait(t.Context(), time.Time{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	})
}

// A slot that comes back again and again costs one look each time: who takes the last one saves the next in line its own.
func TestPoolOneLookPerSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		s := &slots{wake: r.Wake}
		s.free.Store(1)
		var done sync.WaitGroup
		for range 100 {
			done.Go(func() {
				if err := s.run(t.Context(), r.Pool("p"), "k", []int{1}, 10*time.Millisecond); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		if n := s.looks.Load(); n > 110 {
			t.Errorf("%d looks for 100 requests", n)
		}
	})
}

func TestPoolLooksWhenTheTimeCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Line: LineConfig{Relook: time.Hour}}).Pool("p")
		w, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
		defer w.Leave(false)
		began := time.Now()
		if err := w.Wait(t.Context(), time.Time{}, time.Time{}); err != nil { // the first look is at once
			t.Fatal(err)
		}
		if err := w.Wait(t.Context(), began.Add(3*time.Second), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("looked after %v", waited)
		}
	})
}

// O7: waiting in line has its own clock, and the queue has no hold on whoever left it.
func TestO7QueueNeverEndsARunningAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := r.Pool("p")
		s := &slots{wake: r.Wake}
		s.free.Store(1)
		cfg := Config{MaxWait: time.Second}
		ctx, cancel := context.WithDeadline(t.Context(), cfg.WaitUntil(time.Time{}, time.Now()))
		defer cancel()
		w, _ := p.Join(Entry{Key: "k", Set: []int{1}}, cfg, time.Now())
		if err := w.Wait(ctx, time.Time{}, time.Time{}); err != nil || !s.take() {
			t.Fatal("must run at once", err)
		}
		w.Leave(true)
		time.Sleep(time.Hour) // the attempt runs
		s.give()
		if s.free.Load() != 1 || p.Len() != 0 {
			t.Error("the attempt must have kept its slot for its whole life")
		}
	})
}

// O8: queued > 0 and something free, and nobody told: the line looks by itself.
func TestO8SilentlyFreedSlotIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{}).Pool("p")
		s := &slots{wake: func() {}}
		began := time.Now()
		var took time.Duration
		go func() {
			if err := s.run(t.Context(), p, "k", []int{1}, 0); err != nil {
				t.Error(err)
			}
			took = time.Since(began)
		}()
		time.Sleep(100 * time.Millisecond)
		s.give()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if took == 0 || took > 2*time.Second {
			t.Errorf("found after %v", took)
		}
	})
}

func TestPoolRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{}).Pool("p")
		cfg := Config{MaxQueueDepth: 2}
		var in []*Waiter
		for range 4 {
			w, no := p.Join(Entry{Key: "k", Set: []int{1, 2}}, cfg, time.Now())
			if no != nil {
				t.Fatal("two connections of two each must fit four")
			}
			in = append(in, w)
		}
		if !p.Full(cfg, 2) || p.Full(Config{}, 2) {
			t.Error("full is told before any work; depth 0 is off")
		}
		_, no := p.Join(Entry{Key: "k", Set: []int{1, 2}}, cfg, time.Now())
		if no == nil || no.Code != gateway.RateLimitQueueFull || no.RetryAfter < time.Second || no.Computed || no.Depth != 4 {
			t.Fatalf("refusal %+v", no)
		}
		for _, w := range in { // one every 10 s
			time.Sleep(10 * time.Second)
			w.Leave(true)
		}
		first, _ := p.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
		_, no = p.Join(Entry{Key: "k", Set: []int{1}}, Config{MaxWait: 5 * time.Second}, time.Now())
		if no == nil || !no.Computed || no.RetryAfter < 15*time.Second || no.RetryAfter > 25*time.Second {
			t.Errorf("two at one per 10 s: %+v", no)
		}
		if !strings.Contains(no.Error(), "try again") {
			t.Error(no.Error())
		}
		late, no := p.Join(Entry{Key: "k", Set: []int{1}, Until: time.Now().Add(time.Minute)}, Config{}, time.Now())
		if no != nil {
			t.Fatalf("a minute is enough: %+v", no)
		}
		late.Leave(false)
		first.Leave(false)
	})
}

func TestRoomForgetsIdlePools(t *testing.T) {
	r := New(Options{Keep: 4})
	held := r.Pool("held")
	w, _ := held.Join(Entry{Key: "k", Set: []int{1}}, Config{}, time.Now())
	for i := range 1000 {
		r.Pool(fmt.Sprint("p", i))
		if i%100 == 0 {
			runtime.GC()
		}
	}
	if r.Pool("held") != held {
		t.Error("a pool with somebody in line was replaced")
	}
	if n := r.pools.Len(); n > 300 {
		t.Errorf("%d pools are remembered", n)
	}
	if r.Len() != 1 {
		t.Errorf("%d in line", r.Len())
	}
	w.Leave(false)
}

func TestPoolUnderRealConcurrency(t *testing.T) {
	r := New(Options{})
	s := &slots{wake: r.Wake}
	s.free.Store(3)
	var done sync.WaitGroup
	var served atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range 200 {
		done.Go(func() {
			p := r.Pool(fmt.Sprint(i % 3))
			mine, stop := context.WithCancel(ctx)
			defer stop()
			if i%5 == 0 {
				stop()
			}
			if s.run(mine, p, fmt.Sprint(i%4), []int{i % 3, 7}, 0) == nil {
				served.Add(1)
			}
		})
	}
	done.Wait()
	if ctx.Err() != nil || served.Load() < 160 {
		t.Errorf("served %d: %v", served.Load(), ctx.Err())
	}
	if s.free.Load() != 3 || r.Len() != 0 || r.busy.Load() != 0 {
		t.Errorf("free %d, in line %d, busy %d", s.free.Load(), r.Len(), r.busy.Load())
	}
}

func TestConfig(t *testing.T) {
	for _, name := range []string{"recommended", "omniroute-oauth", "omniroute-apikey", "omniroute-local", "polygateway", "autorouter"} {
		c, ok := Preset(name)
		if err := c.Validate(); !ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	if _, ok := Preset("nothing"); ok {
		t.Error("unknown preset")
	}
	err := Config{MaxWait: time.Microsecond, MaxQueueDepth: -1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "max_wait: ") || !strings.Contains(err.Error(), "max_queue_depth: ") {
		t.Error(err)
	}
	deadline := t0.Add(time.Minute)
	if got := (Config{}).WaitUntil(deadline, t0); !got.Equal(deadline) {
		t.Error(got)
	}
	if got := (Config{MaxWait: time.Second}).WaitUntil(deadline, t0); !got.Equal(t0.Add(time.Second)) {
		t.Error(got)
	}
	if got := (Config{MaxWait: time.Hour}).WaitUntil(deadline, t0); !got.Equal(deadline) {
		t.Error(got)
	}
}

func BenchmarkWakeNobodyWaits(b *testing.B) {
	r := New(Options{})
	r.Pool("p")
	b.ReportAllocs()
	for b.Loop() {
		r.Wake()
	}
}

func BenchmarkGrantWithTenThousandInLine(b *testing.B) {
	r := New(Options{})
	p := r.Pool("p")
	now := time.Now()
	for range 10_000 {
		p.Join(Entry{Key: "k", Set: []int{1, 2, 3}}, Config{}, now)
	}
	b.ReportAllocs()
	for b.Loop() {
		w, _ := p.Join(Entry{Key: "other", Set: []int{1, 2, 3}}, Config{}, now)
		w.Leave(true)
		r.Wake()
	}
}

// Who waits for something that grows with the wait is not refused for the speed of what was served before; for the depth
// it is.
func TestPoolBlindWaitIsNotComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{}).Pool("p")
		cfg := Config{MaxQueueDepth: 6}
		var in []*Waiter
		for range 5 {
			w, _ := p.Join(Entry{Key: "k", Connections: 1}, cfg, time.Now())
			in = append(in, w)
		}
		for _, w := range in[:4] {
			time.Sleep(10 * time.Second)
			w.Leave(true)
		}
		soon := time.Now().Add(time.Second)
		if _, no := p.Join(Entry{Key: "k", Connections: 1, Until: soon}, cfg, time.Now()); no == nil || !no.Computed {
			t.Errorf("one place per 10 s is too slow: %+v", no)
		}
		for range 5 {
			w, no := p.Join(Entry{Key: "k", Connections: 1, Until: soon, Blind: true}, cfg, time.Now())
			if no != nil {
				t.Fatalf("%+v", no)
			}
			in = append(in, w)
		}
		if _, no := p.Join(Entry{Key: "k", Connections: 1, Until: soon, Blind: true}, cfg, time.Now()); no == nil {
			t.Error("the depth holds for everybody")
		}
		for _, w := range in {
			w.Leave(false)
		}
	})
}
