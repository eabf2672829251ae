package attempt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/protocol"
	"spillway/internal/resilience"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lane"
	"spillway/internal/resilience/verdict"
	"spillway/internal/resilience/watchdog"
	"spillway/internal/sse"
)

// flight is one attempt: one upstream call. fly takes it to its head (content that may be committed, or a whole answer)
// or to its end. A flight belongs to one goroutine at a time: to the one that flies it, then to the run.
type flight struct {
	// What every piece of a stream touches lies together: with hundreds of streams open it is memory, not work, that
	// one piece costs.
	run     *run
	reader  *sse.Reader
	watch   *watchdog.Watch
	repeat  protocol.Repeat
	facts   facts
	told    int   // so many of facts.objects are known to be at its connection
	sent    int64 // bytes that are not in attempt.Bytes yet
	renamed bool  // the model's name in the answer is put back to what the client asked for

	candidate *plan.Candidate
	slot      int // index in run.history
	probe     bool
	ctx       context.Context
	cancel    context.CancelCauseFunc
	permits   permits
	rate      resilience.Permit // the one of them that hears about rates
	health    *health.Flight
	key       gateway.Secret
	attempt   gateway.Attempt
	untried   bool // at its launch there was somewhere better to go
	lastTry   bool // nowhere better to go: first_content runs to last_chance
	raced     bool // it runs beside its request
	slow      bool // it went in the slow lane
	again     lane.Move

	response *http.Response
	body     io.ReadCloser // decoded
	held     []byte        // events before the first content, and that one
	whole    *[]byte       // the answer when not streamed; an error body when it failed
	state    protocol.StreamState
	phase    verdict.Phase
	signal   protocol.Signal // of the event that was read last, or of the whole answer

	pinned  bool     // what it has made is known to be at its connection
	lost    []string // what the request has lost on the way to this account, by name
	blind   bool     // it was sent without anything encrypted
	ready   bool     // the head is good: it can be committed
	outcome gateway.Outcome
}

// facts are what the events of an answer have said so far.
type facts struct {
	flags     protocol.Flags // of all events together
	content   bool
	terminal  bool
	last      bool
	early     bool // the last event came before the answer had its end
	broken    bool // the answer had its end, and then its connection broke
	seen      int  // events
	events    int  // content events: the estimate of output tokens when the upstream is silent about usage
	objects   []object
	usage     gateway.Usage
	malformed int
	id        string // of the answer, where others may refer to it later
}

// Causes with which a flight is cancelled.
var (
	errRaceLost = errors.New("another candidate was faster")
	errDone     = errors.New("attempt is over")
)

// fly sends the request and reads the answer up to its head. Afterwards either ready is set, or outcome is recorded and
// everything is given back.
func (f *flight) fly() {
	defer func() {
		if p := recover(); p != nil {
			f.end(verdict.Evidence{HostFault: true})
			panic(p)
		}
	}()
	env := f.run.job.Envelope
	f.health = f.candidate.Health.Begin(health.Facts{Stream: env.Stream, Bytes: len(env.Raw)}, f.attempt.BeganAt)
	f.watch = watchdog.New(f.clocks(), f.attempt.BeganAt, f.cancel)
	f.phase = verdict.PhaseHeaders
	f.renamed = f.renames()
	rt, err := f.run.engine.Sender.For(f.candidate.Candidate.Connection)
	if err != nil {
		f.end(verdict.Evidence{HostFault: true, Message: err.Error()})
		return
	}
	f.response, err = rt.RoundTrip(f.request())
	if err != nil {
		f.endTransport(err)
		return
	}
	now := time.Now()
	f.attempt.HeadersAt, f.attempt.Status = now, f.response.StatusCode
	f.health.Headers(now)
	f.candidate.Rate.Heard(f.rate, f.response.Header, now)
	f.watch.Headers(now)
	f.phase = verdict.PhaseFirstContent
	f.body = decoded(f.response)
	switch {
	case f.response.StatusCode < 200 || f.response.StatusCode > 299:
		f.refusal()
	case env.Stream && f.eventStream():
		f.head()
	default:
		f.answer()
	}
}

