package cooldown

import (
	"strconv"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// cell is the state of one key.
type cell struct {
	room  *Room
	key   string
	owner atomic.Pointer[gateway.Connection] // one of its connections, for people
	live  atomic.Bool
	hot   atomic.Bool // the state may refuse somebody; Peek looks at it only then

	memory.Cell[state]
	spotless bool // quiet and blank: a success only counts
}

// step applies a pure step and publishes what changed; it returns the new state.
func (c *cell) step(now time.Time, f func(state) state) state { return c.stepAs("", now, f) }

func (c *cell) stepAs(actor string, now time.Time, f func(state) state) state {
	c.Lock()
	after := f(c.State)
	changed := c.set(after, actor, now)
	c.Unlock()
	if changed {
		c.publish()
	}
	return after
}

// served is the short way of a success through a state that has nothing to clear; false = there is something.
func (c *cell) served(key gateway.ClientKeyID, now time.Time) bool {
	c.Lock()
	defer c.Unlock()
	if !c.spotless {
		return false
	}
	c.State.count(key, now)
	c.At = now
	return true
}

// set stores the next state and reports whether there is something to publish; the mutex is held.
func (c *cell) set(after state, actor string, now time.Time) bool {
	before, n := &c.State, memory.News{At: now, Actor: actor}
	if after.durable != before.durable && !(after.blank() && before.blank()) {
		n.Keep, n.Tell = true, after.visible() != before.visible()
	}
	c.State = after
	if hot := !after.quiet(); c.hot.Swap(hot) != hot {
		c.room.opts.Changes.Note()
	}
	c.spotless = after.quiet() && after.blank()
	return c.Note(n)
}

// visible is the part of the state whose change people want to hear of.
func (s *state) visible() durable {
	return durable{Standing: s.Standing, Until: s.Until, NotBefore: s.NotBefore, Learned: s.Learned}
}

// publish hands what is pending to Keep and OnChange with no lock held.
func (c *cell) publish() {
	o := &c.room.opts
	c.Publish(func(s state, n memory.News) {
		if n.Keep {
			o.Keep.Save(n.Record(RoomName, c.key, s.encode()))
		}
		if n.Tell && o.OnChange != nil {
			o.OnChange(n.Sign(c.status(&s, n.At)), n.At)
		}
	})
}

// forgettable reports whether nothing is lost with the cell.
func (c *cell) forgettable() bool {
	s := c.Load()
	return s.blank() && s.quiet()
}

// renew lifts a terminal state when the connection that saw it has another credential now.
func (c *cell) renew(identities map[gateway.ConnectionID]string) {
	c.Lock()
	changed := false
	if id, ok := identities[c.State.Source]; ok {
		if after, lifted := c.State.renew(c.State.Source, id); lifted {
			changed = c.set(after, "", c.At)
		}
	}
	c.Unlock()
	if changed {
		c.publish()
	}
}

// word is the state in one word of the vocabulary.
func (s *state) word(now time.Time) string {
	if s.Standing == active && (now.Before(s.Until) || now.Before(s.NotBefore)) {
		return "unavailable"
	}
	return s.Standing.String()
}

// status describes the cell for people.
func (c *cell) status(s *state, now time.Time) resilience.Status {
	st := resilience.Status{Layer: gateway.LayerCooldown, Key: c.key, State: s.word(now), Detail: map[string]string{}}
	switch {
	case s.Standing != active:
		st.Reason, st.Until = gateway.Terminal, s.CheckAt
	case now.Before(s.Until):
		st.Reason, st.Until = gateway.ConnectionCooldown, s.Until
	case now.Before(s.NotBefore):
		st.Reason, st.Until = gateway.NotBefore, s.NotBefore
	case s.ramp.on:
		st.Reason = gateway.Returning
	}
	put := func(k, v string, ok bool) {
		if ok {
			st.Detail[k] = v
		}
	}
	if of := c.owner.Load(); of != nil {
		put("provider", string(of.Provider.ID), true)
		put("connection", string(of.ID), c.key == ConnectionKey(of))
		put("account", string(of.Account), of.Account != "")
	}
	put("cause", s.Cause.String(), s.Cause != 0)
	put("backoff_level", strconv.Itoa(s.Level), s.Level > 0)
	put("learned_rpm", strconv.FormatFloat(s.Learned, 'f', 1, 64), s.Learned > 0)
	put("terminal_at", s.TerminalAt.Format(time.RFC3339), !s.TerminalAt.IsZero())
	put("disabled_by", s.Actor, s.Actor != "")
	if !s.Last.At.IsZero() {
		put("last_error", s.Last.Message, s.Last.Message != "")
		put("last_error_kind", s.Last.Kind.String(), true)
		put("last_error_at", s.Last.At.Format(time.RFC3339), true)
		put("error_code", s.Last.Code, s.Last.Code != "")
		put("error_status", strconv.Itoa(s.Last.Status), s.Last.Status != 0)
	}
	return st
}
