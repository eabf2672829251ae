package lockout

import (
	"encoding/json"
	"time"

	"spillway/internal/gateway"
	memory "spillway/internal/state"
)

// maxLock bounds every lock: no setting allows a longer one, so a stored deadline beyond it comes from a clock that was
// set back.
const maxLock = 24 * time.Hour

// place says which of a candidate's keys an outcome locks.
type place uint8

const (
	nowhere  place = iota
	exact          // this model at this connection
	family         // the quota family at this connection, the model where there is none
	quota          // the quota family, or the model, at the account
	provider       // this model at every account of the provider
)

// lock is what is known about one key. It is comparable: a step that leaves it equal needs no write. Its methods are
// pure: they return the next state.
type lock struct {
	Until     time.Time    `json:"until,omitzero"`
	Count     int          `json:"count,omitzero"`      // locks that no success has paid for yet
	EpisodeAt time.Time    `json:"episode_at,omitzero"` // when Count last rose
	WrittenAt time.Time    `json:"written_at,omitzero"` // when Until last moved
	Kind      gateway.Kind `json:"kind,omitzero"`
	Status    int          `json:"status,omitzero"`
	Rule      string       `json:"rule,omitzero"`
	Message   string       `json:"message,omitzero"`
}

// event is one outcome on its way into a lock.
type event struct {
	o        gateway.Outcome
	cfg      *Config
	perModel bool      // the provider counts limits per model
	okAt     time.Time // last success of the same account and model
	now      time.Time
}

func (e event) began() time.Time {
	if e.o.BeganAt.IsZero() {
		return e.now
	}
	return e.o.BeganAt
}

// where decides which key an outcome locks. The scope is the classification's: a rule's is final, and only the plain
// status table leaves the question of per-model limits to the provider.
func (e event) where() place {
	o := &e.o
	ruled := o.Rule != "" && (o.Scope == gateway.ScopeModel || o.Scope == gateway.ScopeFamily)
	switch {
	case o.Uncounted || !o.Failed():
		return nowhere
	case o.Kind == gateway.ModelUnavailable && o.Retired:
		return provider
	case o.Kind == gateway.ModelUnavailable:
		return exact
	case o.Kind == gateway.RateLimited || o.Kind == gateway.QuotaExhausted:
		if o.Scope == gateway.ScopeModel || o.Scope == gateway.ScopeFamily ||
			e.perModel && o.Rule == "" && o.Scope == gateway.ScopeAccount {
			return quota
		}
		return nowhere
	case ruled && (o.Scope == gateway.ScopeFamily || o.Status == 402 || o.Status == 403 || o.Status == 429):
		return family
	case ruled:
		return exact
	case !e.cfg.Enabled || o.Endpoint || o.Scope == gateway.ScopeRequest || o.Scope == gateway.ScopeAttempt:
		return nowhere
	case o.Kind == gateway.AuthError && o.Status == 403 && e.cfg.counts(403):
		return family
	case o.Kind == gateway.ServiceError && !o.BelowHTTP && e.cfg.counts(serviceStatus(o)),
		o.Kind == gateway.EmptyOutput && e.cfg.counts(502):
		return exact
	}
	return nowhere
}

// serviceStatus is the status a service error is counted as: a 2xx that broke or was no completion is a bad gateway.
func serviceStatus(o *gateway.Outcome) int {
	if o.Status < 400 {
		return 502
	}
	return o.Status
}

// length is how long the lock is to last from now, and whether somebody named that time. 0 = no lock.
func (l *lock) length(e event) (d time.Duration, named bool) {
	o := &e.o
	limit := e.cfg.MaxHint
	switch {
	case o.Hint == gateway.HintRule:
		limit = e.cfg.MaxRule
	case o.Kind == gateway.QuotaExhausted:
		limit = e.cfg.MaxQuota
	}
	if o.RetryAfter > 0 {
		d, named = min(o.RetryAfter, limit), true
		if !o.EndedAt.IsZero() {
			d -= e.now.Sub(o.EndedAt)
		}
		d = max(d, 1)
	}
	switch {
	case o.Retired:
		return max(d, e.cfg.Retired), true
	case named:
		return d, true
	case o.Kind == gateway.QuotaExhausted:
		return e.cfg.quota(o.Status, e.now), true
	case o.Kind == gateway.RateLimited && (e.cfg.IgnoreUnhinted ||
		e.cfg.SuccessGrace > 0 && !e.okAt.IsZero() && e.now.Sub(e.okAt) <= e.cfg.SuccessGrace):
		return 0, false // the model works, only too fast: AIMD's part
	}
	return e.cfg.backoff(l.Count), false
}

// fail is the step for an outcome that locks this key. The longer lock wins. Attempts that began before the lock add
// nothing but a time that somebody named.
func (l lock) fail(e event) lock {
	d, named := l.length(e)
	herd := !e.began().After(l.EpisodeAt)
	if d <= 0 || herd && !named {
		return l
	}
	if !herd {
		l.Count, l.EpisodeAt = min(l.Count+1, 1<<20), e.now
	}
	if until := e.now.Add(d); until.After(l.Until) {
		l.Until, l.WrittenAt = until, e.now
		l.Kind, l.Status, l.Rule, l.Message = e.o.Kind, e.o.Status, e.o.Rule, e.o.Message
	}
	return l
}

// succeed is the step for a complete answer of an attempt that began after the lock: it halves the count, and at 0
// nothing remains but the instant before which failures are old news.
func (l lock) succeed(e event) lock {
	if l.Count == 0 || !e.began().After(l.WrittenAt) || !e.began().After(l.EpisodeAt) {
		return l
	}
	if l.Count /= 2; l.Count == 0 {
		return lock{EpisodeAt: l.EpisodeAt}
	}
	return l
}

// blank reports whether there is nothing to keep.
func (l *lock) blank() bool { return l.Count == 0 && l.Until.IsZero() }

// restore merges a stored lock and never makes this one more permissive.
func (l lock) restore(d lock, now time.Time) lock {
	if limit := now.Add(maxLock); d.Until.After(limit) {
		d.Until = limit
	}
	for _, t := range []*time.Time{&d.EpisodeAt, &d.WrittenAt} {
		if t.After(now) {
			*t = now
		}
	}
	memory.Tie(now, &d.Until, &d.EpisodeAt, &d.WrittenAt)
	if d.Until.After(l.Until) {
		count, episode := l.Count, l.EpisodeAt
		l = d
		l.Count, l.EpisodeAt = max(count, d.Count), later(episode, d.EpisodeAt)
		return l
	}
	l.Count = max(l.Count, d.Count)
	return l
}

// encode is the durable form; nil when nothing is worth keeping.
func (l *lock) encode() []byte {
	if l.blank() {
		return nil
	}
	b, err := json.Marshal(l)
	if err != nil {
		return nil // a struct of strings, numbers and times always encodes
	}
	return b
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
