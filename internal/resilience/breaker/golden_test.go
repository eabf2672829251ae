package breaker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/golden"
	"spillway/internal/resilience"
)

// script is a room in virtual time driven by the lines of testdata/*.txt:
//
//	preset NAME [field=value ...]     the configuration of the binds that follow
//	bind NAME provider/conn/model [max_concurrent]
//	ok|fail|KIND NAME [xN] [every D] [+low] [retry D] [status N]   whole attempts; fail = service_error 500
//	take NAME PERMIT [fallbacks N] [left N]
//	content|renew PERMIT, end PERMIT KIND
//	wait D, peek NAME, show NAME, status
//	force KEY open|close D ACTOR, reset KEY ACTOR, restart
type script struct {
	t       *testing.T
	room    *Room
	cfg     Config
	start   time.Time
	now     time.Time
	sleep   func(time.Duration) // passes the time of a bubble; nil = now is a number
	machine *machine            // the pure machine instead of the room
	out     strings.Builder
	handles map[string]breakerHandle
	bound   []func()
	permits map[string]resilience.Permit
	kept    map[string]resilience.Record
}

// breakerHandle is a handle of the room, or of the pure machine.
type breakerHandle interface {
	resilience.Handle
	State(now time.Time) State
}

func TestGolden(t *testing.T) { golden.Scripts(t, 7, golden.Driver{Name: "room", Play: play}) }

func play(t *testing.T, text string) string {
	return (&script{t: t, now: t0}).play(text)
}

func (s *script) play(text string) string {
	s.start, s.handles, s.permits, s.kept = s.now, map[string]breakerHandle{}, map[string]resilience.Permit{}, map[string]resilience.Record{}
	s.open()
	return golden.Trace(text, &s.out, func() time.Duration { return s.now.Sub(s.start) }, s.line)
}

// pass lets time pass.
func (s *script) pass(d time.Duration) {
	s.now = s.now.Add(d)
	if s.sleep != nil {
		s.sleep(d)
		s.now = time.Now()
	}
}

func (s *script) open() {
	s.room = New(Options{Keep: func(r resilience.Record) { s.kept[r.Key] = r }, OnTransition: s.heard,
		AttemptMax: 25 * time.Second})
}

func (s *script) heard(t Transition) {
	fmt.Fprintf(&s.out, "    %s: %v -> %v (%s)", t.Key, t.From, t.To, t.Cause)
	if !t.Until.IsZero() {
		fmt.Fprintf(&s.out, " for %v", t.Until.Sub(s.now))
	}
	fmt.Fprintf(&s.out, " fails=%d window=%d/%d", t.Fails, t.F, t.N)
	if t.Actor != "" {
		fmt.Fprintf(&s.out, " by %s", t.Actor)
	}
	fmt.Fprintln(&s.out)
}

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) line(w []string) {
	switch w[0] {
	case "preset":
		var ok bool
		if s.cfg, ok = Preset(w[1]); !ok {
			s.t.Fatalf("no preset %q", w[1])
		}
		s.cfg.OpenJitter = 0
		for _, o := range w[2:] {
			s.set(o)
		}
		s.must(s.cfg.Validate())
	case "bind":
		s.bind(w)
	case "take":
		s.take(w)
	case "content":
		s.permit(w[1]).Alive(s.now)
	case "renew":
		s.permit(w[1]).(interface{ Renew(time.Time) }).Renew(s.now)
	case "end":
		s.permit(w[1]).Record(s.outcome(w[2], w[3:]), s.now)
	case "wait":
		s.pass(s.dur(w[1]))
	case "peek":
		s.show(s.handles[w[1]].Peek(&resilience.Ask{}, s.now))
	case "show":
		fmt.Fprintf(&s.out, "    %v\n", s.handles[w[1]].State(s.now))
	case "status":
		for _, x := range s.room.Status(s.now) {
			fmt.Fprintf(&s.out, "    %s %s %v cause=%s forced=%s by=%s until=%s\n", x.Key, x.State, x.Reason, x.Detail["cause"],
				x.Detail["forced"], x.Detail["forced_by"], s.rel(x.Until))
		}
	case "force":
		until := time.Time{}
		if d := s.dur(w[3]); d > 0 {
			until = s.now.Add(d)
		}
		s.must(s.room.Force(w[1], w[2] == "open", until, w[4], s.now))
	case "reset":
		s.must(s.room.Reset(w[1], w[2], s.now))
	case "restart":
		s.open()
		for _, b := range s.bound {
			b()
		}
		var recs []resilience.Record
		for _, r := range s.kept {
			recs = append(recs, r)
		}
		s.room.Restore(recs, s.now)
	default:
		s.attempts(w)
	}
}

