package cache

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
)

// purse counts bytes against a limit.
type purse struct {
	mu         sync.Mutex
	used, most int64
	limit      int64
}

func (p *purse) Take(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.limit {
		return false
	}
	p.used += n
	p.most = max(p.most, p.used)
	return true
}

func (p *purse) Give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
}

// readAll takes an answer at a pace, and leaves after so many bytes.
func readAll(ctx context.Context, r *Reader, pace time.Duration, leave int) ([]byte, *End, error) {
	defer r.Leave()
	var all []byte
	for {
		b, end, err := r.Next(ctx)
		if end != nil || err != nil {
			return all, end, err
		}
		all = append(all, b...)
		if leave > 0 && len(all) >= leave {
			return all, nil, nil
		}
		time.Sleep(pace)
	}
}

func TestFlightIsOneForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil)
		k := key("dev", 1)
		first, leads := r.Flights.Join(k, "leader", 1<<10, func() { t.Error("abandoned") })
		second, also := r.Flights.Join(k, "other", 1<<10, nil)
		third, apart := r.Flights.Join(key("ops", 1), "third", 1<<10, func() {})
		if !leads || also || !apart || second.Leader() != "leader" {
			t.Fatalf("leads: %t %t %t, by %s", leads, also, apart, second.Leader())
		}
		third.Leave()
		f := first.Flight()
		_ = f.Commit(&gateway.Answer{Status: 200, Stream: true, Body: []byte("one ")})
		late, _ := r.Flights.Join(k, "late", 1<<10, nil)
		_ = f.Write([]byte("two"))
		f.End(End{})
		if _, leads := r.Flights.Join(k, "after", 1<<10, func() {}); !leads {
			t.Error("an ended flight took somebody in")
		}
		for _, rd := range []*Reader{first, second, late} {
			b, end, err := readAll(t.Context(), rd, 0, 0)
			if string(b) != "one two" || end == nil || end.Error != nil || err != nil || rd.Head().Status != 200 {
				t.Errorf("%q, %v, %v", b, end, err)
			}
		}
	})
}

// Random readers that come, dawdle and leave: whoever stays has every byte in order or was told that it is too slow; the
// fastest is never held up by others; all bytes come back.
func TestFlightUnderRandomReaders(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			p := &purse{limit: int64(rng.IntN(4000))}
			r := New(p)
			window := int64(1 + rng.IntN(2000))
			var want []byte
			chunks := make([][]byte, 1+rng.IntN(60))
			for i := range chunks {
				chunks[i] = bytes.Repeat([]byte{byte('a' + i%26)}, 1+rng.IntN(200))
				want = append(want, chunks[i]...)
			}
			k := key("dev", 1)
			var abandoned atomic.Int64
			var wg sync.WaitGroup
			lead, _ := r.Flights.Join(k, "leader", window, func() { abandoned.Add(1) })
			f := lead.Flight()
			read := func(rd *Reader, keeps bool) {
				leave, pace := 0, time.Duration(rng.IntN(30))*time.Millisecond
				if !keeps && rng.IntN(2) == 0 {
					leave = 1 + rng.IntN(len(want))
				}
				if keeps {
					pace = 0
				}
				wg.Go(func() {
					got, end, err := readAll(t.Context(), rd, pace, leave)
					switch {
					case !bytes.HasPrefix(want, got):
						t.Errorf("seed %d: other bytes", seed)
					case errors.Is(err, ErrTooSlow) && keeps:
						t.Errorf("seed %d: the fastest was cut off", seed)
					case err != nil && !errors.Is(err, ErrTooSlow):
						t.Errorf("seed %d: %v", seed, err)
					case end != nil && !bytes.Equal(got, want):
						t.Errorf("seed %d: the end after %d bytes of %d", seed, len(got), len(want))
					}
				})
			}
			read(lead, true)
			for range rng.IntN(12) {
				late := time.Duration(rng.IntN(200)) * time.Millisecond
				if rd, leads := r.Flights.Join(k, "x", window, nil); !leads {
					time.Sleep(late / 20)
					read(rd, false)
				}
			}
			began := time.Now()
			_ = f.Commit(&gateway.Answer{})
			for _, c := range chunks {
				time.Sleep(time.Millisecond)
				if err := f.Write(c); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			if took := time.Since(began); took > time.Duration(len(chunks)+1)*time.Millisecond {
				t.Errorf("seed %d: the run took %s for %d writes", seed, took, len(chunks))
			}
			f.End(End{})
			wg.Wait()
			if p.used != 0 || r.Flights.Len() != 0 || abandoned.Load() != 0 {
				t.Errorf("seed %d: %d bytes, %d flights, abandoned %d", seed, p.used, r.Flights.Len(), abandoned.Load())
			}
		})
	}
}

