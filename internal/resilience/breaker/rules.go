package breaker

import (
	"slices"
	"time"

	"spillway/internal/gateway"
)

// class is what an outcome means to the machine.
type class uint8

const (
	neutral class = iota
	throttled
	succeeded
	alive
	slow
	failure
	dead
)

// policy is a compiled KindPolicy.
type policy struct {
	class     class
	weight    int32
	threshold int32
	immediate bool
	open      int64
}

// rules is a Config compiled for one binding: integers only, nanoseconds and permille. It is immutable.
type rules struct {
	count     string
	evidence  string
	threshold int32
	gap       int64
	degrade   int32
	degradeP  int64
	rateP     int64
	minCalls  int64
	window    int64 // 0 = no window is kept
	memory    int64 // how long a success or a failure is remembered for the slow rule and for the connection's trip

	wcount, wopen int64
	wwindow       int64

	base, max, cap int64 // cap: the longest automatic open time, overrides included
	factor         int64
	escalate       int32
	episode        bool
	streakOn       [numCauses]bool
	reset          string
	stable         int64
	jitterP        int64
	honour         bool

	permits, need int32
	interval, ttl int64
	withFallback  bool
	autoWindow    int64

	kinds    [gateway.NumKinds]policy
	statuses []int
	non2xx   bool
}

const (
	defaultWindow     = time.Minute
	defaultAttemptMax = 5 * time.Minute
	leaseSlack        = 5 * time.Second
)

func permille(f float64) int64 { return int64(f*1000 + 0.5) }

// compile turns c into rules for a connection that takes maxConcurrent attempts, each of which is silent for
// attemptMax at most.
func compile(c Config, maxConcurrent int, attemptMax time.Duration) *rules {
	r := &rules{
		count: c.CountMode, evidence: c.EvidenceMode,
		threshold: int32(max(c.ConsecThreshold, c.ConsecConcFactor*maxConcurrent)),
		gap:       int64(c.CountGap), degrade: int32(c.DegradeThreshold), degradeP: permille(c.DegradeRate),
		rateP: permille(c.RateThreshold), minCalls: int64(c.RateMinCalls),
		memory: int64(c.RateWindow),
		base:   int64(c.OpenBase), max: int64(c.OpenMax), cap: int64(c.OpenMax), factor: int64(c.OpenFactor),
		escalate: int32(c.EscalateAfter), episode: c.OpenGrowth == OpenEpisode,
		reset: c.StreakReset, stable: int64(c.StableFactor), jitterP: permille(c.OpenJitter),
		honour:  c.HonourRetryAfter,
		permits: int32(c.ProbePermits), need: int32(c.SuccessThreshold), interval: int64(c.ProbeInterval),
		withFallback: c.ProbeSource == ProbeLiveWithFallback, autoWindow: int64(c.AutoWindow),
		statuses: slices.Clone(c.CountedStatuses), non2xx: c.CountNon2xx,
	}
	if r.memory == 0 {
		r.memory = int64(defaultWindow)
	}
	if r.rateP > 0 || r.degradeP > 0 {
		r.window = int64(c.RateWindow)
	}
	if c.ProviderCooldown.Enabled {
		r.wcount, r.wwindow, r.wopen = int64(c.WcountThreshold), int64(c.WcountWindow), int64(c.WcountOpen)
		r.cap = max(r.cap, r.wopen)
	}
	r.ttl = int64(c.ProbeTTL)
	// A lease that nobody renews must outlive the attempt, or a slow success would be taken for a lost probe.
	if least := int64(attemptMax + leaseSlack); r.ttl == 0 || (!c.ProbeRenew && r.ttl < least) {
		r.ttl = least
	}
	for _, s := range c.StreakOn {
		if i := slices.Index(causeNames[:], s); i >= 0 {
			r.streakOn[i] = true
		}
	}
	r.compileKinds(c.Kinds)
	return r
}

func (r *rules) compileKinds(kinds map[string]KindPolicy) {
	for k := range gateway.NumKinds {
		r.kinds[k] = policy{class: builtin(k), weight: 1}
	}
	for name, p := range kinds {
		var k gateway.Kind
		if k.UnmarshalText([]byte(name)) != nil || k >= gateway.NumKinds {
			continue
		}
		q := &r.kinds[k]
		switch p.Class {
		case ClassCount:
			q.class = failure
		case ClassAlive:
			q.class = alive
		case ClassDead:
			q.class = dead
		case ClassNeutral:
			if q.class != throttled {
				q.class = neutral
			}
		}
		q.threshold, q.immediate, q.weight = int32(p.Threshold), p.Immediate, int32(max(p.Weight, 1))
		q.open = int64(time.Duration(p.OpenMS) * time.Millisecond)
		r.cap = max(r.cap, q.open)
	}
}

// builtin is the breaker's column of spec resilience.md section 1. An unknown kind is a generic failure.
func builtin(k gateway.Kind) class {
	switch k {
	case gateway.Success:
		return succeeded
	case gateway.Alive, gateway.ContentRefused, gateway.InvalidResult:
		return alive
	case gateway.Slow:
		return slow
	case gateway.RateLimited, gateway.QuotaExhausted:
		return throttled
	case gateway.LocalError, gateway.Canceled, gateway.Stall, gateway.CreditsExhausted, gateway.AuthError,
		gateway.RequestRejected, gateway.Banned, gateway.ModelUnavailable:
		return neutral
	}
	return failure
}

// generic is the policy of an outcome whose kind says nothing about it.
var generic = policy{class: failure, weight: 1}

// classify says what an outcome means under r. What is ours or the caller's is neutral before anything else.
func (r *rules) classify(o *gateway.Outcome) policy {
	if o.Uncounted || o.Kind == gateway.LocalError || o.Kind == gateway.Canceled {
		return policy{}
	}
	if o.Kind >= gateway.NumKinds || o.Endpoint {
		return generic
	}
	p := r.kinds[o.Kind]
	switch {
	case r.non2xx && o.Status >= 300:
		p.class = failure
	case o.Kind == gateway.ServiceError && len(r.statuses) > 0 && o.Status >= 400 &&
		!slices.Contains(r.statuses, o.Status):
		p.class = neutral
	}
	return p
}
