package lab

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// question is one call of a load, fixed before the load begins so that a seed always asks the same.
type question struct {
	prompt   string
	stream   bool
	protocol gateway.Protocol
}

// ask returns the i-th question of a scenario.
func ask(s *scenario.Scenario, i int) question {
	l, seed, n := s.Load, s.Seed, uint64(i)
	q := question{protocol: gateway.OpenAI}
	if len(l.Protocols) > 0 {
		q.protocol = l.Protocols[i%len(l.Protocols)]
	}
	share := l.Streamed
	if share == 0 {
		share = 1
	}
	q.stream = fault.Chance(seed, n, 101) < share
	of := i
	if i > 0 && fault.Chance(seed, n, 102) < l.Repeats {
		of = int(fault.Chance(seed, n, 103) * float64(i))
		// A repeat is a cache hit only when all of the request is the same.
		return ask(s, of)
	}
	words := scenario.Range{Min: 8, Max: 8}
	if l.Prompts.Words.Max > 0 {
		words = l.Prompts.Words
	}
	size := words.Min + int(fault.Chance(seed, n, 104)*float64(words.Max-words.Min+1))
	q.prompt = fmt.Sprintf("%s %d question %d%s", s.Name, seed, of, strings.Repeat(" word", max(0, size-4)))
	return q
}

// traffic drives a load.
type traffic struct {
	s      *scenario.Scenario
	client *client.Client
	ask    client.Request // what all calls have in common
	note   func(i int, now time.Time)

	next    atomic.Int64
	over    context.CancelFunc // no further call begins
	mu      sync.Mutex
	results map[int]client.Result
}

// run makes all the calls and returns their results by number.
func (t *traffic) run(ctx context.Context) map[int]client.Result {
	t.results = map[int]client.Result{}
	began := time.Now()
	if t.s.Load.Rate > 0 {
		t.arrivals(ctx, began)
	} else {
		t.workers(ctx, began)
	}
	return t.results
}

// more hands out the number of the next call, if one may begin.
func (t *traffic) more(ctx context.Context, began time.Time) (int, bool) {
	l := t.s.Load
	if ctx.Err() != nil || l.Duration > 0 && time.Since(began) >= l.Duration {
		return 0, false
	}
	i := int(t.next.Add(1)) - 1
	if l.Calls > 0 && i >= l.Calls {
		t.over()
		return 0, false
	}
	return i, true
}

func (t *traffic) call(ctx context.Context, i int) {
	q := ask(t.s, i)
	r := t.ask
	r.Prompt, r.Stream, r.Protocol = q.prompt, q.stream, q.protocol
	if t.note != nil {
		t.note(i, time.Now())
	}
	res := t.client.Call(ctx, r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[i] = res
}

// level is the step in force at a time, and when the next one comes (0 = never).
func level(l scenario.Traffic, elapsed time.Duration) (rate float64, workers int, next time.Duration) {
	rate, workers = l.Rate, max(l.Workers, 1)
	for _, s := range l.Steps {
		if s.At > elapsed {
			return rate, workers, s.At
		}
		rate, workers = s.Rate, s.Workers
	}
	return rate, workers, 0
}

// workers runs so many calls at once; those that a step leaves out wait for the next step.
func (t *traffic) workers(ctx context.Context, began time.Time) {
	most := max(t.s.Load.Workers, 1)
	for _, s := range t.s.Load.Steps {
		most = max(most, s.Workers)
	}
	waiting, over := context.WithCancel(ctx)
	defer over()
	t.over = over
	var wg sync.WaitGroup
	for w := range most {
		wg.Go(func() {
			for {
				elapsed := time.Since(began)
				if _, n, next := level(t.s.Load, elapsed); w >= n {
					if next == 0 || pause(waiting, next-elapsed) != nil {
						return
					}
					continue
				}
				i, ok := t.more(ctx, began)
				if !ok {
					return
				}
				t.call(ctx, i)
			}
		})
	}
	wg.Wait()
}

// arrivals begins calls at a rate, whatever becomes of the earlier ones.
func (t *traffic) arrivals(ctx context.Context, began time.Time) {
	t.over = func() {}
	var wg sync.WaitGroup
	defer wg.Wait()
	var due time.Duration
	for {
		if pause(ctx, due-time.Since(began)) != nil {
			return
		}
		i, ok := t.more(ctx, began)
		if !ok {
			return
		}
		wg.Go(func() { t.call(ctx, i) })
		rate, _, next := level(t.s.Load, due)
		gap := time.Duration(float64(time.Second) / math.Max(rate, 1e-6))
		if next > 0 && due+gap > next {
			gap = next - due
		}
		due += gap
	}
}