// One reader alone holds the run back, as its own client would.
func TestFlightWaitsForItsOnlyReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &purse{limit: 1 << 20}
		r := New(p)
		rd, _ := r.Flights.Join(key("dev", 1), "leader", 100, func() {})
		f := rd.Flight()
		var wrote atomic.Int64
		var run sync.WaitGroup
		run.Go(func() {
			for range 50 {
				_ = f.Write(make([]byte, 50))
				wrote.Add(1)
			}
			f.End(End{})
		})
		synctest.Wait()
		if n := wrote.Load(); n != 3 {
			t.Errorf("%d writes went ahead of a reader that reads nothing, want 3: a window and one event", n)
		}
		got, end, err := readAll(t.Context(), rd, time.Second, 0)
		run.Wait()
		if len(got) != 2500 || end == nil || err != nil || p.used != 0 || p.most > 200 {
			t.Errorf("%d bytes, %v, %v; %d bytes counted, %d at most", len(got), end, err, p.used, p.most)
		}
	})
}

// The last one to leave ends the run; nobody joins it any more.
func TestFlightIsAbandonedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &purse{limit: 1 << 20}
		r := New(p)
		k := key("dev", 1)
		abandoned := 0
		a, _ := r.Flights.Join(k, "a", 100, func() { abandoned++ })
		b, _ := r.Flights.Join(k, "b", 100, nil)
		f := a.Flight()
		_ = f.Commit(&gateway.Answer{Body: []byte("half")})
		a.Leave()
		a.Leave()
		if abandoned != 0 || f.Write([]byte(" of it")) != nil {
			t.Error("the run ended while somebody was reading")
		}
		var blocked sync.WaitGroup
		blocked.Go(func() {
			for f.Write(make([]byte, 80)) == nil {
			}
		})
		synctest.Wait()
		b.Leave()
		blocked.Wait()
		if abandoned != 1 || !errors.Is(f.Write([]byte("x")), ErrNobody) {
			t.Errorf("abandoned %d times", abandoned)
		}
		c, leads := r.Flights.Join(k, "c", 100, func() {})
		if !leads {
			t.Error("joined an abandoned run")
		}
		f.End(End{})
		if p.used != 0 {
			t.Errorf("%d bytes are counted", p.used)
		}
		c.Leave()
		if r.Flights.Len() != 0 {
			t.Error("flights are left")
		}
	})
}

// One that was cut off and is stuck keeps no run alive, nor holds it up.
func TestFlightForgetsWhoWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &purse{limit: 1 << 20}
		r := New(p)
		k := key("dev", 1)
		abandoned := 0
		fast, _ := r.Flights.Join(k, "a", 100, func() { abandoned++ })
		stuck, _ := r.Flights.Join(k, "b", 100, nil)
		f := fast.Flight()
		for range 4 {
			_ = f.Write(make([]byte, 80))
			_, _, _ = fast.Next(t.Context())
		}
		if _, _, err := stuck.Next(t.Context()); !errors.Is(err, ErrTooSlow) {
			t.Fatalf("not cut off: %v", err)
		}
		fast.Leave()
		if abandoned != 1 || !errors.Is(f.Write([]byte("x")), ErrNobody) {
			t.Errorf("abandoned %d times", abandoned)
		}
		f.End(End{})
		stuck.Leave()
		if p.used != 0 || abandoned != 1 {
			t.Errorf("%d bytes, abandoned %d", p.used, abandoned)
		}
	})
}

func TestReaderKeepsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil)
		rd, _ := r.Flights.Join(key("dev", 1), "a", 100, func() {})
		defer rd.Leave()
		why := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		began := time.Now()
		if _, _, err := rd.Next(ctx); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
