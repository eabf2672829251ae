package attempt

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/protocol"
	"spillway/internal/protocol/families"
	"spillway/internal/resilience"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/gate"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lockout"
	"spillway/internal/resilience/outage"
	"spillway/internal/resilience/queue"
	"spillway/internal/route/strategy"
)

// track is a pool of two connections over real rooms: the preferred "probe", whose breaker is due, and "other".
type track struct {
	t                 *testing.T
	breaker           *breaker.Room
	cooldown          *cooldown.Room
	lockout           *lockout.Room
	gate              *gate.Room
	health            *health.Room
	changes           resilience.Changes
	snapshot          *catalog.Snapshot
	pool              *plan.Pool
	engine            *Engine
	probe, other      *plan.Candidate
	upstreams         map[gateway.ConnectionID]script
	mu                sync.Mutex
	canceled, answers map[gateway.ConnectionID]int
}

// script is what an upstream does: after a while it answers with a status; 0 = never.
type script struct {
	after  time.Duration
	status int
}

func (tr *track) Bind(c gateway.Candidate, _ gateway.Protocol, _ gateway.Operation, s *catalog.Snapshot) plan.Candidate {
	set := s.Settings(c.Connection.ID)
	alive := tr.health.Bind(c)
	return plan.Candidate{Breaker: tr.breaker.Bind(c, set.Breaker), Cooldown: tr.cooldown.Bind(c, set.Cooldown),
		Lockout: tr.lockout.Bind(c, set.Lockout), Gate: tr.gate.Bind(c, set.Pacing.Gate, alive.Proven), Health: alive}
}

func (tr *track) Changes() *resilience.Changes { return &tr.changes }

func (tr *track) Strategy(string) *strategy.State { return &strategy.State{} }

func (tr *track) URLs(c gateway.Candidate, _ gateway.Protocol, _ gateway.Operation) (plain, stream *url.URL, err error) {
	u, err := url.Parse(c.Connection.Provider.BaseURL + "/chat/completions")
	return u, u, err
}

// For implements Sender.
func (tr *track) For(c *gateway.Connection) (http.RoundTripper, error) { return &wire{tr, c.ID}, nil }

