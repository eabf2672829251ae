package cooldown

import (
	"encoding/json"
	"fmt"
	"time"

	"spillway/internal/gateway"
	memory "spillway/internal/state"
)

// standing is the stored part of an account's or connection's state; "unavailable" is derived from the clock.
type standing uint8

const (
	active standing = iota
	expired
	creditsExhausted
	banned
	disabled
)

var standingNames = [...]string{"active", "expired", "credits_exhausted", "banned", "disabled"}

func (s standing) String() string { return standingNames[s] }

func (s standing) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *standing) UnmarshalText(b []byte) error {
	for i, n := range standingNames {
		if n == string(b) {
			*s = standing(i)
			return nil
		}
	}
	return fmt.Errorf("unknown standing %q", b)
}

// recheckable reports whether a slow re-check by live traffic may end the state.
func (s standing) recheckable() bool { return s == expired || s == creditsExhausted }

const (
	maxSeen  = 4 // sightings kept per suspicion
	maxBouts = 3 // episodes kept for the inferred rate
)

// sighting is one observation of something that may be terminal.
type sighting struct {
	Request gateway.RequestID   `json:"request"`
	Key     gateway.ClientKeyID `json:"key,omitzero"`
	At      time.Time           `json:"at"`
}

// suspicion collects the observations that may end in a terminal state.
type suspicion struct {
	Of    standing          `json:"of,omitzero"`
	Kind  gateway.Kind      `json:"kind,omitzero"`
	Count int               `json:"count,omitzero"` // distinct requests
	Seen  [maxSeen]sighting `json:"seen,omitzero"`
}

// fault is the last error, for people.
type fault struct {
	Message string         `json:"message,omitzero"`
	Kind    gateway.Kind   `json:"kind,omitzero"`
	Reason  gateway.Reason `json:"reason,omitzero"`
	Code    string         `json:"code,omitzero"`
	Status  int            `json:"status,omitzero"`
	At      time.Time      `json:"at,omitzero"`
}

// durable is what survives a restart. It is comparable: a step that leaves it equal needs no write.
type durable struct {
	Standing   standing             `json:"standing,omitzero"`
	TerminalAt time.Time            `json:"terminal_at,omitzero"`
	CheckAt    time.Time            `json:"check_at,omitzero"`   // next re-check of a terminal state
	Source     gateway.ConnectionID `json:"source,omitzero"`     // who saw the terminal state ...
	Identity   string               `json:"identity,omitzero"`   // ... and with which credential
	Actor      string               `json:"actor,omitzero"`      // who disabled it
	Cause      gateway.Kind         `json:"cause,omitzero"`      // what cools, or what was terminal
	Until      time.Time            `json:"until,omitzero"`      // cooling until
	EpisodeAt  time.Time            `json:"episode_at,omitzero"` // start of the current or last episode
	WrittenAt  time.Time            `json:"written_at,omitzero"` // last time that Until moved
	Capped     bool                 `json:"capped,omitzero"`     // Until is a capped hint: one canary decides
	Level      int                  `json:"level,omitzero"`
	NotBefore  time.Time            `json:"not_before,omitzero"`
	NotSetAt   time.Time            `json:"not_set_at,omitzero"` // when NotBefore was written
	Suspect    suspicion            `json:"suspect,omitzero"`
	Learned    float64              `json:"learned_rpm,omitzero"`
	LearnedAt  time.Time            `json:"learned_at,omitzero"`
	Last       fault                `json:"last,omitzero"`
}

// bout is one episode without a hint, and how many successes had been counted by then.
type bout struct {
	at time.Time
	ok uint64
}

// keySeen remembers that a client key used the account.
type keySeen struct {
	key gateway.ClientKeyID
	at  time.Time
}

// ramp lets a returning key back in: 1, then twice as many per success or per RampStep.
type ramp struct {
	on     bool
	strict bool      // only a success may widen it: the canary behind a capped hint
	id     uint64    // counts ramps, so a late report cannot move a newer one
	step   int       // 2^step attempts are released in this step
	out    int       // released so far in this step
	at     time.Time // when the step began; zero until the canary left
}

