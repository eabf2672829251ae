package cooldown

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/golden"
	"spillway/internal/resilience"
)

// script drives the lines of testdata/*.txt:
//
//	preset NAME | class NAME, set FIELD=VALUE
//	conn NAME account [family F] [proxy P] [+stubborn]
//	KIND NAME [status N] [retry D] [scope S] [from KEY] [request R] [took D] [xN every D] [+code] [+endpoint] [+uncounted]
//	take NAME PERMIT, content PERMIT, end PERMIT KIND [...]
//	wait D, show NAME [lone|last], until NAME, status, clear KEY [terminal], disable KEY, restart
//
// Each script runs through two drivers, the pure machine and the room in virtual time; both must say the same.
type script struct {
	t       *testing.T
	d       driver
	cfg     Config
	out     strings.Builder
	conns   map[string]*bound
	permits map[string]*taking
	n       int
}

// bound is one connection under one policy.
type bound struct {
	c   *gateway.Connection
	cfg Config
}

// taking is a permit that a driver has given.
type taking struct {
	b      *bound
	at     time.Time
	permit resilience.Permit // of the room
	took   taken             // of the machine
	alive  bool
}

// driver is a way to run the machine.
type driver interface {
	now() time.Time
	wait(time.Duration)
	know(all []*bound)
	peek(*bound, *resilience.Ask) resilience.Ruling
	allow(*bound, *resilience.Ask) (*taking, resilience.Ruling)
	alive(*taking)
	record(*taking, gateway.Outcome)
	learn(*bound, gateway.Outcome)
	states() map[string]state
	order(key string, f func(state) state)
	restart()
}

// bubbleStart is when every bubble of testing/synctest begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestGoldenThroughBothDrivers(t *testing.T) {
	golden.Scripts(t, 4, golden.Driver{Name: "machine", Play: func(t *testing.T, text string) string {
		return play(t, text, &machine{at: bubbleStart, keys: map[string]state{}})
	}}, golden.Driver{Name: "room", Play: func(t *testing.T, text string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			v := &virtual{kept: map[string]resilience.Record{}}
			v.open()
			got = play(t, text, v)
		})
		return got
	}})
}

func play(t *testing.T, text string, d driver) string {
	s := &script{t: t, d: d, cfg: Default(gateway.APIKey), conns: map[string]*bound{}, permits: map[string]*taking{}}
	s.cfg.Jitter = 0
	return golden.Trace(text, &s.out, func() time.Duration { return d.now().Sub(bubbleStart) }, s.line)
}

func (s *script) must(err error) {
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) dur(text string) time.Duration {
	d, err := time.ParseDuration(text)
	s.must(err)
	return d
}

func (s *script) line(w []string) {
	switch w[0] {
	case "preset":
		var ok bool
		if s.cfg, ok = Preset(w[1]); !ok {
			s.t.Fatalf("no preset %s", w[1])
		}
		s.cfg.Jitter = 0
	case "class":
		var class gateway.Class
		s.must(class.UnmarshalText([]byte(w[1])))
		s.cfg = Default(class)
		s.cfg.Jitter = 0
	case "set":
		for _, o := range w[1:] {
			s.set(o)
		}
		s.must(s.cfg.Validate())
	case "conn":
		s.conn(w)
	case "wait":
		s.d.wait(s.dur(w[1]))
	case "show":
		a := ask()
		if len(w) > 2 {
			a = map[string]*resilience.Ask{"lone": lone(), "last": {Fallbacks: 1, AttemptsLeft: 1}}[w[2]]
		}
		s.show(w[1], s.d.peek(s.of(w[1]), a))
	case "status":
		all := s.d.states()
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if x := all[key]; !x.blank() {
				fmt.Fprintf(&s.out, "    %s %s level=%d cause=%s learned=%.1f\n", key, x.word(s.d.now()), x.Level, x.Cause, x.Learned)
			}
		}
	case "clear":
		s.d.order(w[1], func(x state) state { return x.cleared().from(s.d.now()) })
	case "disable":
		s.d.order(w[1], func(x state) state {
			x.Standing, x.Actor, x.TerminalAt = disabled, "op", s.d.now()
			return x.from(s.d.now())
		})
	case "restart":
		s.d.restart()
	case "take":
		s.take(w[1], w[2])
	case "content":
		s.d.alive(s.permits[w[1]])
	case "end":
		p := s.permits[w[1]]
		o, _, _ := s.outcome(w[2], w[3:])
		o.BeganAt, o.EndedAt = p.at, s.d.now()
		s.d.record(p, o)
	default:
		s.attempts(w)
	}
}

