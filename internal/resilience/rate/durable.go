package rate

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// A record is written before more than a twentieth of a limit was used since the last one, and is read as if that
// twentieth had been used as well. So a restart forgets nothing of the running minute, and a busy account costs some
// twenty small records a minute.
const recordShare = 20

// recordEvery is how long the first request after a record may go unrecorded at most.
const recordEvery = 10 * time.Second

// recordGrain is how finely a record tells when things were sent; later is the safe side.
const recordGrain = 5 * time.Second

// durable is what survives a restart.
type durable struct {
	Sent     []used    `json:"sent,omitempty"`
	LastAt   time.Time `json:"last_at,omitzero"`
	Output   float64   `json:"output,omitzero"`
	Requests learned   `json:"requests,omitzero"`
	Tokens   learned   `json:"tokens,omitzero"`
	SplitAt  time.Time `json:"split_at,omitzero"` // limits are the models' own
}

// used is what was sent up to an instant.
type used struct {
	At       time.Time `json:"at"`
	Requests int       `json:"n,omitzero"`
	Tokens   int       `json:"tokens,omitzero"`
}

// ahead is what may be sent before the next record.
func (l limits) ahead() (requests, tokens int) {
	if l.rpm > 0 {
		requests = max(l.rpm/recordShare, 1)
	}
	if l.tpm > 0 {
		tokens = max(l.tpm/recordShare, 1)
	}
	return requests, tokens
}

// worthKeeping reports whether enough was sent since the last record, and begins the next count if so.
func (s *state) worthKeeping(l limits, now time.Time) bool {
	requests, tokens := l.ahead()
	if s.savedRequests == 0 && s.savedTokens == 0 || l.none() {
		return false
	}
	due := requests > 0 && s.savedRequests >= requests || tokens > 0 && s.savedTokens >= tokens ||
		l.interval >= time.Second || s.savedAt.IsZero() || now.Sub(s.savedAt) >= recordEvery
	if due {
		s.savedRequests, s.savedTokens, s.savedAt = 0, 0, now
	}
	return due
}

// encode is the durable form.
func (s *state) encode(now time.Time) []byte {
	d := durable{LastAt: s.lastAt.Round(0), Output: s.output, Requests: s.requests, Tokens: s.tokens,
		SplitAt: s.splitAt.Round(0)}
	at := s.sent.since(now)
	for i := range s.sent.entries {
		e := &s.sent.entries[i]
		if e.last+window <= at || e.requests == 0 && e.tokens == 0 {
			continue
		}
		when := s.sent.base.Add(e.last).Round(0)
		if n := len(d.Sent); n > 0 && when.Truncate(recordGrain).Equal(d.Sent[n-1].At.Truncate(recordGrain)) {
			last := &d.Sent[n-1]
			last.At, last.Requests, last.Tokens = when, last.Requests+e.requests, last.Tokens+e.tokens
			continue
		}
		d.Sent = append(d.Sent, used{At: when, Requests: e.requests, Tokens: e.tokens})
	}
	b, err := json.Marshal(&d)
	if err != nil {
		return nil // a struct of numbers and times always encodes, unless a time is beyond all sense
	}
	return b
}

// past ties a stored instant to the process's own clock, so that a later step of the wall clock holds nobody up. One in
// the future comes from a clock that was set back since: it was now at the latest.
func past(at, now time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return now.Add(min(at.Sub(now), 0))
}

// stale reports whether a record says nothing any more.
func (d *durable) stale(now time.Time) bool {
	for _, u := range d.Sent {
		if now.Sub(u.At) < window {
			return false
		}
	}
	for _, l := range []*learned{&d.Requests, &d.Tokens} {
		if l.Limit > 0 && now.Sub(l.HeardAt) < believedFor || now.Sub(l.ResetAt) < believedFor {
			return false
		}
	}
	return now.Sub(d.SplitAt) >= believedFor && now.Sub(d.LastAt) >= believedFor
}

