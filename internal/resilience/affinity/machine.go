package affinity

import (
	"time"

	"spillway/internal/gateway"
)

// Bond is what a session is bound to. The zero value is a session that is not bound. Its methods are pure.
type Bond struct {
	Connection string    `json:"c"` // identity
	Model      string    `json:"m,omitzero"`
	At         time.Time `json:"t"`          // last success
	Tokens     int       `json:"n,omitzero"` // of its prompt: what the upstream's cache may hold
	Account    string    `json:"a,omitzero"` // of the connection; "" in records of earlier versions
	// Moved says that answers of several accounts are in the session's conversation.
	Moved bool `json:"v,omitzero"`
}

// Sole reports whether one account has given all answers of a session that is bound: what is encrypted in them can be
// read there.
func (b Bond) Sole(connection, account string) bool {
	if b.Moved {
		return false
	}
	return b.Account == account || b.Account == "" && b.Connection == connection
}

// Live reports whether the session is still bound.
func (b Bond) Live(c Config, now time.Time) bool {
	return b.Connection != "" && c.TTL > 0 && now.Sub(b.At) <= c.TTL
}

// MayReturn reports whether the session may go back to a target that stands higher than its own: when the upstream's
// prompt cache is gone anyway, or was not worth much.
func (b Bond) MayReturn(c Config, now time.Time) bool {
	return now.Sub(b.At) > c.ReturnIdle || b.Tokens < c.ReturnTokens
}

// Patience is how long it is worth to wait for the session's own connection (resilience.md section 9, rule 4); 0 =
// nothing is cached there that would be.
func (b Bond) Patience() time.Duration {
	const worth, perSecond, most = 20_000, 4_000, 30 * time.Second
	if b.Tokens < worth {
		return 0
	}
	return min(most, time.Duration(b.Tokens)*time.Second/perSecond)
}

// Event is the end of an attempt that a session's request made.
type Event struct {
	Connection string // identity
	Account    string
	Model      string
	Moved      bool // what another account has answered is in the conversation
	Outcome    gateway.Outcome
	Tokens     int // estimated prompt tokens, for an upstream that does not count
	// First says that the request may begin a conversation of its own that only starts like the session's.
	First bool
}

// step is what an event does to a bond. Only a success binds, moves or renews it; only a failure of the very connection
// ends it. What the caller did wrong or gave up on changes nothing, and neither does what a rule says not to count.
func (b Bond) step(c Config, e Event, now time.Time) Bond {
	same := b.Connection == e.Connection && b.Model == e.Model
	switch {
	case e.Outcome.Kind == gateway.Success:
		moved := e.Moved
		if !b.Live(c, now) {
			b = Bond{}
		} else if moved = moved || !b.Sole(e.Connection, e.Account); e.First && !same {
			return b // the longer conversation keeps what it has
		}
		tokens := e.Outcome.Usage.Input
		if tokens == 0 {
			tokens = e.Tokens
		}
		if e.First && same {
			tokens = max(tokens, b.Tokens)
		}
		return Bond{Connection: e.Connection, Model: e.Model, At: later(b.At, now), Tokens: tokens, Account: e.Account, Moved: moved}
	case e.Outcome.Failed() && !e.Outcome.Uncounted && same:
		return Bond{}
	}
	return b
}

// keepEvery is how often a renewal is stored: after a restart a session is at most so much nearer to its end.
const keepEvery = 5 * time.Minute

// durable reports whether a change must be stored now; kept is when the last one was.
func durable(c Config, before, after Bond, kept, now time.Time) bool {
	if before.Connection != after.Connection || before.Model != after.Model || before.Moved != after.Moved {
		return true
	}
	return after != before && now.Sub(kept) >= min(keepEvery, c.TTL/4)
}

// Pin says where a stored object is.
type Pin struct {
	Connection string    `json:"c"` // identity
	At         time.Time `json:"t"` // when it was made
}

// Live reports whether the object is still remembered.
func (p Pin) Live(c Config, now time.Time) bool {
	return p.Connection != "" && now.Sub(p.At) <= c.PinTTL
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
