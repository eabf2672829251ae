// Package verdict answers one question: what did the end of an attempt mean? Its key is nothing, it keeps no state: a
// verdict is a pure function of the evidence and of the compiled rules. It reads no clock and does no I/O, and it is the
// only place where a [gateway.Outcome] is made; every mechanism learns from that outcome alone.
//
// A verdict is found in this order:
//
//  1. Origin. Our own fault and what the upstream said outrank what the sockets did: an HTTP error, an error inside a
//     200, or terminal evidence count even if the client left meanwhile. Then come the client, a lost race, our clocks,
//     the transport, and a stream that just stopped.
//  2. Restatement. A status known to lie is corrected.
//  3. Rules. Operator rules, then the built-in ones, the first match decides. Both have the same form and see the same:
//     status, headers, structured codes, and the text that the provider wrote. Text that also stands in the request is
//     taken out first, and a phrase that stands in the request proves nothing, so no client text can change the health
//     of anything.
//  4. Refused features, then the table of statuses.
//  5. The retry hint: structured fields outrank headers, headers outrank prose.
//
// What it never does: look at the provider's health, count, wait, or shorten a hint to a cap (the rooms cap).
package verdict

import (
	"time"

	"spillway/internal/gateway"
)

// Judge classifies the end of one attempt. It is safe for concurrent use and never fails. A plain success returns
// before anything is parsed and allocates nothing.
func (r *Rules) Judge(e Evidence) gateway.Outcome {
	if e.complete() && !e.Empty && !e.Refused && !e.Invalid {
		return gateway.Outcome{
			Kind: gateway.Success, Scope: gateway.ScopeRequest, Reason: gateway.Answered, Status: max(e.Status, 200),
			Content: true, Usage: e.Usage, Request: e.Request, ClientKey: e.ClientKey,
			BeganAt: e.BeganAt, EndedAt: e.EndedAt,
		}
	}
	return r.failed(e)
}

// complete reports terminal evidence. What the socket, a clock or the client did after it does not count, so a Status of
// 0 is taken as the 2xx that it must have been.
func (e *Evidence) complete() bool {
	return e.Terminal && (e.Status == 0 || e.Status >= 200 && e.Status < 300) && !e.InStream && !e.NotCompletion && !e.HostFault
}

// spoke reports whether the upstream itself said that something is wrong.
func (e *Evidence) spoke() bool { return e.Status >= 300 || e.InStream || e.NotCompletion }

func (r *Rules) failed(e Evidence) gateway.Outcome {
	var o gateway.Outcome
	switch {
	case e.HostFault:
		o = outcome(gateway.LocalError, gateway.HostFault)
	case e.spoke():
		o = r.spoken(&e)
		e.narrow(&o)
	case e.Refused:
		o = outcome(gateway.ContentRefused, gateway.ContentPolicy)
	case e.complete() && e.Empty:
		o = outcome(gateway.EmptyOutput, gateway.NoContent)
	case e.complete(): // Invalid
		o = outcome(gateway.InvalidResult, gateway.SchemaMismatch)
	case e.ClientGone:
		o = outcome(gateway.Canceled, gateway.ClientGone)
	case e.RaceLost:
		o = outcome(gateway.Canceled, gateway.RaceLost)
	case e.Clock != ClockNone:
		o = e.byClock()
	case e.Transport != nil:
		o = e.byTransport()
	case e.Status == 0: // nothing is known: nobody may learn from it
		o = outcome(gateway.LocalError, gateway.HostFault)
	case e.Content && !e.Empty:
		o = outcome(gateway.ServiceError, gateway.Truncated)
	default:
		o = outcome(gateway.EmptyOutput, gateway.NoContent)
	}
	if o.Status == 0 {
		o.Status = e.Status
	}
	if o.Message == "" && e.Transport != nil && o.Kind != gateway.Canceled {
		o.Message = clean(e.Transport.Error(), e.secret(), maxMessage)
	}
	o.Content, o.Usage = e.Content, e.Usage
	o.Request, o.ClientKey, o.BeganAt, o.EndedAt = e.Request, e.ClientKey, e.BeganAt, e.EndedAt
	return o
}

// Default lengths where a connection says nothing; spec streaming.md section 5.
const (
	firstContentFloor = 10 * time.Second
	lastChanceLimit   = 5 * time.Minute
)