// clocks are the limits of this attempt.
func (f *flight) clocks() watchdog.Clocks {
	r := f.run
	env := r.job.Envelope
	conn := f.candidate.Candidate.Connection
	f.lastTry = !f.untried
	if f.lastTry && r.job.NoneLeft != nil {
		r.job.NoneLeft()
	}
	learned := f.candidate.Health.Learned(env.Stream, len(env.Raw), f.attempt.BeganAt)
	in := watchdog.Input{
		Timeouts: conn.Timeouts, Class: conn.Provider.Class, Stream: env.Stream, Bytes: len(env.Raw),
		Reasoning: env.Needs.Has(gateway.NeedReasoning), MaxTokens: env.MaxTokens, Untried: f.untried,
		P95: learned.P95, Guessed: learned.Guessed, LongestCut: learned.LongestCut, HeadersEarly: learned.HeadersEarly,
		ThinksSilently: learned.ThinksSilently, Guards: r.job.Guards,
	}
	if !r.deadline.IsZero() {
		in.Left = max(r.deadline.Sub(f.attempt.BeganAt), time.Millisecond)
	}
	clocks := watchdog.Limits(in)
	if r.job.EndGrace > 0 {
		clocks.Linger = r.job.EndGrace
	}
	return clocks
}

// eventStream reports whether the answer is to be read as a stream of events. JSON and HTML say that they are none;
// anything else is read as events, because content types lie.
func (f *flight) eventStream() bool {
	kind := f.response.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/event-stream") {
		return true // the usual case, made cheap
	}
	ct, _, _ := mime.ParseMediaType(kind)
	if ct == "application/json" || strings.HasPrefix(ct, "text/html") {
		return false
	}
	return true
}

// refusal reads the body of an answer that is no success and judges it.
func (f *flight) refusal() {
	f.phase = verdict.PhaseBody
	buf := f.run.engine.Buffers.Get(1 << 10)
	f.whole = buf
	_ = readUpTo(f.body, buf, maxErrorBody) // what came before it broke is all there is to judge
	f.end(verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header, Body: *buf})
}

// maxErrorBody is how much of an error body is read: enough for any explanation.
const maxErrorBody = 64 << 10

// errTooMuch is the end of an answer of which there is more than is read: what was read must not pass for the whole.
var errTooMuch = errors.New("the answer is larger than this gateway takes")

func readUpTo(r io.Reader, buf *[]byte, most int) error {
	for {
		if len(*buf) == cap(*buf) {
			*buf = slices.Grow(*buf, max(len(*buf), bytes.MinRead))
		}
		n, err := r.Read((*buf)[len(*buf):min(cap(*buf), most)])
		*buf = (*buf)[:len(*buf)+n]
		switch {
		case err == io.EOF:
			return nil
		case len(*buf) >= most:
			return errTooMuch
		case err != nil:
			return err
		}
	}
}

// endTransport judges an attempt that got no answer, or lost it.
func (f *flight) endTransport(err error) {
	e := verdict.Evidence{Phase: f.phase}
	if f.response != nil {
		e.Status, e.Header = f.response.StatusCode, f.response.Header
	}
	switch cause := context.Cause(f.ctx); {
	case errors.Is(cause, errRaceLost):
		e.RaceLost = true
	case errors.Is(cause, errDone): // cancelled by us for no fault of its own: the request has panicked
		e.HostFault = true
	case f.run.parent.Err() != nil:
		e.ClientGone = true
	default:
		if clock, ok := errors.AsType[*watchdog.Expired](cause); ok {
			e.Clock = clockOf(clock)
		} else {
			e.Transport = err
		}
	}
	f.end(e)
}

// clockOf translates the clock that fired. The deadline is ours: when it came before the candidate had its fair time it
// says nothing about the candidate, which the judge reads off the attempt's length.
func clockOf(x *watchdog.Expired) verdict.Clock { return clocks[x.Clock] }

