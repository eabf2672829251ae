package breaker

import (
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

const sec = int64(time.Second)

// tnow is the instant of the table; the machine counts from Unix nanoseconds.
var tnow = t0.UnixNano()

// plainRules are small numbers with every channel on.
func plainRules(change ...func(*Config)) *rules {
	c := Recommended()
	c.ConsecThreshold, c.DegradeThreshold, c.CountGap, c.OpenJitter = 3, 2, 0, 0
	c.RateMinCalls = 10
	for _, f := range change {
		f(&c)
	}
	return compile(c, 0, 10*time.Second)
}

const epoch = int64(100)

// at returns the states of the table by name. Every one has epoch 100; permits of the table carry that epoch, and for
// a half-open one the token 7.
func at(name string) state {
	s := state{ep: epoch}
	switch name {
	case "closed":
	case "run": // one failure away from opening, shown degraded
		s.fails, s.run, s.lf = 2, 2, tnow-sec
	case "open":
		s.st, s.oc, s.ot, s.et, s.since = open, causeConsecutive, tnow+5*sec, tnow-5*sec, tnow-5*sec
	case "due":
		s.st, s.oc, s.ot, s.et, s.since = open, causeConsecutive, tnow-sec, tnow-11*sec, tnow-11*sec
	case "idle":
		s.st, s.ot, s.et, s.since = half, tnow-sec, tnow-11*sec, tnow-11*sec
	case "busy":
		s = at("idle")
		s.nl, s.leases[0] = 1, lease{token: 7, until: tnow + 5*sec}
	case "last": // the probe that would close it
		s = at("busy")
		s.ok = 1
	case "lost": // the lease has run out
		s = at("busy")
		s.leases[0].until = tnow
	case "fopen":
		s.st, s.oc, s.forced, s.fu, s.ot = open, causeForced, forcedOpen, tnow+60*sec, tnow+60*sec
	case "fopen-over":
		s.st, s.oc, s.forced, s.fu, s.ot = open, causeForced, forcedOpen, tnow, tnow
	case "fclosed":
		s.forced, s.fu = forcedClosed, tnow+60*sec
	case "fclosed-run":
		s = at("run")
		s.forced, s.fu = forcedClosed, tnow+60*sec
	default:
		panic(name)
	}
	return s
}

var tableEvents = []string{"acquire", "alive", "success", "answer", "throttled", "neutral", "failure", "slow", "dead",
	"renew", "force-open", "force-close", "reset"}

func tableEvent(name string, s *state) event {
	ev := event{kind: evReport, ep: epoch, okind: gateway.ServiceError, pol: policy{weight: 1}}
	if s.st == half {
		ev.token = 7
	}
	switch name {
	case "acquire":
		return event{kind: evAcquire, token: 9, mayProbe: true}
	case "alive":
		ev.kind = evAlive
	case "renew":
		ev.kind = evRenew
	case "force-open":
		return event{kind: evForceOpen, until: tnow + 60*sec, actor: "op"}
	case "force-close":
		return event{kind: evForceClose, until: tnow + 60*sec, actor: "op"}
	case "reset":
		return event{kind: evReset}
	case "success":
		ev.pol.class, ev.okind = succeeded, gateway.Success
	case "answer":
		ev.pol.class = alive
	case "throttled":
		ev.pol.class = throttled
	case "neutral":
		ev.pol.class = neutral
	case "failure":
		ev.pol.class = failure
	case "slow":
		ev.pol.class = slow
	case "dead":
		ev.pol.class = dead
	}
	return ev
}

// TestStepTable is exhaustive over state x event. A cell of the table is what came of it: the state, "+" admitted,
// "p" admitted as probe, "-" refused, "=" fenced off (nothing changed at all), and the epoch's rise as "^".
func TestStepTable(t *testing.T) {
	//        acquire      alive     success   answer    throttled neutral   failure   slow      dead      renew     fopen  fclose   reset
	table := `
closed      closed+      closed    closed    closed    closed    closed    closed    closed    open^     closed    open^  closed^  closed^
run         degraded+    closed    closed    closed    degraded  degraded  open^     open^     open^     degraded  open^  closed^  closed^
open        open-        open=     open=     open=     open=     open=     open=     open=     open=     open=     open^  closed^  closed^
due         half_openp   half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= open^ closed^ closed^
idle        half_openp   half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= open^ closed^ closed^
busy        half_open-   half_open half_open half_open half_open half_open open^     open^     open^     half_open open^  closed^  closed^
last        half_open-   closed    closed    closed    half_open half_open open^     open^     open^     half_open open^  closed^  closed^
lost        half_openp   half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= open^ closed^ closed^
fopen       open-        open=     open=     open=     open=     open=     open=     open=     open=     open=     open^  closed^  closed^
fopen-over  half_openp   half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= half_open= open^ closed^ closed^
fclosed     closed+      closed    closed    closed    closed    closed    closed    closed    closed    closed    open^  closed^  closed^
fclosed-run closed+      closed    closed    closed    closed    closed    closed    closed    closed    closed    open^  closed^  closed^
`
	rows := 0
	for line := range strings.Lines(strings.TrimSpace(table)) {
		cells := strings.Fields(line)
		if len(cells) != 1+len(tableEvents) {
			t.Fatalf("row %s has %d cells", cells[0], len(cells)-1)
		}
		rows++
		for i, want := range cells[1:] {
			if got := tableCell(cells[0], tableEvents[i]); got != want {
				t.Errorf("%s x %s = %s, want %s", cells[0], tableEvents[i], got, want)
			}
		}
	}
	if rows != 12 {
		t.Fatalf("%d states", rows)
	}
}

func tableCell(name, evName string) string {
	r := plainRules()
	before := at(name)
	ev := tableEvent(evName, &before)
	s, out, _ := step(r, before, ev, tnow)
	c := cell{s: s}
	got := c.see(r, tnow).String()
	switch {
	case out.stale:
		if s != before {
			return "stale but changed"
		}
		got += "="
	case ev.kind == evAcquire && out.probe:
		got += "p"
	case ev.kind == evAcquire && out.admit:
		got += "+"
	case ev.kind == evAcquire:
		got += "-"
	}
	if s.ep > before.ep {
		got += "^"
	}
	return got
}

func TestCountModes(t *testing.T) {
	for mode, want := range map[string]int32{CountLeaky: 1, CountConsecutive: 0, CountCumulative: 2} {
		r := plainRules(func(c *Config) { c.CountMode, c.EvidenceMode = mode, EvidenceOff })
		s := at("run")
		s.kinds[gateway.Timeout] = 2
		s, _, _ = step(r, s, tableEvent("success", &s), tnow)
		if s.fails != want || int32(s.kinds[gateway.Timeout]) != want {
			t.Errorf("%s: fails %d kinds %d, want %d", mode, s.fails, s.kinds[gateway.Timeout], want)
		}
	}
}

func TestCountGap(t *testing.T) {
	r := plainRules(func(c *Config) { c.CountGap = 200 * time.Millisecond })
	s := state{}
	now := tnow
	for range 50 {
		s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: generic}, now)
		now += int64(time.Millisecond)
	}
	if n, f := s.sums(r, now); s.st != open || s.oc != causeRate || s.fails != 3 {
		t.Errorf("a blip of 50: %v %v fails %d window %d/%d; the run counts one, so only the rate may open", s.st, s.oc,
			s.fails, f, n)
	}
	r = plainRules(func(c *Config) { c.CountGap, c.RateMinCalls = 200*time.Millisecond, 1000 })
	s = state{}
	for range 50 {
		s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: generic}, now)
	}
	if n, f := s.sums(r, now); s.st != closed || s.fails != 1 || n != 50 || f != 50 {
		t.Errorf("fails %d window %d/%d", s.fails, f, n)
	}
}

