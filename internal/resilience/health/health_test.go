package health

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	ms  = time.Millisecond
	sec = time.Second
)

func candidate(id, model string) gateway.Candidate {
	return gateway.Candidate{Connection: &gateway.Connection{ID: gateway.ConnectionID(id), Identity: id + "#1",
		Provider: &gateway.Provider{ID: "p"}}, Model: gateway.ModelID(model)}
}

func bind(t testing.TB) *Handle { return New(Options{}).Bind(candidate("a", "m")) }

// attempt is one whole flight; a wait of 0 means that no content came.
func attempt(h *Handle, f Facts, at time.Time, wait, life time.Duration, kind gateway.Kind) {
	fl := h.Begin(f, at)
	if wait > 0 {
		fl.Headers(at.Add(wait / 8))
		fl.Content(at.Add(wait))
	}
	fl.End(gateway.Outcome{Kind: kind}, at.Add(life))
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.001 }

func TestEWMA(t *testing.T) {
	h := bind(t)
	if v := h.View(t0); v.Success != 1 || v.InFlight != 0 || v.Proven {
		t.Errorf("optimistic start: %+v", v)
	}
	want := 1.0
	for range 10 {
		attempt(h, Facts{}, t0, 0, 0, gateway.ServiceError)
		want *= 0.8
	}
	if v := h.View(t0); !near(v.Success, want) || !v.Faltered {
		t.Errorf("after 10 failures %+v, want %v", v, want)
	}
	for range 10 {
		attempt(h, Facts{}, t0, ms, ms, gateway.Success)
	}
	if v := h.View(t0); v.Success < 0.89 || v.Faltered {
		t.Errorf("ten successes bring it back to about 0.9: %v", v.Success)
	}
}

func TestDriftToOne(t *testing.T) {
	h := bind(t)
	for range 30 {
		attempt(h, Facts{}, t0, 0, 0, gateway.ServiceError)
	}
	low := h.View(t0).Success
	half := h.View(t0.Add(5 * time.Minute)).Success
	if !near(1-half, (1-low)/2) {
		t.Errorf("half-life 5 min: %v -> %v", low, half)
	}
	for m := range 5 { // asking in between changes nothing
		h.View(t0.Add(time.Duration(m) * time.Minute))
	}
	if again := h.View(t0.Add(5 * time.Minute)).Success; again != half {
		t.Errorf("%v, then %v", half, again)
	}
}

// Every kind of the table of spec resilience.md section 1.
func TestWhoTeaches(t *testing.T) {
	failures := map[gateway.Kind]bool{gateway.ServiceError: true, gateway.Timeout: true, gateway.Slow: true,
		gateway.Stall: true, gateway.EmptyOutput: true, gateway.RateLimited: true, gateway.QuotaExhausted: true,
		gateway.AuthError: true, gateway.RequestRejected: true}
	for k := range gateway.NumKinds {
		h := bind(t)
		attempt(h, Facts{}, t0, 0, sec, k)
		want := 1.0
		if failures[k] {
			want = 0.8
		}
		if v := h.View(t0.Add(sec)); !near(v.Success, want) || v.InFlight != 0 {
			t.Errorf("%v: %+v, want %v", k, v, want)
		}
		fl := h.Begin(Facts{}, t0)
		before := h.View(t0.Add(sec)).Success
		fl.End(gateway.Outcome{Kind: k, Uncounted: true}, t0.Add(sec))
		if after := h.View(t0.Add(sec)).Success; after != before {
			t.Errorf("%v, uncounted: %v -> %v", k, before, after)
		}
	}
}

func TestP95AndSizeClasses(t *testing.T) {
	h := bind(t)
	for i := range 19 {
		attempt(h, Facts{Stream: true}, t0, time.Duration(i+1)*100*ms, 5*sec, gateway.Success)
	}
	if l := h.Learned(true, 0, t0); l.P95 != 0 || l.Samples != 19 {
		t.Errorf("19 samples are too few: %+v", l)
	}
	attempt(h, Facts{Stream: true}, t0, 2*sec, 5*sec, gateway.Success)
	if l := h.Learned(true, 1024, t0); l.P95 < 1600*ms || l.P95 > 2200*ms || l.Samples != 20 {
		t.Errorf("p95 of 100 ms ... 2 s: %+v", l)
	}
	for _, other := range []Learned{h.Learned(true, 1025, t0), h.Learned(false, 0, t0)} {
		if other.Samples != 0 || other.P95 != 0 {
			t.Errorf("another class knows nothing: %+v", other)
		}
	}
}