// restore takes over what an earlier process has sent. It only ever adds.
func (s *state) restore(d durable, now time.Time) {
	slices.SortStableFunc(d.Sent, func(a, b used) int { return a.At.Compare(b.At) })
	for _, u := range d.Sent {
		if u.At = past(u.At, now); now.Sub(u.At) < window {
			s.sent.add(max(u.Requests, 0), max(u.Tokens, 0), u.At)
		}
	}
	if at := past(d.LastAt, now); at.After(s.lastAt) {
		s.lastAt = at
	}
	if at := past(d.SplitAt, now); at.After(s.splitAt) {
		s.splitAt = at
	}
	s.output = max(s.output, min(d.Output, 1e9))
	for _, x := range []struct{ mine, old *learned }{{&s.requests, &d.Requests}, {&s.tokens, &d.Tokens}} {
		if x.mine.HeardAt.IsZero() && x.mine.ResetAt.IsZero() {
			*x.mine = x.old.restored(now)
		}
	}
}

// restored keeps a stored claim within the bounds of a fresh one.
func (l learned) restored(now time.Time) learned {
	l.HeardAt = past(l.HeardAt, now)
	if !l.ResetAt.IsZero() {
		l.ResetAt = now.Add(min(l.ResetAt.Sub(now), longestRest))
	}
	l.Limit, l.Left = max(l.Limit, 0), max(l.Left, 0)
	return l
}

// Restore takes over records of an earlier process; it never makes the room more permissive. What was sent after the
// last record is taken as the most that could have been, when an account is bound whose limits are known.
func (r *Room) Restore(records []resilience.Record, now time.Time) {
	for rec, d := range memory.Decode[durable](RoomName, records) {
		if d.stale(now) { // clients choose names of models: what is over leaves the store
			r.opts.Keep.Save(resilience.Record{Room: RoomName, Key: rec.Key, At: rec.At.Add(1)})
			continue
		}
		c := r.cell(rec.Key)
		c.Follow(rec.At)
		c.Lock()
		c.State.restore(d, now)
		if now.Sub(rec.At) < window+recordEvery {
			c.State.restoredAt = now
		}
		hot := c.State.requests.watched(now) || c.State.tokens.watched(now)
		changed := c.hot.Swap(hot) != hot
		c.Unlock()
		if changed {
			r.opts.Changes.Note()
		}
	}
}

// catchUp counts what may have been sent after the last record. It runs at the first Bind after a restore, which is when
// the limits are known.
func (s *state) catchUp(l limits) {
	if s.restoredAt.IsZero() {
		return
	}
	n, tokens := l.ahead()
	s.sent.add(max(n-1, 0), max(tokens-1, 0), s.restoredAt)
	s.restoredAt = time.Time{}
}

// Status lists the accounts, and models of accounts, whose rate is limited or whose limits were learned, sorted by key.
func (r *Room) Status(now time.Time) []resilience.Status {
	var out []resilience.Status
	for key, c := range r.cells.Snapshot() {
		c.Lock()
		line, show := c.State.status(now)
		c.Unlock()
		if show {
			line.Key = key
			out = append(out, line)
		}
	}
	slices.SortFunc(out, func(a, b resilience.Status) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// status is one line for people; show is false when there is nothing to tell.
func (s *state) status(now time.Time) (line resilience.Status, show bool) {
	line = resilience.Status{Layer: gateway.LayerPacing, State: "active", Detail: map[string]string{"of": "rate"}}
	requests, tokens := s.sent.sums(now)
	if (requests > 0 || tokens > 0) && !s.model { // the account's line tells of its models, too
		line.Detail["requests_last_minute"], line.Detail["tokens_last_minute"] = strconv.Itoa(requests), strconv.Itoa(tokens)
		show = true
	}
	if s.unheard > 0 && !s.model {
		line.Detail["under_way"] = strconv.Itoa(s.unheard)
		show = true
	}
	for _, x := range []struct {
		name string
		l    *learned
	}{{"requests", &s.requests}, {"tokens", &s.tokens}} {
		if n := x.l.perMinute(now); n > 0 {
			line.Detail["learned_"+x.name], line.Detail["held_"+x.name] = strconv.Itoa(x.l.Limit), strconv.Itoa(n)
			line.State, show = "learned", true
		}
		if x.l.ResetAt.After(now) {
			line.Detail[x.name+"_left"] = strconv.Itoa(x.l.Left)
			line.Detail[x.name+"_reset"] = x.l.ResetAt.UTC().Format(time.RFC3339)
			show = true
		}
	}
	if a := s.rests(1, now); a.no {
		line.State, line.Reason, line.Until, show = "paced", a.why, a.at, true
	}
	return line, show
}
