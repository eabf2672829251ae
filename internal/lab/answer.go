package lab

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/wire"
)

// is reports whether the request ends in this way.
func (p *play) is(k fault.Kind) bool { return p.end != nil && p.end.Kind == k }

// words are the tokens to send, and why they end.
func (p *play) words() ([]string, wire.Finish) {
	seed, n := p.s.cfg.Voice(), p.s.cfg.Words()
	if p.short != nil {
		seed, n = seed^wire.ShortSeed, p.short.ShortTokens()
	}
	list := wire.After(wire.Words(p.call.Prompt, seed, n), p.call.Prefill)
	if p.call.MaxTokens > 0 && p.call.MaxTokens < len(list) {
		return list[:p.call.MaxTokens], wire.Length
	}
	if p.call.Filters() {
		return list[:len(list)/2], wire.Filtered
	}
	return list, wire.Stop
}

// latency waits as long as the source takes to begin.
func (p *play) latency() error {
	return pause(p.r.Context(), p.s.cfg.Latency.At(fault.Chance(p.s.cfg.Luck(), p.n, 1)))
}

func (p *play) late() error {
	if p.slow == nil {
		return nil
	}
	d := p.slow.Delay
	if d == 0 {
		d = 20 * time.Second
	}
	return pause(p.r.Context(), d)
}

// gap waits between the tokens i-1 and i.
func (p *play) gap(i int) error {
	if p.short != nil {
		return pause(p.r.Context(), 0)
	}
	d := p.s.cfg.Interval.At(fault.Chance(p.s.cfg.Luck(), p.n, uint64(i)+2))
	if p.crawl != nil && i >= p.crawl.Tokens {
		d = p.crawl.Interval
		if d == 0 {
			d = time.Second
		}
	}
	return pause(p.r.Context(), d)
}

// answer plays a good answer, or one that goes wrong on its way. Errors mean that the client is gone.
func (p *play) answer(now time.Time) {
	a := wire.NewAnswer(p.call, p.call.Model+p.s.cfg.Suffix, p.a.N, now)
	if p.slow != nil && p.slow.HoldHeaders && p.late() != nil {
		return
	}
	if p.slow == nil && p.short == nil && p.latency() != nil {
		return
	}
	if !p.call.Completes() || !p.call.Stream {
		p.whole(a, now)
		return
	}
	p.list = p.call.JSONList
	p.head(http.StatusOK, p.rightType())
	if p.stream(a) != nil {
		return
	}
}

// stream sends the events.
func (p *play) stream(a *wire.Answer) error {
	if p.is(fault.ErrorFirst) {
		if err := p.send(a.Failed(inStream(p.end))...); err != nil {
			return err
		}
		return p.finish()
	}
	if p.is(fault.Heartbeats) {
		return p.heartbeats(a)
	}
	if err := p.send(a.Open()...); err != nil {
		return err
	}
	if p.is(fault.MetadataOnly) {
		return p.finish()
	}
	if p.slow != nil && !p.slow.HoldHeaders {
		if err := p.late(); err != nil {
			return err
		}
	}
	words, finish := p.words()
	if p.is(fault.Empty) {
		words = nil
	}
	if p.call.WantsTool() && !p.is(fault.Empty) {
		if stop, err := p.midway(a, 0); stop || err != nil { // a call is content: what strikes at token 0 comes before it
			return err
		}
		if err := p.send(a.Tool()...); err != nil {
			return err
		}
		return p.close(a, wire.ToolUse)
	}
	for i, w := range words {
		if stop, err := p.midway(a, i); stop || err != nil {
			return err
		}
		if i > 0 || p.crawl != nil {
			if err := p.gap(i); err != nil {
				return err
			}
		}
		if err := p.send(a.Token(w)...); err != nil {
			return err
		}
		p.s.log.update(func() { p.a.Tokens++ })
	}
	if stop, err := p.midway(a, len(words)); stop || err != nil {
		return err
	}
	return p.close(a, finish)
}