func (s *script) set(o string) {
	name, value, _ := strings.Cut(o, "=")
	switch name {
	case "stream_stall_cooldown":
		s.cfg.StreamStallCooldown = value == "true"
	case "use_retry_hints":
		s.cfg.UseRetryHints = value == "true"
	case "max_backoff":
		s.cfg.MaxBackoff = s.dur(value)
	default:
		s.t.Fatalf("no setting %q", name)
	}
}

func (s *script) conn(w []string) {
	c := connection(w[1], w[2])
	for i := 3; i < len(w); i++ {
		switch w[i] {
		case "family":
			c.Provider.EgressFamily = w[i+1]
		case "proxy":
			c.Proxy = w[i+1]
		case "+stubborn":
			c.DisableCooling = true
		}
	}
	s.conns[w[1]] = &bound{c, s.cfg}
	var all []*bound
	for _, name := range slices.Sorted(maps.Keys(s.conns)) {
		all = append(all, s.conns[name])
	}
	s.d.know(all)
}

func (s *script) of(name string) *bound {
	b := s.conns[name]
	if b == nil {
		s.t.Fatalf("no connection %s", name)
	}
	return b
}

func (s *script) show(name string, r resilience.Ruling) {
	fmt.Fprintf(&s.out, "    %s: ", name)
	until := "?"
	if !r.Until.IsZero() {
		until = "+" + r.Until.Sub(s.d.now()).String()
	}
	switch {
	case r.OK() && r.Probe:
		fmt.Fprintln(&s.out, "canary")
	case r.OK():
		fmt.Fprintln(&s.out, "open")
	default:
		fmt.Fprintf(&s.out, "%s, %s %s until %s\n", r.Verdict, r.Layer, r.Reason, until)
	}
}

func (s *script) take(name, permit string) {
	p, r := s.d.allow(s.of(name), ask())
	s.show(name, r)
	if p != nil {
		p.at = s.d.now()
		s.permits[permit] = p
	}
}

// outcome reads a kind with its options: the outcome as real ones come, how long the attempt took, how often, how far apart.
func (s *script) outcome(kind string, w []string) (o gateway.Outcome, took time.Duration, every time.Duration) {
	switch kind {
	case "success":
		o = success
	case "rate_limited":
		o = limited
	case "quota_exhausted":
		o = spent
	case "credits_exhausted":
		o = credits
	case "auth_error":
		o = refused
	case "request_rejected":
		o = rejected
	case "banned":
		o = ban
	case "service_error":
		o = overload
	default:
		s.must(o.Kind.UnmarshalText([]byte(kind)))
		o.Scope = gateway.ScopeAttempt
	}
	o.Structured = false
	s.n++
	o.Request, o.ClientKey = gateway.RequestID(fmt.Sprint("r", s.n)), "k1"
	took = 100 * time.Millisecond
	for i := 0; i < len(w); i++ {
		arg := func() string { i++; return w[i] }
		switch {
		case w[i] == "status":
			n, err := strconv.Atoi(arg())
			s.must(err)
			o.Status = n
		case w[i] == "retry":
			o.RetryAfter, o.Hint = s.dur(arg()), gateway.HintHeader
		case w[i] == "scope":
			s.must(o.Scope.UnmarshalText([]byte(arg())))
		case w[i] == "from":
			o.ClientKey = gateway.ClientKeyID(arg())
		case w[i] == "request":
			o.Request = gateway.RequestID(arg())
		case w[i] == "took":
			took = s.dur(arg())
		case w[i] == "every":
			every = s.dur(arg())
		case w[i] == "+code":
			o.Structured = true
		case w[i] == "+endpoint":
			o.Endpoint = true
		case w[i] == "+uncounted":
			o.Uncounted = true
		case w[i][0] == 'x':
		default:
			s.t.Fatalf("no option %q", w[i])
		}
	}
	return o, took, every
}

