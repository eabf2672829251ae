package breaker

import (
	"time"

	"spillway/internal/gateway"
)

// The names of the presets.
const (
	PresetRecommended = "recommended"
	PresetOmniOAuth   = "omniroute-oauth"
	PresetOmniAPIKey  = "omniroute-apikey"
	PresetOmniLocal   = "omniroute-local"
	PresetPolyGateway = "polygateway"
	PresetAutoRouter  = "autorouter"
)

// Presets returns the names of all presets, the recommended one first.
func Presets() []string {
	return []string{PresetRecommended, PresetOmniOAuth, PresetOmniAPIKey, PresetOmniLocal, PresetPolyGateway,
		PresetAutoRouter}
}

// Preset returns a preset by name (spec breaker.md section 3). Each call returns fresh maps and slices.
func Preset(name string) (Config, bool) {
	switch name {
	case PresetRecommended:
		return Recommended(), true
	case PresetOmniOAuth:
		return omni(8, 5, 60*time.Second, outerGates[gateway.OAuth]), true
	case PresetOmniAPIKey:
		return omni(12, 7, 30*time.Second, outerGates[gateway.APIKey]), true
	case PresetOmniLocal:
		return omni(2, 0, 15*time.Second, outerGates[gateway.Local]), true
	case PresetPolyGateway:
		return polyGateway(), true
	case PresetAutoRouter:
		return autoRouter(), true
	}
	return Config{}, false
}

// Recommended is Spillway's own default: evidence per model, a run judged against the window, open time by episode,
// probes paid for by requests that can still fall back.
func Recommended() Config {
	return Config{
		Scope: ScopeAuto, AutoWindow: 30 * time.Second, EvidencePerModel: true,
		CountMode: CountConsecutive, ConsecThreshold: 5, CountGap: 200 * time.Millisecond,
		DegradeThreshold: 3, DegradeRate: 0.3,
		RateThreshold: 0.5, RateMinCalls: 20, RateWindow: time.Minute, RateBuckets: 2, EvidenceMode: EvidenceRunTest,
		OpenBase: 10 * time.Second, OpenFactor: 2, OpenMax: 5 * time.Minute, OpenGrowth: OpenEpisode,
		StreakOn: []string{"rate", "wcount", "probe"}, StreakReset: StreakResetStable, StableFactor: 2,
		OpenJitter: 0.1, HonourRetryAfter: true,
		ProbePermits: 1, ProbeRenew: true, ProbeSource: ProbeLiveWithFallback, SuccessThreshold: 2,
		BackendDown: "local_shadow",
	}
}

type wcount struct {
	threshold    int
	window, open time.Duration
}

// outerGates are the numbers of the outer gate per class of credential.
var outerGates = map[gateway.Class]wcount{
	gateway.OAuth:  {10, 15 * time.Minute, 5 * time.Minute},
	gateway.APIKey: {15, 30 * time.Minute, 10 * time.Minute},
	gateway.Local:  {2, 5 * time.Minute, time.Minute},
}

// OuterGate returns c with the class's numbers of the outer gate where it has none of its own, so that switching
// provider_cooldown on is enough.
func (c Config) OuterGate(class gateway.Class) Config {
	if w, ok := outerGates[class]; ok && c.WcountThreshold == 0 {
		c.WcountThreshold, c.WcountWindow, c.WcountOpen = w.threshold, w.window, w.open
	}
	return c
}

// omni is OmniRoute's breaker: a leaky count per provider. The kinds carry its open times for 429, which hold once
// their class is set to count ("429 hints on").
func omni(threshold, degrade int, base time.Duration, w wcount) Config {
	return Config{
		Scope: ScopeProvider, AutoWindow: 30 * time.Second,
		CountMode: CountLeaky, ConsecThreshold: threshold, DegradeThreshold: degrade,
		EvidenceMode:    EvidenceOff,
		WcountThreshold: w.threshold, WcountWindow: w.window, WcountOpen: w.open,
		OpenBase: base, OpenFactor: 2, OpenMax: 16 * base, OpenGrowth: OpenStreak, EscalateAfter: 3,
		StreakOn: []string{"probe"}, StreakReset: StreakResetOnClose,
		ProbePermits: 1, ProbeSource: ProbeLive, SuccessThreshold: 1,
		Kinds: map[string]KindPolicy{
			"rate_limited":    {Class: ClassNeutral, OpenMS: 60_000},
			"quota_exhausted": {Class: ClassNeutral, OpenMS: 3_600_000},
		},
		CountedStatuses: []int{408, 500, 502, 503, 504},
		BackendDown:     "local",
	}
}

// polyGateway is PolyGateway's dual channel: a run scaled by concurrency that the window may suppress, and a rate. A
// dead credential opens at once.
func polyGateway() Config {
	dead := KindPolicy{Class: ClassDead}
	return Config{
		Scope: ScopeConnection, AutoWindow: 30 * time.Second,
		CountMode: CountConsecutive, ConsecThreshold: 5, ConsecConcFactor: 2,
		RateThreshold: 0.6, RateMinCalls: 10, RateWindow: time.Minute, RateBuckets: 2, EvidenceMode: EvidenceSuppress,
		OpenBase: time.Minute, OpenFactor: 2, OpenMax: 5 * time.Minute, OpenGrowth: OpenStreak, EscalateAfter: 1,
		StreakOn: []string{"rate", "probe"}, StreakReset: StreakResetStable, StableFactor: 2,
		ProbePermits: 1, ProbeSource: ProbeLive, SuccessThreshold: 1,
		Kinds:       map[string]KindPolicy{"auth_error": dead, "credits_exhausted": dead, "banned": dead},
		BackendDown: "fail_closed",
	}
}

// autoRouter is AutoRouter's breaker: every answer but a 2xx counts, successes do not, one probe per 30 s.
func autoRouter() Config {
	return Config{
		Scope: ScopeConnection, AutoWindow: 30 * time.Second,
		CountMode: CountCumulative, ConsecThreshold: 5, EvidenceMode: EvidenceOff,
		OpenBase: 5 * time.Minute, OpenFactor: 1, OpenMax: 5 * time.Minute, OpenGrowth: OpenStreak,
		StreakReset:  StreakResetNone,
		ProbePermits: 16, ProbeInterval: 30 * time.Second, ProbeSource: ProbeLive, SuccessThreshold: 2,
		// Its first-byte timeout counts always, so leaving early does too.
		Kinds:       map[string]KindPolicy{"slow": {Class: ClassCount}},
		CountNon2xx: true,
		BackendDown: "error",
	}
}
