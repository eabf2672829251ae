package rate

import (
	"time"

	"spillway/internal/gateway"
)

// limits hold for one key; zero fields are off.
type limits struct {
	rpm, tpm  int
	interval  time.Duration
	preflight bool // believe headers that say that nothing is left
}

// none reports whether nothing is limited but by what headers say is left.
func (l limits) none() bool { return l.rpm == 0 && l.tpm == 0 && l.interval == 0 }

// state is everything known about one key.
type state struct {
	sent     tally
	lastAt   time.Time // of the last request, for the interval
	output   float64   // tokens that answers usually add to their prompt's estimate, a moving average
	requests learned
	tokens   learned
	canaryAt time.Time // when the one request left that finds out what is left after a rest; zero = none is out
	unheard  int       // requests under way whose headers have not come yet

	spoke   gateway.ModelID // whose headers were heard last; only of accounts
	model   bool            // the key is a model of an account
	splitAt time.Time       // when answers of two models named different limits, which then are the models' own; zero = never

	savedRequests, savedTokens int // counted since the last record
	savedAt                    time.Time
	restoredAt                 time.Time // what may have been sent after the last record is still to be counted
}

// ticket is what a permit has taken of one key.
type ticket struct {
	entry   uint64
	at      time.Time
	lastAt  time.Time // what the interval counted from before
	counted bool
	canary  bool
}

// answer says when a request may go, and why not before.
type answer struct {
	at  time.Time // zero = only an event can help
	why gateway.Reason
	no  bool
}

func (a answer) now(now time.Time) bool { return !a.no && !a.at.After(now) }

// later reports whether a keeps a request longer than b; not knowing when is longest.
func (a answer) later(b answer) bool {
	switch {
	case a.no != b.no:
		return a.no
	case a.no:
		return a.at.IsZero() || !b.at.IsZero() && a.at.After(b.at)
	}
	return a.at.After(b.at)
}

// outputShare is the weight of the newest answer in the average of what answers add.
const outputShare = 0.2

// estimate is how many tokens a request with such a prompt will count with.
func (s *state) estimate(prompt int) int { return prompt + int(s.output) }

// canaryFor is how long the request that finds out is waited for; a silent one must not hold the others up for ever.
const canaryFor = 30 * time.Second

// admits says when a request may go.
func (s *state) admits(l limits, tokens int, now time.Time) answer {
	a := answer{at: s.sent.next(l.rpm, l.tpm, tokens, now), why: gateway.Paced}
	if l.interval > 0 && !s.lastAt.IsZero() {
		if at := s.lastAt.Add(l.interval); at.After(a.at) {
			a.at = at
		}
	}
	a.no = a.at.After(now)
	if !l.preflight {
		return a
	}
	if rest := s.rests(tokens, now); rest.no && rest.later(a) {
		return rest
	}
	return a
}

// rests says whether headers have told that nothing is left.
func (s *state) rests(tokens int, now time.Time) answer {
	a := answer{why: gateway.QuotaPreflight}
	if at := s.requests.emptyUntil(1, now); at.After(a.at) {
		a.at, a.no = at, true
	}
	if at := s.tokens.emptyUntil(tokens, now); at.After(a.at) {
		a.at, a.no = at, true
	}
	if a.no || s.canaryAt.IsZero() {
		return a
	}
	if lease := s.canaryAt.Add(canaryFor); lease.After(now) {
		a.at, a.no = lease, true
	}
	return a
}

// take counts a request.
func (s *state) take(tokens int, now time.Time) ticket {
	t := ticket{at: now, lastAt: s.lastAt, counted: true}
	t.entry = s.sent.add(1, tokens, now)
	s.lastAt = now
	s.unheard++
	s.savedRequests++
	s.savedTokens += tokens
	rested := s.requests.use(1, now)
	if s.tokens.use(tokens, now) || rested {
		t.canary, s.canaryAt = true, now
	}
	return t
}

// ended is what the end of a request means for its key.
type ended struct {
	sent   bool // it has left
	heard  bool // its headers have come
	learns bool // used is what the upstream said
	prompt int  // estimate of the prompt
	tokens int  // what was reserved
	used   int
}

// settle replaces the estimate by what was used; it reports whether something may go earlier now. What was used beyond
// the estimate counts from the moment at which it becomes known.
func (s *state) settle(t ticket, e ended, now time.Time) (less bool) {
	if !t.counted {
		return false
	}
	if !e.heard && s.unheard > 0 {
		s.unheard--
		if e.sent { // nobody knows whether it was counted; the next answer will tell
			s.requests.unuse(1)
			less = true
		}
	}
	if t.canary && s.canaryAt.Equal(t.at) {
		s.canaryAt, less = time.Time{}, true
	}
	if !e.sent {
		s.sent.back(t.entry, 1, e.tokens)
		if s.lastAt.Equal(t.at) {
			s.lastAt = t.lastAt
		}
		s.requests.unuse(1)
		s.tokens.unuse(e.tokens)
		return true
	}
	if e.learns {
		s.output += outputShare * (max(float64(e.used-e.prompt), 0) - s.output)
	}
	switch diff := e.used - e.tokens; {
	case diff > 0:
		s.sent.add(0, diff, now)
		s.savedTokens += diff
	case diff < 0:
		less = s.sent.back(t.entry, 0, -diff) || less
	}
	return less
}

// splits reports whether limits are the models' own. What was learned before that was known belongs to nobody. It is
// believed for a day: an account whose limit was raised between two answers looks the same.
func (s *state) splits(f facts, model gateway.ModelID, now time.Time) bool {
	if s.isSplit(now) || f.requests.limit <= 0 && f.tokens.limit <= 0 {
		return s.isSplit(now)
	}
	if s.spoke != "" && s.spoke != model && (s.requests.differs(f.requests) || s.tokens.differs(f.tokens)) {
		s.splitAt, s.requests, s.tokens, s.canaryAt = now, learned{}, learned{}, time.Time{}
	}
	s.spoke = model
	return s.isSplit(now)
}

func (s *state) isSplit(now time.Time) bool {
	return !s.splitAt.IsZero() && now.Sub(s.splitAt) < believedFor
}

// hear takes what headers say. heard is the ticket of the request whose answer they came with.
func (s *state) hear(f facts, t ticket, first bool, now time.Time) {
	if first && t.counted && s.unheard > 0 {
		s.unheard--
	}
	if t.canary && s.canaryAt.Equal(t.at) {
		s.canaryAt = time.Time{}
	}
	s.requests = s.requests.hear(f.requests, s.unheard, now)
	s.tokens = s.tokens.hear(f.tokens, 0, now)
}
