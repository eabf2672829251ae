package queue

import (
	"math"
	"time"
)

// speed is the learned service rate of a line: places served per second of busy time, both decayed with a half-life of
// 2 minutes. Idle time decays both alike and so changes only how much is known, not the rate.
type speed struct {
	served float64
	busy   float64 // seconds
	asOf   time.Time
}

const (
	speedHalfLife = 2 * time.Minute
	speedEnough   = 3 // decayed places served that make a rate known
)

// advance lets time pass in which the line was busy or not.
func (s *speed) advance(busy bool, now time.Time) {
	if s.asOf.IsZero() || !now.After(s.asOf) {
		if s.asOf.IsZero() {
			s.asOf = now
		}
		return
	}
	passed := now.Sub(s.asOf).Seconds()
	s.asOf = now
	half := speedHalfLife.Seconds()
	keep := math.Exp2(-passed / half)
	s.served *= keep
	s.busy *= keep
	if busy {
		s.busy += (1 - keep) * half / math.Ln2 // the decayed integral of the time that passed
	}
}

// wait is how long n places take.
func (s *speed) wait(n int) (time.Duration, bool) {
	if s.served < speedEnough || s.busy <= 0 {
		return 0, false
	}
	seconds := float64(n) * s.busy / s.served
	return time.Duration(min(seconds, 86400) * float64(time.Second)), true
}
