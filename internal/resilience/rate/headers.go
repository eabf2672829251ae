package rate

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// facts are what the headers of one answer say.
type facts struct{ requests, tokens bucket }

// names of the headers of one bucket, in canonical form.
type names struct{ limit, left, reset string }

// family are the headers of one style.
type family struct{ requests, tokens names }

// families are OpenAI's, which many have taken over, and Anthropic's.
var families = []family{
	{names{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		names{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}},
	{names{"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		names{"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"}},
}

// familiesOf are those that a provider may send, by what it speaks.
func familiesOf(p *gateway.Provider) []family {
	if p == nil || len(p.Protocols) == 0 {
		return families
	}
	switch {
	case !p.Speaks(gateway.Anthropic):
		return families[:1]
	case len(p.Protocols) == 1:
		return families[1:]
	}
	return families
}

// read finds rate-limit headers of some families. It allocates nothing when there are none.
func read(among []family, h http.Header, now time.Time) (f facts, ok bool) {
	for i := range among {
		n := &among[i]
		if len(h[n.requests.left]) == 0 && len(h[n.tokens.left]) == 0 && len(h[n.requests.limit]) == 0 {
			continue
		}
		return facts{requests: n.requests.read(h, now), tokens: n.tokens.read(h, now)}, true
	}
	return f, false
}

func (n names) read(h http.Header, now time.Time) bucket {
	b := bucket{limit: count(h[n.limit]), left: count(h[n.left])}
	if v := h[n.reset]; len(v) > 0 {
		b.reset = reset(v[0], now)
	}
	return b
}

// count reads a number of things; -1 = none is given, or it is none. Limits of two windows, as in "60, 60;w=60", begin
// with the one that counts.
func count(v []string) int {
	if len(v) == 0 {
		return -1
	}
	s := strings.TrimSpace(v[0])
	if i := strings.IndexAny(s, ",;"); i > 0 {
		s = s[:i]
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != f || f > 1e15 {
		return -1
	}
	return max(int(f), 0) // an overdrawn bucket is an empty one
}

// reset reads the time until a reset: 1s, 6m0s, 500ms, 60 (seconds), seconds or milliseconds since 1970, or an RFC 3339
// instant. 0 = it is none, or has passed.
func reset(s string, now time.Time) time.Duration {
	s = strings.TrimSpace(s)
	if len(s) > 40 {
		return 0
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case !(f > 0):
			return 0
		case f >= 1e10:
			return max(time.UnixMilli(int64(min(f, 1e15))).Sub(now), 0)
		case f >= 1e9:
			return max(time.Unix(int64(f), 0).Sub(now), 0)
		}
		return time.Duration(min(f, believedFor.Seconds()) * float64(time.Second))
	}
	if d, err := time.ParseDuration(s); err == nil {
		return max(d, 0)
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// Heard takes the headers of an answer, for an attempt on this candidate and its permit of this room. It is called once
// per attempt, as soon as the headers are there: a stream may last for minutes, and what they say is of now. Headers that
// say nothing about rates cost a few look-ups.
func (h *Handle) Heard(p resilience.Permit, header http.Header, now time.Time) {
	if h == nil || !h.cfg.Learn {
		return
	}
	own, _ := p.(*permit)
	f, ok := read(h.families, header, now)
	if !ok && own == nil {
		return
	}
	account, model, first := ticket{}, ticket{}, false
	if own != nil {
		first = own.hear()
		account, model = own.account, own.model
	}
	f = f.or(ok)
	nothing := facts{requests: silent, tokens: silent}
	if h.split || h.account.splits(f, h.name, now) {
		h.account.hear(nothing, account, first, now)
		h.model.hear(f, model, first, now)
		return
	}
	h.account.hear(f, account, first, now)
	h.model.hear(nothing, model, first, now)
}

// splits reports whether the limits that headers name belong to models and not to the account.
func (c *cell) splits(f facts, model gateway.ModelID, now time.Time) bool {
	c.Lock()
	before := c.State.splitAt
	split := c.State.splits(f, model, now)
	pending := !c.State.splitAt.Equal(before) && c.Note(memory.News{At: now, Keep: true})
	c.Unlock()
	if pending {
		c.publish()
	}
	return split
}

// silent is a bucket of which nothing is said.
var silent = bucket{limit: -1, left: -1}

func (f facts) or(ok bool) facts {
	if !ok {
		return facts{requests: silent, tokens: silent}
	}
	return f
}

// hear reports whether the permit's headers come for the first time.
func (p *permit) hear() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.heard && !p.done
	p.heard = true
	return first
}

// known is what was learned and has to survive a restart: the limits, that nothing is left, and to the hour when the
// limits were told last.
func (s *state) known() (k [6]int) {
	k[0], k[1] = s.requests.Limit, s.tokens.Limit
	for i, l := range []*learned{&s.requests, &s.tokens} {
		if l.Rested {
			k[2+i] = int(l.ResetAt.Unix())
		}
		if l.Limit > 0 {
			k[4+i] = int(l.HeardAt.Unix() / 3600)
		}
	}
	return k
}

// hear takes facts, and tells who may want to know.
func (c *cell) hear(f facts, t ticket, first bool, now time.Time) {
	c.Lock()
	before := &c.State
	held, known, canary := before.rests(1, now).no, before.known(), before.canaryAt
	c.State.hear(f, t, first, now)
	s := &c.State
	rests := s.rests(1, now).no
	hot := s.requests.watched(now) || s.tokens.watched(now) || !s.canaryAt.IsZero()
	changed := c.hot.Load() != hot
	c.hot.Store(hot)
	pending := c.Note(memory.News{At: now, Keep: known != s.known()})
	freed := held && !rests || !canary.IsZero() && s.canaryAt.IsZero()
	c.Unlock()
	if changed {
		c.room.opts.Changes.Note()
	}
	if pending {
		c.publish()
	}
	if freed {
		c.room.opts.OnFree()
	}
}
