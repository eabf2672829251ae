package lab

import (
	"bytes"
	"net/http"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/lab/wire"
)

// is reports whether the request ends in this way.
func (p *play) is(k fault.Kind) bool { return p.end != nil && p.end.Kind == k }

// words are the tokens to send, and why they end.
func (p *play) words() (wire.Line, wire.Finish) {
	seed, n := p.s.voice, p.s.words
	if p.short != nil {
		seed, n = seed^wire.ShortSeed, p.short.ShortTokens()
	}
	line := wire.Say(p.call.Prompt, seed, n).After(p.call.Prefill)
	if p.call.MaxTokens > 0 && p.call.MaxTokens < line.Len() {
		return line.First(p.call.MaxTokens), wire.Length
	}
	if p.call.Filters() {
		return line.First(line.Len() / 2), wire.Filtered
	}
	return line, wire.Stop
}

// firstToken is the time to the first token of the n-th answer of a source.
func firstToken(cfg *SourceConfig, model string, n uint64, elapsed time.Duration) time.Duration {
	x := fault.Chance(cfg.Luck(), n, 1)
	if pace := cfg.PaceAt(elapsed, model); pace != nil {
		return scenario.Quantile(pace.Latency, x)
	}
	return cfg.Latency.At(x)
}

func (p *play) late() error {
	if p.slow == nil {
		return nil
	}
	return p.pause(lateBy(p.slow))
}

// lateBy is when a late first token comes.
func lateBy(f *fault.Fault) time.Duration {
	if f.Delay == 0 {
		return 20 * time.Second
	}
	return f.Delay
}

// gap is the time between the tokens i-1 and i.
func (p *play) gap(i int) time.Duration {
	if p.short != nil {
		return 0
	}
	if p.crawl != nil && i >= p.crawl.Tokens {
		return crawlGap(p.crawl)
	}
	if p.even < 0 {
		return p.s.cfg.Interval.At(fault.Chance(p.s.luck, p.n, uint64(i)+2))
	}
	return p.even
}

// span is the time from the first to the last of the answer's tokens, as a source without faults takes it.
func span(cfg *SourceConfig, model string, n uint64, elapsed time.Duration) time.Duration {
	words := cfg.Words()
	if gap := evenGap(cfg, model, n, elapsed); gap >= 0 {
		return gap * time.Duration(words-1)
	}
	var sum time.Duration
	luck := cfg.Luck()
	for i := 1; i < words; i++ {
		sum += cfg.Interval.At(fault.Chance(luck, n, uint64(i)+2))
	}
	return sum
}

// tokenGap is the time between the tokens i-1 and i of the n-th answer of a source.
func tokenGap(cfg *SourceConfig, model string, n uint64, i int, elapsed time.Duration) time.Duration {
	if gap := evenGap(cfg, model, n, elapsed); gap >= 0 {
		return gap
	}
	return cfg.Interval.At(fault.Chance(cfg.Luck(), n, uint64(i)+2))
}

// evenGap is the time between any two tokens of the n-th answer of a source, negative where each has its own.
func evenGap(cfg *SourceConfig, model string, n uint64, elapsed time.Duration) time.Duration {
	if pace := cfg.PaceAt(elapsed, model); pace != nil {
		return scenario.Quantile(pace.Length, fault.Chance(cfg.Luck(), n, 2)) / time.Duration(max(cfg.Words()-1, 1))
	}
	if cfg.Interval.Min == cfg.Interval.Max {
		return cfg.Interval.Min
	}
	return -1
}

func crawlGap(f *fault.Fault) time.Duration {
	if f.Interval == 0 {
		return time.Second
	}
	return f.Interval
}

// maxBundle bounds the time that a bundle of tokens stands for; of tokens that trickle, maxCrawl does, for how a gateway
// sees those is the point of them.
const (
	maxBundle = 2 * time.Second
	maxCrawl  = 500 * time.Millisecond
)

// bundle is how many tokens go out together at token i of n, and how long they take. That is one, except where the
// lab runs in virtual time: there the first token comes alone, at its time, and the others in bundles that come when
// the last token of each would. No client can tell but by its number of events, and a fault finds the tokens sent that
// it wants.
func (p *play) bundle(i, n int) (count int, takes time.Duration) {
	if i > 0 || p.crawl != nil {
		takes = p.gap(i)
	}
	count = 1
	if !p.s.coarse || i == 0 || p.broken > 0 || p.huge > 0 || p.split {
		return count, takes
	}
	most := maxBundle
	if p.crawl != nil {
		most = maxCrawl
	}
	for i+count < n && (p.end == nil || i+count != p.end.Tokens) {
		more := takes + p.gap(i+count)
		if more > most {
			break
		}
		takes = more
		count++
	}
	return count, takes
}