// attempts makes attempts that are admitted like any other; one that took long began before what happened since, and is
// only reported.
func (s *script) attempts(w []string) {
	b, n := s.of(w[1]), 1
	for _, x := range w[2:] {
		if c, ok := strings.CutPrefix(x, "x"); ok {
			n, _ = strconv.Atoi(c)
		}
	}
	for range n {
		o, took, every := s.outcome(w[0], w[2:])
		if took > 100*time.Millisecond {
			o.BeganAt, o.EndedAt = s.d.now().Add(-took), s.d.now()
			s.d.learn(b, o)
		} else {
			p, r := s.d.allow(b, ask())
			if p == nil {
				fmt.Fprint(&s.out, "    refused ")
				s.show(w[1], r)
				return
			}
			o.BeganAt = s.d.now()
			s.d.wait(took)
			o.EndedAt = s.d.now()
			s.d.record(p, o)
		}
		s.d.wait(every)
	}
	s.show(w[1], s.d.peek(b, ask()))
}

// machine is the driver that has nothing but the pure functions: a map of states and a clock.
type machine struct {
	at   time.Time
	keys map[string]state
	all  []*bound
}

func (m *machine) now() time.Time       { return m.at }
func (m *machine) wait(d time.Duration) { m.at = m.at.Add(d) }
func (m *machine) know(all []*bound)    { m.all = all }

func (m *machine) step(key string, f func(state) state) state {
	m.keys[key] = f(m.keys[key])
	return m.keys[key]
}

func (b *bound) keys() (conn, account string) { return ConnectionKey(b.c), AccountKey(b.c) }

func (m *machine) peek(b *bound, a *resilience.Ask) resilience.Ruling {
	conn, account := b.keys()
	x, y := m.keys[conn], m.keys[account]
	return stricter(x.ruling(&b.cfg, b.c, a, m.at), y.ruling(&b.cfg, b.c, a, m.at))
}

func (m *machine) allow(b *bound, a *resilience.Ask) (*taking, resilience.Ruling) {
	r := m.peek(b, a)
	if !r.OK() {
		return nil, r
	}
	p := &taking{b: b}
	conn, account := b.keys()
	m.step(conn, func(s state) state { s, p.took.conn = s.take(&b.cfg, m.at); return s })
	m.step(account, func(s state) state { s, p.took.account = s.take(&b.cfg, m.at); return s })
	return p, r
}

func (m *machine) alive(p *taking) {
	if p.alive {
		return
	}
	p.alive = true
	conn, account := p.b.keys()
	took := p.took
	m.step(conn, func(s state) state { return s.widen(took.conn, m.at) })
	m.step(account, func(s state) state { return s.widen(took.account, m.at) })
	p.took.conn.rampID, p.took.account.rampID = 0, 0
}

func (m *machine) record(p *taking, o gateway.Outcome) {
	if o.Uncounted || o.Kind == gateway.LocalError || o.Kind == gateway.Canceled {
		conn, account := p.b.keys()
		m.step(conn, func(s state) state { return s.refund(p.took.conn, true) })
		m.step(account, func(s state) state { return s.refund(p.took.account, true) })
		return
	}
	m.settle(p.b, o, p.took)
}

func (m *machine) learn(b *bound, o gateway.Outcome) {
	if !o.Uncounted && o.Kind != gateway.LocalError && o.Kind != gateway.Canceled {
		m.settle(b, o, taken{})
	}
}