type wire struct {
	track *track
	id    gateway.ConnectionID
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	s := w.track.upstreams[w.id]
	var due <-chan time.Time
	if s.status != 0 {
		due = time.After(s.after)
	}
	note := func(m map[gateway.ConnectionID]int) {
		w.track.mu.Lock()
		defer w.track.mu.Unlock()
		m[w.id]++
	}
	select {
	case <-r.Context().Done():
		note(w.track.canceled)
		return nil, context.Cause(r.Context())
	case <-due:
	}
	note(w.track.answers)
	body, header := `{"error":{"message":"down"}}`, http.Header{"Content-Type": {"application/json"}}
	if s.status == 200 {
		header.Set("Content-Type", "text/event-stream")
		body = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" +
			string(w.id) + "\"},\"finish_reason\":null}]}\n\ndata: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	}
	return &http.Response{StatusCode: s.status, Header: header, Body: io.NopCloser(&tied{r.Context(), body}), ContentLength: -1}, nil
}

// tied is a body that breaks when its request is cancelled, as a transport's does.
type tied struct {
	ctx  context.Context
	rest string
}

func (b *tied) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	if b.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// gate of a client that notes what it gets.
type client struct {
	text   []byte
	answer *gateway.Answer
}

func (c *client) Commit(a *gateway.Answer) error {
	c.answer, c.text = a, append(c.text, a.Body...)
	return nil
}
func (c *client) Write(events []byte, _ time.Time) error {
	c.text = append(c.text, events...)
	return nil
}
func (c *client) Fail(*gateway.Error, *protocol.StreamState) error { return nil }
func (c *client) Committed() bool                                  { return c.answer != nil }
func (c *client) Opened() bool                                     { return c.answer != nil }

const raceConfig = `
providers:
  bad: {protocols: [openai], base_url: http://bad.test/v1}
  good: {protocols: [openai], base_url: http://good.test/v1}
connections:
  - {id: probe, provider: bad, key: k1}
  - {id: other, provider: good, key: k2}
combos:
  - {name: smart, targets: [bad/m, good/m]}
`

// newTrack trips the breaker of the first candidate and lets its open time pass.
func newTrack(t *testing.T, probe, other script) *track {
	tr := sound(t, raceConfig, probe, other)
	for tr.probe.Breaker.State(time.Now()) != breaker.Open {
		p, _ := tr.probe.Breaker.Allow(t.Context(), nil, time.Now())
		o := failure
		o.BeganAt, o.EndedAt = time.Now(), time.Now()
		p.Record(o, time.Now())
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
	return tr
}

// sound is a track on which nothing has happened yet.
func sound(t *testing.T, yaml string, probe, other script) *track {
	tr := &track{t: t, gate: gate.New(gate.Options{}), health: health.New(health.Options{}),
		upstreams: map[gateway.ConnectionID]script{"probe": probe, "other": other},
		canceled:  map[gateway.ConnectionID]int{}, answers: map[gateway.ConnectionID]int{}}
	tr.breaker = breaker.New(breaker.Options{Changes: &tr.changes})
	tr.cooldown = cooldown.New(cooldown.Options{Changes: &tr.changes})
	tr.lockout = lockout.New(lockout.Options{Changes: &tr.changes})
	cfg, err := config.Load(config.Source{Path: "x.yaml", Bytes: []byte(yaml)})
	if err != nil {
		t.Fatal(err)
	}
	if tr.snapshot, err = catalog.Compile(cfg); err != nil {
		t.Fatal(err)
	}
	m, _ := tr.snapshot.Resolve("smart")
	tr.pool = plan.NewBoard(tr.snapshot, tr).Pool(m.Combo, gateway.OpenAI, gateway.Generate)
	tr.probe, tr.other = tr.pool.Candidates[0], tr.pool.Candidates[1]
	tr.engine = New(Options{Sender: tr, Outages: outage.New(outage.Default()), Queues: queue.New(queue.Options{}), Buffers: NewBuffers(0)})
	return tr
}

// ask runs one streamed request.
func (tr *track) ask() (*client, *gateway.Journey, *gateway.Error) {
	tr.t.Helper()
	c := &client{}
	j, gerr := tr.askAt(c)
	return c, j, gerr
}

// askAt runs one streamed request for a door.
func (tr *track) askAt(door Door) (*gateway.Journey, *gateway.Error) {
	tr.t.Helper()
	env, gerr := envelope.Decode([]byte(`{"model":"smart","stream":true,"messages":[]}`), envelope.Options{Protocol: gateway.OpenAI})
	if gerr != nil {
		tr.t.Fatal(gerr)
	}
	set := tr.snapshot.Config().Global()
	j := &gateway.Journey{ID: "r", At: time.Now()}
	gerr = tr.engine.Run(tr.t.Context(), &Job{Envelope: env, Bodies: &envelope.Readers{}, Family: families.For(gateway.OpenAI), Pool: tr.pool,
		Rules: tr.snapshot.Config().RuleSet(), Header: http.Header{}, Door: door, Journey: j, Timeouts: gateway.Timeouts(set.Timeouts),
		Queue: set.Pacing.Queue, Guards: set.Streams.Watchdog, Walk: next.Config{Ordered: true, AttemptLimit: 2, StallWindow: time.Minute}})
	return j, gerr
}

// nothingHeld: whatever happened, every place is free again.
func (tr *track) nothingHeld() {
	tr.t.Helper()
	for _, c := range tr.pool.Candidates {
		if n, v := c.Gate.InFlight(), c.Health.View(time.Now()); n != 0 || v.InFlight != 0 {
			tr.t.Errorf("%s: %d and %d in flight", c.Candidate.Connection.ID, n, v.InFlight)
		}
	}
}

// TestRace: a probe has two seconds for itself; then the next candidate starts beside it, and the first content wins.
func TestRace(t *testing.T) {
	const never = 0
	for _, row := range []struct {
		name         string
		probe, other script
		winner       gateway.ConnectionID // "" = none
		attempts     int
		took         time.Duration
		probeState   breaker.State
	}{
		{"a quick probe is alone", script{time.Second, 200}, script{time.Second, 200}, "probe", 1, time.Second, breaker.HalfOpen},
		{"a slow probe wins against a slower one", script{3 * time.Second, 200}, script{10 * time.Second, 200}, "probe", 2, 3 * time.Second, breaker.HalfOpen},
		{"a silent probe loses", script{0, never}, script{time.Second, 200}, "other", 2, 3 * time.Second, breaker.Open},
		{"a dead heat has one winner", script{3 * time.Second, 200}, script{time.Second, 200}, "any", 2, 3 * time.Second, 0},
		{"a probe that fails at once is no race", script{time.Millisecond, 500}, script{time.Second, 200}, "other", 2, time.Second + time.Millisecond, breaker.Open},
		{"a probe that fails in the race", script{3 * time.Second, 500}, script{5 * time.Second, 200}, "other", 2, 7 * time.Second, breaker.Open},
		{"the other fails in the race", script{5 * time.Second, 200}, script{time.Second, 500}, "probe", 2, 5 * time.Second, breaker.HalfOpen},
		{"both fail", script{3 * time.Second, 500}, script{2 * time.Second, 500}, "", 2, 4 * time.Second, breaker.Open},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrack(t, row.probe, row.other)
				healthy := tr.other.Health.View(time.Now()).Success
				began := time.Now()
				c, j, gerr := tr.ask()
				if took := time.Since(began); took != row.took {
					t.Errorf("took %s, want %s", took, row.took)
				}
				if (gerr == nil) != (row.winner != "") || row.winner != "" && row.winner != "any" && j.Connection != row.winner {
					t.Fatalf("%q answered, want %q (%v)", j.Connection, row.winner, gerr)
				}
				if row.winner != "" && (c.answer == nil || !containsOnce(c.text, string(j.Connection))) {
					t.Errorf("the client got %q of %s", c.text, j.Connection)
				}
				if len(j.Attempts) != row.attempts {
					t.Errorf("%d attempts in the decision log: %+v", len(j.Attempts), j.Attempts)
				}
				for _, a := range j.Attempts {
					lost := a.Connection != j.Connection && row.winner != ""
					switch {
					case lost && a.Reason == gateway.RaceLost && a.Probe && a.Kind != gateway.Slow:
						t.Errorf("a losing probe has failed as a probe: %+v", a)
					case lost && a.Reason == gateway.RaceLost && !a.Probe && a.Kind != gateway.Canceled:
						t.Errorf("a losing other is neutral: %+v", a)
					case a.EndedAt.IsZero():
						t.Errorf("an attempt without an end: %+v", a)
					}
				}
				if s := tr.probe.Breaker.State(time.Now()); row.winner != "any" && s != row.probeState {
					t.Errorf("the probe's breaker is %s, want %s", s, row.probeState)
				}
				if row.winner == "probe" && row.other.status == 200 && tr.other.Health.View(time.Now()).Success < healthy {
					t.Error("the loser's health fell")
				}
				if tr.other.Breaker.State(time.Now()) != breaker.Closed {
					t.Error("the other's breaker moved")
				}
				if len(tr.canceled)+len(tr.answers) > 2 {
					t.Errorf("canceled %v, answered %v", tr.canceled, tr.answers)
				}
				tr.nothingHeld()
			})
		})
	}
}

