package rate

import "time"

// window is a minute and what the network may make of it: two requests that leave 60 s apart may arrive a little closer
// together, and the upstream counts arrivals.
const window = time.Minute + 500*time.Millisecond

// Entries are exact up to exactEntries; above, what comes within grain of an entry's first event joins it and counts
// until the entry's last event has left the window. So the memory of a window is bounded, and the error is on the safe
// side and below 0.8 %.
const (
	exactEntries = 128
	grain        = window / exactEntries
)

// entry are events close together.
type entry struct {
	first, last      time.Duration // since tally.base
	requests, tokens int
}

// tally is a sliding log: what was sent in the last window. Its sums are exact over any window, unlike those of a bucket
// that is refilled at fixed times or of a leaky bucket with a burst, which let up to twice the limit through.
type tally struct {
	base    time.Time
	entries []entry
	head    uint64 // number of entries that were dropped: an entry's index plus head is its ticket
}

func (t *tally) since(now time.Time) time.Duration { return now.Sub(t.base) }

// add counts an event and returns where.
func (t *tally) add(requests, tokens int, now time.Time) uint64 {
	if t.base.IsZero() {
		t.base = now
	}
	at := t.since(now)
	t.drop(at)
	if n := len(t.entries); n > 0 {
		e := &t.entries[n-1]
		at = max(at, e.last) // callers come with instants that are not quite in order
		if at == e.last || n >= exactEntries && at-e.first <= grain {
			e.last = at
			e.requests += requests
			e.tokens += tokens
			return t.head + uint64(n-1)
		}
	}
	t.entries = append(t.entries, entry{first: at, last: at, requests: requests, tokens: tokens})
	return t.head + uint64(len(t.entries)-1)
}

// drop forgets what has left the window.
func (t *tally) drop(at time.Duration) {
	n := 0
	for n < len(t.entries) && t.entries[n].last+window <= at {
		n++
	}
	if n > 0 {
		t.entries = t.entries[:copy(t.entries, t.entries[n:])]
		t.head += uint64(n)
	}
}

// back takes a part of an event out again, if it is still in the window.
func (t *tally) back(ticket uint64, requests, tokens int) bool {
	if ticket < t.head {
		return false
	}
	e := &t.entries[ticket-t.head]
	e.requests -= requests
	e.tokens -= tokens
	return requests > 0 || tokens > 0
}

// sums is what the window holds at an instant.
func (t *tally) sums(now time.Time) (requests, tokens int) {
	at := t.since(now)
	for i := range t.entries {
		if e := &t.entries[i]; e.last+window > at {
			requests += e.requests
			tokens += e.tokens
		}
	}
	return requests, tokens
}

// next is the earliest instant at which one more request fits under both limits (0 = none). A request with more tokens
// than the limit goes alone: when the window is empty.
func (t *tally) next(rpm, tpm, tokens int, now time.Time) time.Time {
	if rpm <= 0 && tpm <= 0 {
		return now
	}
	tokens = min(tokens, tpm)
	requests, sum := t.sums(now)
	at := t.since(now)
	for i := range t.entries {
		if (rpm <= 0 || requests < rpm) && (tpm <= 0 || sum+tokens <= tpm) {
			break
		}
		e := &t.entries[i]
		leaves := e.last + window
		if leaves <= t.since(now) {
			continue
		}
		requests -= e.requests
		sum -= e.tokens
		at = leaves
	}
	return t.base.Add(at)
}
