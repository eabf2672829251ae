package lockout

import (
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
//	preset NAME, set FIELD=VALUE            the policy of the binds that follow
//	bind NAME conn account model [family]   a candidate
//	KIND NAME [status N] [retry D] [rule] [scope S] [took D] [+retired] [+endpoint] [+low] [+uncounted]
//	wait D, show NAME, status, clear KEY, restart
//
// Each script runs through two drivers, the pure machine and the room in virtual time; both must say the same.
type script struct {
	t     *testing.T
	d     driver
	cfg   Config
	out   strings.Builder
	names map[string]candidate
}

// candidate is one bound name.
type candidate struct {
	c   gateway.Candidate
	cfg Config
}

// driver is a way to run the machine.
type driver interface {
	now() time.Time
	wait(time.Duration)
	learn(candidate, gateway.Outcome)
	ruling(candidate) resilience.Ruling
	held() map[string]lock
	clear(key string)
	restart()
}

func TestGoldenThroughBothDrivers(t *testing.T) {
	golden.Scripts(t, 3, golden.Driver{Name: "machine", Play: func(t *testing.T, text string) string {
		return play(t, text, &machine{at: bubbleStart, locks: map[string]lock{}, okAt: map[string]time.Time{}})
	}}, golden.Driver{Name: "room", Play: func(t *testing.T, text string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			r := &virtual{kept: map[string]resilience.Record{}}
			r.open()
			got = play(t, text, r)
		})
		return got
	}})
}

// bubbleStart is when every bubble of testing/synctest begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func play(t *testing.T, text string, d driver) string {
	s := &script{t: t, d: d, cfg: Default(gateway.APIKey), names: map[string]candidate{}}
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
	case "set":
		for _, o := range w[1:] {
			s.set(o)
		}
		s.must(s.cfg.Validate())
	case "bind":
		cfg := s.cfg
		if len(w) > 5 {
			cfg.Family = w[5]
		}
		s.names[w[1]] = candidate{gateway.Candidate{Connection: connection(w[2], w[3]), Model: gateway.ModelID(w[4])}, cfg}
	case "wait":
		s.d.wait(s.dur(w[1]))
	case "show":
		s.show(w[1])
	case "status":
		held := s.d.held()
		for _, key := range slices.Sorted(maps.Keys(held)) {
			l := held[key]
			fmt.Fprintf(&s.out, "    %s count=%d until=%s cause=%s\n", key, l.Count, s.rel(l.Until), l.Kind)
		}
	case "clear":
		s.d.clear(strings.Join(w[1:], " "))
	case "restart":
		s.d.restart()
	default:
		s.attempt(w)
	}
}

func (s *script) set(o string) {
	name, value, _ := strings.Cut(o, "=")
	switch name {
	case "enabled":
		s.cfg.Enabled = value == "true"
	case "exponential":
		s.cfg.Exponential = value == "true"
	case "base":
		s.cfg.Base = s.dur(value)
	case "max_cooldown":
		s.cfg.MaxCooldown = s.dur(value)
	default:
		s.t.Fatalf("no setting %q", name)
	}
}

func (s *script) rel(at time.Time) string {
	if d := at.Sub(s.d.now()); d > 0 {
		return "+" + d.String()
	}
	return "over"
}

func (s *script) show(name string) {
	r := s.d.ruling(s.names[name])
	if r.OK() {
		fmt.Fprintf(&s.out, "    %s: open\n", name)
		return
	}
	fmt.Fprintf(&s.out, "    %s: %s %s until %s\n", name, r.Layer, r.Reason, s.rel(r.Until))
}

// attempt makes one attempt and says where the candidate stands then.
func (s *script) attempt(w []string) {
	o := gateway.Outcome{Scope: gateway.ScopeModel, Status: 200}
	s.must(o.Kind.UnmarshalText([]byte(w[0])))
	took := 100 * time.Millisecond
	for i := 2; i < len(w); i++ {
		arg := func() string { i++; return w[i] }
		switch w[i] {
		case "status":
			n, err := strconv.Atoi(arg())
			s.must(err)
			o.Status = n
		case "retry":
			o.RetryAfter, o.Hint = s.dur(arg()), gateway.HintHeader
		case "rule":
			o.Rule = "r"
			if o.RetryAfter > 0 {
				o.Hint = gateway.HintRule
			}
		case "scope":
			s.must(o.Scope.UnmarshalText([]byte(arg())))
		case "took":
			took = s.dur(arg())
		case "+retired":
			o.Retired = true
		case "+endpoint":
			o.Endpoint = true
		case "+low":
			o.BelowHTTP = true
		case "+uncounted":
			o.Uncounted = true
		default:
			s.t.Fatalf("no option %q", w[i])
		}
	}
	c, ok := s.names[w[1]]
	if !ok {
		s.t.Fatalf("%s is not bound", w[1])
	}
	o.BeganAt = s.d.now().Add(-max(took-100*time.Millisecond, 0))
	s.d.wait(min(took, 100*time.Millisecond))
	o.EndedAt = s.d.now()
	s.d.learn(c, o)
	s.show(w[1])
}

