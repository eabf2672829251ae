package watchdog

import (
	"time"

	"spillway/internal/gateway"
)

// The documented defaults of spec streaming.md item 5, used where a setting is zero.
const (
	defaultConnect      = 10 * time.Second
	defaultFirstContent = 10 * time.Second
	defaultLastChance   = 5 * time.Minute
	localLastChance     = 10 * time.Minute
	defaultIdle         = 30 * time.Second
	defaultHeaders      = 30 * time.Second
	defaultStreamTotal  = time.Hour
	defaultRequest      = 10 * time.Minute

	reasoningFloor = time.Minute
	wholeFloor     = time.Minute // non-stream, plus perToken
	perToken       = 25 * time.Millisecond
	unaskedTokens  = 4096

	idleAloneFactor = 4  // 30 s -> 120 s where continuation is impossible
	idleToolFactor  = 10 // 30 s -> 300 s while a server-side tool runs
	lingerFor       = 500 * time.Millisecond
)

// Input is everything the clocks of one attempt depend on.
type Input struct {
	Timeouts gateway.Timeouts // effective for the connection
	Class    gateway.Class

	Stream    bool
	Bytes     int  // size of the request body in bytes
	Reasoning bool // the request asks for reasoning, or the model is known to think silently
	MaxTokens int  // output tokens asked for; 0 = not given

	// Learned of this candidate (room health); zero = unknown.
	P95            time.Duration
	Guessed        bool // P95 comes from attempts that were cut, so it is an extension already
	LongestCut     time.Duration
	HeadersEarly   bool
	ThinksSilently bool

	Untried      bool          // a runnable candidate is left that this request has not tried
	Left         time.Duration // until the request's deadline; 0 = Timeouts.Request
	Continuation bool          // another candidate could go on after commit

	Guards Config
}

// Clocks are the limits of one attempt. A zero limit is off.
type Clocks struct {
	Connect      time.Duration // while dialing
	Headers      time.Duration // from dispatch
	FirstContent time.Duration // from dispatch or the last reasoning frame
	Last         bool          // FirstContent is the last chance
	Patience     time.Duration // what is fair to wait for first content, whatever the deadline
	Idle         time.Duration // gap while failover or continuation is possible
	IdleAlone    time.Duration // gap after commit when it is not
	IdleTool     time.Duration // gap while a server-side tool is open
	Total        time.Duration // from dispatch
	StreamTotal  time.Duration // from first content
	Deadline     time.Duration // from dispatch to first content, or to the end when not streamed
	Linger       time.Duration // from the terminal event

	Continuation bool
	Guards       Config
}

// Limits computes the clocks of an attempt. It is pure, and the only place where a limit is made.
func Limits(in Input) Clocks {
	t := in.Timeouts
	left := in.Left
	if left <= 0 {
		left = or(t.Request, defaultRequest)
	}
	idle := or(t.Idle, defaultIdle)
	c := Clocks{
		Connect: or(t.Connect, defaultConnect), Total: t.Total, Deadline: left, Linger: lingerFor,
		Idle: idle, IdleAlone: idle * idleAloneFactor, IdleTool: idle * idleToolFactor,
		Continuation: in.Continuation, Guards: in.Guards,
	}
	if in.HeadersEarly {
		c.Headers = or(t.Headers, defaultHeaders)
	}
	if in.Stream {
		c.StreamTotal = or(t.StreamTotal, defaultStreamTotal)
	} else {
		c.Guards = Config{}
	}
	usual := 3 * in.P95
	if in.Guessed {
		usual = 0 // the longest cut says the same, and more exactly
	}
	c.Patience = max(floor(in), usual, in.LongestCut+in.LongestCut/2)
	c.FirstContent, c.Last = c.Patience, !in.Untried
	switch {
	case in.Untried:
		c.FirstContent = min(c.FirstContent, share(in, left))
	case in.Stream:
		c.FirstContent = max(lastChance(in), c.Patience)
	default:
		c.FirstContent = left
	}
	c.FirstContent = min(c.FirstContent, left)
	return c
}

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// floor is the least wait for first content while another candidate is untried.
func floor(in Input) time.Duration {
	base := or(in.Timeouts.FirstContent, defaultFirstContent)
	if in.Stream {
		per := time.Duration(40 << 10) // bytes of prompt that are read in a second
		if in.Class == gateway.Local {
			per = 4 << 10
		}
		base += time.Duration(in.Bytes) * time.Second / per
	} else {
		tokens := in.MaxTokens
		if tokens <= 0 {
			tokens = unaskedTokens
		}
		base = max(base, wholeFloor+time.Duration(tokens)*perToken)
	}
	if in.Reasoning || in.ThinksSilently {
		base = max(base, reasoningFloor)
	}
	return base
}

// share is how much of what is left until the deadline an attempt may take while another candidate is untried: half of
// it, so that the other one gets its try. An attempt that this cut gets more the next time, up to three quarters; and a
// candidate whose answers were really seen to take longer than half gets what they take.
func share(in Input, left time.Duration) time.Duration {
	d := max((left+1)/2, min(in.LongestCut+in.LongestCut/2, left/4*3))
	if !in.Guessed {
		d = max(d, in.P95)
	}
	return d
}

func lastChance(in Input) time.Duration {
	if in.Class == gateway.Local {
		return or(in.Timeouts.LastChance, localLastChance)
	}
	return or(in.Timeouts.LastChance, defaultLastChance)
}

// expired describes a clock that ran out.
func (c *Clocks) expired(s *State, clock Clock, at time.Duration) *Expired {
	e := &Expired{Clock: clock, After: at, Patient: true}
	switch clock {
	case Connect:
		e.Limit = c.Connect
	case Headers:
		e.Limit = c.Headers
	case FirstContent, LastChance:
		e.Limit = s.limit
	case Idle:
		e.Limit = s.idle(c)
	case Total:
		e.Limit = c.Total
	case StreamTotal:
		e.Limit = c.StreamTotal
	case Deadline:
		e.Limit, e.Patient = c.Deadline, at-s.quietSince >= c.Patience
	case Stall:
		e.Limit = c.Guards.Window
		if !s.meter.low {
			e.Limit = c.Guards.GuardWithin
		}
	case Linger:
		e.Limit = c.Linger
	}
	return e
}