var clocks = map[watchdog.Clock]verdict.Clock{
	watchdog.Connect: verdict.ClockConnect, watchdog.Headers: verdict.ClockHeaders,
	watchdog.FirstContent: verdict.ClockFirstContent, watchdog.LastChance: verdict.ClockLastChance,
	watchdog.Idle: verdict.ClockIdle, watchdog.Total: verdict.ClockTotal,
	watchdog.StreamTotal: verdict.ClockStreamTotal, watchdog.Deadline: verdict.ClockDeadline,
	watchdog.Stall: verdict.ClockStall,
}

// end judges the attempt, lets every room learn from the one outcome, and gives everything back. It runs once.
func (f *flight) end(e verdict.Evidence) {
	if f.attempt.EndedAt.IsZero() {
		f.judge(e)
	}
}

func (f *flight) judge(e verdict.Evidence) {
	r := f.run
	f.attempt.Bytes, f.sent = f.attempt.Bytes+f.sent, 0
	now := time.Now()
	if f.watch != nil {
		f.watch.Stop()
	}
	e.Operation = r.job.Envelope.Operation
	e.Candidate, e.Request, e.ClientKey = f.candidate.Candidate, r.job.Journey.ID, r.job.Journey.ClientKey
	e.BeganAt, e.EndedAt, e.LastChance = f.attempt.BeganAt, now, f.lastTry
	e.Content, e.Terminal, e.Usage = f.facts.content, f.facts.terminal, f.facts.usage
	e.Refused = f.facts.flags.Has(protocol.Refused) && !f.facts.content
	if e.Body != nil || e.Message != "" || e.Code != "" || e.Type != "" { // else there is no text in which it could be repeated
		e.RequestText = func() []byte { return r.job.Envelope.Raw }
	}
	o := r.job.Rules.Judge(e)
	if e.RaceLost && f.probe {
		o.Kind, o.Scope, o.Reason = gateway.Slow, gateway.ScopeAttempt, gateway.RaceLost // a losing probe has failed as a probe
	}
	o = f.unreadable(f.renewed(o, now), e.Body)
	if f.candidate.Lane != nil {
		o = f.atWall(o, now)
	}
	o = r.engine.Outages.Observe(f.candidate.Candidate, o, now)
	f.outcome = o
	if f.health != nil {
		f.health.End(o, now)
	}
	f.permits.record(o, now)
	f.able(o, now)
	r.learn(f, o)
	if o.Kind == gateway.Success {
		r.budget.succeeded(now)
	}
	f.describe(o, now)
	f.cancel(errDone)
	if f.body != nil {
		f.body.Close()
	}
}

// renewed reads the source of a refused key again before the refusal counts: a key that was rotated meanwhile is no fault
// of anybody, and the candidate is worth another try with the new one.
func (f *flight) renewed(o gateway.Outcome, now time.Time) gateway.Outcome {
	if o.Kind != gateway.AuthError || o.Status != http.StatusUnauthorized {
		return o
	}
	changed, err := f.candidate.Candidate.Connection.Credential.Reload(f.run.parent, f.key)
	if err != nil {
		f.run.engine.Log.Warn("reading a refused key again", "connection", f.candidate.Candidate.Connection.ID, "err", err)
	}
	if !changed {
		return o
	}
	f.candidate.Cooldown.Renewed(now)
	o.Kind, o.Scope, o.Uncounted = gateway.LocalError, gateway.ScopeRequest, true
	return o
}

// describe fills in the attempt's row of the decision log.
func (f *flight) describe(o gateway.Outcome, now time.Time) {
	a := &f.attempt
	a.EndedAt, a.Kind, a.Scope, a.Reason, a.Status = now, o.Kind, o.Scope, o.Reason, o.Status
	a.Rule, a.Message, a.RetryAfter, a.Usage, a.Uncounted = o.Rule, o.Message, o.RetryAfter.Seconds(), o.Usage, o.Uncounted
	a.After = breakerState(f.candidate, now)
}