func (e *Evidence) byClock() gateway.Outcome {
	switch e.Clock {
	case ClockConnect:
		o := outcome(gateway.Timeout, gateway.ConnectTimeout)
		o.BelowHTTP = true
		return o
	case ClockHeaders:
		return outcome(gateway.Timeout, gateway.HeadersTimeout)
	case ClockFirstContent:
		if e.LastChance {
			return outcome(gateway.Timeout, gateway.FirstContentTimeout)
		}
		return outcome(gateway.Slow, gateway.LeftEarly)
	case ClockLastChance:
		return outcome(gateway.Timeout, gateway.FirstContentTimeout)
	case ClockIdle:
		return outcome(gateway.Timeout, gateway.IdleTimeout)
	case ClockStall:
		return outcome(gateway.Stall, gateway.TooSlow)
	case ClockDeadline:
		return e.byDeadline()
	}
	return outcome(gateway.Timeout, gateway.TotalTimeout)
}

// byDeadline judges an attempt that the request's deadline cut. The deadline is ours: an attempt that began late had
// less time than any clock would have given it, and that proves nothing against the candidate.
func (e *Evidence) byDeadline() gateway.Outcome {
	floor, last := firstContentFloor, lastChanceLimit
	if c := e.Candidate.Connection; c != nil {
		if c.Timeouts.FirstContent > 0 {
			floor = c.Timeouts.FirstContent
		}
		if c.Timeouts.LastChance > 0 {
			last = c.Timeouts.LastChance
		}
	}
	switch lasted := e.EndedAt.Sub(e.BeganAt); {
	case lasted < floor:
		return outcome(gateway.LocalError, gateway.DeadlinePassed)
	case e.LastChance || lasted >= last:
		return outcome(gateway.Timeout, gateway.DeadlinePassed)
	}
	return outcome(gateway.Slow, gateway.DeadlinePassed)
}

// outcome is a kind with the scope that it has by default and the reason given.
func outcome(k gateway.Kind, why gateway.Reason) gateway.Outcome {
	return gateway.Outcome{Kind: k, Scope: defaultScope[k], Reason: why}
}

// defaultScope is the column "scope" of spec resilience.md section 1.
var defaultScope = [gateway.NumKinds]gateway.Scope{
	gateway.LocalError:       gateway.ScopeRequest,
	gateway.Success:          gateway.ScopeRequest,
	gateway.Alive:            gateway.ScopeRequest,
	gateway.ContentRefused:   gateway.ScopeRequest,
	gateway.InvalidResult:    gateway.ScopeRequest,
	gateway.ServiceError:     gateway.ScopeProvider,
	gateway.Timeout:          gateway.ScopeProvider,
	gateway.Slow:             gateway.ScopeAttempt,
	gateway.Stall:            gateway.ScopeAttempt,
	gateway.EmptyOutput:      gateway.ScopeModel,
	gateway.RateLimited:      gateway.ScopeAccount,
	gateway.QuotaExhausted:   gateway.ScopeAccount,
	gateway.CreditsExhausted: gateway.ScopeAccount,
	gateway.AuthError:        gateway.ScopeConnection,
	gateway.RequestRejected:  gateway.ScopeConnection,
	gateway.Banned:           gateway.ScopeAccount,
	gateway.ModelUnavailable: gateway.ScopeModel,
	gateway.Canceled:         gateway.ScopeRequest,
}

// defaultReason is the reason of a kind when a rule names none.
var defaultReason = [gateway.NumKinds]gateway.Reason{
	gateway.LocalError:       gateway.RuleMatched,
	gateway.Success:          gateway.Answered,
	gateway.Alive:            gateway.CallerFault,
	gateway.ContentRefused:   gateway.ContentPolicy,
	gateway.InvalidResult:    gateway.SchemaMismatch,
	gateway.ServiceError:     gateway.UpstreamStatus,
	gateway.Timeout:          gateway.TotalTimeout,
	gateway.Slow:             gateway.LeftEarly,
	gateway.Stall:            gateway.TooSlow,
	gateway.EmptyOutput:      gateway.NoContent,
	gateway.RateLimited:      gateway.RateLimitHit,
	gateway.QuotaExhausted:   gateway.QuotaHit,
	gateway.CreditsExhausted: gateway.CreditsGone,
	gateway.AuthError:        gateway.KeyRefused,
	gateway.RequestRejected:  gateway.RejectedByAccount,
	gateway.Banned:           gateway.AccountBanned,
	gateway.ModelUnavailable: gateway.ModelMissing,
	gateway.Canceled:         gateway.ClientGone,
}
