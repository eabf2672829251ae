package watchdog

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

// at is an event at an offset.
type at struct {
	when time.Duration
	Event
}

// play runs events and lets time pass afterwards; it returns which clock ran out and when.
func play(c Clocks, events []at, until time.Duration) (Clock, time.Duration) {
	s := Begin(&c)
	var now time.Duration
	tickTo := func(limit time.Duration) (Clock, time.Duration) {
		for range 10_000 {
			due, _ := Due(&c, &s)
			if due > limit {
				now = limit
				return None, 0
			}
			due = max(due, now)
			now = due
			var out Clock
			if s, out = Step(&c, s, Event{Kind: Tick}, due); out != None {
				return out, due
			}
		}
		panic("the machine spins")
	}
	for _, e := range events {
		if out, when := tickTo(e.when); out != None {
			return out, when
		}
		s, _ = Step(&c, s, e.Event, e.when)
	}
	return tickTo(until)
}

func content(when time.Duration, text int) at { return at{when, Event{Kind: ContentCame, Text: text}} }
func just(when time.Duration, k EventKind) at { return at{when, Event{Kind: k}} }

func TestMachine(t *testing.T) {
	stream := Limits(Input{Stream: true, Untried: true, Continuation: true})
	alone := Limits(Input{Stream: true})
	whole := Limits(Input{Untried: true, MaxTokens: 1000}) // 85 s
	early := Limits(Input{Stream: true, HeadersEarly: true})
	total := Limits(Input{Stream: true, Timeouts: gateway.Timeouts{Total: 50 * sec}})
	short := Limits(Input{Stream: true, Left: 4 * sec})
	server := func(when time.Duration, k EventKind) at { return at{when, Event{Kind: k, Server: true}} }
	client := func(when time.Duration, k EventKind) at { return at{when, Event{Kind: k}} }

	for _, c := range []struct {
		name   string
		clocks Clocks
		events []at
		want   Clock
		when   time.Duration
	}{
		{"nothing comes", stream, nil, FirstContent, 10 * sec},
		{"P51 accepts and never answers, nowhere to go", alone, []at{just(sec, HeadersCame)}, LastChance, 300 * sec},
		{"O17 headers, then no byte of the body", stream, []at{just(sec, HeadersCame)}, FirstContent, 10 * sec},
		{"headers learned early", early, nil, Headers, 30 * sec},
		{"headers came", early, []at{just(29*sec, HeadersCame)}, LastChance, 300 * sec},
		{"dial", stream, []at{just(sec, DialBegan)}, FirstContent, 10 * sec},
		{"dial, patient", alone, []at{just(sec, DialBegan)}, Connect, 11 * sec},
		{"dial done", alone, []at{just(sec, DialBegan), just(2*sec, DialEnded)}, LastChance, 300 * sec},
		{"deadline first", short, nil, Deadline, 4 * sec},
		{"reasoning re-arms first content", stream, []at{just(9*sec, ReasoningFrame), just(18*sec, ReasoningFrame)}, FirstContent, 28 * sec},
		{"reasoning never goes beyond the deadline", Limits(Input{Stream: true, Untried: true, Left: 20 * sec}),
			[]at{just(9*sec, ReasoningFrame), just(18*sec, ReasoningFrame)}, Deadline, 20 * sec},
		{"P52 one token, then silence", stream, []at{content(5*sec, 3)}, Idle, 35 * sec},
		{"P52 committed and nobody can go on", alone, []at{content(5*sec, 3), just(5*sec, CommitMade)}, Idle, 125 * sec},
		{"held, nobody can go on: failover is still possible", alone, []at{content(5*sec, 3)}, Idle, 35 * sec},
		{"committed, continuation possible", stream, []at{content(5*sec, 3), just(5*sec, CommitMade)}, Idle, 35 * sec},
		{"after a tool call nothing can be continued", stream,
			[]at{content(5*sec, 3), just(5*sec, CommitMade), client(6*sec, ToolOpened), client(7*sec, ToolClosed)}, Idle, 127 * sec},
		{"server tool open", stream, []at{content(5*sec, 3), server(6*sec, ToolOpened)}, Idle, 306 * sec},
		{"server tool closed", stream, []at{content(5*sec, 3), server(6*sec, ToolOpened), server(60*sec, ToolClosed)}, Idle, 90 * sec},
		{"content re-arms idle", stream, []at{content(5*sec, 3), content(34*sec, 1), content(60*sec, 1)}, Idle, 90 * sec},
		{"deadline does not hold after first content", short, []at{content(3*sec, 1), content(30*sec, 1)}, Idle, 60 * sec},
		{"whole answer", whole, []at{just(2*sec, HeadersCame)}, FirstContent, 85 * sec},
		{"total", total, []at{content(sec, 1), content(25*sec, 1), content(49*sec, 1)}, Total, 50 * sec},
		{"slow client", stream, []at{content(5*sec, 3), just(6*sec, PauseBegan), just(100*sec, PauseEnded)}, Idle, 129 * sec},
		{"client blocks for ever: stream_total", Limits(Input{Stream: true, Timeouts: gateway.Timeouts{StreamTotal: 500 * sec}}),
			[]at{content(5*sec, 3), just(6*sec, PauseBegan)}, StreamTotal, 505 * sec},
		{"two pauses", stream, []at{content(sec, 3), just(2*sec, PauseBegan), just(10*sec, PauseEnded), content(11*sec, 1),
			just(12*sec, PauseBegan), just(20*sec, PauseEnded)}, Idle, 49 * sec},
		{"terminal, then heartbeats", stream, []at{content(sec, 3), just(2*sec, TerminalCame), just(2100*ms, TerminalCame)}, Linger, 2500 * ms},
		{"nowhere to go any more", stream, []at{{8 * sec, Event{Kind: Extended, Until: 300 * sec}}}, LastChance, 300 * sec},
		{"extend never shortens", alone, []at{{8 * sec, Event{Kind: Extended, Until: 20 * sec}}}, LastChance, 300 * sec},
	} {
		if got, when := play(c.clocks, c.events, 2*time.Hour); got != c.want || when != c.when {
			t.Errorf("%s: %v at %v, want %v at %v", c.name, got, when, c.want, c.when)
		}
	}
}

