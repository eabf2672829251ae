package watchdog

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
)

// watch starts a Watch whose cancel ends a context, as attempt does.
func watch(t *testing.T, c Clocks) (*Watch, context.Context) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := New(c, time.Now(), cancel)
	t.Cleanup(w.Stop)
	return w, ctx
}

func expired(t *testing.T, ctx context.Context) *Expired {
	t.Helper()
	var e *Expired
	if !errors.As(context.Cause(ctx), &e) {
		t.Fatalf("cause %v", context.Cause(ctx))
	}
	return e
}

func TestWatchFirstContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, ctx := watch(t, Limits(Input{Stream: true, Untried: true}))
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != FirstContent || time.Since(began) != 10*sec || e.Limit != 10*sec || e.After != 10*sec || !e.Patient {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
	})
}

// O17: the first read of the body has a limit, and so has every later one.
func TestO17EveryReadHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := watch(t, Limits(Input{Stream: true, Untried: true, Continuation: true}))
		w.Headers(time.Now())
		for range 1000 { // a stream of 100 s that never rests for long
			time.Sleep(100 * ms)
			w.Content(4, time.Now())
		}
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		last := time.Now()
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != Idle || time.Since(last) != 30*sec {
			t.Errorf("%+v after %v", e, time.Since(last))
		}
	})
}

func TestWatchLongIdleBecomesShort(t *testing.T) { // a later event can make the next due time earlier
	synctest.Test(t, func(t *testing.T) {
		w, ctx := watch(t, Limits(Input{Stream: true}))
		time.Sleep(sec)
		w.Content(1, time.Now()) // last_chance 300 s becomes idle 30 s
		began := time.Now()
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != Idle || time.Since(began) != 30*sec {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
	})
}

func TestWatchExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w, ctx := watch(t, Limits(Input{Stream: true, Untried: true}))
		time.Sleep(9 * sec)
		w.Extend(began.Add(300*sec), time.Now())
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != LastChance || time.Since(began) != 300*sec {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
	})
}

func TestWatchStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		w := New(Limits(Input{Stream: true}), time.Now(), func(error) { calls.Add(1) })
		w.Stop()
		w.Stop()
		w.Content(1, time.Now())
		time.Sleep(2 * time.Hour)
		if calls.Load() != 0 {
			t.Error("cancelled after Stop")
		}
	})
}

func TestWatchCancelsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		w := New(Limits(Input{Stream: true, Untried: true}), time.Now(), func(error) { calls.Add(1) })
		defer w.Stop()
		time.Sleep(11 * sec)
		w.Content(1, time.Now())
		w.Committed(time.Now())
		time.Sleep(3 * time.Hour)
		if calls.Load() != 1 {
			t.Errorf("cancelled %d times", calls.Load())
		}
	})
}

func TestWatchPausedAndTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := watch(t, Limits(Input{Stream: true, Untried: true, Continuation: true}))
		w.Dialing(time.Now())
		w.Connected(time.Now())
		w.Content(1, time.Now())
		w.Committed(time.Now())
		w.Paused(true, time.Now())
		time.Sleep(10 * time.Minute)
		w.Paused(false, time.Now())
		w.ToolOpen(true, time.Now())
		time.Sleep(250 * sec)
		w.ToolClose(true, time.Now())
		w.Reasoning(time.Now())
		time.Sleep(110 * sec)
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		w.Terminal(time.Now())
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != Linger {
			t.Errorf("%+v", e)
		}
	})
}

func TestWatchHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guards := Default()
		guards.StartGuard = true
		w, ctx := watch(t, Limits(Input{Stream: true, Guards: guards}))
		w.Content(10, time.Now())
		if !w.Held() {
			t.Error("10 characters prove nothing")
		}
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != Stall || e.Limit != 10*sec {
			t.Errorf("%+v", e)
		}
		if !w.Held() {
			t.Error("let go after it was cut")
		}
	})
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		e      Expired
		kind   gateway.Kind
		reason gateway.Reason
	}{
		{Expired{Clock: Connect}, gateway.Timeout, gateway.ConnectTimeout},
		{Expired{Clock: Headers}, gateway.Timeout, gateway.HeadersTimeout},
		{Expired{Clock: FirstContent}, gateway.Slow, gateway.LeftEarly},
		{Expired{Clock: LastChance}, gateway.Timeout, gateway.FirstContentTimeout},
		{Expired{Clock: Idle}, gateway.Timeout, gateway.IdleTimeout},
		{Expired{Clock: Total}, gateway.Timeout, gateway.TotalTimeout},
		{Expired{Clock: StreamTotal}, gateway.Timeout, gateway.TotalTimeout},
		{Expired{Clock: Stall}, gateway.Stall, gateway.TooSlow},
		{Expired{Clock: Deadline, Patient: true}, gateway.Timeout, gateway.FirstContentTimeout},
		{Expired{Clock: Deadline}, gateway.LocalError, gateway.DeadlinePassed},
		{Expired{Clock: Linger}, gateway.LocalError, gateway.ReasonNone},
	} {
		if kind, reason := c.e.Verdict(); kind != c.kind || reason != c.reason {
			t.Errorf("%v: %v %v", c.e.Clock, kind, reason)
		}
		if c.e.Error() == "" || !c.e.Timeout() {
			t.Error("an error with words")
		}
	}
	if Clock(99).String() != "clock(99)" {
		t.Error(Clock(99).String())
	}
}

// A deadline that comes 1 s after dispatch says nothing about the candidate; after a fair wait it does.
func TestDeadlineIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := watch(t, Limits(Input{Stream: true, Left: sec}))
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != Deadline || e.Patient {
			t.Errorf("%+v", e)
		}
		_, ctx = watch(t, Limits(Input{Stream: true, Left: 15 * sec}))
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != Deadline || !e.Patient {
			t.Errorf("%+v", e)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{Warmup: -1, MinBytes: -1}.Validate()
	for _, field := range []string{"warmup: ", "window: ", "min_bytes_per_second: ", "min_bytes: ", "guard_chars: ", "guard_within: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s missing in %v", field, err)
		}
	}
}

func BenchmarkWatchContent(b *testing.B) {
	w := New(Limits(Input{Stream: true}), time.Now(), func(error) {})
	defer w.Stop()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		w.Content(12, now)
	}
}

func BenchmarkWatchContentGuarded(b *testing.B) {
	guards := Default()
	guards.Throughput = true
	w := New(Limits(Input{Stream: true, Guards: guards}), time.Now(), func(error) {})
	defer w.Stop()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		w.Content(12, now)
	}
}

func TestContentThatIsOnlyNotedMovesTheIdleClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := watch(t, Limits(Input{Stream: true}))
		for range 20 {
			time.Sleep(29 * sec)
			if ctx.Err() != nil {
				t.Fatal(context.Cause(ctx))
			}
			w.Content(1, time.Now())
		}
		w.Paused(true, time.Now())
		time.Sleep(60 * sec) // the client takes nothing: no silence of the upstream
		w.Paused(false, time.Now())
		began := time.Now()
		<-ctx.Done()
		if e := expired(t, ctx); e.Clock != Idle || time.Since(began) != 30*sec {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
	})
}