func TestP95FollowsNewSamples(t *testing.T) {
	h := bind(t)
	for range 20 {
		attempt(h, Facts{Stream: true}, t0, sec, sec, gateway.Success)
	}
	if l := h.Learned(true, 0, t0); l.P95 > 2*sec {
		t.Fatalf("%+v", l)
	}
	for range 5 {
		attempt(h, Facts{Stream: true}, t0, 30*sec, 30*sec, gateway.Success)
	}
	if l := h.Learned(true, 0, t0); l.P95 < 20*sec {
		t.Errorf("a fifth takes 30 s now: %+v", l)
	}
}

func TestQuantileAgainstSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Default()
		var c class
		n := rapid.IntRange(20, 300).Draw(t, "n")
		var top []time.Duration
		for range n {
			w := time.Duration(rapid.IntRange(2, 600_000).Draw(t, "ms")) * ms
			c.add(w, t0)
			top = append(top, w)
		}
		p, _ := c.p95(&cfg, t0)
		got := p.wait
		below, above := 0, 0
		for _, w := range top {
			if float64(w) < float64(got)/1.2 {
				below++
			}
			if float64(w) > float64(got)*1.2 {
				above++
			}
		}
		if above > n-int(0.95*float64(n)) || below > int(math.Ceil(0.95*float64(n))) {
			t.Fatalf("p95 %v of %d: %d clearly below, %d clearly above", got, n, below, above)
		}
	})
}

func TestHistogramWindow(t *testing.T) {
	h := bind(t)
	fill := func(at time.Time, wait time.Duration) {
		for range 20 {
			attempt(h, Facts{Stream: true}, at, wait, wait, gateway.Success)
		}
	}
	fill(t0, 8*sec)
	fill(t0.Add(11*time.Minute), sec)
	if l := h.Learned(true, 0, t0.Add(12*time.Minute)); l.Samples != 40 || l.P95 < 4*sec {
		t.Errorf("both slices count: %+v", l)
	}
	fill(t0.Add(22*time.Minute), sec)
	if l := h.Learned(true, 0, t0.Add(23*time.Minute)); l.Samples != 40 || l.P95 > 2*sec {
		t.Errorf("the oldest slice is gone: %+v", l)
	}
	if l := h.Learned(true, 0, t0.Add(50*time.Minute)); l.Samples == 0 {
		t.Errorf("an idle half-hour forgets nothing: %+v", l)
	}
	if l := h.Learned(true, 0, t0.Add(3*time.Hour)); l.Samples != 0 || l.P95 != 0 {
		t.Errorf("after an hour all is forgotten: %+v", l)
	}
}

func TestCutsEnterAtOneAndAHalf(t *testing.T) {
	h := bind(t)
	for range 20 {
		attempt(h, Facts{Stream: true}, t0, 0, 10*sec, gateway.Slow)
	}
	l := h.Learned(true, 0, t0.Add(10*sec))
	if l.P95 < 13*sec || l.P95 > 17*sec || l.LongestCut != 10*sec {
		t.Errorf("cut at 10 s: %+v", l)
	}
	if big := h.Learned(true, 100<<10, t0.Add(10*sec)); big.LongestCut != 10*sec || big.Samples != 0 {
		t.Errorf("a larger prompt waits at least as long: %+v", big)
	}
	if other := h.Learned(false, 0, t0.Add(10*sec)); other.LongestCut != 0 {
		t.Errorf("another form: %+v", other)
	}
	attempt(h, Facts{Stream: true}, t0.Add(30*time.Minute), 0, 4*sec, gateway.Timeout)
	if l := h.Learned(true, 0, t0.Add(60*time.Minute)); l.LongestCut != 10*sec {
		t.Errorf("the longest of the last hour: %+v", l)
	}
	if l := h.Learned(true, 0, t0.Add(62*time.Minute)); l.LongestCut != 4*sec {
		t.Errorf("an hour later the shorter one is left: %+v", l)
	}
	if l := h.Learned(true, 0, t0.Add(2*time.Hour)); l.LongestCut != 0 {
		t.Errorf("and then none: %+v", l)
	}
}

