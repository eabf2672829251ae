package watchdog

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

func TestLimitsFirstContent(t *testing.T) {
	configured := gateway.Timeouts{FirstContent: 90 * sec, LastChance: 4 * time.Minute}
	for _, c := range []struct {
		name string
		in   Input
		want time.Duration
		last bool
	}{
		{"stream, small prompt", Input{Stream: true, Untried: true}, 10 * sec, false},
		{"1 s per 40 KiB", Input{Stream: true, Untried: true, Bytes: 400 << 10}, 20 * sec, false},
		{"local: 1 s per 4 KiB", Input{Stream: true, Untried: true, Bytes: 400 << 10, Class: gateway.Local}, 110 * sec, false},
		{"reasoning asked for", Input{Stream: true, Untried: true, Reasoning: true}, 60 * sec, false},
		{"reasoning with a huge prompt", Input{Stream: true, Untried: true, Reasoning: true, Bytes: 4000 << 10}, 110 * sec, false},
		{"thinks silently", Input{Stream: true, Untried: true, ThinksSilently: true}, 60 * sec, false},
		{"whole answer, tokens unknown", Input{Untried: true}, 60*sec + 4096*25*ms, false},
		{"whole answer, 100 tokens", Input{Untried: true, MaxTokens: 100}, 62500 * ms, false},
		{"whole answer, many tokens", Input{Untried: true, MaxTokens: 8000}, 260 * sec, false},
		{"3 x p95", Input{Stream: true, Untried: true, P95: 7 * sec}, 21 * sec, false},
		{"p95 below the floor", Input{Stream: true, Untried: true, P95: sec}, 10 * sec, false},
		{"1.5 x longest cut", Input{Stream: true, Untried: true, LongestCut: 20 * sec}, 30 * sec, false},
		{"configured floor", Input{Stream: true, Untried: true, Timeouts: configured}, 90 * sec, false},
		{"configured floor and prompt", Input{Stream: true, Untried: true, Timeouts: configured, Bytes: 80 << 10}, 92 * sec, false},
		{"last chance", Input{Stream: true}, 300 * sec, true},
		{"last chance, local", Input{Stream: true, Class: gateway.Local}, 600 * sec, true},
		{"last chance, configured", Input{Stream: true, Timeouts: configured}, 240 * sec, true},
		{"last chance below what was learned", Input{Stream: true, P95: 150 * sec}, 450 * sec, true},
		{"whole answer, nowhere to go", Input{}, 600 * sec, true},
		{"deadline", Input{Stream: true, Left: 3 * sec}, 3 * sec, true},
		{"deadline, untried: half of what is left", Input{Stream: true, Untried: true, Left: 3 * sec}, 1500 * ms, false},
		{"whole answer, half of what is left", Input{Untried: true, Left: 10 * sec}, 5 * sec, false},
		{"more after a cut", Input{Untried: true, Left: 10 * sec, LongestCut: 4 * sec}, 6 * sec, false},
		{"never all after a cut", Input{Untried: true, Left: 10 * sec, LongestCut: 8 * sec}, 7500 * ms, false},
		{"what its answers were seen to take", Input{Untried: true, Left: 10 * sec, P95: 9 * sec}, 9 * sec, false},
		{"what was guessed gives no right to more", Input{Untried: true, Left: 10 * sec, P95: 9 * sec, Guessed: true}, 5 * sec, false},
		{"a guess is no measure to be multiplied", Input{Stream: true, Untried: true, P95: 15 * sec, Guessed: true, LongestCut: 10 * sec}, 15 * sec, false},
		{"whole answer up to the deadline", Input{Left: 45 * sec}, 45 * sec, true},
		{"request configured", Input{Timeouts: gateway.Timeouts{Request: 20 * time.Minute}}, 20 * time.Minute, true},
	} {
		got := Limits(c.in)
		if got.FirstContent != c.want || got.Last != c.last {
			t.Errorf("%s: %v last=%v, want %v %v", c.name, got.FirstContent, got.Last, c.want, c.last)
		}
	}
}

func TestLimitsOthers(t *testing.T) {
	c := Limits(Input{Stream: true})
	if c.Headers != 0 || c.Total != 0 {
		t.Error("headers and total are off unless learned or set", c)
	}
	if c.Connect != 10*sec || c.Idle != 30*sec || c.IdleAlone != 120*sec || c.IdleTool != 300*sec || c.StreamTotal != time.Hour ||
		c.Deadline != 600*sec || c.Linger != 500*ms {
		t.Errorf("defaults: %+v", c)
	}
	c = Limits(Input{HeadersEarly: true, Guards: Config{Throughput: true}, Timeouts: gateway.Timeouts{Idle: 5 * sec, Total: time.Minute}})
	if c.Headers != 30*sec || c.Idle != 5*sec || c.IdleAlone != 20*sec || c.Total != time.Minute || c.StreamTotal != 0 {
		t.Errorf("%+v", c)
	}
	if c.Guards.on() {
		t.Error("the guards watch streams only")
	}
}

// O18: an attempt repeated after a cut gets more time than the one before.
func TestO18CutAttemptGetsMoreTimeNextTime(t *testing.T) {
	first := Limits(Input{Stream: true, Untried: true})
	again := Limits(Input{Stream: true, Untried: true, LongestCut: first.FirstContent})
	if again.FirstContent != 15*sec {
		t.Errorf("%v after a cut at %v", again.FirstContent, first.FirstContent)
	}
}

// While another candidate is untried an attempt leaves it something of the deadline, unless its own answers were seen to
// need it all; and it never gets less than half of what is left.
func TestShareOfTheDeadline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{
			Stream: rapid.Bool().Draw(t, "stream"), Untried: true, Reasoning: rapid.Bool().Draw(t, "reasoning"),
			P95: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "p95")), Guessed: rapid.Bool().Draw(t, "guessed"),
			LongestCut: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "cut")),
			Left:       time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "left")),
		}
		c := Limits(in)
		if seen := in.P95 > 0 && !in.Guessed; c.FirstContent > in.Left/4*3+2 && !(seen && in.P95 >= c.FirstContent) && in.Left > 4 {
			t.Fatalf("%v of %v", c.FirstContent, in.Left)
		}
		if c.FirstContent < min((in.Left+1)/2, c.Patience) {
			t.Fatalf("%v of %v, although %v would be fair", c.FirstContent, in.Left, c.Patience)
		}
	})
}

// O19: a hung attempt is bounded by the request's remaining budget, never by a global default.
func TestO19AttemptWithinTheDeadline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{
			Stream: rapid.Bool().Draw(t, "stream"), Untried: rapid.Bool().Draw(t, "untried"),
			Reasoning: rapid.Bool().Draw(t, "reasoning"), Bytes: rapid.IntRange(0, 64<<20).Draw(t, "bytes"),
			MaxTokens:  rapid.IntRange(0, 200_000).Draw(t, "tokens"),
			P95:        time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "p95")),
			LongestCut: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "cut")),
			Left:       time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "left")),
		}
		c := Limits(in)
		if c.FirstContent > in.Left || c.Deadline != in.Left {
			t.Fatalf("first content %v of %v left", c.FirstContent, in.Left)
		}
		if c.FirstContent <= 0 {
			t.Fatalf("no limit on first content: %+v", c)
		}
		more := in
		more.Untried = false
		if Limits(more).FirstContent < c.FirstContent && in.Untried {
			t.Fatal("with nowhere to go the wait must not be shorter")
		}
	})
}