// TestBackoffSeries checks the two series of spec breaker.md section 4, and the cap of the episode.
func TestBackoffSeries(t *testing.T) {
	series := func(name string, first cause) (out []int64) {
		cfg, _ := Preset(name)
		r := compile(cfg, 0, time.Second)
		s, now := state{}, tnow
		s.trip(r, event{pol: generic}, first, now)
		for range 8 {
			if first != causeRate || len(out) > 0 {
				now = s.ot
				s, _, _ = step(r, s, event{kind: evAcquire, token: 1, mayProbe: true}, now)
				s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, token: 1, pol: generic}, now)
			}
			out = append(out, (s.ot-now)/sec)
		}
		return out
	}
	want := []int64{60, 120, 240, 300, 300, 300, 300, 300}
	if got := series(PresetPolyGateway, causeRate); !equal(got, want) {
		t.Errorf("polygateway %v, want %v", got, want)
	}
	want = []int64{30, 30, 30, 60, 120, 240, 480, 480}
	if got := series(PresetOmniAPIKey, causeConsecutive); !equal(got, want) {
		t.Errorf("omniroute-apikey %v, want %v", got, want)
	}
	want = []int64{300, 300, 300, 300, 300, 300, 300, 300}
	if got := series(PresetAutoRouter, causeConsecutive); !equal(got, want) {
		t.Errorf("autorouter %v, want %v", got, want)
	}
	// Episode: the first probe fails after 10 s, half of that is below the base; then half of the age: 20/2, 30/2, 45/2.
	want = []int64{10, 10, 15, 22, 33, 50, 75, 113}
	if got := series(PresetRecommended, causeConsecutive); !equal(got, want) {
		t.Errorf("recommended %v, want %v", got, want)
	}
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestRunTest checks the table of spec breaker.md section 6: the shortest run with p^L <= 1e-6 per 5 % step.
func TestRunTest(t *testing.T) {
	for _, c := range []struct{ n, f, want int64 }{
		{19, 0, 0}, {20, 0, 5}, {98, 4, 5}, {98, 5, 6}, {98, 9, 6}, {98, 10, 8}, {98, 19, 9}, {98, 24, 10}, {98, 29, 12},
		{98, 34, 14}, {98, 39, 16}, {98, 44, 18}, {98, 49, 20}, {98, 54, 24}, {98, 55, 1 << 62}, {98, 98, 1 << 62},
		{-5, -5, 0}, {98, -1, 5},
	} {
		if got := plausibleRun(c.n, c.f, 20); got != c.want {
			t.Errorf("plausibleRun(%d, %d) = %d, want %d", c.n, c.f, got, c.want)
		}
	}
}

