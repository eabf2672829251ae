package breaker

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Which test proves which property of breaker.md section 7. "world" is the random machine of property_test.go, which
// checks its properties at every step of TestProperties, TestPropertiesUnderOrders and TestPropertiesClockBack.
//
//	P1  open, not due: no admission            world
//	P2  live leases <= probe_permits           world
//	P3  epoch rises on trip and orders only    world
//	P4  stale reports change nothing           world
//	P5  neutral outcomes move nothing          world, TestNeutralTracesMoveNothing
//	P6  no trip below min_calls or wcount      world
//	P7  0 < open time <= open_max              world
//	P8  failed probes: open time rises         world
//	P9  a consecutive trip lasts open_base     world
//	P10 the streak is lost by its rules only   world
//	P11 liveness                               world, TestP11LiveInTheRoom
//	P12 peek is pure                           world
//	P13 the window is what was reported        world
//	P14 a trip consumes its evidence           world, TestTripConsumesItsEvidence
//	P15 honest hints                           world
//	P16 degraded admits and writes nothing     world, TestDegradedIsWeakAndEmitted
//	P17 keys are isolated                      TestKeysAreIsolatedAtRandom, TestKeysAreIsolated
//	P18 orders and rate under any evidence     TestRateUnderAnyEvidence, TestForceAndRateUnderEvidence
//	P19 one settlement per permit              TestOneSettlementAtRandom, TestSettledOnce
//	P20 a restart is never more permissive     TestRestartIsNeverMorePermissive
//	P21 every driver is the machine            TestP21RoomIsTheMachine, TestGoldenThroughBothDrivers
//	P22 the clock steps back                   TestPropertiesClockBack
//	P23 an unknown kind is a failure           TestUnknownKindsAtRandom, TestUnknownKindIsGenericFailure
//	P24 counters saturate                      TestSaturationAtRandom, TestCountersSaturate
//	P25 open peers cost no attempt             TestOpenPeersCostNothing; of a request: attempt/next TestAnyRequest
//	P26 auto scope                             TestP26AutoScope, TestP26MemberSuccessLifts
//	P27 one dead model                         TestP27OneDeadModel
//
// and of resilience.md section 12, where the breaker answers for it:
//
//	8   noise takes nobody out for long        TestNoiseOpensNothing; whole gateway: app TestHealthySourceWithEmptyAnswers
//	9   the dead cost a bounded number         TestDeadSourceCostsABoundedNumber

// Which trace of testdata or test proves which item of the presets' own lists. Every trace runs through the room, the room
// in virtual time and, where no order or group is in it, the pure machine (TestGoldenThroughBothDrivers).
//
//	OmniRoute 5/8, 7/12, 2      omniroute_oauth, omniroute_apikey, omniroute_local; cooldowns and locks: testdata of
//	                            the rooms cooldown and lockout
//	PolyGateway 1-10            polygateway, by number; 8 and "warm sudden death" there as well
//	  rate trip tops the count  polygateway: fails=5 of the rate trips
//	  EWMA, recovery climb      health TestEWMA, TestDriftToOne; P2C: route/strategy TestHealthAwareDistribution
//	  demotion                  attempt/next TestRules
//	  AIMD, paced, all paced    gate TestAIMD*, TestPacedAndLimit; app TestQueueAtACap
//	AutoRouter A.14, breaker    autorouter, autorouter_orders; defaults: TestPresetNumbers; overrides: TestYAML
//	  failover config           app TestFailoverOptions
//	  balancer                  attempt/next TestAnyRequest; route/strategy TestRank; gate TestAllOrNothing
//	  affinity                  affinity TestStep, TestProperties; app/affinity_test.go
//	  queue                     queue TestLine*, TestPool*; slots: app invariants after every test
//	  proxy                     app/regress_test.go, abort_test.go; count_tokens: app TestCountTokensOpensNothing
//	  rules                     verdict/rules_test.go

