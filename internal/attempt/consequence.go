package attempt

import (
	"fmt"
	"time"

	"spillway/internal/gateway"
)

// Consequence is what one mechanism does with an outcome, in words.
type Consequence struct {
	Who  string `json:"who"`
	What string `json:"what"`
}

// Consequences says what every mechanism does with one outcome, under the default settings: the row of [Effects], with
// what scope, hint and rule of this outcome make of it. It is a pure function, for people; the rooms decide by
// themselves, and a test holds the two together.
func Consequences(o gateway.Outcome) []Consequence {
	row := Effects[o.Kind]
	out := []Consequence{{"request", walk(o, row)}}
	add := func(who, what string) { out = append(out, Consequence{who, what}) }
	if o.Uncounted {
		for _, who := range []string{"breaker", "cooldown", "lockout", "health"} {
			add(who, "nothing: the rule says count: false")
		}
	} else {
		add("breaker", words(row.Breaker))
		add("cooldown", cools(o, row))
		add("lockout", locks(o, row))
		add("health", words(row.Health))
	}
	if o.TellAfter > 0 && o.RetryAfter == 0 {
		add("client", fmt.Sprintf("is told Retry-After %s if nothing else answers; no room learns that time", o.TellAfter))
	}
	return out
}

func walk(o gateway.Outcome, row Row) string {
	switch {
	case o.Kind == gateway.Success:
		return "is answered"
	case row.Stops && o.Reason == gateway.ContextTooLong:
		return "goes only to a target with a larger or unknown context window, else the provider's own words are returned"
	case row.Stops && o.Quirk != "":
		return fmt.Sprintf("goes on to a target that may have %s, else the provider's own words are returned", o.Quirk)
	case row.Stops:
		return "ends here; the provider's own words are returned"
	case row.Costs:
		return "fails over; one attempt of its budget is spent"
	}
	return "fails over; no attempt of its budget is spent"
}

func words(e Effect) string {
	switch e {
	case None:
		return "nothing"
	case Good:
		return "counts a success"
	case Bad:
		return "counts a failure"
	case Neutral:
		return "gives the permit back, learns nothing"
	case AliveRun:
		return "a sign of life: ends a losing run, no entry in the window"
	}
	return string(e)
}

// oneModel reports whether a limit belongs to the model alone; see cooldown's and lockout's own reading of a scope.
func oneModel(o gateway.Outcome) bool {
	return (o.Kind == gateway.RateLimited || o.Kind == gateway.QuotaExhausted) && (o.Scope == gateway.ScopeModel || o.Scope == gateway.ScopeFamily)
}

func cools(o gateway.Outcome, row Row) string {
	who := "the account"
	if o.Scope == gateway.ScopeConnection || o.Kind == gateway.AuthError || o.Kind == gateway.RequestRejected {
		who = "the connection"
	}
	switch o.Kind {
	case gateway.RateLimited, gateway.QuotaExhausted, gateway.CreditsExhausted, gateway.Banned, gateway.AuthError, gateway.RequestRejected:
		switch o.Scope {
		case gateway.ScopeConnection, gateway.ScopeAccount, gateway.ScopeProvider:
		default:
			return "nothing: the fault is of one " + o.Scope.String()
		}
	}
	switch o.Kind {
	case gateway.RateLimited:
		if o.RetryAfter > 0 {
			return fmt.Sprintf("%s rests for %s%s", who, o.RetryAfter, capped(o, 15*time.Minute))
		}
		return who + " backs off, unless it served within the last seconds: then it is paced"
	case gateway.QuotaExhausted:
		if o.RetryAfter > 0 {
			return fmt.Sprintf("%s rests for %s%s", who, o.RetryAfter, capped(o, 24*time.Hour))
		}
		return who + " rests until the quota's usual reset, midnight or 1h"
	case gateway.CreditsExhausted, gateway.Banned:
		if !o.Structured && (o.Status < 401 || o.Status > 403) {
			return who + rests(o) + "; words alone, without a code or a status that agrees, never end it"
		}
		return who + rests(o) + "; seen again in another request at least 10s later, it is out until somebody acts"
	case gateway.AuthError:
		if o.Status == 401 {
			return who + rests(o) + "; repeated refusals end in expired"
		}
		return who + rests(o)
	case gateway.RequestRejected:
		return who + rests(o) + "; three requests in a row without a success end in banned"
	case gateway.ServiceError:
		if o.RetryAfter > 0 && (o.Status == 503 || o.Status == 529) && (o.Scope == gateway.ScopeProvider || o.Scope == gateway.ScopeConnection) {
			return fmt.Sprintf("the connection is passed over for %s while there is another", min(o.RetryAfter, time.Minute))
		}
		return "nothing"
	}
	return words(row.Cooldown)
}

// rests is the time of a fault that may end an account.
func rests(o gateway.Outcome) string {
	if o.RetryAfter > 0 {
		return fmt.Sprintf(" rests for %s%s", o.RetryAfter, capped(o, 15*time.Minute))
	}
	return " backs off"
}

// capped tells of the longest time that a hint is believed for; a rule's own time is the operator's word.
func capped(o gateway.Outcome, limit time.Duration) string {
	if o.Hint == gateway.HintRule {
		limit = 24 * time.Hour
	}
	if o.RetryAfter <= limit {
		return ""
	}
	return fmt.Sprintf(", but for %s at most; then one request tries", limit)
}

func locks(o gateway.Outcome, row Row) string {
	switch {
	case o.Kind == gateway.ModelUnavailable && o.Retired:
		return "the model is locked at every account of the provider, 24h or longer"
	case o.Kind == gateway.ModelUnavailable && o.RetryAfter > 0:
		return fmt.Sprintf("the model is locked at this connection for %s", o.RetryAfter)
	case o.Kind == gateway.ModelUnavailable:
		return "the model is locked at this connection, longer each time"
	case oneModel(o) && o.RetryAfter > 0:
		return fmt.Sprintf("the model is locked at this account for %s", o.RetryAfter)
	case oneModel(o) && o.Kind == gateway.QuotaExhausted:
		return "the model is locked at this account until the quota's usual reset"
	case oneModel(o):
		return "the model is locked at this account, longer each time, unless it served within the last seconds"
	case o.Kind == gateway.RateLimited || o.Kind == gateway.QuotaExhausted:
		if o.Rule == "" && o.Scope == gateway.ScopeAccount {
			return "nothing; with per_model_quota the model instead of the account"
		}
		return "nothing"
	case o.Failed() && o.Rule != "" && (o.Scope == gateway.ScopeModel || o.Scope == gateway.ScopeFamily):
		return "the model is locked at this connection: the rule says so"
	case row.Lockout == "exact triple if enabled", o.Kind == gateway.AuthError && o.Status == 403:
		return "nothing, unless lockout is enabled: then this model at this connection"
	}
	return words(row.Lockout)
}
