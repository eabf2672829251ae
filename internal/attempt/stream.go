package attempt

import (
	"cmp"
	"io"
	"sync"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/resilience/verdict"
	"spillway/internal/sse"
)

// How much of a stream is held back before its first content, where the job says nothing; more commits as it is.
const (
	holdBytes  = 256 << 10
	holdEvents = 512
)

var readers = sync.Pool{New: func() any { return sse.NewReader(nil, sse.MaxEvent) }}

// head reads events until one bears content and, under the start guard, until the stream has proven a minimum rate.
// Nothing has reached the client by then, so every failure up to here fails over unseen.
func (f *flight) head() {
	f.reader = readers.Get().(*sse.Reader)
	f.reader.Reset(f.body)
	f.held = make([]byte, 0, 1<<10)
	var ended error // what the last read ended with: it may have brought bytes as well
	stop := stopAtContent
	for {
		out, fault, err := f.take(stop, time.Now())
		f.held = append(f.held, out...)
		switch {
		case fault != nil:
			f.endInStream(fault)
			return
		case err != nil:
			f.endTransport(err)
			return
		case f.facts.content && !f.guarded(), f.facts.seen >= cmp.Or(f.run.job.Hold.Events, holdEvents), len(f.held) >= cmp.Or(f.run.job.Hold.Bytes, holdBytes):
			f.headReady()
			return
		case f.facts.content && stop == stopAtContent: // guarded: there may be more events in the buffer
			stop = toTheEnd
			continue
		case f.facts.last:
			f.endWithoutContent()
			return
		}
		if ended != nil {
			f.headBroken(ended)
			return
		}
		_, ended = f.reader.Fill()
	}
}

func (f *flight) headReady() {
	now := time.Now()
	if f.facts.content {
		f.firstContent(now)
	}
	f.watch.Committed(now)
	f.phase = verdict.PhaseStream
	f.ready = true
}

// headBroken judges a stream that ended before any content.
func (f *flight) headBroken(err error) {
	if err != io.EOF {
		if f.facts.terminal {
			f.endWithoutContent()
			return
		}
		f.endTransport(err)
		return
	}
	if f.facts.terminal {
		f.endWithoutContent()
		return
	}
	if f.facts.content { // held by the start guard: the answer is cut short
		f.end(verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header, Phase: verdict.PhaseStream})
		return
	}
	if fault := f.bareBody(); fault != nil {
		f.endInStream(fault)
		return
	}
	e := verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header, Phase: verdict.PhaseFirstContent}
	if len(f.held) == 0 {
		e.NotCompletion, e.Body = len(f.reader.Rest()) > 0, f.reader.Rest()
	}
	e.Empty = !e.NotCompletion
	f.end(e)
}

// bareBody reads an answer that was no stream of events after all: a JSON error object with a 200, mostly.
func (f *flight) bareBody() *protocol.Signal {
	rest := f.reader.Rest()
	if len(rest) == 0 {
		return nil
	}
	var s protocol.Signal
	f.run.job.Family.Body("application/json", rest, &s)
	if !s.Flags.Has(protocol.Error) {
		return nil
	}
	return &s
}

// endWithoutContent judges a stream that is complete and has nothing in it. A refusal and a stop at the token limit are
// answers; so is an empty one where the combo says so.
func (f *flight) endWithoutContent() {
	if f.facts.flags.Any(protocol.Refused|protocol.Length) || f.run.job.AllowEmpty && !f.facts.early {
		f.headReady()
		return
	}
	f.end(verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header, Empty: true})
}

// endInStream judges an error that came inside a 200.
func (f *flight) endInStream(s *protocol.Signal) {
	e := verdict.Evidence{Status: s.ErrStatus, Header: f.response.Header, InStream: true, Body: s.ErrBody,
		Code: s.Code, Type: s.Type, Message: s.Message, Phase: f.phase}
	f.end(e)
}

type stopRule bool

const (
	stopAtContent stopRule = true
	toTheEnd      stopRule = false
)

// take goes through the complete events that are in the reader's buffer and returns the bytes of those that the client
// gets; they are good until the next Fill. It stops at an error inside the stream, which it returns, at the last event,
// and at the first content if told so.
func (f *flight) take(stop stopRule, now time.Time) (out []byte, fault *protocol.Signal, err error) {
	text := 0 // bytes of plain text deltas that the watch has not been told of
	tell := func() {
		if text > 0 {
			f.watch.Content(text, now)
			text = 0
		}
	}
	for !f.facts.last {
		if n, more := f.repeat.Match(f.reader.Ahead()); n > 0 { // one more plain piece of text: nearly every event of nearly every stream
			f.facts.seen++
			f.facts.events++
			text += more
			raw := f.reader.Pass(n)
			if f.renamed {
				raw = f.rewritten(sse.Event{Raw: raw, Data: f.repeat.Data(raw)})
			}
			out = joined(out, raw)
			continue
		}
		ev, ok, err := f.reader.Next()
		if err != nil || !ok {
			tell()
			return out, nil, err
		}
		tell()
		keep, fault := f.read(ev, now)
		if fault != nil {
			return out, fault, nil
		}
		if keep {
			out = joined(out, f.rewritten(ev))
		}
		if bool(stop) && f.facts.content {
			return out, nil, nil
		}
	}
	return out, nil, nil
}