// P5 over whole traces: from any closed state, outcomes that are neutral or throttled move neither counters nor phase.
func TestNeutralTracesMoveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRules(t)
		s, now := state{}, tnow
		for range rapid.IntRange(0, int(r.threshold)-1).Draw(t, "fails") {
			after, _, _ := step(r, s, event{kind: evReport, ep: s.ep, pol: generic, okind: gateway.Timeout}, now)
			if after.st != closed {
				break // another channel would open it: as far as this it stays closed
			}
			s = after
		}
		before := s
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			now += int64(rapid.IntRange(0, 60_000).Draw(t, "ms")) * 1e6
			c := rapid.SampledFrom([]class{neutral, throttled}).Draw(t, "class")
			s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: policy{class: c, weight: 1}, retryAfter: int64(rapid.IntRange(0, 900).Draw(t, "hint")) * sec}, now)
		}
		if s != before {
			t.Fatalf("before %+v\nafter  %+v", before, s)
		}
	})
}

// P14: right after a trip the window is empty, and after the close that follows one failure cannot trip by rate.
func TestTripConsumesItsEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRules(t)
		s, now := state{}, tnow
		for s.st == closed {
			pol := generic
			if rapid.IntRange(0, 3).Draw(t, "ok") == 0 {
				pol = policy{class: succeeded, weight: 1}
			}
			s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: pol}, now)
			now += int64(rapid.IntRange(0, 1000).Draw(t, "ms")) * 1e6
		}
		if n, f := s.sums(r, now); n != 0 || f != 0 {
			t.Fatalf("%d/%d are left after the trip", f, n)
		}
		for tok := uint64(1); s.st != closed; tok++ {
			now += r.cap
			s, _, _ = step(r, s, event{kind: evAcquire, token: tok, mayProbe: true}, now)
			s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, token: tok, pol: policy{class: succeeded, weight: 1}}, now)
		}
		s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: generic}, now)
		if s.st != closed && (s.oc == causeRate || r.threshold > 1) {
			t.Fatalf("one failure after the close tripped by %s", s.oc)
		}
	})
}

// P17: whatever happens on one key, the state of every other key is the same value.
func TestKeysAreIsolatedAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, _ := Preset(rapid.SampledFrom(Presets()).Draw(t, "preset"))
		perModel := cfg.EvidencePerModel
		room, now := New(Options{}), t0
		type of struct{ p, c, m string }
		var all []of
		for _, p := range []string{"p", "q"} {
			for _, c := range []string{"c1", "c2"} {
				for _, m := range []string{"m", "n"} {
					all = append(all, of{p, p + c, m})
				}
			}
		}
		handles := map[of]*Handle{}
		for _, x := range all {
			handles[x] = room.Bind(candidate(x.p, x.c, x.m), cfg)
		}
		shares := func(a, b of) bool {
			if cfg.Scope == ScopeProvider {
				return a.p == b.p
			}
			return a.c == b.c && (!perModel || a.m == b.m)
		}
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			x := rapid.SampledFrom(all).Draw(t, "key")
			before := map[of]state{}
			for _, y := range all {
				before[y] = handles[y].own.s
			}
			p, out := handles[x].Allow(context.Background(), nil, now)
			if !out.OK() {
				continue
			}
			p.Record(gateway.Outcome{Kind: rapid.SampledFrom([]gateway.Kind{gateway.Success, gateway.ServiceError, gateway.Timeout, gateway.Canceled}).Draw(t, "end")}, now)
			for _, y := range all {
				if !shares(x, y) && handles[y].own.s != before[y] {
					t.Fatalf("an attempt on %v changed %v", x, y)
				}
			}
		}
	})
}

// P18: half of the calls fail, in any order, for long enough: the rate channel opens, whatever the evidence mode says of
// runs.
func TestRateUnderAnyEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]string{EvidenceOff, EvidenceSuppress, EvidenceRunTest}).Draw(t, "mode")
		r := plainRules(func(c *Config) { c.EvidenceMode = mode })
		s, now := state{}, tnow
		for i := 0; s.st == closed; i++ {
			if i > 400 {
				t.Fatalf("%s: never opened", mode)
			}
			order := []class{failure, succeeded}
			if rapid.Bool().Draw(t, "order") {
				order[0], order[1] = order[1], order[0]
			}
			for _, c := range order {
				s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, pol: policy{class: c, weight: 1}}, now)
			}
			now += int64(rapid.IntRange(0, 300).Draw(t, "ms")) * 1e6
		}
		if s.oc != causeRate && s.oc != causeConsecutive {
			t.Fatalf("%s: %s", mode, s.oc)
		}
	})
}