func (s *script) set(o string) {
	name, value, _ := strings.Cut(o, "=")
	n, _ := strconv.Atoi(value)
	switch name {
	case "provider_cooldown":
		s.cfg.ProviderCooldown.Enabled = true
	case "hints_429":
		for _, k := range []string{"rate_limited", "quota_exhausted"} {
			p := s.cfg.Kinds[k]
			p.Class, p.Immediate = ClassCount, true
			s.cfg.Kinds[k] = p
		}
	case "consec_threshold":
		s.cfg.ConsecThreshold = n
	default:
		s.t.Fatalf("no setting %q", name)
	}
}

func (s *script) bind(w []string) {
	p := strings.Split(w[2], "/")
	c := candidate(p[0], p[1], p[2])
	if len(w) > 3 {
		c.Connection.MaxConcurrent, _ = strconv.Atoi(w[3])
	}
	cfg := s.cfg
	b := func() {
		if s.machine != nil {
			s.handles[w[1]] = s.machine.bind(c, cfg)
			return
		}
		s.handles[w[1]] = s.room.Bind(c, cfg)
	}
	b()
	s.bound = append(s.bound, b)
}

func (s *script) take(w []string) {
	ask := &resilience.Ask{Fallbacks: s.opt(w, "fallbacks"), AttemptsLeft: s.opt(w, "left")}
	p, out := s.handles[w[1]].Allow(context.Background(), ask, s.now)
	s.show(out)
	s.permits[w[2]] = p
}

func (s *script) permit(name string) resilience.Permit {
	p := s.permits[name]
	if p == nil {
		s.t.Fatalf("permit %s was refused; so far:\n%s", name, s.out.String())
	}
	return p
}

func (s *script) opt(w []string, name string) int {
	for i, x := range w[:len(w)-1] {
		if x == name {
			n, err := strconv.Atoi(w[i+1])
			s.must(err)
			return n
		}
	}
	return 0
}

func (s *script) dur(text string) time.Duration {
	d, err := time.ParseDuration(text)
	s.must(err)
	return d
}

func (s *script) rel(at time.Time) string {
	if at.IsZero() {
		return "?"
	}
	return "+" + at.Sub(s.now).String()
}

func (s *script) show(r resilience.Ruling) {
	switch {
	case r.OK() && r.Probe:
		fmt.Fprintln(&s.out, "    probe")
	case r.OK() && r.Weak:
		fmt.Fprintln(&s.out, "    allowed, weak")
	case r.OK():
		fmt.Fprintln(&s.out, "    allowed")
	default:
		fmt.Fprintf(&s.out, "    refused: %v %v until %s\n", r.Layer, r.Reason, s.rel(r.Until))
	}
}

func (s *script) outcome(kind string, w []string) gateway.Outcome {
	o := gateway.Outcome{}
	switch kind {
	case "ok":
		o.Kind, o.Status = gateway.Success, 200
	case "fail":
		o.Kind, o.Status = gateway.ServiceError, 500
	default:
		s.must(o.Kind.UnmarshalText([]byte(kind)))
	}
	for i, x := range w {
		switch x {
		case "+low":
			o.BelowHTTP, o.Status = true, 0
		case "+endpoint":
			o.Endpoint = true
		case "+uncounted":
			o.Uncounted = true
		case "retry":
			o.RetryAfter = s.dur(w[i+1])
		case "status":
			o.Status = s.opt(w[i:], "status")
		}
	}
	return o
}

// attempts makes whole attempts one after the other and says when one was refused.
func (s *script) attempts(w []string) {
	n, every := 1, time.Duration(0)
	for i, x := range w {
		if c, ok := strings.CutPrefix(x, "x"); ok && i > 1 {
			n, _ = strconv.Atoi(c)
		}
		if x == "every" {
			every = s.dur(w[i+1])
		}
	}
	for i := range n {
		p, out := s.handles[w[1]].Allow(context.Background(), &resilience.Ask{}, s.now)
		if !out.OK() {
			fmt.Fprintf(&s.out, "    attempt %d ", i+1)
			s.show(out)
			return
		}
		o := s.outcome(w[0], w[2:])
		if o.Kind == gateway.Success {
			p.Alive(s.now)
		}
		p.Record(o, s.now)
		s.pass(every)
	}
	fmt.Fprintf(&s.out, "    now %v\n", s.handles[w[1]].State(s.now))
}
