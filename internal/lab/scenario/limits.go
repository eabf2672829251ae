package scenario

import (
	"strconv"
	"time"
)

// Limits are what binds everybody who serves the scenario, an oracle too.
type Limits struct {
	Attempts int           // per call
	Request  time.Duration // to the first content, or to the end of an answer that is not streamed
	Patience time.Duration // of the client
	CacheTTL time.Duration // how long an answer may be used again; 0 = there is no cache
}

// Patience of clients and defaults of a gateway's own limits, where a scenario says nothing.
const (
	DefaultPatience = 3 * time.Minute
	defaultAttempts = 10
	defaultRequest  = 10 * time.Minute
	defaultCacheTTL = 10 * time.Minute
)

// Limits reads them off the scenario's settings of the gateway.
func (s *Scenario) Limits() Limits {
	l := Limits{Attempts: defaultAttempts, Request: defaultRequest, Patience: s.Load.Patience}
	if l.Patience == 0 {
		l.Patience = DefaultPatience
	}
	if n := number(field(s.Gateway.Settings, "limits", "attempts")); n > 0 {
		l.Attempts = n
	}
	if d := length(field(s.Gateway.Settings, "timeouts", "request")); d > 0 {
		l.Request = d
	}
	if on, _ := field(s.Gateway.Settings, "cache", "enabled").(bool); on {
		if l.CacheTTL = length(field(s.Gateway.Settings, "cache", "ttl")); l.CacheTTL == 0 {
			l.CacheTTL = defaultCacheTTL
		}
	}
	return l
}

// ConnectionLimits are what the gateway's connection to a source is held to. Zero = not.
type ConnectionLimits struct {
	MaxConcurrent       int
	FirstContent, Total time.Duration
}

// Limits reads them off the fields of the connection.
func (s Source) Limits() ConnectionLimits {
	return ConnectionLimits{MaxConcurrent: number(s.Connection["max_concurrent"]),
		FirstContent: length(field(s.Connection, "timeouts", "first_content")), Total: length(field(s.Connection, "timeouts", "total"))}
}

func field(m map[string]any, outer, inner string) any {
	in, _ := m[outer].(map[string]any)
	return in[inner]
}

func number(v any) int {
	switch n := v.(type) {
	case int:
		return n
	case int64:
		return int(n)
	case uint64:
		return int(n)
	case float64:
		return int(n)
	case string:
		i, _ := strconv.Atoi(n)
		return i
	}
	return 0
}

func length(v any) time.Duration {
	switch d := v.(type) {
	case time.Duration:
		return d
	case string:
		out, _ := time.ParseDuration(d)
		return out
	}
	return 0
}
