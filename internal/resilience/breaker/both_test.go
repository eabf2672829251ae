package breaker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/golden"
	"spillway/internal/resilience"
)

// TestGoldenThroughBothDrivers runs the scripts of the presets through two more drivers: the room in the virtual time of a
// bubble, which must print the golden trace, and the pure machine alone, which must print the same rulings and states.
// What only the room has (transitions told, orders by key, restarts, providers in scope auto) it leaves out.
func TestGoldenThroughBothDrivers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile(strings.TrimSuffix(file, ".txt") + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name+"/room in virtual time", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sameLines(t, (&script{t: t, now: time.Now(), sleep: time.Sleep}).play(string(text)), string(golden))
			})
		})
		if name == "auto" || strings.HasSuffix(name, "orders") {
			continue
		}
		t.Run(name+"/machine", func(t *testing.T) {
			got := (&script{t: t, now: t0, machine: &machine{keys: map[string]state{}}}).play(string(text))
			sameLines(t, got, untold(string(golden)))
		})
	}
}

// untold leaves out the lines about transitions.
func untold(golden string) string {
	var out strings.Builder
	for line := range strings.Lines(golden) {
		if !strings.Contains(line, " -> ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func sameLines(t *testing.T, got, want string) {
	t.Helper()
	if line, a, b, differ := golden.Differ(got, want); differ {
		t.Fatalf("line %d:\n got %q\nwant %q", line, a, b)
	}
}

// machine is the driver that has nothing but the pure functions: a map of states, and tokens that are counted.
type machine struct {
	keys   map[string]state
	tokens uint64
}

// part is one candidate under the machine: its own key, and its connection's where models are kept apart.
type part struct {
	m         *machine
	rules     *rules
	own, conn string
	model     gateway.ModelID
}

func (m *machine) bind(c gateway.Candidate, cfg Config) *part {
	p := &part{m: m, rules: compile(cfg, c.Connection.MaxConcurrent, 25*time.Second), own: ConnectionKey(c.Connection), model: c.Model}
	if cfg.Scope == ScopeProvider {
		p.own = ProviderKey(c.Connection.Provider.ID)
	}
	if cfg.EvidencePerModel {
		p.own, p.conn = p.own+"/"+string(c.Model), p.own
	}
	return p
}

// do steps a key of the part.
func (p *part) do(key string, ev event, now time.Time) ruling {
	s, out, _ := step(p.rules, p.m.keys[key], ev, now.UnixNano())
	p.m.keys[key] = s
	return out
}

func (p *part) peek(ask *resilience.Ask, now time.Time) ruling {
	may, ns := mayProbe(p.rules, ask), now.UnixNano()
	own := p.m.keys[p.own]
	out := own.peek(p.rules, may, ns)
	if !out.admit || p.conn == "" {
		return out
	}
	conn := p.m.keys[p.conn]
	up := conn.peek(p.rules, may, ns)
	if !up.admit {
		return up
	}
	out.probe, out.weak = out.probe || up.probe, out.weak || up.weak
	return out
}

func (p *part) shown(out ruling) resilience.Ruling {
	if out.admit {
		return resilience.Ruling{Probe: out.probe, Weak: out.weak}
	}
	r := resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerBreaker, Reason: out.reason}
	if out.until != 0 {
		r.Until = time.Unix(0, out.until)
	}
	return r
}

func (p *part) Peek(ask *resilience.Ask, now time.Time) resilience.Ruling {
	return p.shown(p.peek(ask, now))
}

func (p *part) Allow(_ context.Context, ask *resilience.Ask, now time.Time) (resilience.Permit, resilience.Ruling) {
	out := p.peek(ask, now)
	if !out.admit {
		return nil, p.shown(out)
	}
	p.m.tokens++
	ev := event{kind: evAcquire, token: p.m.tokens, mayProbe: mayProbe(p.rules, ask)}
	x := &purePermit{p: p}
	if p.conn != "" {
		got := p.do(p.conn, ev, now)
		x.conn = grant{ep: p.m.keys[p.conn].ep, token: tokenOf(got, ev)}
	}
	got := p.do(p.own, ev, now)
	x.own = grant{ep: p.m.keys[p.own].ep, token: tokenOf(got, ev)}
	return x, p.shown(out)
}

func (p *part) State(now time.Time) State {
	see := func(key string) State {
		s := p.m.keys[key]
		ns := now.UnixNano()
		if s.st == open && s.forcedAt(ns) != forcedOpen && ns >= min(s.ot, ns+p.rules.cap) {
			return HalfOpen
		}
		return face(s.st, s.degraded(p.rules, ns))
	}
	if p.conn == "" {
		return see(p.own)
	}
	return worse(see(p.own), see(p.conn))
}

// purePermit is a permit of the machine.
type purePermit struct {
	p         *part
	own, conn grant
	told      bool
}

func (x *purePermit) each(kind eventKind, now time.Time) {
	for key, g := range map[string]*grant{x.p.own: &x.own, x.p.conn: &x.conn} {
		if key == "" {
			continue
		}
		out := x.p.do(key, event{kind: kind, ep: g.ep, token: g.token}, now)
		if kind == evAlive {
			g.alive = !out.stale
		}
	}
}

func (x *purePermit) Alive(now time.Time) {
	if !x.told {
		x.told = true
		x.each(evAlive, now)
	}
}

func (x *purePermit) Renew(now time.Time) { x.each(evRenew, now) }

func (x *purePermit) Record(o gateway.Outcome, now time.Time) {
	p := x.p
	pol := p.rules.classify(&o)
	ev := x.own.report(pol, o.Kind)
	ev.model, ev.below, ev.retryAfter = p.model, o.BelowHTTP, int64(o.RetryAfter)
	out := p.do(p.own, ev, now)
	if p.conn == "" {
		return
	}
	ev.token, ev.ep, ev.alive, ev.gated = x.conn.token, x.conn.ep, x.conn.alive, true
	if pol.class == slow && x.conn.token == 0 {
		ev.pol.class = neutral
		if out.counted {
			ev.pol.class = failure
		}
	}
	p.do(p.conn, ev, now)
}
