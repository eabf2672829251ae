package watchdog

import (
	"math"
	"time"
)

// The machine of one attempt. All times are offsets from dispatch. It reads no clock and starts no timer.

// EventKind says what happened.
type EventKind uint8

// The events of an attempt; dispatch is Begin.
const (
	Tick EventKind = iota // time passed
	DialBegan
	DialEnded
	HeadersCame
	ReasoningFrame
	ContentCame
	ToolOpened
	ToolClosed
	CommitMade
	PauseBegan
	PauseEnded
	TerminalCame
	Extended
)

// Event is one thing that happened.
type Event struct {
	Kind   EventKind
	Text   int           // ContentCame: bytes of text
	Server bool          // ToolOpened, ToolClosed: run by the upstream
	Until  time.Duration // Extended
}

// never is later than every instant.
const never = time.Duration(math.MaxInt64)

// State is where an attempt stands. It is a plain value.
type State struct {
	dialing, headers, content, committed, terminal bool

	last       bool          // the first_content limit is the last chance
	dialAt     time.Duration // begin of the dial
	quietSince time.Duration // dispatch, or the last reasoning frame
	limit      time.Duration // of first content, from quietSince
	contentAt  time.Duration // first content
	endAt      time.Duration // terminal event

	// Clocks against silence run in active time: time in which we read. It stands still while the client blocks us.
	lastAt    time.Duration // last sign of progress, active time
	paused    bool
	pausedAt  time.Duration
	pausedFor time.Duration

	tools, servers int  // open tool calls
	called         bool // a tool call was seen: what was sent cannot be continued

	meter meter
}

// Begin is the state of an attempt at its dispatch.
func Begin(c *Clocks) State { return State{limit: c.FirstContent, last: c.Last} }

// Step moves the machine. The returned clock is None, or for a Tick the clock that ran out.
func Step(c *Clocks, s State, e Event, at time.Duration) (State, Clock) {
	out := s.step(c, &e, at)
	return s, out
}

// step is Step in place: an event per chunk should not copy the state twice.
func (s *State) step(c *Clocks, e *Event, at time.Duration) Clock {
	switch e.Kind {
	case Tick:
		s.measure(c, at)
		if due, clock := Due(c, s); at >= due {
			return clock
		}
	case DialBegan:
		s.dialing, s.dialAt = true, at
	case DialEnded:
		s.dialing = false
	case HeadersCame:
		s.dialing, s.headers = false, true
	case ReasoningFrame:
		s.reasoning(c, at)
	case ContentCame:
		s.delivered(c, e.Text, at)
	case ToolOpened, ToolClosed:
		s.tool(c, e, at)
	case CommitMade:
		s.committed = true
	case PauseBegan:
		if !s.paused {
			s.paused, s.pausedAt = true, at
		}
	case PauseEnded:
		if s.paused {
			s.paused, s.pausedFor = false, s.pausedFor+at-s.pausedAt
		}
	case TerminalCame:
		if !s.terminal {
			s.terminal, s.endAt = true, at
		}
	case Extended:
		if limit := e.Until - s.quietSince; limit > s.limit {
			s.limit = limit
		}
		s.last = true
	}
	return None
}

// active is the active time at an instant.
func (s *State) active(at time.Duration) time.Duration {
	if s.paused {
		return s.pausedAt - s.pausedFor
	}
	return at - s.pausedFor
}

// measure lets the throughput watchdog see time that passed.
func (s *State) measure(c *Clocks, at time.Duration) {
	if c.Guards.Throughput && s.content && !s.paused {
		s.meter.roll(&c.Guards, s.active(at))
	}
}

func (s *State) reasoning(c *Clocks, at time.Duration) {
	s.headers, s.dialing = true, false
	if !s.content {
		s.quietSince = at
		return
	}
	s.lastAt = s.active(at)
	if c.Guards.on() {
		s.meter.suspend()
	}
}

func (s *State) delivered(c *Clocks, text int, at time.Duration) {
	s.headers, s.dialing = true, false
	now := s.active(at)
	if !s.content {
		s.content, s.contentAt = true, at
		s.meter.begin(now)
	}
	s.lastAt = now
	if c.Guards.on() {
		s.measure(c, at)
		s.meter.count(text, s.tools+s.servers == 0)
	}
}

func (s *State) tool(c *Clocks, e *Event, at time.Duration) {
	n := &s.tools
	if e.Server {
		n = &s.servers
	}
	if e.Kind == ToolOpened {
		*n++
		s.called = true
	} else if *n > 0 {
		*n--
	}
	s.lastAt = s.active(at)
	if c.Guards.on() {
		s.meter.suspend()
	}
}

// idle is the gap that is allowed now.
func (s *State) idle(c *Clocks) time.Duration {
	switch {
	case s.servers > 0:
		return c.IdleTool
	case s.committed && (!c.Continuation || s.called):
		return c.IdleAlone
	}
	return c.Idle
}

// Due is the earliest instant at which a clock runs out or the machine wants a Tick (None), if nothing happens before.
func Due(c *Clocks, s *State) (time.Duration, Clock) {
	if s.terminal {
		return s.endAt + c.Linger, Linger
	}
	due, clock := never, None
	sooner := func(at time.Duration, limit time.Duration, which Clock) {
		if limit > 0 && at+limit < due {
			due, clock = at+limit, which
		}
	}
	sooner(0, c.Total, Total)
	if !s.content {
		// On a tie the deadline names itself: the attempt is not to blame for it.
		sooner(0, c.Deadline, Deadline)
		first := FirstContent
		if s.last {
			first = LastChance
		}
		sooner(s.quietSince, s.limit, first)
		if !s.headers {
			sooner(0, c.Headers, Headers)
		}
		if s.dialing {
			sooner(s.dialAt, c.Connect, Connect)
		}
		return due, clock
	}
	sooner(s.contentAt, c.StreamTotal, StreamTotal)
	if s.paused {
		return due, clock // silence is the client's
	}
	sooner(s.lastAt+s.pausedFor, s.idle(c), Idle)
	if c.Guards.StartGuard {
		if at := s.meter.guardDue(&c.Guards); at != never && at+s.pausedFor < due {
			due, clock = at+s.pausedFor, Stall
		}
	}
	if c.Guards.Throughput {
		if at, verdict := s.meter.due(&c.Guards); at != never && at+s.pausedFor < due {
			due, clock = at+s.pausedFor, verdict
		}
	}
	return due, clock
}