// read takes in what one event says; keep tells whether the client gets it.
func (f *flight) read(ev sse.Event, now time.Time) (keep bool, fault *protocol.Signal) {
	data := ev.Data
	switch {
	case ev.Stray:
		data = ev.Raw // a bare error body where an event should be
	case ev.Comment:
		return false, nil // upstream heartbeats reset nothing; the door sends its own
	}
	s := &f.signal
	s.Reset()
	family := f.run.job.Family
	family.Event(ev.Name, data, s)
	if s.Flags.Has(protocol.Error) {
		return false, s
	}
	f.note(s)
	f.state.Observe(s)
	f.clock(s, ev.Data, now)
	f.repeat.Learn(ev.Raw, ev.Data, family.TextMember(), s)
	if s.Flags.Has(protocol.Last) && !s.Flags.Has(protocol.Terminal) && !f.state.Complete() {
		f.facts.early = true // the client must not take what there is for whole
		return false, nil
	}
	return f.keep(s), nil
}

// clock tells the watch what an event was. Pings, comments and metadata move no clock.
func (f *flight) clock(s *protocol.Signal, data []byte, now time.Time) {
	const moves = protocol.Content | protocol.Reasoning | protocol.ToolOpen | protocol.ToolClosed | protocol.Terminal
	if !s.Flags.Any(moves) {
		return
	}
	switch {
	case s.Flags.Has(protocol.Content):
		text := 0
		if s.Flags.Has(protocol.Text) {
			text = f.textBytes(data)
		}
		f.watch.Content(text, now)
	case s.Flags.Has(protocol.Reasoning):
		f.watch.Reasoning(now)
		if f.probe {
			f.permits.renew(now)
		}
	}
	if s.Flags.Has(protocol.ToolOpen) {
		f.watch.ToolOpen(true, now)
	}
	if s.Flags.Has(protocol.ToolClosed) {
		f.watch.ToolClose(true, now)
	}
	if s.Flags.Has(protocol.Terminal) && f.state.Complete() {
		f.watch.Terminal(now)
	}
}

// keep reports whether an event goes to the client: not one that is no JSON, and not the usage that only we asked for.
func (f *flight) keep(s *protocol.Signal) bool {
	if s.Flags.Has(protocol.Malformed) {
		return false
	}
	return !s.Flags.Has(protocol.UsageOnly) || f.run.job.Envelope.IncludeUsage
}

// rewritten is the event's bytes, with the model's name put back when the client used an alias.
func (f *flight) rewritten(ev sse.Event) []byte {
	if !f.renamed {
		return ev.Raw
	}
	data := f.run.job.Family.ReplaceModel(nil, ev.Data, f.run.job.Envelope.Model)
	return sse.AppendWithData(nil, ev, data)
}

// pump carries a committed stream to its end. All complete events that one read brought go out in one write.
func (f *flight) pump(door Door) (clientGone bool) {
	var ended error
	for {
		now := time.Now()
		out, fault, err := f.take(toTheEnd, now)
		if len(out) > 0 {
			f.sent += int64(len(out))
			if f.told < len(f.facts.objects) {
				f.run.remember(f) // before the client can refer to it
			}
			werr := f.write(door, out, now)
			if werr != nil && !f.facts.terminal {
				return true
			}
		}
		switch {
		case fault != nil:
			f.endInStream(fault)
			return false
		case err != nil:
			f.endTransport(err)
			return false
		case f.facts.early:
			f.streamEnded(io.EOF, door)
			return false
		case f.facts.last:
			f.drain()
			f.complete()
			return false
		}
		if ended != nil {
			f.streamEnded(ended, door)
			return false
		}
		_, ended = f.reader.Fill()
	}
}

// write sends events to the client. A slow client blocks here; that is no silence of the upstream.
func (f *flight) write(door Door, events []byte, now time.Time) error {
	f.watch.Paused(true, now)
	err := door.Write(events, now)
	f.watch.Paused(false, now.Add(time.Since(now))) // one reading of one clock
	return err
}

// joined extends a run of bytes by the bytes that follow it in the same buffer without copying; else it appends.
func joined(run, raw []byte) []byte {
	if run == nil {
		return raw
	}
	if n := len(run); cap(run)-n >= len(raw) && len(raw) > 0 && &run[:n+1][n] == &raw[0] {
		return run[:n+len(raw)]
	}
	return append(run[:len(run):len(run)], raw...)
}

// drain reads what is left of a stream behind its last event, so that the socket can be used again. The watch ends it
// after half a second, whatever heartbeats follow.
func (f *flight) drain() {
	for {
		if _, err := f.reader.Fill(); err != nil {
			return
		}
		for {
			if _, ok, err := f.reader.Next(); !ok || err != nil {
				break
			}
		}
	}
}

// streamEnded judges the end of a committed stream: complete only with the protocol's terminal evidence.
func (f *flight) streamEnded(err error, door Door) {
	switch {
	case f.state.Complete():
		f.facts.broken = err != io.EOF
		if c, ok := f.run.job.Family.(protocol.Closer); ok {
			if mark := c.AppendClose(nil, &f.state); len(mark) > 0 {
				_ = f.write(door, mark, time.Now()) // the answer is whole: a client that left now has lost nothing
			}
		}
		f.complete()
	case err == io.EOF:
		f.facts.terminal = false // one choice of several may have had its end
		f.end(verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header, Phase: verdict.PhaseStream})
	default:
		f.facts.terminal = false
		f.endTransport(err)
	}
}

// complete records a whole answer.
func (f *flight) complete() {
	f.facts.terminal = true
	if !f.facts.flags.Has(protocol.UsageSeen) {
		f.facts.usage = gateway.Usage{Input: f.run.job.Envelope.Tokens, Output: f.facts.events, Estimated: true}
	}
	f.end(verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header})
}