func trickle(from, to, every time.Duration, text int) (out []at) {
	for when := from; when <= to; when += every {
		out = append(out, content(when, text))
	}
	return out
}

func TestThroughput(t *testing.T) {
	guards := Default()
	guards.Throughput = true
	c := Limits(Input{Stream: true, Guards: guards})
	off := Limits(Input{Stream: true, Guards: Default()})
	for _, row := range []struct {
		name   string
		clocks Clocks
		events []at
		want   Clock
		from   time.Duration
		to     time.Duration
	}{
		{"1 byte a second: after warm-up and one window", c, trickle(sec, 200*sec, sec, 1), Stall, 60 * sec, 64 * sec},
		{"the same, switched off", off, trickle(sec, 200*sec, sec, 1), None, 0, 0},
		{"5 bytes a second", c, trickle(sec, 200*sec, sec, 5), None, 0, 0},
		{"fast, then slow", c, append(trickle(sec, 90*sec, sec, 50), trickle(91*sec, 200*sec, sec, 1)...), Stall, 112 * sec, 122 * sec},
		{"only content of another kind", c, trickle(sec, 200*sec, sec, 0), None, 0, 0},
		{"tool call in flight", c, append([]at{content(sec, 10), {2 * sec, Event{Kind: ToolOpened}}}, trickle(3*sec, 200*sec, sec, 1)...), None, 0, 0},
		{"reasoning in flight", c, append([]at{content(sec, 10)}, func() (out []at) {
			for when := 2 * sec; when < 200*sec; when += sec {
				out = append(out, just(when, ReasoningFrame))
			}
			return out
		}()...), None, 0, 0},
		{"a window begins afresh after reasoning", c, append(append(trickle(sec, 50*sec, sec, 1), just(50*sec, ReasoningFrame)),
			trickle(70*sec, 200*sec, sec, 1)...), Stall, 100 * sec, 104 * sec},
	} {
		end := row.events[len(row.events)-1].when
		got, when := play(row.clocks, row.events, end)
		if got != row.want || when < row.from || when > row.to {
			t.Errorf("%s: %v at %v, want %v between %v and %v", row.name, got, when, row.want, row.from, row.to)
		}
	}
}