func TestWhatIsNoCut(t *testing.T) {
	for name, o := range map[string]gateway.Outcome{
		"below HTTP":    {Kind: gateway.Timeout, BelowHTTP: true},
		"after content": {Kind: gateway.Timeout, Content: true},
		"refused":       {Kind: gateway.ServiceError},
		"client left":   {Kind: gateway.Canceled},
	} {
		h := bind(t)
		h.Begin(Facts{Stream: true}, t0).End(o, t0.Add(10*sec))
		if l := h.Learned(true, 0, t0.Add(10*sec)); l.LongestCut != 0 || l.Samples != 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestSilentWeighsHalfAFailure(t *testing.T) {
	h := bind(t)
	for range 40 {
		attempt(h, Facts{Stream: true}, t0, sec, sec, gateway.Success)
	}
	a := h.Begin(Facts{Stream: true}, t0)
	b := h.Begin(Facts{Stream: true}, t0.Add(500*ms))
	c := h.Begin(Facts{Stream: true, Bytes: 1 << 20}, t0) // its class knows no p95
	if v := h.View(t0.Add(800 * ms)); v.Silent != 0 || v.Health() != 1 || v.InFlight != 3 {
		t.Errorf("nobody is late: %+v", v)
	}
	v := h.View(t0.Add(10 * sec))
	if v.Silent != 1 || !near(v.Health(), 0.9*0.9) || v.Success != 1 {
		t.Errorf("two are late: %+v health %v", v, v.Health())
	}
	a.Content(t0.Add(10 * sec))
	if v := h.View(t0.Add(10 * sec)); v.Silent != 0.5 {
		t.Errorf("one spoke: %+v", v)
	}
	b.End(gateway.Outcome{Kind: gateway.Canceled}, t0.Add(10*sec))
	b.End(gateway.Outcome{Kind: gateway.ServiceError}, t0.Add(10*sec))
	a.End(gateway.Outcome{Kind: gateway.Success}, t0.Add(11*sec))
	c.End(gateway.Outcome{Kind: gateway.Success}, t0.Add(11*sec))
	if v := h.View(t0.Add(11 * sec)); v.Silent != 0 || v.InFlight != 0 || v.Success != 1 {
		t.Errorf("all gone: %+v", v)
	}
}

func TestProven(t *testing.T) {
	h := bind(t)
	if h.Proven(t0) {
		t.Error("at start")
	}
	fl := h.Begin(Facts{Stream: true}, t0)
	if h.Proven(t0.Add(sec)) {
		t.Error("an attempt alone proves nothing")
	}
	fl.Content(t0.Add(2 * sec))
	if v := h.View(t0.Add(2 * sec)); !v.Proven || !h.Proven(t0.Add(2*sec)) {
		t.Errorf("first content: %+v", v)
	}
	if !h.Proven(t0.Add(10 * time.Minute)) {
		t.Error("a stream that delivers is no absence")
	}
	end := t0.Add(10 * time.Minute)
	fl.End(gateway.Outcome{Kind: gateway.Success, Content: true}, end)
	if !h.Proven(end.Add(59*sec)) || h.Proven(end.Add(60*sec)) {
		t.Error("60 s of absence")
	}
	silent := h.Begin(Facts{Stream: true}, end.Add(time.Minute))
	silent.End(gateway.Outcome{Kind: gateway.Timeout}, end.Add(2*time.Minute))
	if h.Proven(end.Add(2 * time.Minute)) {
		t.Error("a timeout proves nothing")
	}
	whole := h.Begin(Facts{}, end.Add(3*time.Minute))
	whole.End(gateway.Outcome{Kind: gateway.Success}, end.Add(3*time.Minute+sec))
	if !h.Proven(end.Add(3*time.Minute + sec)) {
		t.Error("a whole answer is content")
	}
}

func TestIdentity(t *testing.T) {
	r := New(Options{})
	a := candidate("a", "m")
	attempt(r.Bind(a), Facts{}, t0, 0, 0, gateway.ServiceError)
	if v := r.Bind(a).View(t0); !near(v.Success, 0.8) {
		t.Errorf("a new handle sees the same: %+v", v)
	}
	moved := candidate("a", "m")
	moved.Connection.Identity = "a#2"
	if v := r.Bind(moved).View(t0); v.Success != 1 {
		t.Errorf("a re-pointed connection starts fresh: %+v", v)
	}
	if v := r.Bind(candidate("a", "other")).View(t0); v.Success != 1 {
		t.Errorf("another model starts fresh: %+v", v)
	}
}

func TestHeadersEarly(t *testing.T) {
	h := bind(t)
	fly := func(headers, content time.Duration) {
		fl := h.Begin(Facts{Stream: true}, t0)
		fl.Headers(t0.Add(headers))
		fl.Content(t0.Add(content))
		fl.End(gateway.Outcome{Kind: gateway.Success}, t0.Add(content))
	}
	for range 5 {
		fly(10*ms, 100*ms) // too quick to tell
	}
	if h.Learned(true, 0, t0).HeadersEarly {
		t.Error("learned from nothing")
	}
	for range 5 {
		fly(300*ms, 3*sec)
	}
	if !h.Learned(true, 0, t0).HeadersEarly || h.Learned(false, 0, t0).HeadersEarly {
		t.Error("five early headers in a row")
	}
	if h.Learned(true, 0, t0.Add(2*time.Hour)).HeadersEarly {
		t.Error("forgotten after an hour")
	}
	fly(3*sec, 3*sec)
	if h.Learned(true, 0, t0).HeadersEarly {
		t.Error("one that comes with content unlearns it")
	}
}

func TestThinksSilently(t *testing.T) {
	h := bind(t)
	for range 4 {
		attempt(h, Facts{Stream: true}, t0, 15*sec, 20*sec, gateway.Success) // headers after 1.9 s
	}
	if !h.Learned(true, 0, t0.Add(20*sec)).ThinksSilently {
		t.Error("four long silences behind early headers")
	}
	for range 40 {
		attempt(h, Facts{Stream: true}, t0, sec, 2*sec, gateway.Success)
	}
	if h.Learned(true, 0, t0.Add(20*sec)).ThinksSilently {
		t.Error("rare by now")
	}
	slow := bind(t)
	for range 10 { // late headers: a queue in front, not thought
		fl := slow.Begin(Facts{Stream: true}, t0)
		fl.Headers(t0.Add(14 * sec))
		fl.Content(t0.Add(15 * sec))
		fl.End(gateway.Outcome{Kind: gateway.Success}, t0.Add(16*sec))
	}
	if slow.Learned(true, 0, t0.Add(20*sec)).ThinksSilently {
		t.Error("late headers are no thought")
	}
}

func TestSizeClass(t *testing.T) {
	for bytes, want := range map[int]int{0: 0, 1024: 0, 1025: 1, 4096: 1, 4097: 2, 64 << 10: 3, 64 << 20: 8, 1 << 40: 9} {
		if got := sizeClass(bytes); got != want {
			t.Errorf("%d bytes: class %d, want %d", bytes, got, want)
		}
	}
}

func TestReset(t *testing.T) {
	r := New(Options{})
	h := r.Bind(candidate("a", "m"))
	fl := h.Begin(Facts{Stream: true}, t0)
	fl.Content(t0)
	attempt(h, Facts{}, t0, 0, sec, gateway.ServiceError)
	r.Reset(candidate("a", "m"))
	if v := h.View(t0); v.Success != 1 || v.InFlight != 1 {
		t.Errorf("%+v", v)
	}
	fl.End(gateway.Outcome{Kind: gateway.Success}, t0)
	if v := h.View(t0); v.InFlight != 0 {
		t.Errorf("%+v", v)
	}
	if lines := r.Status(t0); len(lines) != 1 || lines[0].State != "proven" || !strings.Contains(lines[0].Key, "a#1") {
		t.Errorf("%+v", lines)
	}
}

// Models that clients make up cannot fill the memory, and what a handle holds is never split in two.
func TestBoundedMemory(t *testing.T) {
	r := New(Options{Keep: 16})
	held := r.Bind(candidate("a", "held"))
	for i := range 2000 {
		attempt(r.Bind(candidate("a", fmt.Sprint(i))), Facts{}, t0, 0, 0, gateway.ServiceError)
		if i%200 == 0 {
			runtime.GC()
		}
	}
	attempt(held, Facts{}, t0, 0, 0, gateway.ServiceError)
	if v := r.Bind(candidate("a", "held")).View(t0); !near(v.Success, 0.8) {
		t.Errorf("split in two: %+v", v)
	}
	if n := r.cells.Len(); n > 600 {
		t.Errorf("%d cells", n)
	}
}

// Whatever happens in whatever order: the counts return to zero and the numbers stay in range.
func TestFlightsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := New(Options{}).Bind(candidate("a", "m"))
		now := t0
		var up []*Flight
		pick := func(t *rapid.T) int {
			if len(up) == 0 {
				t.Skip("none in flight")
			}
			return rapid.IntRange(0, len(up)-1).Draw(t, "which")
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				up = append(up, h.Begin(Facts{Stream: rapid.Bool().Draw(t, "stream"),
					Bytes: rapid.IntRange(0, 8000).Draw(t, "bytes")}, now))
			},
			"headers": func(t *rapid.T) { up[pick(t)].Headers(now) },
			"content": func(t *rapid.T) { up[pick(t)].Content(now) },
			"end": func(t *rapid.T) {
				i := pick(t)
				o := gateway.Outcome{Kind: gateway.Kind(rapid.IntRange(0, int(gateway.NumKinds)-1).Draw(t, "kind"))}
				up[i].End(o, now)
				up[i].End(gateway.Outcome{Kind: gateway.Success}, now)
				up[i].Content(now)
				up = append(up[:i], up[i+1:]...)
			},
			"many": func(t *rapid.T) {
				for range 30 {
					attempt(h, Facts{Stream: true}, now, sec, sec, gateway.Success)
				}
			},
			"time": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 90_000).Draw(t, "ms")) * ms) },
			"": func(t *rapid.T) {
				v := h.View(now)
				if v.InFlight != len(up) || v.Silent > float64(len(up))/2 || v.Silent < 0 {
					t.Fatalf("%d in flight: %+v", len(up), v)
				}
				if v.Success < 0 || v.Success > 1 || v.Health() > v.Success || v.Health() < 0 {
					t.Fatalf("%+v health %v", v, v.Health())
				}
				h.Learned(true, 100, now)
			},
		})
		for _, fl := range up {
			fl.End(gateway.Outcome{Kind: gateway.Canceled}, now)
		}
		if v := h.View(now.Add(time.Hour)); v.InFlight != 0 || v.Silent != 0 || v.Proven || h.cell.state.talking != 0 {
			t.Fatalf("something is left: %+v", v)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	r := New(Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			h := r.Bind(candidate("a", "m"))
			for i := range 500 {
				fl := h.Begin(Facts{Stream: true}, t0)
				fl.Headers(t0)
				h.View(t0.Add(time.Duration(i) * ms))
				fl.Content(t0.Add(time.Duration(i) * ms))
				h.Learned(true, 0, t0)
				fl.End(gateway.Outcome{Kind: gateway.Success}, t0.Add(sec))
			}
		})
	}
	wg.Wait()
	if v := r.Bind(candidate("a", "m")).View(t0.Add(sec)); v.InFlight != 0 || v.Success != 1 {
		t.Errorf("%+v", v)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{Alpha: math.NaN()}.Validate()
	for _, field := range []string{"alpha: ", "half_life: ", "absence: ", "min_samples: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s missing in %v", field, err)
		}
	}
}

func TestViewAllocatesNothing(t *testing.T) {
	h := bind(t)
	attempt(h, Facts{Stream: true}, t0, sec, sec, gateway.Success)
	if n := testing.AllocsPerRun(100, func() { h.View(t0); h.Proven(t0); h.Learned(true, 0, t0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkView(b *testing.B) {
	h := bind(b)
	for i := range 200 {
		attempt(h, Facts{Stream: true, Bytes: i * 100}, t0, sec, sec, gateway.Kind(1+4*(i&1)))
	}
	for range 100 {
		h.Begin(Facts{Stream: true}, t0)
	}
	now := t0.Add(10 * sec)
	b.ReportAllocs()
	for b.Loop() {
		v := h.View(now)
		_ = v.Health()
	}
}

func BenchmarkFlight(b *testing.B) {
	h := bind(b)
	b.ReportAllocs()
	for b.Loop() {
		fl := h.Begin(Facts{Stream: true}, t0)
		fl.Headers(t0)
		fl.Content(t0.Add(sec))
		fl.End(gateway.Outcome{Kind: gateway.Success}, t0.Add(sec))
	}
}