func containsOnce(b []byte, s string) bool {
	n := 0
	for i := range b {
		if len(b)-i >= len(s) && string(b[i:i+len(s)]) == s {
			n++
		}
	}
	return n == 1
}

// TestRaceClientLeaves: both attempts end with the request, and neither learns anything.
func TestRaceClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrack(t, script{}, script{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		env, _ := envelope.Decode([]byte(`{"model":"smart","stream":true}`), envelope.Options{Protocol: gateway.OpenAI})
		j := &gateway.Journey{ID: "r", At: time.Now()}
		if gerr := tr.engine.Run(ctx, &Job{Envelope: env, Bodies: &envelope.Readers{}, Family: families.For(gateway.OpenAI), Pool: tr.pool,
			Rules: tr.snapshot.Config().RuleSet(), Header: http.Header{}, Door: &client{}, Journey: j, Walk: next.Config{Ordered: true, AttemptLimit: 5}}); gerr != nil {
			t.Errorf("an error for nobody: %v", gerr)
		}
		if tr.canceled["probe"] != 1 || tr.canceled["other"] != 1 || len(j.Attempts) != 2 || j.Status != 499 {
			t.Errorf("canceled %v, status %d, attempts %+v", tr.canceled, j.Status, j.Attempts)
		}
		if v := tr.other.Health.View(time.Now()); v.Success != 1 {
			t.Errorf("health of the other: %v", v.Success)
		}
		if r := tr.probe.Breaker.Peek(&resilience.Ask{Fallbacks: 1, AttemptsLeft: 5}, time.Now()); !r.OK() || !r.Probe {
			t.Errorf("the probe's permit did not come back: %+v", r)
		}
		tr.nothingHeld()
	})
}