// settle brings an outcome to both keys, and a 429 to those that leave by the same egress.
func (m *machine) settle(b *bound, o gateway.Outcome, took taken) {
	conn, account := b.keys()
	e := event{o: o, cfg: &b.cfg, conn: b.c, now: m.at}
	h := &Handle{cfg: &b.cfg, c: gateway.Candidate{Connection: b.c, Model: "m"}, conn: &cell{key: conn}, account: &cell{key: account}}
	blamed := h.blamed(o)
	for _, x := range []struct {
		key  string
		took grant
	}{{conn, took.conn}, {account, took.account}} {
		e.grant = x.took
		before := m.keys[x.key].Until
		after := m.step(x.key, func(s state) state {
			if o.Kind == gateway.Success {
				return s.succeed(e)
			}
			s.see(o.ClientKey, m.at)
			if blamed != nil && blamed.key == x.key {
				return s.fail(e)
			}
			return s.settle(x.took)
		})
		if blamed == nil || blamed.key != x.key || o.Kind != gateway.RateLimited || !after.Until.After(before) || egressKey(b.c) == "" {
			continue
		}
		for _, other := range m.all {
			c, a := other.keys()
			if egressKey(other.c) == egressKey(b.c) && a != account && !other.c.DisableCooling {
				m.step(c, func(s state) state { return s.join(after.Until, e) })
			}
		}
	}
}

func (m *machine) states() map[string]state { return m.keys }

func (m *machine) order(key string, f func(state) state) { m.step(key, f) }

func (m *machine) restart() {
	kept := m.keys
	m.keys = map[string]state{}
	for key, s := range kept {
		if !s.blank() {
			m.keys[key] = state{}.restore(s.durable, m.at)
		}
	}
}

// virtual is the driver that runs the room in the bubble's time.
type virtual struct {
	room *Room
	kept map[string]resilience.Record
	all  []*bound
}

func (v *virtual) open() {
	v.room = New(Options{Keep: func(r resilience.Record) { v.kept[r.Key] = r }, Rand: func() float64 { return 0 }})
}

func (v *virtual) now() time.Time       { return time.Now() }
func (v *virtual) wait(d time.Duration) { time.Sleep(d) }

func (v *virtual) know(all []*bound) {
	v.all = all
	var live []*gateway.Connection
	for _, b := range all {
		live = append(live, b.c)
	}
	v.room.Retain(live)
}

func (v *virtual) bind(b *bound) *Handle {
	return v.room.Bind(gateway.Candidate{Connection: b.c, Model: "m"}, b.cfg)
}

func (v *virtual) peek(b *bound, a *resilience.Ask) resilience.Ruling {
	return v.bind(b).Peek(a, time.Now())
}

func (v *virtual) allow(b *bound, a *resilience.Ask) (*taking, resilience.Ruling) {
	p, r := v.bind(b).Allow(context.Background(), a, time.Now())
	if p == nil {
		return nil, r
	}
	return &taking{b: b, permit: p}, r
}

func (v *virtual) alive(p *taking)                     { p.permit.Alive(time.Now()) }
func (v *virtual) record(p *taking, o gateway.Outcome) { p.permit.Record(o, time.Now()) }
func (v *virtual) learn(b *bound, o gateway.Outcome)   { v.bind(b).Learn(o, time.Now()) }

func (v *virtual) states() map[string]state {
	out := map[string]state{}
	for key, c := range v.room.cells {
		out[key] = c.Load()
	}
	return out
}

func (v *virtual) order(key string, f func(state) state) {
	c, err := v.room.find(key)
	if err != nil {
		panic(err)
	}
	c.stepAs("op", time.Now(), f)
}

func (v *virtual) restart() {
	v.open()
	var recs []resilience.Record
	for _, r := range v.kept {
		recs = append(recs, r)
	}
	v.room.Restore(recs, time.Now())
	v.know(v.all)
}
