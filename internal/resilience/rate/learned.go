package rate

import (
	"math"
	"time"
)

// believedFor is how long a learned limit is believed without being told again.
const believedFor = 24 * time.Hour

// longestRest bounds what headers may ask for, like the hint of a 429: a reset is no latch, and then one request finds
// out.
const longestRest = 15 * time.Minute

// learned is what headers say about one kind of thing, requests or tokens. The limit is a number per some window that
// headers do not name; what is left until the reset is a fact.
type learned struct {
	Limit   int       `json:"limit,omitzero"`
	Factor  float64   `json:"factor,omitzero"` // windows per minute that answers have shown
	HeardAt time.Time `json:"heard_at,omitzero"`
	Left    int       `json:"left,omitzero"`
	ResetAt time.Time `json:"reset_at,omitzero"` // zero = nothing is known about what is left
	Rested  bool      `json:"rested,omitzero"`   // nothing was left: the first request after the reset goes alone
}

// bucket is what one answer says.
type bucket struct {
	limit, left int // -1 = it does not say
	reset       time.Duration
}

// hear takes an answer. inFlight are requests under way that the upstream may or may not have counted yet: they are
// taken off, until their own answers tell better.
func (l learned) hear(b bucket, inFlight int, now time.Time) learned {
	if b.limit <= 0 && b.left < 0 {
		return l
	}
	if b.limit > 0 {
		if b.limit != l.Limit {
			l.Factor = 0
		}
		l.Limit, l.HeardAt = b.limit, now
		l.Factor = max(l.Factor, b.perMinute())
	}
	if b.left < 0 || b.reset <= 0 {
		l.ResetAt, l.Rested = time.Time{}, false
		return l
	}
	l.Left = max(b.left-inFlight, 0)
	l.ResetAt = now.Add(min(b.reset, longestRest))
	l.Rested = b.left == 0
	return l
}

// differs reports whether an answer names another limit.
func (l *learned) differs(b bucket) bool { return l.Limit > 0 && b.limit > 0 && l.Limit != b.limit }

// perMinute is how many windows of the limit fit into a minute, at least 1. A reset that is the time until all is back,
// as with a bucket that fills steadily, gives the window: reset * limit / used. Of a fixed window it is an estimate that
// errs to the short side. A limit per more than a minute is taken as one per minute: it is looser than the truth, and
// what is left until the reset is what protects.
func (b bucket) perMinute() float64 {
	used := b.limit - b.left
	if b.left < 0 || b.reset <= 0 || used <= 0 {
		return 1
	}
	full := float64(b.reset) * float64(b.limit) / float64(used)
	if full > 0.8*float64(time.Minute) { // resets are rounded
		return 1
	}
	return float64(time.Minute) / full
}

// perMinute is the limit to be held; 0 = none.
func (l *learned) perMinute(now time.Time) int {
	if l.Limit == 0 || now.Sub(l.HeardAt) >= believedFor {
		return 0
	}
	return int(math.Min(math.Ceil(float64(l.Limit)*max(l.Factor, 1)), 1e15))
}

// emptyUntil is when something is left again for a request of n; zero = it is now. What is more than the limit asks only
// for all of it.
func (l *learned) emptyUntil(n int, now time.Time) time.Time {
	if l.ResetAt.IsZero() || !l.ResetAt.After(now) {
		return time.Time{}
	}
	if l.Limit > 0 {
		n = min(n, l.Limit)
	}
	if l.Left >= max(n, 1) {
		return time.Time{}
	}
	return l.ResetAt
}

// use takes n off what is left, and reports whether the request is the first one after a rest.
func (l *learned) use(n int, now time.Time) (first bool) {
	if l.ResetAt.IsZero() {
		return false
	}
	if !l.ResetAt.After(now) {
		first = l.Rested
		l.ResetAt, l.Rested, l.Left = time.Time{}, false, 0
		return first
	}
	l.Left = max(l.Left-n, 0)
	return false
}

// unuse gives back what use took.
func (l *learned) unuse(n int) {
	if !l.ResetAt.IsZero() {
		l.Left += n
	}
}

// The share of a large limit that must be gone before it is watched, so that an account far from its limits costs
// nothing. Small limits are always watched: one burst is enough to pass them.
const (
	smallLimit = 600
	scarce     = 5 // less than a fifth is left
)

// watched reports whether the limit matters now.
func (l *learned) watched(now time.Time) bool {
	if l.Rested && l.ResetAt.After(now) {
		return true
	}
	n := l.perMinute(now)
	switch {
	case n == 0:
		return l.ResetAt.After(now)
	case n <= smallLimit:
		return true
	}
	return l.ResetAt.After(now) && l.Left < l.Limit/scarce
}