// fullRamp is the step at which a ramp is over: 2^6 = 64 at once are no trial any more.
const fullRamp = 6

// state is everything known about one key. Its methods are pure: they return the next state.
type state struct {
	durable
	ramp    ramp
	okAt    time.Time // last success
	ok      uint64    // successes
	bouts   [maxBouts]bout
	keys    [2]keySeen
	admitAt time.Time // last admission under the inferred rate
}

// quiet reports whether the state can refuse nobody, now and later, so Peek need not look at it.
func (s *state) quiet() bool {
	return s.Standing == active && s.Until.IsZero() && s.NotBefore.IsZero() && !s.ramp.on && s.Learned == 0
}

// blank reports whether nothing is worth keeping.
func (s *state) blank() bool {
	return s.durable == durable{EpisodeAt: s.EpisodeAt, WrittenAt: s.WrittenAt}
}

// encode is the durable form; nil when nothing is worth keeping.
func (s *state) encode() []byte {
	if s.blank() {
		return nil
	}
	b, err := json.Marshal(&s.durable)
	if err != nil {
		return nil // a struct of strings, numbers and times always encodes
	}
	return b
}

// maxStored bounds a restored deadline: no cap is longer, so one beyond it comes from a clock that was set back.
const (
	maxStored    = 24 * time.Hour
	maxNotBefore = 10 * time.Minute
)

// restore merges a stored state into s and never makes it more permissive. Leases and ramps of the old process are
// void; what was cooling comes back by a canary, also when its time passed while nobody ran.
func (s state) restore(d durable, now time.Time) state {
	if limit := now.Add(maxStored); d.Until.After(limit) {
		d.Until = limit
	}
	if limit := now.Add(maxNotBefore); d.NotBefore.After(limit) {
		d.NotBefore = limit
	}
	if limit := now.Add(31 * maxStored); d.CheckAt.After(limit) {
		d.CheckAt = limit
	}
	// A clock that was set back would hold an event in the future over everything that happens until then.
	for _, t := range []*time.Time{&d.EpisodeAt, &d.WrittenAt, &d.NotSetAt, &d.LearnedAt, &d.TerminalAt, &d.Last.At} {
		if t.After(now) {
			*t = now
		}
	}
	memory.Tie(now, &d.Until, &d.NotBefore, &d.CheckAt, &d.EpisodeAt, &d.WrittenAt, &d.NotSetAt, &d.LearnedAt, &d.TerminalAt)
	mine := s.durable
	if mine == (durable{}) {
		s.durable = d
	} else {
		s.durable = merge(mine, d)
	}
	if !s.Until.IsZero() {
		s = s.startRamp(s.Capped)
	}
	if s.Learned > 0 {
		s.admitAt = now // the spacing begins anew: nobody knows when the old process sent last
	}
	return s
}

func merge(a, b durable) durable {
	if b.Standing > a.Standing {
		a.Standing, a.TerminalAt, a.CheckAt = b.Standing, b.TerminalAt, b.CheckAt
		a.Source, a.Identity, a.Actor, a.Cause = b.Source, b.Identity, b.Actor, b.Cause
	}
	if b.Until.After(a.Until) {
		a.Until, a.Capped = b.Until, b.Capped
		if a.Standing == active {
			a.Cause = b.Cause
		}
	}
	a.EpisodeAt, a.WrittenAt = later(a.EpisodeAt, b.EpisodeAt), later(a.WrittenAt, b.WrittenAt)
	a.Level = max(a.Level, b.Level)
	if b.NotBefore.After(a.NotBefore) {
		a.NotBefore, a.NotSetAt = b.NotBefore, b.NotSetAt
	}
	if b.Suspect.Count > a.Suspect.Count {
		a.Suspect = b.Suspect
	}
	if a.Learned == 0 || b.Learned != 0 && b.Learned < a.Learned {
		a.Learned, a.LearnedAt = b.Learned, b.LearnedAt
	}
	if b.Last.At.After(a.Last.At) {
		a.Last = b.Last
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
