package view

import (
	"fmt"
	"strings"

	"spillway/internal/gateway"
)

// phrases say in a person's words what a reason means; a reason without one is shown by its name.
var phrases = map[gateway.Reason]string{
	gateway.CircuitOpen:         "its breaker is open",
	gateway.ProviderCooldown:    "the provider is cooling down",
	gateway.ConnectionCooldown:  "the account is cooling down",
	gateway.ModelLockout:        "this model is locked out on it",
	gateway.Terminal:            "the account is out until somebody acts",
	gateway.Leased:              "leased to another session",
	gateway.Paced:               "at its rate",
	gateway.QueueFull:           "its queue is full",
	gateway.Unproven:            "not proven yet, and already on trial",
	gateway.ProtocolMismatch:    "it does not speak the client's protocol",
	gateway.CapabilityMismatch:  "it cannot do what the request needs",
	gateway.Unavailable:         "it does not serve this model",
	gateway.ProbeBusy:           "a probe is out; one at a time",
	gateway.Returning:           "coming back, a few requests at a time",
	gateway.ConcurrencyFull:     "all its slots are taken",
	gateway.NotBefore:           "it asked to be left alone for a while",
	gateway.FirstChoice:         "first choice of the strategy",
	gateway.NextCandidate:       "next candidate after a failure",
	gateway.SameAgain:           "same candidate once more: the failure was quick",
	gateway.PreferredBack:       "the preferred target is back",
	gateway.ProbeRace:           "started beside a slow probe",
	gateway.WaitForSlot:         "until a slot is free",
	gateway.WaitForProbe:        "until the probe has an answer",
	gateway.WaitForReturn:       "until a candidate comes back",
	gateway.RetryBudget:         "until the retry budget allows another try",
	gateway.UpstreamStatus:      "it answered with an error",
	gateway.RateLimitHit:        "rate limited",
	gateway.QuotaHit:            "quota used up",
	gateway.CreditsGone:         "no credits left",
	gateway.KeyRefused:          "the key was refused",
	gateway.AccountBanned:       "the account is banned",
	gateway.ClientGone:          "the client left",
	gateway.RaceLost:            "another attempt was faster",
	gateway.FirstContentTimeout: "no first content in time",
	gateway.IdleTimeout:         "it went silent",
	gateway.LeftEarly:           "slow, and somewhere better was free",
	gateway.NoContent:           "an answer without content",
	gateway.Truncated:           "the answer broke off",
	gateway.OwnNetwork:          "our own network was down",
	gateway.SessionBound:        "the session's own connection",
	gateway.SessionReturned:     "little is cached, so back to a higher target",
	gateway.ObjectPinned:        "what the request refers to is stored there",
	gateway.ObjectElsewhere:     "what the request refers to is stored elsewhere",
	gateway.QuotaPreflight:      "its own headers say that nothing is left until their reset",
	gateway.EmergencyFallback:   "the pool that was asked for has failed; the emergency combo takes over",
	gateway.ToolLimit:           "takes fewer tools than the request has",
	gateway.UsageWall:           "usage wall",
	gateway.LaneBusy:            "no slot free in the slow lane",
	gateway.WaitForLane:         "for a slot in the slow lane",
	gateway.SlowLane:            "again in the slow lane that was offered",
	gateway.LimitReset:          "again: the account's limit was reset",
}

func phrase(r gateway.Reason) string {
	if p, ok := phrases[r]; ok {
		return p
	}
	return strings.ReplaceAll(r.String(), "_", " ")
}

// advice says what to do about the last failure of each kind.
var advice = map[gateway.Kind]string{
	gateway.Alive:            "The provider calls the request itself wrong: change the request.",
	gateway.ContentRefused:   "The provider refused the content; set content_refused: failover on the combo to try elsewhere.",
	gateway.InvalidResult:    "The answer did not fit the schema: loosen the schema or take another model.",
	gateway.ServiceError:     "The provider had trouble. Add a second provider to the combo, or try again later.",
	gateway.Timeout:          "The provider was too slow. Add a second provider to the combo, or raise its timeouts.",
	gateway.Slow:             "The provider was slower than it usually is; nothing to do.",
	gateway.Stall:            "The stream stood still. Add a second provider to the combo.",
	gateway.EmptyOutput:      "The model returned nothing. Try another model, or set allow_empty on the combo.",
	gateway.RateLimited:      "The account is at its rate. Add an account, or set rate_limits so that requests are paced.",
	gateway.QuotaExhausted:   "The quota is used up until it resets. Add an account.",
	gateway.CreditsExhausted: "Top up the account, then clear it in the cooldown manager.",
	gateway.AuthError:        "Check the key of this connection.",
	gateway.RequestRejected:  "The account may not do this. Check what the key is allowed to do.",
	gateway.Banned:           "Talk to the provider, then put in a new key or clear the account.",
	gateway.ModelUnavailable: "The provider does not have this model. Correct the model's name in the target.",
	gateway.Canceled:         "The client left before the answer; nothing to do.",
	gateway.LocalError:       "The fault is ours: see the log of Spillway for this request id.",
}

// next is the next step for a person.
func next(j *gateway.Journey) string {
	switch State(j) {
	case Running:
		return "It still runs."
	case Stopped:
		return "Spillway was stopped or killed meanwhile. Send the request again."
	case Answered:
		return ""
	}
	switch gateway.Code(j.Code) {
	case gateway.InvalidRequest, gateway.RequestTooLarge:
		return "Change the request."
	case gateway.InvalidAPIKey, gateway.ModelNotAllowed, gateway.ScopeRequired, gateway.OriginNotAllowed:
		return "Use a client key that may do this."
	case gateway.NoExecutableTargets, gateway.ModelNotFound, gateway.CapabilityMismatched:
		return "Nothing configured can serve this: add a provider, a connection or a combo for the model."
	case gateway.Draining:
		return "This instance is going down: send the request to another one, or again."
	}
	if n := len(j.Attempts); n > 0 {
		return advice[j.Attempts[n-1].Kind]
	}
	return "Everything that could serve this is out or full for now: see the reasons above, and try again later."
}

// outcome describes an attempt's end in one line.
func outcome(a *gateway.Attempt) string {
	var b strings.Builder
	b.WriteString(a.Kind.String())
	switch {
	case a.Kind == gateway.Success:
		fmt.Fprintf(&b, ", %s", bytesOf(a.Bytes))
	case a.Reason != gateway.ReasonNone:
		fmt.Fprintf(&b, ": %s", phrase(a.Reason))
	}
	if a.Kind != gateway.Success && a.Status != 0 {
		fmt.Fprintf(&b, " (status %d)", a.Status)
	}
	if a.Message != "" {
		fmt.Fprintf(&b, ", %q", printable(a.Message))
	}
	if a.RetryAfter > 0 {
		fmt.Fprintf(&b, ", asked for %gs of rest", a.RetryAfter)
	}
	if a.Rule != "" {
		fmt.Fprintf(&b, ", rule %s", a.Rule)
	}
	if a.Uncounted {
		b.WriteString(", not counted")
	}
	if a.After != "" && a.After != a.Before {
		fmt.Fprintf(&b, ", breaker %s -> %s", a.Before, a.After)
	}
	return b.String()
}

func bytesOf(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// printable keeps an upstream's words from moving the cursor of a terminal or breaking the columns.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
