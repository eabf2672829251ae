package breaker

import "sync/atomic"

// tally counts what the breakers did since the room was made.
type tally struct {
	denied, stale, leaked, probes atomic.Int64
	trips                         [numCauses]atomic.Int64
}

func (t *tally) note(out ruling, ev event, before phase, after *state) {
	if out.stale {
		t.stale.Add(1)
	}
	if out.leaked > 0 {
		t.leaked.Add(int64(out.leaked))
	}
	if out.probe {
		t.probes.Add(1)
	}
	if after.st == open && (before != open || ev.kind == evForceOpen) {
		t.trips[after.oc].Add(1)
	}
}

// Counters are totals since the room was made, for metrics.
type Counters struct {
	Denied int64            // Allow refused
	Stale  int64            // reports that the fence kept out
	Leaked int64            // probes whose lease ended before they reported
	Probes int64            // probe leases given, per cell
	Trips  map[string]int64 // by cause
}

// Counters returns the totals; it may be called at any time.
func (r *Room) Counters() Counters {
	t := &r.counts
	c := Counters{Denied: t.denied.Load(), Stale: t.stale.Load(), Leaked: t.leaked.Load(), Probes: t.probes.Load(),
		Trips: map[string]int64{}}
	for i := range t.trips {
		if n := t.trips[i].Load(); n > 0 {
			c.Trips[causeNames[i]] = n
		}
	}
	return c
}
