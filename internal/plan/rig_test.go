package plan

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/gate"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lockout"
	"spillway/internal/route/strategy"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// house is a board over real rooms.
type house struct {
	*Board
	breaker    *breaker.Room
	cooldown   *cooldown.Room
	lockout    *lockout.Room
	gate       *gate.Room
	health     *health.Room
	strategies map[string]*strategy.State
	changes    resilience.Changes
}

func (h *house) Bind(c gateway.Candidate, _ gateway.Protocol, _ gateway.Operation, s *catalog.Snapshot) Candidate {
	set := s.Settings(c.Connection.ID)
	alive := h.health.Bind(c)
	return Candidate{Breaker: h.breaker.Bind(c, set.Breaker), Cooldown: h.cooldown.Bind(c, set.Cooldown),
		Lockout: h.lockout.Bind(c, set.Lockout), Gate: h.gate.Bind(c, set.Pacing.Gate, alive.Proven), Health: alive}
}

func (h *house) Changes() *resilience.Changes { return &h.changes }

func (h *house) Strategy(name string) *strategy.State {
	if h.strategies[name] == nil {
		h.strategies[name] = &strategy.State{}
	}
	return h.strategies[name]
}

func (h *house) URLs(c gateway.Candidate, _ gateway.Protocol, _ gateway.Operation) (plain, stream *url.URL, err error) {
	u, err := url.Parse(c.Connection.Provider.BaseURL)
	if strings.HasPrefix(string(c.Model), "broken") {
		return nil, nil, fmt.Errorf("no URL")
	}
	return u, u, err
}

// open builds a board from a configuration.
func open(t testing.TB, yaml string) *house {
	t.Helper()
	cfg, err := config.Load(config.Source{Path: "spillway.yaml", Bytes: []byte(yaml)})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := catalog.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{gate: gate.New(gate.Options{}), health: health.New(health.Options{}), strategies: map[string]*strategy.State{}}
	h.breaker = breaker.New(breaker.Options{Changes: &h.changes})
	h.cooldown = cooldown.New(cooldown.Options{Changes: &h.changes})
	h.lockout = lockout.New(lockout.Options{Changes: &h.changes})
	h.Board = NewBoard(snap, h)
	return h
}

// provider is the YAML of one provider; fields is more YAML, one field per line.
func provider(name string, fields ...string) string {
	var out strings.Builder
	out.WriteString("  " + name + ":\n    protocols: [openai]\n    base_url: http://" + name + ".test/v1\n")
	for _, f := range fields {
		out.WriteString("    " + f + "\n")
	}
	return out.String()
}

// keys is the YAML of the connections NAME1 to NAMEn of a provider.
func keys(of string, n int, fields ...string) string {
	var out strings.Builder
	for i := 1; i <= n; i++ {
		out.WriteString(fmt.Sprintf("  - {id: %s%d, provider: %s, key: key-of-%s-%d", of, i, of, of, i))
		for _, f := range fields {
			out.WriteString(", " + f)
		}
		out.WriteString("}\n")
	}
	return out.String()
}

// pool compiles what a model name means.
func (h *house) pool(t testing.TB, model string) *Pool {
	t.Helper()
	m, ok := h.Snapshot.Resolve(model)
	if !ok {
		t.Fatalf("nothing serves %q", model)
	}
	return h.Board.Pool(m.Combo, gateway.OpenAI, gateway.Generate)
}

// order is the plan's order as connection ids.
func order(pl *Plan) string {
	var out []string
	for _, c := range pl.Ranked {
		out = append(out, string(pl.Pool.Candidates[c.ID].Candidate.Connection.ID))
	}
	return strings.Join(out, " ")
}

// learn makes an attempt of one request on a candidate that ends so.
func (c *Candidate) learn(t testing.TB, ask resilience.Ask, o gateway.Outcome, now time.Time) {
	t.Helper()
	o.BeganAt, o.EndedAt = now, now.Add(time.Second)
	flight := c.Health.Begin(health.Facts{}, now)
	for _, room := range []resilience.Handle{c.Cooldown, c.Lockout, c.Gate, c.Breaker} {
		p, ruling := room.Allow(t.Context(), &ask, now)
		if p == nil {
			t.Fatalf("%s refuses: %s", ruling.Layer, ruling.Reason)
		}
		defer p.Record(o, o.EndedAt)
		if o.Kind == gateway.Success {
			flight.Content(o.EndedAt)
			p.Alive(o.EndedAt)
		}
	}
	flight.End(o, o.EndedAt)
}