// machine is the driver that has nothing but the pure functions: a map of locks and a clock.
type machine struct {
	at    time.Time
	locks map[string]lock
	okAt  map[string]time.Time
	kept  map[string]lock
}

func (m *machine) now() time.Time       { return m.at }
func (m *machine) wait(d time.Duration) { m.at = m.at.Add(d) }

// keys are the four keys of a candidate, by place - 1.
func (c candidate) keys() [provider]string {
	conn, model := c.c.Connection, string(c.c.Model)
	unit := model
	if c.cfg.Family != "" {
		unit = "family " + c.cfg.Family
	}
	p := string(conn.Provider.ID)
	return [provider]string{
		exact - 1: "connection:" + conn.Identity + "/" + model, family - 1: "connection:" + conn.Identity + "/" + unit,
		quota - 1: "account:" + p + "/" + string(conn.Account) + "/" + unit, provider - 1: "provider:" + p + "/" + model,
	}
}

func (m *machine) learn(c candidate, o gateway.Outcome) {
	if o.Uncounted {
		return
	}
	keys := c.keys()
	e := event{o: o, cfg: &c.cfg, perModel: c.c.Connection.Provider.PerModelQuota, now: m.at}
	if o.Kind != gateway.Success {
		if p := e.where(); p != nowhere {
			e.okAt = m.okAt[keys[quota-1]]
			m.locks[keys[p-1]] = m.locks[keys[p-1]].fail(e)
		}
		return
	}
	m.okAt[keys[quota-1]] = later(m.okAt[keys[quota-1]], m.at)
	seen := map[string]bool{}
	for _, k := range keys {
		if l, ok := m.locks[k]; ok && !seen[k] && !l.blank() {
			m.locks[k] = l.succeed(e)
		}
		seen[k] = true
	}
}

func (m *machine) ruling(c candidate) resilience.Ruling {
	var until time.Time
	for _, k := range c.keys() {
		until = later(until, m.locks[k].Until)
	}
	if !m.at.Before(until) {
		return resilience.Ruling{}
	}
	return resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerLockout, Reason: gateway.ModelLockout, Until: until}
}

func (m *machine) held() map[string]lock {
	out := map[string]lock{}
	for k, l := range m.locks {
		if !l.blank() {
			out[k] = l
		}
	}
	return out
}

func (m *machine) clear(key string) { m.locks[key] = lock{EpisodeAt: m.at.Add(-1)} }

func (m *machine) restart() {
	m.kept = m.held()
	m.locks, m.okAt = map[string]lock{}, map[string]time.Time{}
	for k, l := range m.kept {
		m.locks[k] = lock{}.restore(l, m.at)
	}
}

// virtual is the driver that runs the room in the bubble's time.
type virtual struct {
	room *Room
	kept map[string]resilience.Record
}

func (v *virtual) open() {
	v.room = New(Options{Keep: func(r resilience.Record) { v.kept[r.Key] = r }})
}

func (v *virtual) now() time.Time                       { return time.Now() }
func (v *virtual) wait(d time.Duration)                 { time.Sleep(d) }
func (v *virtual) bind(c candidate) *Handle             { return v.room.Bind(c.c, c.cfg) }
func (v *virtual) learn(c candidate, o gateway.Outcome) { v.bind(c).Learn(o, time.Now()) }
func (v *virtual) ruling(c candidate) resilience.Ruling { return v.bind(c).Peek(nil, time.Now()) }

func (v *virtual) held() map[string]lock {
	out := map[string]lock{}
	for key, c := range v.room.held {
		out[key] = c.Load()
	}
	return out
}

func (v *virtual) clear(key string) {
	if err := v.room.Clear(key, "op", false, time.Now()); err != nil {
		panic(err)
	}
}

func (v *virtual) restart() {
	v.open()
	var all []resilience.Record
	for _, r := range v.kept {
		all = append(all, r)
	}
	v.room.Restore(all, time.Now())
}
