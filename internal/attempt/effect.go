package attempt

import "spillway/internal/gateway"

// Effect is what one kind of outcome does to one mechanism.
type Effect string

// The effects. The rooms decide the details (presets may remap); this table is what the default does.
const (
	None     Effect = "-"
	Good     Effect = "success"
	AliveRun Effect = "success for the run, not in the window"
	Bad      Effect = "failure"
	Neutral  Effect = "neutral"
	Special  Effect = "see resilience.md"
)

// Row says who learns what from a kind of outcome: resilience.md section 1 as data. Documentation is generated from it
// and a test holds the rooms to it.
type Row struct {
	Kind     gateway.Kind
	Scope    gateway.Scope // the usual one; classification may say otherwise
	Breaker  Effect
	Cooldown Effect
	Lockout  Effect
	Health   Effect
	Costs    bool // uses up one attempt of the request's budget
	Stops    bool // ends the walk unless another target could accept
}

// Effects is the table, one row per kind.
var Effects = [gateway.NumKinds]Row{
	gateway.Success:          {Scope: gateway.ScopeRequest, Breaker: Good, Cooldown: "clears errors", Lockout: "halves the count", Health: Good},
	gateway.Alive:            {Scope: gateway.ScopeRequest, Breaker: AliveRun, Cooldown: None, Lockout: None, Health: None, Stops: true},
	gateway.ContentRefused:   {Scope: gateway.ScopeRequest, Breaker: AliveRun, Cooldown: None, Lockout: None, Health: None, Stops: true},
	gateway.InvalidResult:    {Scope: gateway.ScopeRequest, Breaker: AliveRun, Cooldown: None, Lockout: None, Health: None, Costs: true, Stops: true},
	gateway.ServiceError:     {Scope: gateway.ScopeProvider, Breaker: Bad, Cooldown: "not before the Retry-After of a 503 or 529, at most 60 s", Lockout: "exact triple if enabled", Health: Bad, Costs: true},
	gateway.Timeout:          {Scope: gateway.ScopeProvider, Breaker: Bad, Cooldown: None, Lockout: None, Health: Bad, Costs: true},
	gateway.Slow:             {Scope: gateway.ScopeAttempt, Breaker: "failure only when nothing else of this candidate succeeded in the window", Cooldown: None, Lockout: None, Health: Bad, Costs: true},
	gateway.Stall:            {Scope: gateway.ScopeAttempt, Breaker: None, Cooldown: None, Lockout: None, Health: Bad, Costs: true},
	gateway.EmptyOutput:      {Scope: gateway.ScopeModel, Breaker: Bad, Cooldown: None, Lockout: "exact triple if enabled", Health: Bad, Costs: true},
	gateway.RateLimited:      {Scope: gateway.ScopeAccount, Breaker: None, Cooldown: "the hint, else back-off", Lockout: "model if per-model quota", Health: Bad},
	gateway.QuotaExhausted:   {Scope: gateway.ScopeAccount, Breaker: None, Cooldown: "until reset, else midnight or 1 h", Lockout: "until reset", Health: Bad},
	gateway.CreditsExhausted: {Scope: gateway.ScopeAccount, Breaker: None, Cooldown: "terminal", Lockout: None, Health: None},
	gateway.AuthError:        {Scope: gateway.ScopeConnection, Breaker: None, Cooldown: "back-off; 401 may end in expired", Lockout: None, Health: Bad},
	gateway.RequestRejected:  {Scope: gateway.ScopeConnection, Breaker: None, Cooldown: "back-off; three in a row end in banned", Lockout: None, Health: Bad},
	gateway.Banned:           {Scope: gateway.ScopeAccount, Breaker: None, Cooldown: "terminal", Lockout: None, Health: None},
	gateway.ModelUnavailable: {Scope: gateway.ScopeModel, Breaker: None, Cooldown: None, Lockout: "raw model; 24 h if retired", Health: None},
	gateway.Canceled:         {Scope: gateway.ScopeRequest, Breaker: Neutral, Cooldown: None, Lockout: None, Health: None, Stops: true},
	gateway.LocalError:       {Scope: gateway.ScopeRequest, Breaker: Neutral, Cooldown: None, Lockout: None, Health: None, Costs: true},
}
