package fault

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// Script is a list of faults with a seed. It is immutable and may be shared; what was used up lives in a State.
type Script struct {
	faults []Fault
	seed   uint64
}

// NewScript returns the script of one source. The same seed hits the same requests, by their number, whatever the time.
func NewScript(seed uint64, faults []Fault) *Script {
	s := &Script{faults: slices.Clone(faults), seed: seed}
	for i := range s.faults {
		s.faults[i].role = roles[faults[i].Kind]
	}
	return s
}

// State counts, per fault, the requests that matched and those that were hit. Its zero value is a fresh start. It is
// not safe for concurrent use.
type State struct {
	seen, hit []int
}

// Set makes st a copy of another state that counts for itself.
func (st *State) Set(from *State) {
	st.seen, st.hit = append(st.seen[:0], from.seen...), append(st.hit[:0], from.hit...)
}

// Step decides which faults a request meets: at most one that ends it, which comes first, then all that shape it. It
// counts in st.
func (s *Script) Step(st *State, a Ask, elapsed time.Duration) []*Fault {
	return s.StepInto(nil, st, a, elapsed)
}

// StepInto is Step with memory for the list, whatever is in it.
func (s *Script) StepInto(list []*Fault, st *State, a Ask, elapsed time.Duration) []*Fault {
	if len(st.seen) == 0 {
		st.seen, st.hit = append(st.seen, make([]int, len(s.faults))...), append(st.hit, make([]int, len(s.faults))...)
	}
	list = list[:0]
	ended := false
	for i := range s.faults {
		f := &s.faults[i]
		ends := f.Ends()
		if f.Network() || ends && ended || !f.Active(elapsed) || !f.matches(a) {
			continue
		}
		n := st.seen[i]
		st.seen[i]++
		if !f.due(n, st.hit[i]) || !s.coin(i, n, f.Prob) {
			continue
		}
		st.hit[i]++
		if list = append(list, f); ends {
			ended = true
			copy(list[1:], list)
			list[0] = f
		}
	}
	return list
}

// Peek reports the fault that would surely end the next such request badly, or nil. It counts nothing and leaves the
// faults that are a matter of chance aside.
func (s *Script) Peek(st *State, a Ask, elapsed time.Duration) *Fault {
	for i := range s.faults {
		f := &s.faults[i]
		if f.Network() {
			if f.Kind == DNSFailure || f.Kind == Refused {
				return f
			}
			continue
		}
		if !f.Fatal() || !f.Active(elapsed) || !f.matches(a) || f.Prob > 0 && f.Prob < 1 {
			continue
		}
		seen, hit := 0, 0
		if len(st.seen) > 0 {
			seen, hit = st.seen[i], st.hit[i]
		}
		if f.due(seen, hit) {
			return f
		}
	}
	return nil
}

// Network returns the faults of the listener and the URL.
func (s *Script) Network() []*Fault {
	var out []*Fault
	for i := range s.faults {
		if s.faults[i].Network() {
			out = append(out, &s.faults[i])
		}
	}
	return out
}

// due looks at the counts: n requests matched before this one, hit of them were hit.
func (f *Fault) due(n, hit int) bool {
	return n >= f.Skip && (f.Times == 0 || hit < f.Times) && (f.Of == 0 || (n-f.Skip)%f.Of == f.Turn)
}

func (s *Script) coin(fault, n int, prob float64) bool {
	return prob <= 0 || prob >= 1 || Chance(s.seed, uint64(fault), uint64(n)) < prob
}

// Chance is a number in [0, 1) that depends on its arguments alone.
func Chance(seed uint64, more ...uint64) float64 {
	x := fnv(fnvOffset, seed)
	for _, v := range more {
		x = fnv(x, v)
	}
	// FNV leaves neighbours close together in the high bits; the finalizer of MurmurHash3 spreads them.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// The numbers of FNV-1a with 64 bits.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// fnv takes the eight bytes of v into a hash, the lowest first.
func fnv(h, v uint64) uint64 {
	for range 8 {
		h = (h ^ v&0xff) * fnvPrime
		v >>= 8
	}
	return h
}

// Validate reports every problem of the fault, each beginning with the name of its field.
func (f *Fault) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf(field+": "+format, args...))
	}
	if roles[f.Kind] == 0 {
		bad("kind", "unknown fault %q", f.Kind)
	}
	if f.Prob < 0 || f.Prob > 1 {
		bad("prob", "must be between 0 and 1")
	}
	for name, d := range map[string]time.Duration{"after": f.After, "for": f.For, "every": f.Every,
		"delay": f.Delay, "interval": f.Interval, "retry_after": f.RetryAfter} {
		if d < 0 {
			bad(name, "must not be negative")
		}
	}
	for name, n := range map[string]int{"skip": f.Skip, "times": f.Times, "tokens": f.Tokens, "event": f.Event, "size": f.Size} {
		if n < 0 {
			bad(name, "must not be negative")
		}
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		bad("status", "must be between 200 and 599")
	}
	if f.Of < 0 || f.Turn < 0 || f.Turn > 0 && f.Turn >= f.Of {
		bad("turn", "must be at least 0 and below of")
	}
	if f.Every > 0 && (f.For == 0 || f.For >= f.Every) {
		bad("every", "needs a shorter for")
	}
	if f.Kind == Flap && f.Every == 0 {
		bad("every", "a flap needs for and every")
	}
	if f.Stream != "" && f.Stream != "only" && f.Stream != "never" {
		bad("stream", "must be only or never")
	}
	for _, g := range f.Models {
		if _, err := path.Match(g, ""); err != nil {
			bad("models", "bad pattern %q", g)
		}
	}
	return errors.Join(errs...)
}