// P19: whatever is said about a permit, in whatever order and how often, only its first end counts.
func TestOneSettlementAtRandom(t *testing.T) {
	kinds := []gateway.Kind{gateway.Success, gateway.Alive, gateway.ServiceError, gateway.Timeout, gateway.Slow, gateway.Canceled, gateway.RateLimited}
	rapid.Check(t, func(t *rapid.T) {
		cfg, _ := Preset(rapid.SampledFrom(Presets()).Draw(t, "preset"))
		room, now := New(Options{}), t0
		h := room.Bind(candidate("p", "a", "m"), cfg)
		for range rapid.IntRange(1, 30).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			p, out := h.Allow(context.Background(), nil, now)
			if !out.OK() {
				continue
			}
			if rapid.Bool().Draw(t, "content") {
				p.Alive(now)
			}
			p.Record(gateway.Outcome{Kind: rapid.SampledFrom(kinds).Draw(t, "end"), Status: 500}, now)
			own, conn := h.own.s, state{}
			if h.conn != nil {
				conn = h.conn.s
			}
			for range rapid.IntRange(1, 4).Draw(t, "more") {
				if rapid.Bool().Draw(t, "content again") {
					p.Alive(now)
				}
				p.Record(gateway.Outcome{Kind: rapid.SampledFrom(kinds).Draw(t, "again"), Status: 500}, now)
			}
			if h.own.s != own || h.conn != nil && h.conn.s != conn {
				t.Fatalf("a settled permit changed\n%+v to\n%+v", own, h.own.s)
			}
		}
	})
}

// P23: a kind that this version does not know is a failure like any other.
func TestUnknownKindsAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRules(t)
		k := gateway.Kind(rapid.IntRange(int(gateway.NumKinds), 255).Draw(t, "kind"))
		o := gateway.Outcome{Kind: k, Status: rapid.SampledFrom([]int{0, 200, 404, 500}).Draw(t, "status")}
		if got := r.classify(&o); got != generic {
			t.Fatalf("kind %d is %+v", k, got)
		}
		s, _, _ := step(r, state{}, event{kind: evReport, pol: generic, okind: k}, tnow)
		if s.fails == 0 && s.st == closed {
			t.Fatalf("kind %d did not count", k)
		}
	})
}

// P24: counters that are nearly full stay what they are: never negative, never small again by overflow.
func TestSaturationAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRules(t)
		near := func(name string) int32 { return math.MaxInt32 - int32(rapid.IntRange(0, 3).Draw(t, name)) }
		s := state{fails: near("fails"), run: near("run"), low: near("low"), wn: near("wn"), streak: near("streak"),
			forced: forcedClosed, a0: near("a0"), f0: near("f0"), wid: tnow / max(r.window/2, 1), ws: tnow}
		for i := range s.kinds {
			s.kinds[i] = math.MaxUint16
		}
		for range 10 {
			before := s
			ev := event{kind: evReport, ep: s.ep, pol: policy{class: failure, weight: int32(rapid.IntRange(1, 1000).Draw(t, "weight"))},
				okind: gateway.Timeout, below: true}
			s, _, _ = step(r, s, ev, tnow)
			if s.fails < before.fails || s.run < before.run || s.low < before.low || r.wcount > 0 && s.wn < before.wn ||
				s.a0 < before.a0 || s.f0 < before.f0 || s.kinds[gateway.Timeout] != math.MaxUint16 {
				t.Fatalf("a counter wrapped:\n%+v\n%+v", before, s)
			}
		}
		if d := s.openFor(r, event{pol: generic}, causeProbe, tnow); d <= 0 || d > r.cap {
			t.Fatalf("open for %d after a streak of %d", d, s.streak)
		}
	})
}