// TestEvidenceModes: a source that fails one call in five has a run of five. Suppression never opens by a run then,
// the run test opens at nine, without evidence it opens at once.
func TestEvidenceModes(t *testing.T) {
	for mode, want := range map[string]int{EvidenceOff: 5, EvidenceRunTest: 9, EvidenceSuppress: 0} {
		r := plainRules(func(c *Config) {
			c.ConsecThreshold, c.DegradeThreshold, c.EvidenceMode, c.RateThreshold = 5, 0, mode, 0.6
		})
		s := state{}
		for i := range 200 {
			pol := policy{class: succeeded}
			if i%5 == 0 && i > 0 {
				pol = generic
			}
			s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: pol}, tnow)
		}
		got := 0
		for i := 1; i <= 20 && got == 0; i++ {
			if s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: generic}, tnow); s.st == open {
				got = i
			}
		}
		if got != want {
			t.Errorf("%s opened after %d, want %d", mode, got, want)
		}
	}
}

// TestKindPolicies: a kind's own threshold, an immediate kind, an open time of its own, a weight.
func TestKindPolicies(t *testing.T) {
	r := plainRules(func(c *Config) {
		c.ConsecThreshold, c.DegradeThreshold, c.RateMinCalls = 10, 0, 100
		c.Kinds = map[string]KindPolicy{
			"rate_limited":    {Class: ClassCount, Threshold: 2, OpenMS: 60_000},
			"quota_exhausted": {Class: ClassCount, Immediate: true, OpenMS: 3_600_000},
			"timeout":         {Weight: 5},
			"empty_output":    {Class: ClassAlive},
			"banned":          {Class: ClassDead, OpenMS: 7_000},
			"auth_error":      {Class: ClassDead},
		}
	})
	for _, c := range []struct {
		kind  gateway.Kind
		n     int
		cause cause
		open  int64
	}{
		{gateway.RateLimited, 2, causeKind, 60}, {gateway.QuotaExhausted, 1, causeKind, 3600},
		{gateway.Timeout, 2, causeConsecutive, 10}, {gateway.ServiceError, 10, causeConsecutive, 10},
		{gateway.Banned, 1, causeDead, 7}, {gateway.AuthError, 1, causeDead, 300},
	} {
		s, n := state{}, 0
		for ; n < 9+c.n && s.st == closed; n++ {
			o := gateway.Outcome{Kind: c.kind, Status: 500}
			s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: r.classify(&o), okind: c.kind}, tnow)
		}
		if s.oc != c.cause || (s.ot-tnow)/sec != c.open {
			t.Errorf("%v: %v for %d s after %d, want %v for %d s", c.kind, s.oc, (s.ot-tnow)/sec, n, c.cause, c.open)
		}
		if c.cause == causeKind && n != c.n {
			t.Errorf("%v: opened after %d, want %d", c.kind, n, c.n)
		}
	}
	if got := r.classify(&gateway.Outcome{Kind: gateway.EmptyOutput}); got.class != alive {
		t.Errorf("empty_output: class %d", got.class)
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	ev := event{kind: evReport, pol: generic, okind: gateway.ServiceError, retryAfter: 120 * sec}
	for _, c := range []struct {
		honour bool
		hint   int64
		want   int64
	}{{true, 120, 120}, {true, 5, 10}, {true, 3600, 300}, {false, 120, 10}} {
		r := plainRules(func(x *Config) { x.HonourRetryAfter = c.honour })
		s := at("run")
		ev.ep, ev.retryAfter = s.ep, c.hint*sec
		s, _, wake := step(r, s, ev, tnow)
		if got := (s.ot - tnow) / sec; got != c.want || wake != s.ot {
			t.Errorf("%+v: open for %d s", c, got)
		}
	}
}

