package health

import (
	"math"
	"time"

	"spillway/internal/gateway"
)

// state is the success side of one candidate: plain values, changed only by the functions below.
type state struct {
	rate      float64   // EWMA as of rateAt
	faltered  bool      // the last observation was a failure
	rateAt    time.Time // last observation
	flying    int       // attempts between Begin and End
	talking   int       // of these, those that have delivered content
	contentAt time.Time // last first content
	presentAt time.Time // last sign that it delivers: first content, or a good end after content
}

// nearlyOne is a success rate that is as good as 1.
const nearlyOne = 0.9999

func newState() state { return state{rate: 1} }

// success is the EWMA, drifted towards 1. The drift is exponential and thus the same however often it is asked for.
func (s *state) success(cfg *Config, now time.Time) float64 {
	if s.rate >= nearlyOne || !now.After(s.rateAt) {
		return s.rate
	}
	away := now.Sub(s.rateAt).Seconds() / cfg.HalfLife.Seconds()
	return 1 - (1-s.rate)*math.Exp2(-away)
}

// observe folds one attempt's end in: 1 is a success, 0 a failure.
func (s *state) observe(cfg *Config, value float64, now time.Time) {
	s.rate = s.success(cfg, now)
	s.rate += cfg.Alpha * (value - s.rate)
	s.faltered = value == 0
	if now.After(s.rateAt) {
		s.rateAt = now
	}
}

// weight says whether a kind counts and as what (the AIMD / health column of spec resilience.md section 1).
func weight(k gateway.Kind) (value float64, counts bool) {
	switch k {
	case gateway.Success:
		return 1, true
	case gateway.ServiceError, gateway.Timeout, gateway.Slow, gateway.Stall, gateway.EmptyOutput, gateway.RateLimited, gateway.QuotaExhausted,
		gateway.AuthError, gateway.RequestRejected:
		return 0, true
	}
	return 0, false
}

// cut reports whether an attempt ended because its first content was not waited for any longer. Faults below HTTP say
// nothing about how long the model takes.
func cut(o gateway.Outcome, contented bool) bool {
	return !contented && !o.Content && !o.BelowHTTP && (o.Kind == gateway.Slow || o.Kind == gateway.Timeout)
}
