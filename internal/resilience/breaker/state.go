package breaker

import (
	"math"

	"spillway/internal/gateway"
)

// phase is the stored state; degraded and "open but due" are derived from it.
type phase uint8

const (
	closed phase = iota
	open
	half
)

// cause says why the phase changed.
type cause uint8

const (
	causeNone cause = iota
	causeKind
	causeRate
	causeWcount
	causeConsecutive
	causeProbe
	causeDead
	causeForced
	causeDue       // open -> half_open
	causeRecovered // half_open -> closed
	causeForcedClosed
	causeReset
	causeDegraded
	causeHealthy
	causeRestored
	numCauses
)

var causeNames = [numCauses]string{"", "kind", "rate", "wcount", "consecutive", "probe", "dead", "forced_open", "due",
	"recovered", "forced_closed", "reset", "degraded", "healthy", "restored"}

func (c cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return "unknown"
}

// force is an operator's order.
type force uint8

const (
	unforced force = iota
	forcedOpen
	forcedClosed
)

// maxLeases bounds probe_permits, so that the state is one flat value.
const maxLeases = 16

type lease struct {
	token uint64
	until int64
}

// state is everything a breaker knows about one key. It is a flat comparable value; instants are Unix nanoseconds, 0 =
// never.
type state struct {
	st    phase
	ep    int64 // epoch: rises on every trip, force-close and reset; at least Unix milliseconds
	fails int32 // counted failures, by count_mode
	run   int32 // failures since the last success, those inside the count gap included
	low   int32 // length of the run of counted failures below HTTP
	kinds [gateway.NumKinds]uint16
	lf    int64 // last counted failure

	wid, wep       int64 // bucket id and epoch of the window
	a0, f0, a1, f1 int32 // attempts and failures of the current and the previous bucket
	wn             int32 // outer gate: failures
	ws             int64 // outer gate: start

	ot      int64 // open until
	oc      cause // cause of the last trip
	streak  int32
	cs      int64 // closed since
	et      int64 // first trip of the episode
	d       int64 // longest open time of the episode, without jitter
	since   int64 // when it left closed
	tripLow bool  // the trip's failure was below HTTP

	ok     int32 // half-open successes
	nl     int32
	leases [maxLeases]lease
	nb     int64 // no probe before

	forced force
	fu     int64 // forced until, 0 = until an operator says so
	fby    string
	lt     int64 // last transition

	okAt        int64           // last success
	failAt      int64           // last failure, of model failModel
	otherFailAt int64           // last failure of any other model than failModel
	failModel   gateway.ModelID // only connections whose models are kept apart use these three
}

func (s *state) bump(now int64) { s.ep = max(s.ep+1, now/1e6) }

func add32(n, by int32) int32 {
	if n > math.MaxInt32-by {
		return math.MaxInt32
	}
	return n + by
}

// forcedAt is the operator's order as of now: one that ran out is none.
func (s *state) forcedAt(now int64) force {
	if s.forced != unforced && s.fu != 0 && now >= s.fu {
		return unforced
	}
	return s.forced
}

// turn moves the window to now's bucket.
func (s *state) turn(r *rules, now int64) {
	id := now / (r.window / 2)
	switch {
	case s.wep == s.ep && id == s.wid:
		return
	case s.wep == s.ep && id == s.wid+1:
		s.a1, s.f1 = s.a0, s.f0
	default:
		s.a1, s.f1 = 0, 0
	}
	s.a0, s.f0, s.wid, s.wep = 0, 0, id, s.ep
}

// observe adds one attempt to the window.
func (s *state) observe(r *rules, now int64, failed bool) {
	if r.window == 0 {
		return
	}
	s.turn(r, now)
	s.a0 = add32(s.a0, 1)
	if failed {
		s.f0 = add32(s.f0, 1)
	}
}

// sums are the attempts and failures of the window as of now; a pure read.
func (s *state) sums(r *rules, now int64) (n, f int64) {
	if r.window == 0 || s.wep != s.ep {
		return 0, 0
	}
	switch now/(r.window/2) - s.wid {
	case 0:
		return int64(s.a0) + int64(s.a1), int64(s.f0) + int64(s.f1)
	case 1:
		return int64(s.a0), int64(s.f0)
	}
	return 0, 0
}

// degraded is derived, never stored: closed, and near to opening. A connection whose models are kept apart (it alone
// notes failAt) is not weakened by one of them.
func (s *state) degraded(r *rules, now int64) bool {
	if s.st != closed || s.forcedAt(now) != unforced {
		return false
	}
	if s.failAt != 0 && !s.wholeConnection(r, now) {
		return r.degrade > 0 && s.low >= r.degrade
	}
	if r.degrade > 0 && s.fails >= r.degrade {
		return true
	}
	if r.degradeP == 0 || s.f0 == 0 && s.f1 == 0 {
		return false
	}
	n, f := s.sums(r, now)
	return n >= r.minCalls && f*1000 >= r.degradeP*n
}

// healthy reports that no passing of time can make s anything but plainly closed, so nothing needs to be computed.
func (s *state) healthy(r *rules) bool {
	if s.st != closed || s.forced != unforced || (r.degrade > 0 && s.fails >= r.degrade) {
		return false
	}
	return r.degradeP == 0 || (int64(s.f0)+int64(s.f1))*1000 < r.degradeP*r.minCalls
}

// cold reports that a success changes nothing but the window, and that there is nothing to tell about s.
func (s *state) cold() bool {
	return s.st == closed && s.forced == unforced && s.run == 0 && s.fails == 0 && s.streak == 0 && s.et == 0 &&
		s.wn == 0
}

func (s *state) live(token uint64, now int64) bool {
	for _, l := range s.leases[:s.nl] {
		if l.token == token {
			return l.until > now
		}
	}
	return false
}

// probes counts the live leases and finds the first that ends.
func (s *state) probes(now int64) (n int32, first int64) {
	for _, l := range s.leases[:s.nl] {
		if l.until > now {
			if n++; first == 0 || l.until < first {
				first = l.until
			}
		}
	}
	return n, first
}

func (s *state) drop(token uint64) {
	for i := range s.leases[:s.nl] {
		if s.leases[i].token == token {
			s.nl--
			s.leases[i] = s.leases[s.nl]
			s.leases[s.nl] = lease{}
			return
		}
	}
}

func (s *state) dropAll() { s.nl, s.leases = 0, [maxLeases]lease{} }

// prune drops the leases that ended unsettled and returns how many.
func (s *state) prune(now int64) (leaked int) {
	for i := int32(0); i < s.nl; {
		if s.leases[i].until <= now {
			s.drop(s.leases[i].token)
			leaked++
			continue
		}
		i++
	}
	return leaked
}

// clamp repairs instants that a clock stepping back has left too far in the future.
func (s *state) clamp(r *rules, now int64) {
	if s.st == open && s.forced != forcedOpen {
		s.ot = min(s.ot, now+r.cap)
	}
	for i := range s.leases[:s.nl] {
		s.leases[i].until = min(s.leases[i].until, now+r.ttl)
	}
	s.nb = min(s.nb, now+max(r.cap, r.interval))
	for _, at := range []*int64{&s.cs, &s.et, &s.ws, &s.okAt, &s.failAt, &s.otherFailAt, &s.since} {
		*at = min(*at, now)
	}
	if s.lf > now {
		s.lf = 0
	}
}
