package rate

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// shelf is a store: the last record of a key, none once it is empty.
type shelf map[string]resilience.Record

func (s shelf) keep(r resilience.Record) {
	if s[r.Key] = r; len(r.Value) == 0 {
		delete(s, r.Key)
	}
}

func (s shelf) records() []resilience.Record { return slices.Collect(maps.Values(s)) }

// again is a process that starts with what the shelf holds.
func (s shelf) again(now time.Time) (*Room, *resilience.Changes) {
	changes := &resilience.Changes{}
	r := New(Options{Keep: s.keep, Changes: changes})
	r.Restore(s.records(), now)
	return r, changes
}

// Resilience 12.10: a limit that only headers tell is as strict over a restart as a declared one, and so is the model's
// own one.
func TestRestartKeepsTheMinuteOfALearnedLimit(t *testing.T) {
	for _, perModel := range []bool{false, true} {
		s := shelf{}
		c := candidate(gateway.RateLimits{})
		c.Connection.Provider.PerModelQuota = perModel
		h := New(Options{Keep: s.keep}).Bind(c, Default())
		free, _ := h.Allow(t.Context(), nil, t0)
		h.Heard(free, said("10", "10", ""), t0)
		for range 10 {
			go1(t, h, 0, at(time.Second)).Record(ok(1, at(time.Second), at(time.Second)), at(time.Second))
		}
		refusedUntil(t, h, 0, at(2*time.Second), at(time.Second+window))
		r, changes := s.again(at(3 * time.Second))
		if changes.Count() == 0 {
			t.Error("a planner that has looked before would not ask")
		}
		h = r.Bind(c, Default())
		if p, ruling := h.Allow(t.Context(), nil, at(4*time.Second)); p != nil || ruling.Until.Before(at(time.Second+window)) {
			t.Errorf("per model %v: after a restart one more goes: %+v", perModel, ruling)
		}
	}
}

// What headers have told all day is believed after a restart, too, although the limit was first heard long ago.
func TestRestartKeepsALearnedLimitThatIsOld(t *testing.T) {
	s := shelf{}
	h := New(Options{Keep: s.keep}).Bind(candidate(gateway.RateLimits{}), Default())
	now := t0
	for range 60 {
		p, _ := h.Allow(t.Context(), nil, now)
		h.Heard(p, said("1", "1", ""), now)
		now = now.Add(30 * time.Minute)
	}
	r, _ := s.again(now)
	h = r.Bind(candidate(gateway.RateLimits{}), Default())
	if h.Plain() {
		t.Error("the limit is forgotten")
	}
}

// A step of the wall clock after a restart holds nobody up: what is taken over is tied to the process's own clock.
func TestRestoredInstantsAreOfTheProcess(t *testing.T) {
	s := shelf{}
	began := time.Now()
	h := New(Options{Keep: s.keep}).Bind(candidate(gateway.RateLimits{RPM: 2, MinInterval: time.Second}), Default())
	p, _ := h.Allow(t.Context(), nil, began)
	h.Heard(p, said("10", "0", "30s"), began)
	r, _ := s.again(began.Add(time.Second))
	st := &r.Bind(candidate(gateway.RateLimits{RPM: 2}), Default()).account.State
	for name, x := range map[string]time.Time{"base": st.sent.base, "last": st.lastAt, "heard": st.requests.HeardAt, "reset": st.requests.ResetAt} {
		if x.IsZero() || x == x.Round(0) {
			t.Errorf("%s is of the wall clock: %s", name, x)
		}
	}
}

// What made limits the models' own is believed for a day: a limit that was raised between two answers looks the same.
func TestSplitIsNoLatch(t *testing.T) {
	s := shelf{}
	c := candidate(gateway.RateLimits{})
	r := New(Options{Keep: s.keep})
	a := r.Bind(c, Default())
	c.Model = "other"
	b := r.Bind(c, Default())
	a.Heard(free{}, said("10", "9", "30s"), t0)
	b.Heard(free{}, said("20", "19", "30s"), t0)
	b.Heard(free{}, said("20", "0", "30s"), at(time.Second))
	go1(t, a, 0, at(2*time.Second))
	later := at(believedFor + time.Minute)
	b.Heard(free{}, said("20", "0", "30s"), later)
	refusedUntil(t, a, 0, later, later.Add(30*time.Second))
	if r, _ := s.again(at(2 * believedFor)); r.cell("p/acct").State.isSplit(at(2 * believedFor)) {
		t.Error("a restart makes it last")
	}
}

// Clients choose the names of models: what is over leaves the store at the next start, and nothing else does.
func TestStaleRecordsLeaveTheStore(t *testing.T) {
	s := shelf{}
	r := New(Options{Keep: s.keep})
	for i := range 5 {
		c := candidate(gateway.RateLimits{})
		c.Connection.Provider.PerModelQuota = true
		c.Model = gateway.ModelID("m" + strconv.Itoa(i))
		r.Bind(c, Default()).Heard(free{}, said("10", "0", "30s"), at(time.Duration(i)*10*time.Hour))
	}
	if len(s) != 5 {
		t.Fatalf("%d records", len(s))
	}
	if s.again(at(41 * time.Hour)); len(s) != 3 {
		t.Errorf("%d records are left, want those of the last day", len(s))
	}
}

// An upstream that claims to have used more than can be counted makes nothing overflow.
func TestAbsurdUsage(t *testing.T) {
	_, h := bind(gateway.RateLimits{TPM: 1000})
	a, b := go1(t, h, 1, t0), go1(t, h, 1, t0)
	for _, p := range []resilience.Permit{a, b} {
		o := ok(math.MaxInt, t0, t0)
		o.Usage.Output = math.MaxInt
		p.Record(o, at(time.Second))
	}
	for i := range 50 {
		now := at(2*time.Second + time.Duration(i))
		if p, _ := h.Allow(t.Context(), &resilience.Ask{Tokens: 1}, now); p != nil {
			t.Fatal("goes beyond the limit")
		}
	}
}
