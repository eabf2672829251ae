package lab

import (
	"time"

	"spillway/internal/lab/fault"
)

// Trace is a run over time, in slots of equal length.
type Trace struct {
	Slot    time.Duration
	Calls   []CallSlot               // by the time at which the calls began
	Sources map[string][]AttemptSlot // likewise
}

// CallSlot counts the calls of one slot.
type CallSlot struct{ Good, Wrong, Failed int }

// AttemptSlot counts the attempts of one slot at one source by what the source did.
type AttemptSlot struct{ Whole, Limited, Left, Failed int }

// traceSlots is the number of slots.
const traceSlots = 60

func (m *measure) trace() *Trace {
	t := &Trace{Slot: max(m.wall/traceSlots, time.Millisecond), Calls: make([]CallSlot, traceSlots), Sources: map[string][]AttemptSlot{}}
	slot := func(at time.Duration) int { return min(max(int(at/t.Slot), 0), traceSlots-1) }
	for _, c := range m.calls {
		s := &t.Calls[slot(c.at)]
		switch {
		case c.good:
			s.Good++
		case c.wrong:
			s.Wrong++
		default:
			s.Failed++
		}
	}
	for name, list := range m.attempts {
		slots := make([]AttemptSlot, traceSlots)
		for i := range list {
			slots[slot(list[i].At.Sub(m.began))].count(&list[i])
		}
		t.Sources[name] = slots
	}
	return t
}

func (s *AttemptSlot) count(a *Attempt) {
	switch {
	case rateLimited(a):
		s.Limited++
	case a.Fault != "" && a.Fault != string(fault.NoDone):
		s.Failed++
	case a.Whole:
		s.Whole++
	default:
		s.Left++
	}
}