// close sends what ends a stream.
func (p *play) close(a *wire.Answer, finish wire.Finish) error {
	events := a.End(finish, p.usage())
	if !p.is(fault.NoDone) {
		events = append(events, a.Done()...)
	}
	if err := p.send(events...); err != nil {
		return err
	}
	p.s.log.update(func() { p.a.Whole = !p.is(fault.Empty) })
	if p.is(fault.NoDone) {
		if err := p.beat(time.Second, max(p.end.Delay, 1), p.comment); err != nil {
			return err
		}
	}
	return p.finish()
}

func (p *play) usage() wire.Usage {
	u := wire.Usage{Input: p.call.InputTokens}
	p.s.log.update(func() { u.Output = p.a.Tokens })
	if p.call.WantsTool() && !p.is(fault.Empty) {
		u.Output = 12
	}
	return u
}

// midway plays the faults that strike when i tokens are out. It reports whether the request is over.
func (p *play) midway(a *wire.Answer, i int) (stop bool, err error) {
	if p.end == nil || i != p.end.Tokens {
		return false, nil
	}
	switch p.end.Kind {
	case fault.Cut:
		p.drop(false)
	case fault.ResetMidStream:
		p.drop(true)
	case fault.EndEarly:
		err = p.finish()
	case fault.ErrorMid:
		if err = p.send(a.Failed(inStream(p.end))...); err == nil {
			err = p.finish()
		}
	case fault.Stall:
		if err = forever(p.r.Context(), p.end.Delay); err == nil {
			p.drop(false)
		}
	default:
		return false, nil
	}
	return true, err
}

// heartbeats sends pings and nothing else, then cuts.
func (p *play) heartbeats(a *wire.Answer) error {
	one := p.comment
	if e, ok := a.Ping(); ok {
		one = func() error { return p.send(e) }
	}
	if err := p.beat(p.end.Interval, p.end.Delay, one); err != nil {
		return err
	}
	p.drop(false)
	return nil
}

// whole plays an answer that is not streamed, and those that are no completion.
func (p *play) whole(a *wire.Answer, now time.Time) {
	words, finish := p.words()
	if !p.call.Completes() || p.is(fault.Empty) || p.is(fault.MetadataOnly) {
		words = nil
	}
	if p.call.WantsTool() && !p.is(fault.Empty) {
		words, finish = nil, wire.ToolUse
	}
	if p.slow != nil && !p.slow.HoldHeaders && p.late() != nil {
		return
	}
	for i := range words { // an answer takes as long as its tokens do
		if i > 0 && p.gap(i) != nil {
			return
		}
	}
	p.s.log.update(func() { p.a.Tokens = len(words) })
	body := a.Whole(strings.Join(words, ""), finish, p.usage())
	switch {
	case p.is(fault.ErrorFirst), p.is(fault.ErrorMid):
		body = inStream(p.end).Body(p.call.Protocol)
	case !p.call.Completes():
		body = wire.Other(p.call, nil, now)
		if p.call.Op == wire.Speak && p.contentType == "" {
			p.contentType = "audio/wav"
		}
	case p.is(fault.MetadataOnly):
		body = []byte(`{"id":"` + a.ID + `","model":"` + a.Model + `"}`)
	}
	p.body(body)
}

// body sends a JSON body, or the part of it that the fault allows.
func (p *play) body(b []byte) {
	if p.broken > 0 {
		b = b[:len(b)-1] // JSON that lacks its end
	}
	if p.huge > 0 {
		b = append(b, bytes.Repeat([]byte(" "), p.size)...)
	}
	if p.is(fault.Heartbeats) {
		p.head(http.StatusOK, jsonBody)
		if p.beat(p.end.Interval, p.end.Delay, func() error { return p.raw([]byte("\n")) }) == nil {
			p.drop(false)
		}
		return
	}
	p.head(http.StatusOK, jsonBody)
	switch {
	case p.is(fault.Cut), p.is(fault.ResetMidStream):
		p.raw(b[:len(b)/2])
		p.drop(p.is(fault.ResetMidStream))
	case p.is(fault.Stall):
		p.raw(b[:len(b)/2])
		if forever(p.r.Context(), p.end.Delay) == nil {
			p.drop(false)
		}
	case p.is(fault.EndEarly):
		p.raw(b[:len(b)/2])
		p.finish()
	default:
		if p.raw(b) != nil || p.finish() != nil {
			return
		}
		p.s.log.update(func() { p.a.Whole = p.end == nil || !p.end.Fatal() })
	}
}
