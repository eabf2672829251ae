package attempt

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/resilience/verdict"
)

// answer reads a whole answer that is not streamed (or that came as one body although a stream was asked for) and
// judges it. The answer is complete when fly returns: failing over stays possible to its last byte.
func (f *flight) answer() {
	f.phase = verdict.PhaseBody
	r := f.run
	size := firstAnswer
	if n := f.response.ContentLength; n > 0 && n < 8<<20 {
		size = int(n) + 1
	}
	f.whole = r.engine.Buffers.Get(size)
	most := maxAnswer
	if err := readUpTo(f.body, f.whole, most); err != nil {
		f.endTransport(err)
		return
	}
	now := time.Now()
	f.attempt.Bytes = int64(len(*f.whole))
	if !r.job.Envelope.Operation.Completes() {
		f.passOn(now)
		return
	}
	s := &f.signal
	s.Reset()
	r.job.Family.Body(f.response.Header.Get("Content-Type"), *f.whole, s)
	f.note(s)
	e := verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header}
	switch {
	case s.Flags.Has(protocol.Error):
		f.endInBody(s)
	case s.Flags.Has(protocol.NotCompletion):
		e.NotCompletion, e.Body = true, (*f.whole)[:min(len(*f.whole), maxErrorBody)]
		f.end(e)
	case r.job.Envelope.Stream:
		// One body where events were asked for: the client's SDK could not read it.
		e.NotCompletion = true
		f.end(e)
	case s.Empty() && !r.job.AllowEmpty:
		f.facts.terminal = true
		e.Empty = true
		f.end(e)
	default:
		f.firstContent(now)
		f.facts.terminal = true
		f.ready = true
	}
}

// endInBody judges an error that is the whole of a 200.
func (f *flight) endInBody(s *protocol.Signal) {
	f.end(verdict.Evidence{Status: s.ErrStatus, Header: f.response.Header, InStream: true, Body: s.ErrBody,
		Code: s.Code, Type: s.Type, Message: s.Message})
}

// Bytes of an answer that is not streamed: the first room for one whose length is not announced, and the most.
const (
	firstAnswer = 8 << 10
	maxAnswer   = 256 << 20
)

// firstContent marks the moment from which the candidate is known to work.
func (f *flight) firstContent(now time.Time) {
	if !f.attempt.ContentAt.IsZero() {
		return
	}
	f.attempt.ContentAt = now
	known := f.known(now)
	f.health.Content(now)
	f.permits.alive(known, now)
	f.run.engine.Outages.Alive(f.candidate.Candidate, now)
}

// known reports whether first content lets nobody else through: the candidate has answered lately, this attempt is no trial,
// and nothing is held against its account or its provider that content lifts (a ramp, an outage).
func (f *flight) known(now time.Time) bool {
	c := f.candidate
	return !f.probe && c.Health.Proven(now) && c.Cooldown.Plain() && c.Breaker.Quiet()
}

// note takes over what an event or a body has said.
func (f *flight) note(s *protocol.Signal) {
	x := &f.facts
	x.seen++
	x.flags |= s.Flags
	if s.Flags.Has(protocol.Content) {
		x.content = true
		x.events++
	}
	if x.id == "" && len(s.ID) > 0 && len(s.ID) <= gateway.MaxRef && f.run.job.Envelope.Protocol == gateway.Responses {
		x.id = string(s.ID)
	}
	if s.Objects != nil {
		x.made(s.Objects)
	}
	x.terminal = x.terminal || s.Flags.Has(protocol.Terminal)
	x.last = x.last || s.Flags.Has(protocol.Last)
	if s.Flags.Has(protocol.UsageSeen) {
		x.usage = protocol.MergeUsage(x.usage, s.Usage)
	}
	if s.Flags.Has(protocol.Malformed) {
		x.malformed++
	}
}