func TestOuterWindowGate(t *testing.T) {
	cfg, _ := Preset(PresetOmniOAuth)
	cfg.ConsecThreshold, cfg.DegradeThreshold = 1000, 0
	fail := func(r *rules, s state, n int, now int64) state {
		for range n {
			s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: generic}, now)
		}
		return s
	}
	off := compile(cfg, 0, time.Second)
	if s := fail(off, state{}, 50, tnow); s.st != closed || s.wn != 0 {
		t.Error("the outer gate works although it is off")
	}
	cfg.ProviderCooldown.Enabled = true
	r := compile(cfg, 0, time.Second)
	s := fail(r, state{}, 9, tnow)
	if s.st != closed {
		t.Fatal("opened below its count")
	}
	cleared, _, _ := step(r, s, event{kind: evReport, ep: s.ep, pol: policy{class: succeeded}}, tnow)
	if cleared = fail(r, cleared, 9, tnow); cleared.st != closed {
		t.Error("a success did not clear the gate")
	}
	if late := fail(r, s, 1, tnow+16*60*sec); late.st != closed || late.wn != 1 {
		t.Error("a failure outside the window still counts")
	}
	s = fail(r, s, 1, tnow+60*sec)
	if s.st != open || s.oc != causeWcount || s.ot-tnow != 360*sec {
		t.Errorf("%v %v %d", s.st, s.oc, (s.ot-tnow)/sec)
	}
	if got := s.peek(r, true, tnow+61*sec); got.reason != gateway.ProviderCooldown {
		t.Errorf("reason %v", got.reason)
	}
}

// TestSlow: leaving early counts only when nothing else succeeded within the window, except for a probe.
func TestSlow(t *testing.T) {
	r := plainRules()
	ev := event{kind: evReport, ep: epoch, pol: policy{class: slow, weight: 1}, okind: gateway.Slow}
	s := at("closed")
	s.okAt = tnow - 60*sec
	if s, out, _ := step(r, s, ev, tnow); out.counted || s.fails != 0 {
		t.Error("counted although another attempt succeeded within the window")
	}
	s.okAt--
	if s, out, _ := step(r, s, ev, tnow); !out.counted || s.fails != 1 {
		t.Error("not counted although nothing succeeded within the window")
	}
	s = at("busy")
	s.okAt, ev.token = tnow-1, 7
	if s, _, _ := step(r, s, ev, tnow); s.st != open || s.oc != causeProbe {
		t.Error("a losing probe is a probe failure")
	}
}

// TestTwoSteps: Alive is the success; the report at the end adds the window part, or a failure.
func TestTwoSteps(t *testing.T) {
	r := plainRules()
	s := at("run")
	s, _, _ = step(r, s, event{kind: evAlive, ep: epoch}, tnow)
	if s.fails != 0 {
		t.Fatal("first content did not end the run")
	}
	if n, _ := s.sums(r, tnow); n != 0 {
		t.Fatal("first content entered the window")
	}
	s.fails = 1
	ok, _, _ := step(r, s, event{kind: evReport, ep: epoch, alive: true, pol: policy{class: succeeded}}, tnow)
	if n, _ := ok.sums(r, tnow); n != 1 || ok.fails != 1 {
		t.Errorf("the end of a long stream: window %d, fails %d; a later run is not its own to end", n, ok.fails)
	}
	bad, _, _ := step(r, s, event{kind: evReport, ep: epoch, alive: true, pol: generic}, tnow)
	if n, f := bad.sums(r, tnow); n != 1 || f != 1 || bad.fails != 2 {
		t.Errorf("broke later: window %d/%d, fails %d", f, n, bad.fails)
	}
	s = at("busy")
	s, _, _ = step(r, s, event{kind: evAlive, ep: epoch, token: 7}, tnow)
	if s.st != half || s.ok != 1 || s.nl != 0 {
		t.Fatalf("probe's content: %v ok %d leases %d", s.st, s.ok, s.nl)
	}
	again, _, _ := step(r, s, event{kind: evReport, ep: epoch, token: 7, alive: true, pol: policy{class: succeeded}}, tnow)
	if again.ok != 1 {
		t.Error("one probe counted twice")
	}
	broke, _, _ := step(r, s, event{kind: evReport, ep: epoch, token: 7, alive: true, pol: generic}, tnow)
	if broke.st != open || broke.oc != causeProbe {
		t.Error("a probe that broke after its content, while still half-open, is a probe failure")
	}
}

