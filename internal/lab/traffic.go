package lab

import (
	"context"
	"math"
	"strconv"
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
	model    string // "" = the run's
}

// ask returns the i-th question of a scenario.
func ask(s *scenario.Scenario, i int) question {
	l, seed, n := &s.Load, s.Seed, uint64(i)
	if len(l.Arrivals) > 0 {
		a := l.Arrivals[i]
		for a.Of > 0 { // an answer from the cache is an answer to the first of its kind
			i, a = a.Of-1, l.Arrivals[a.Of-1]
		}
		return question{prompt: promptOf(s, i, a.Words), stream: a.Stream, protocol: a.Protocol, model: a.Model}
	}
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
	q.prompt = promptOf(s, of, size)
	return q
}

func promptOf(s *scenario.Scenario, i, words int) string {
	const word, question = " word", " question "
	more := max(0, words-4)
	b := make([]byte, 0, len(s.Name)+len(question)+41+more*len(word)) // 41: two numbers and a space
	b = append(append(b, s.Name...), ' ')
	b = append(strconv.AppendUint(b, s.Seed, 10), question...)
	b = strconv.AppendInt(b, int64(i), 10)
	for range more {
		b = append(b, word...)
	}
	return string(b)
}

// traffic drives a load.
type traffic struct {
	s       *scenario.Scenario
	client  *client.Client
	ask     client.Request // what all calls have in common
	note    func(now time.Time)
	stopped func() bool // no further call begins; nil = never
	voices  []voice

	next  atomic.Int64
	over  context.CancelFunc // no further call begins
	mu    sync.Mutex
	calls []callEnd
}

// callEnd is what became of one call.
type callEnd struct {
	n       int
	at      time.Duration // from the start of the load
	first   time.Duration // to the first content; 0 = none came
	took    time.Duration
	good    bool   // the whole right answer
	wrong   bool   // something else, shown as a whole answer
	unclean bool   // neither an answer nor one clear error
	hung    bool   // no end within the client's patience
	why     string // of those that are not good
}

// run makes all the calls and returns their ends, in the order in which they ended.
func (t *traffic) run(ctx context.Context) []callEnd {
	t.voices = voicesOf(t.s)
	began := time.Now()
	switch {
	case len(t.s.Load.Arrivals) > 0:
		t.listed(ctx, began)
	case t.s.Load.Rate > 0:
		t.arrivals(ctx, began)
	default:
		t.workers(ctx, began)
	}
	return t.calls
}

// more hands out the number of the next call, if one may begin.
func (t *traffic) more(ctx context.Context, began time.Time) (int, bool) {
	l := &t.s.Load
	if ctx.Err() != nil || l.Duration > 0 && time.Since(began) >= l.Duration || t.stopped != nil && t.stopped() {
		return 0, false
	}
	i := int(t.next.Add(1)) - 1
	if l.Calls > 0 && i >= l.Calls {
		t.over()
		return 0, false
	}
	return i, true
}

func (t *traffic) call(ctx context.Context, i int, began time.Time) {
	q := ask(t.s, i)
	r := t.ask
	r.Prompt, r.Stream, r.Protocol = q.prompt, q.stream, q.protocol
	if q.model != "" {
		r.Model = q.model
	}
	now := time.Now()
	t.note(now)
	end := t.judge(q, t.client.Call(ctx, r))
	end.n, end.at = i, now.Sub(began)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, end)
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
				t.call(ctx, i, began)
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
		wg.Go(func() { t.call(ctx, i, began) })
		rate, _, next := level(t.s.Load, due)
		gap := time.Duration(float64(time.Second) / math.Max(rate, 1e-6))
		if next > 0 && due+gap > next {
			gap = next - due
		}
		due += gap
	}
}

// listed begins the calls of a list, each at its time.
func (t *traffic) listed(ctx context.Context, began time.Time) {
	t.over = func() {}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, a := range t.s.Load.Arrivals {
		if pause(ctx, a.At-time.Since(began)) != nil {
			return
		}
		i, ok := t.more(ctx, began)
		if !ok {
			return
		}
		wg.Go(func() { t.call(ctx, i, began) })
	}
}