func TestThroughputIgnoresASlowClient(t *testing.T) {
	guards := Default()
	guards.Throughput = true
	c := Limits(Input{Stream: true, Guards: guards})
	var events []at
	for when := sec; when < 300*sec; when += 10 * sec { // 40 bytes, then 9.5 s in which the client blocks
		events = append(events, content(when, 40), just(when+100*ms, PauseBegan), just(when+9600*ms, PauseEnded))
	}
	if got, when := play(c, events, 300*sec); got != None {
		t.Errorf("%v at %v", got, when)
	}
}

func TestStartGuard(t *testing.T) {
	guards := Default()
	guards.StartGuard = true
	c := Limits(Input{Stream: true, Guards: guards})
	for _, row := range []struct {
		name   string
		events []at
		want   Clock
		when   time.Duration
	}{
		{"one token, then silence", []at{content(sec, 3)}, Stall, 11 * sec},
		{"a fast start", trickle(sec, 5*sec, sec, 64), Idle, 35 * sec},
		{"just fast enough", trickle(sec, 10*sec, sec, 4), Idle, 40 * sec},
		{"too slow", trickle(sec, 10*sec, sec, 3), Stall, 11 * sec},
		{"a tool call proves it", []at{content(sec, 3), {2 * sec, Event{Kind: ToolOpened}}}, Idle, 32 * sec},
		{"content of another kind proves it", []at{content(sec, 0)}, Idle, 31 * sec},
	} {
		if got, when := play(c, row.events, 2*time.Hour); got != row.want || when != row.when {
			t.Errorf("%s: %v at %v, want %v at %v", row.name, got, when, row.want, row.when)
		}
	}
	s := Begin(&c)
	if !s.held(&c) {
		t.Error("held before content")
	}
	s, _ = Step(&c, s, Event{Kind: ContentCame, Text: 3}, sec)
	if !s.held(&c) {
		t.Error("three characters prove nothing")
	}
	if proven, _ := Step(&c, s, Event{Kind: ContentCame, Text: 37}, 2*sec); proven.held(&c) {
		t.Error("as much as must come within the whole time proves the rate")
	}
	s, _ = Step(&c, s, Event{Kind: ContentCame, Text: 300}, 2*sec)
	if s.held(&c) {
		t.Error("256 characters prove the stream")
	}
}

// Whatever happens, an attempt that is silent from some instant on ends, and a Tick never spins.
func TestMachineAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		guards := Default()
		guards.Throughput, guards.StartGuard = rapid.Bool().Draw(t, "throughput"), rapid.Bool().Draw(t, "guard")
		c := Limits(Input{Stream: rapid.Bool().Draw(t, "stream"), Untried: rapid.Bool().Draw(t, "untried"),
			HeadersEarly: rapid.Bool().Draw(t, "early"), Continuation: rapid.Bool().Draw(t, "continuation"), Guards: guards})
		var events []at
		now, paused := time.Duration(0), false
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			now += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "gap")) * ms
			k := EventKind(rapid.IntRange(int(DialBegan), int(Extended)).Draw(t, "kind"))
			if k == PauseBegan {
				paused = true
			} else if k == PauseEnded {
				paused = false
			}
			events = append(events, at{now, Event{Kind: k, Text: rapid.IntRange(0, 40).Draw(t, "text"),
				Server: rapid.Bool().Draw(t, "server"), Until: now + time.Minute}})
		}
		if paused {
			events = append(events, just(now, PauseEnded))
		}
		if out, _ := play(c, events, now+2*time.Hour); out == None {
			t.Fatal("never ends")
		}
	})
}