// answer plays a good answer, or one that goes wrong on its way. Errors mean that the client is gone.
func (p *play) answer(now time.Time) {
	p.out.Begin(&p.call, p.call.Model+p.s.cfg.Suffix, p.a.N, now)
	p.even = evenGap(&p.s.cfg, p.call.Model, p.n, p.elapsed)
	if p.slow != nil && p.slow.HoldHeaders && p.late() != nil {
		return
	}
	var latency time.Duration
	if p.slow == nil && p.short == nil {
		latency = firstToken(&p.s.cfg, p.call.Model, p.n, p.elapsed)
	}
	if !p.call.Completes() || !p.call.Stream {
		p.whole(latency, now)
		return
	}
	if p.pause(latency) != nil {
		return
	}
	p.list = p.call.JSONList
	p.head(http.StatusOK, p.rightType())
	_ = p.stream() // it fails when the client is gone: then there is nobody to tell
}

// stream sends the events.
func (p *play) stream() error {
	a := &p.out
	if p.is(fault.ErrorFirst) {
		if err := p.send(a.Failed(inStream(p.end))...); err != nil {
			return err
		}
		return p.finish()
	}
	if p.is(fault.Heartbeats) {
		return p.heartbeats()
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
		words = wire.Line{}
	}
	if p.call.WantsTool() && !p.is(fault.Empty) {
		if stop, err := p.midway(0); stop || err != nil { // a call is content: what strikes at token 0 comes before it
			return err
		}
		if err := p.send(a.Tool()...); err != nil {
			return err
		}
		return p.close(wire.ToolUse)
	}
	var due time.Time // of the next token, so that timers that fire late do not add up
	for i := 0; i < words.Len(); {
		if stop, err := p.midway(i); stop || err != nil {
			return err
		}
		count, takes := p.bundle(i, words.Len())
		if i == 0 {
			due = time.Now()
		}
		due = due.Add(takes)
		if err := p.pause(time.Until(due)); err != nil {
			return err
		}
		if err := p.send(a.Token(words.Piece(i, i+count))...); err != nil {
			return err
		}
		i += count
		p.s.log.update(func() { p.a.Tokens = i })
	}
	if stop, err := p.midway(words.Len()); stop || err != nil {
		return err
	}
	return p.close(finish)
}

// close sends what ends a stream.
func (p *play) close(finish wire.Finish) error {
	end := p.out.Close
	if p.is(fault.NoDone) {
		end = p.out.End
	}
	if err := p.send(end(finish, p.usage())...); err != nil {
		return err
	}
	if err := p.release(); err != nil {
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
func (p *play) midway(i int) (stop bool, err error) {
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
		if err = p.send(p.out.Failed(inStream(p.end))...); err == nil {
			err = p.finish()
		}
	case fault.Stall:
		if err = p.forever(p.end.Delay); err == nil {
			p.drop(false)
		}
	default:
		return false, nil
	}
	return true, err
}

// heartbeats sends pings and nothing else, then cuts.
func (p *play) heartbeats() error {
	one := p.comment
	if e, ok := p.out.Ping(); ok {
		one = func() error { return p.send(e) }
	}
	if err := p.beat(p.end.Interval, p.end.Delay, one); err != nil {
		return err
	}
	p.drop(false)
	return nil
}

// whole plays an answer that is not streamed, and those that are no completion. It takes as long as its tokens do behind
// the latency.
func (p *play) whole(latency time.Duration, now time.Time) {
	words, finish := p.words()
	if !p.call.Completes() || p.is(fault.Empty) || p.is(fault.MetadataOnly) {
		words = wire.Line{}
	}
	if p.call.WantsTool() && !p.is(fault.Empty) {
		words, finish = wire.Line{}, wire.ToolUse
	}
	if p.slow != nil && !p.slow.HoldHeaders && p.late() != nil {
		return
	}
	takes := latency
	if p.short == nil && p.crawl == nil && words.Len() == p.s.words {
		takes += span(&p.s.cfg, p.call.Model, p.n, p.elapsed)
	} else {
		for i := 1; i < words.Len(); i++ {
			takes += p.gap(i)
		}
	}
	if p.pause(takes) != nil {
		return
	}
	p.s.log.update(func() { p.a.Tokens = words.Len() })
	body := p.out.Whole(words.Piece(0, words.Len()), finish, p.usage())
	switch {
	case p.is(fault.ErrorFirst), p.is(fault.ErrorMid):
		body = inStream(p.end).Body(p.call.Protocol)
	case !p.call.Completes():
		body = wire.Other(&p.call, nil, now)
		if p.call.Op == wire.Speak && p.contentType == "" {
			p.contentType = "audio/wav"
		}
	case p.is(fault.MetadataOnly):
		body = []byte(`{"id":"` + p.out.ID + `","model":"` + p.out.Model + `"}`)
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
		if p.forever(p.end.Delay) == nil {
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
