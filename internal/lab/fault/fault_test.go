package fault

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

func kinds(fs []*Fault) string {
	var out []string
	for _, f := range fs {
		out = append(out, string(f.Kind))
	}
	return strings.Join(out, " ")
}

func TestScript(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		faults []Fault
		asks   []Ask
		at     []time.Duration
		want   []string
	}{
		"times": {[]Fault{{Kind: Status, Times: 2}}, make([]Ask, 3), nil, []string{"status", "status", ""}},
		"skip":  {[]Fault{{Kind: Status, Skip: 1, Times: 1}}, make([]Ask, 3), nil, []string{"", "status", ""}},
		"turn":  {[]Fault{{Kind: Status, Of: 2, Turn: 1}}, make([]Ask, 4), nil, []string{"", "status", "", "status"}},
		"the first that ends wins, and the second does not count": {[]Fault{{Kind: Status, Times: 1}, {Kind: Cut, Times: 1}},
			make([]Ask, 3), nil, []string{"status", "cut", ""}},
		"shapes combine behind the end": {[]Fault{{Kind: CRLF}, {Kind: Cut}, {Kind: Gzip}}, make([]Ask, 1), nil, []string{"cut crlf gzip"}},
		"models": {[]Fault{{Kind: Status, Models: []string{"s05-*", "x"}}}, []Ask{{Model: "s05-reset"}, {Model: "x"}, {Model: "xy"}}, nil,
			[]string{"status", "status", ""}},
		"protocols": {[]Fault{{Kind: Status, Protocols: []gateway.Protocol{gateway.Gemini}}}, []Ask{{}, {Protocol: gateway.Gemini}}, nil, []string{"", "status"}},
		"keys":      {[]Fault{{Kind: Status, Keys: []string{"k"}}}, []Ask{{}, {Key: "k"}}, nil, []string{"", "status"}},
		"stream":    {[]Fault{{Kind: Status, Stream: "only"}, {Kind: Cut, Stream: "never"}}, []Ask{{}, {Stream: true}}, nil, []string{"cut", "status"}},
		"prefill":   {[]Fault{{Kind: PrefillRefused}}, []Ask{{}, {Prefill: true}}, nil, []string{"", "prefill_refused"}},
		"in flight": {[]Fault{{Kind: ConcurrencyLimit, Tokens: 2}}, []Ask{{InFlight: 1}, {InFlight: 2}}, nil, []string{"", "concurrency_limit"}},
		"window":    {[]Fault{{Kind: Status, After: second, For: 2 * second}}, make([]Ask, 4), []time.Duration{0, second, 2 * second, 3 * second}, []string{"", "status", "status", ""}},
		"network":   {[]Fault{{Kind: SlowTLS}, {Kind: DNSFailure}}, make([]Ask, 1), nil, []string{""}},
	} {
		var st, thought State
		var list []*Fault
		s := NewScript(1, c.faults)
		for i, a := range c.asks {
			var at time.Duration
			if c.at != nil {
				at = c.at[i]
			}
			// Peek must foretell what ends a request badly, and change nothing.
			foretold := s.Peek(&st, a, at)
			thought.Set(&st)
			list = s.StepInto(list, &thought, a, at)
			got := s.Step(&st, a, at)
			if kinds(list) != kinds(got) || !slices.Equal(thought.seen, st.seen) || !slices.Equal(thought.hit, st.hit) {
				t.Errorf("%s: request %d: a copy of the state meets %q and counts %v, not %v", name, i, kinds(list), thought, st)
			}
			if kinds(got) != c.want[i] {
				t.Errorf("%s: request %d meets %q, want %q", name, i, kinds(got), c.want[i])
			}
			if name != "network" && (foretold != nil) != (len(got) > 0 && got[0].Fatal()) {
				t.Errorf("%s: request %d: foretold %v", name, i, foretold)
			}
		}
	}
}

func TestChanceIsSeededAndEven(t *testing.T) {
	hits := func(seed uint64) (n int) {
		var st State
		s := NewScript(seed, []Fault{{Kind: Status, Prob: 0.145}})
		for range 10_000 {
			n += len(s.Step(&st, Ask{}, 0))
		}
		return n
	}
	if a, b := hits(1), hits(1); a != b {
		t.Errorf("one seed, %d and %d hits", a, b)
	}
	for seed := range uint64(20) {
		if n := hits(seed); n < 1300 || n > 1600 {
			t.Errorf("seed %d: %d hits of 10000, want about 1450", seed, n)
		}
	}
}

func TestPeekLeavesChanceAside(t *testing.T) {
	var st State
	if f := NewScript(1, []Fault{{Kind: Status, Prob: 0.99}}).Peek(&st, Ask{}, 0); f != nil {
		t.Errorf("%v", f)
	}
	if f := NewScript(1, []Fault{{Kind: DNSFailure}}).Peek(&st, Ask{}, 0); f == nil {
		t.Error("a name that cannot be resolved answers nobody")
	}
}

func TestValidate(t *testing.T) {
	for field, f := range map[string]Fault{
		"kind": {Kind: "boom"}, "prob": {Kind: Status, Prob: 2}, "status": {Kind: Status, Status: 42}, "turn": {Kind: Status, Of: 2, Turn: 2},
		"every": {Kind: Flap}, "delay": {Kind: Stall, Delay: -1}, "tokens": {Kind: Cut, Tokens: -1}, "models": {Kind: Cut, Models: []string{"["}},
		"stream": {Kind: Cut, Stream: "maybe"},
	} {
		if err := f.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for k := range roles {
		f := Fault{Kind: k, For: 1, Every: 2}
		if err := f.Validate(); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
}

// TestBucketNeverGivesMore holds a bucket against the bound that its name promises, whatever the pattern of requests.
func TestBucketNeverGivesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := BucketConfig{RPM: rapid.Float64Range(1, 600).Draw(t, "rpm"), Burst: rapid.Float64Range(1, 60).Draw(t, "burst"),
			OutsideMax: rapid.SampledFrom([]float64{0, 0.4, 1}).Draw(t, "outside"), Seed: rapid.Uint64().Draw(t, "seed")}
		b := NewBucket(c)
		began := time.Unix(1_000_000, 0)
		now, given := began, 0.0
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "gap")) * time.Millisecond)
			wait, ok := b.Take(now)
			if ok {
				given++
			} else if wait < time.Second || wait%time.Second != 0 {
				t.Fatalf("hint %s", wait)
			}
			if most := c.Burst + c.RPM/60*now.Sub(began).Seconds(); given > most+1e-6 {
				t.Fatalf("gave %g, at most %g", given, most)
			}
		}
	})
}

func TestBan(t *testing.T) {
	b := NewBucket(BucketConfig{RPM: 60, Burst: 1, Ban: 10 * time.Second})
	now := time.Unix(1000, 0)
	take := func(after int) bool { _, ok := b.Take(now.Add(time.Duration(after) * time.Second)); return ok }
	for i, c := range []struct {
		at   int
		want bool
	}{{0, true}, {0, false}, {9, false}, {18, false}, {28, true}} { // each try during the ban begins it anew
		if got := take(c.at); got != c.want {
			t.Errorf("%d: %v at %d s", i, got, c.at)
		}
	}
	b.Reset()
	if !take(29) {
		t.Error("Reset must lift the ban")
	}
}

func TestNoHint(t *testing.T) {
	b := NewBucket(BucketConfig{RPM: 1, Burst: 1, NoHint: true})
	b.Take(time.Unix(0, 1))
	if wait, ok := b.Take(time.Unix(0, 2)); ok || wait != 0 {
		t.Error(wait, ok)
	}
}
