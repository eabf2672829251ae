package record

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/fault"
)

// patience is by how much an attempt that was broken off is thought to have outlived the time that it was waited for.
const patience = 1.5

// failure is a failed attempt as a fault of the lab; false for a success.
func failure(a sample) (fault.Fault, bool) {
	took := a.EndedAt.Sub(a.BeganAt)
	longer := time.Duration(float64(took) * patience)
	if a.Kind == gateway.Success {
		return fault.Fault{}, false
	}
	f := fault.Fault{Status: a.Status, Message: a.Message, RetryAfter: time.Duration(a.RetryAfter * float64(time.Second)).Round(time.Second)}
	switch a.Reason {
	case gateway.RaceLost, gateway.LeftEarly, gateway.FirstContentTimeout, gateway.HeadersTimeout, gateway.ConnectTimeout, gateway.TotalTimeout:
		return fault.Fault{Kind: fault.SlowFirstToken, Delay: longer, HoldHeaders: a.HeadersAt.IsZero()}, true
	case gateway.IdleTimeout, gateway.TooSlow:
		return fault.Fault{Kind: fault.Stall, Tokens: answerWords / 2}, true
	case gateway.ConnectFailed, gateway.DNSFailed, gateway.TLSFailed, gateway.ConnectionReset, gateway.OwnNetwork:
		if a.ContentAt.IsZero() {
			return fault.Fault{Kind: fault.ResetBeforeHeaders}, true
		}
		return fault.Fault{Kind: fault.ResetMidStream, Tokens: answerWords / 2}, true
	case gateway.Truncated:
		return fault.Fault{Kind: fault.Cut, Tokens: answerWords / 2}, true
	case gateway.NotACompletion:
		return fault.Fault{Kind: fault.HTML}, true
	case gateway.ErrorInStream:
		f.Kind, f.Tokens = fault.ErrorMid, answerWords/2
		if a.ContentAt.IsZero() {
			f.Kind, f.Tokens = fault.ErrorFirst, 0
		}
		if f.Status < 400 {
			f.Status = 0
		}
		return f, true
	case gateway.NoContent:
		return fault.Fault{Kind: fault.Empty}, true
	}
	switch a.Kind {
	case gateway.QuotaExhausted:
		f.Kind, f.Status = fault.Quota, 0
	case gateway.RateLimited:
		f.Kind, f.Status = fault.RateLimit, 0
	case gateway.EmptyOutput:
		return fault.Fault{Kind: fault.Empty}, true
	default:
		f.Kind = fault.Status
		if f.Status < 400 {
			f.Status = 0
		}
	}
	return f, true
}