// P25: in a pool with one healthy candidate the open ones refuse without changing, and the healthy one always admits.
func TestOpenPeersCostNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, _ := Preset(rapid.SampledFrom([]string{PresetRecommended, PresetPolyGateway, PresetAutoRouter}).Draw(t, "preset"))
		cfg.Scope = ScopeConnection
		room, now := New(Options{}), t0
		good := room.Bind(candidate("p", "good", "m"), cfg)
		var peers []*Handle
		for i := range rapid.IntRange(1, 6).Draw(t, "peers") {
			h := room.Bind(candidate("p", fmt.Sprint("dead", i), "m"), cfg)
			for h.State(now) != Open {
				p, _ := h.Allow(context.Background(), nil, now)
				p.Record(fail(), now)
				now = now.Add(250 * time.Millisecond)
			}
			peers = append(peers, h)
		}
		for range 20 {
			for _, h := range peers {
				out := h.Peek(&resilience.Ask{}, now)
				if out.OK() {
					continue // due: its one probe is what it may cost
				}
				before := h.own.s
				if p, out := h.Allow(context.Background(), &resilience.Ask{}, now); p != nil || out.OK() || h.own.s != before {
					t.Fatalf("an open peer gave %+v", out)
				}
			}
			p, out := good.Allow(context.Background(), &resilience.Ask{}, now)
			if p == nil {
				t.Fatalf("the healthy one refused: %+v", out)
			}
			p.Record(ok(), now)
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
		}
	})
}

// Resilience 12.8: independent failures of a healthy source open nothing (up to 1 %, at any rate of calls), or for no longer
// than one base open time at a stretch (up to 20 %, with the seeds below).
func TestNoiseOpensNothing(t *testing.T) {
	cfg := Recommended()
	cfg.OpenJitter = 0
	r := compile(cfg, 0, attemptMax)
	run := func(rnd *rand.Rand, p float64, gap int64) (trips int, longest int64) {
		s, now, outAt := state{}, tnow, int64(0)
		for tok := uint64(1); tok < 6000; tok++ {
			now += gap
			out := ruling{}
			if s, out, _ = step(r, s, event{kind: evAcquire, token: tok, mayProbe: true}, now); !out.admit {
				continue
			}
			if outAt != 0 {
				longest, outAt = max(longest, now-outAt), 0
			}
			ev := event{kind: evReport, ep: s.ep, pol: policy{class: succeeded, weight: 1}, okind: gateway.Success}
			if out.probe {
				ev.token = tok
			}
			if rnd.Float64() < p {
				ev.pol, ev.okind = generic, gateway.EmptyOutput
			}
			if s, _, _ = step(r, s, ev, now); s.st == open {
				trips, outAt = trips+1, now
			}
		}
		return trips, longest
	}
	rapid.Check(t, func(t *rapid.T) {
		p := float64(rapid.IntRange(0, 10).Draw(t, "permille")) / 1000
		seed := rapid.Uint64().Draw(t, "seed")
		if trips, _ := run(rand.New(rand.NewPCG(seed, 1)), p, int64(rapid.IntRange(50, 3000).Draw(t, "gap"))*1e6); trips > 0 {
			t.Fatalf("%d trips of a source that fails %.3f of its calls", trips, p)
		}
	})
	for seed := range uint64(20) {
		for _, p := range []float64{0.02, 0.05, 0.1, 0.2} {
			if trips, longest := run(rand.New(rand.NewPCG(seed, 2)), p, 8e8); longest > r.base+8e8 || trips > 2 {
				t.Errorf("seed %d, %.2f: %d trips, out for %d s", seed, p, trips, longest/sec)
			}
		}
	}
}

// Resilience 12.9: a source that is dead for good costs its run, then probes that become rarer: one per half of the time
// that it is dead already, and never more than one per open_max.
func TestDeadSourceCostsABoundedNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := plainRules(func(c *Config) { c.OpenJitter = 0.1 })
		gap := int64(rapid.IntRange(200, 5000).Draw(t, "gap")) * 1e6
		hours := int64(rapid.IntRange(1, 12).Draw(t, "hours"))
		s, now, cost := state{}, tnow, 0
		for tok := uint64(1); now < tnow+hours*3600*sec; tok++ {
			now += gap
			out := ruling{}
			if s, out, _ = step(r, s, event{kind: evAcquire, token: tok, mayProbe: true}, now); out.admit {
				cost++
				s, _, _ = step(r, s, event{kind: evReport, ep: s.ep, token: tok, pol: generic, okind: gateway.Timeout,
					u: int64(rapid.IntRange(0, 65535).Draw(t, "jitter"))}, now)
			}
		}
		shortest := float64(r.max) * 0.9
		bound := float64(r.threshold) + 3 + math.Log(float64(r.max)*2/float64(r.base))/math.Log(1.45) + float64(hours*3600*sec)/shortest
		if float64(cost) > bound {
			t.Fatalf("%d attempts in %d hours, want %.0f at most", cost, hours, bound)
		}
	})
}
