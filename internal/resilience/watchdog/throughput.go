package watchdog

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the opt-in guards against streams that trickle (spec streaming.md item 6).
type Config struct {
	// Throughput switches the throughput watchdog on. Default false.
	Throughput bool `yaml:"throughput"`
	// Warmup is how long after first content nothing is measured. Default 30s, 0-10m.
	Warmup time.Duration `yaml:"warmup"`
	// Window is the sliding window that is judged, once it is full. Default 30s, 1s-10m.
	Window time.Duration `yaml:"window"`
	// MinBytesPerSecond is the least text that must come within the window. Default 4, above 0.
	MinBytesPerSecond float64 `yaml:"min_bytes_per_second"`
	// MinBytes is how much text must have been seen at all before anything is judged. Default 1, at least 0.
	MinBytes int `yaml:"min_bytes"`
	// StartGuard holds the first text back until the stream has proven a minimum rate. Default false.
	StartGuard bool `yaml:"start_guard"`
	// GuardChars is how much is held at most; as much text proves the stream. Counted in bytes.
	// Default 256, 1-65536.
	GuardChars int `yaml:"guard_chars"`
	// GuardWithin is when the rate is judged after first content. Default 10s, 100ms-10m.
	GuardWithin time.Duration `yaml:"guard_within"`
}

// Default has both guards off and the numbers of seed 004 section 6.
func Default() Config {
	return Config{Warmup: 30 * time.Second, Window: 30 * time.Second, MinBytesPerSecond: 4, MinBytes: 1,
		GuardChars: 256, GuardWithin: 10 * time.Second}
}

// Validate reports every problem, each starting with the field's name.
func (c Config) Validate() error {
	var errs []error
	within := func(name string, d, low, high time.Duration) {
		if d < low || d > high {
			errs = append(errs, fmt.Errorf("%s: must be between %s and %s, is %s", name, low, high, d))
		}
	}
	within("warmup", c.Warmup, 0, 10*time.Minute)
	within("window", c.Window, time.Second, 10*time.Minute)
	within("guard_within", c.GuardWithin, 100*time.Millisecond, 10*time.Minute)
	if !(c.MinBytesPerSecond > 0) {
		errs = append(errs, fmt.Errorf("min_bytes_per_second: must be above 0, is %g", c.MinBytesPerSecond))
	}
	if c.MinBytes < 0 {
		errs = append(errs, fmt.Errorf("min_bytes: must be at least 0, is %d", c.MinBytes))
	}
	if c.GuardChars < 1 || c.GuardChars > 65536 {
		errs = append(errs, fmt.Errorf("guard_chars: must be between 1 and 65536, is %d", c.GuardChars))
	}
	return errors.Join(errs...)
}

func (c *Config) on() bool { return c.Throughput || c.StartGuard }

// numSlices is the resolution of the sliding window.
const numSlices = 10

// meter measures text in active time. It judges only a window that is full and was never suspended: a tool call or
// reasoning in flight restarts it.
type meter struct {
	beganAt time.Duration // first content
	sliceAt time.Duration // begin of the current slice; valid while running
	slices  [numSlices]int32
	current int
	full    int // complete slices since the window began
	total   int // bytes of text since first content
	running bool
	warm    bool // the warm-up is over
	off     bool // suspended until text comes again
	low     bool // a full window had too little text
	exempt  bool // the start guard no longer applies: something else than text came
}

func (m *meter) begin(at time.Duration) { m.beganAt = at }

func (m *meter) suspend() { m.off, m.running, m.exempt = true, false, true }

// count adds text; free says that no tool call is open.
func (m *meter) count(text int, free bool) {
	m.total += text
	switch {
	case text == 0:
		m.exempt = true
	case free:
		m.off = false
	}
	if m.running {
		m.slices[m.current] += int32(min(text, 1<<20))
	}
}

// roll starts the window when it may and closes the slices that ended before an active instant.
func (m *meter) roll(g *Config, now time.Duration) {
	if m.off || m.low {
		return
	}
	if !m.running {
		start := m.beganAt + g.Warmup
		if m.warm {
			start = now // after a suspension the window begins afresh
		}
		if now < start {
			return
		}
		m.running, m.warm, m.sliceAt = true, true, start
		m.slices, m.current, m.full = [numSlices]int32{}, 0, 0
	}
	for length := g.Window / numSlices; now-m.sliceAt >= length; {
		m.sliceAt += length
		if m.full = min(m.full+1, numSlices); m.full == numSlices && m.poor(g) {
			m.low = true
			return
		}
		m.current = (m.current + 1) % numSlices
		m.slices[m.current] = 0
	}
}

// poor judges the full window: too little text, of a stream that has shown text at all.
func (m *meter) poor(g *Config) bool {
	sum := 0
	for _, n := range m.slices {
		sum += int(n)
	}
	return m.total >= g.MinBytes && float64(sum) < g.MinBytesPerSecond*g.Window.Seconds()
}

// due is the active instant at which the throughput watchdog must look (None) or says no (Stall).
func (m *meter) due(g *Config) (time.Duration, Clock) {
	switch {
	case m.low:
		return m.sliceAt, Stall
	case m.off:
		return never, None
	case m.running:
		return m.sliceAt + g.Window/numSlices, None
	}
	return m.beganAt + g.Warmup, None
}

// started: the stream has proven a minimum rate, be it by as much text as would do for the whole of GuardWithin, by
// GuardChars of it, or by something else than text.
func (m *meter) started(g *Config) bool {
	return m.exempt || m.total >= g.GuardChars || float64(m.total) >= g.MinBytesPerSecond*g.GuardWithin.Seconds()
}

// guardDue is the active instant at which the start guard says no, if nothing more comes.
func (m *meter) guardDue(g *Config) time.Duration {
	if m.started(g) {
		return never
	}
	return m.beganAt + g.GuardWithin
}

// held: the start guard has seen too little to let the output go. It ends with an event, never by time alone: when
// GuardWithin is over the stream has started or is cut.
func (s *State) held(c *Clocks) bool {
	return c.Guards.StartGuard && !s.terminal && !s.meter.started(&c.Guards)
}