func TestProbePacing(t *testing.T) {
	cfg, _ := Preset(PresetAutoRouter)
	r := compile(cfg, 0, time.Second)
	s := at("due")
	s, out, _ := step(r, s, event{kind: evAcquire, token: 1, mayProbe: true}, tnow)
	if !out.probe {
		t.Fatal("the first probe waits for nothing")
	}
	if out := s.peek(r, true, tnow+29*sec); out.admit || out.until != tnow+30*sec {
		t.Error("the second probe did not wait for probe_interval")
	}
	refund, _, _ := step(r, s, event{kind: evReport, ep: s.ep, token: 1, pol: policy{}}, tnow+sec)
	if out := refund.peek(r, true, tnow+sec); !out.probe {
		t.Error("a probe that came to nothing keeps its pacing")
	}
	held, _, wake := step(r, s, event{kind: evReport, ep: s.ep, token: 1, pol: policy{class: throttled}, retryAfter: 90 * sec}, tnow+sec)
	if out := held.peek(r, true, tnow+90*sec); out.admit || out.until != tnow+91*sec || wake != out.until {
		t.Error("a 429 of a probe does not hold the next one back")
	}
}

func TestEpisodeEnds(t *testing.T) {
	r := plainRules()
	s := state{}
	s.trip(r, event{pol: generic}, causeConsecutive, tnow)
	s.d, s.et = 100*sec, tnow-200*sec // a long outage
	s.st = half
	s.close(r, tnow)
	within := s
	within.trip(r, event{pol: generic}, causeConsecutive, tnow+199*sec)
	if within.et != tnow-200*sec || within.ot != tnow+209*sec {
		t.Error("a trip within the stable time begins a new episode, or lasts longer than open_base")
	}
	after := s
	after.trip(r, event{pol: generic}, causeConsecutive, tnow+200*sec)
	if after.et != tnow+200*sec || after.d != 10*sec {
		t.Error("the episode did not end")
	}
}

func TestUnknownKindIsGenericFailure(t *testing.T) { // P23
	r := plainRules()
	if got := r.classify(&gateway.Outcome{Kind: 200}); got != generic {
		t.Errorf("%+v", got)
	}
	s, _, _ := step(r, state{}, event{kind: evReport, okind: 200, pol: generic}, tnow)
	if s.fails != 1 {
		t.Error("not counted")
	}
}

func TestCountersSaturate(t *testing.T) { // P24
	r := plainRules(func(c *Config) { c.ConsecThreshold = 1000 })
	r.threshold, r.minCalls = 1<<31-1, 1<<40
	s := state{}
	s.fails, s.run, s.a0, s.f0, s.wid = 1<<31-2, 1<<31-1, 1<<31-1, 1<<31-1, tnow/(r.window/2)
	s.kinds[gateway.ServiceError] = 1<<16 - 1
	r.evidence = EvidenceSuppress
	s.forced = forcedClosed
	s, _, _ = step(r, s, event{kind: evReport, okind: gateway.ServiceError, pol: policy{class: failure, weight: 1000}}, tnow)
	if s.fails != 1<<31-1 || s.run != 1<<31-1 || s.a0 != 1<<31-1 || s.f0 != 1<<31-1 || s.kinds[gateway.ServiceError] != 1<<16-1 {
		t.Errorf("%+v", s)
	}
	s = state{streak: 1<<31 - 1}
	s.trip(r, event{pol: generic}, causeProbe, tnow)
	if s.streak != 1<<31-1 || s.ot <= tnow {
		t.Error("streak or open time overflowed")
	}
}
