package plan

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/catalog"
	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/rate"
)

// planned is a pool over real rooms, rates included, to which random things happen.
type planned struct {
	*house
	rate *rate.Room
	pool *Pool
	now  time.Time
	live []flight
	kept map[string]resilience.Record
}

// flight is what an attempt on a candidate holds.
type flight struct {
	c       *Candidate
	permits []resilience.Permit
	rate    resilience.Permit
	began   time.Time
}

func (p *planned) compile(t *testing.T) {
	p.pool = NewBoard(p.Snapshot, p).Pool(mustResolve(t, p.Snapshot, "smart"), gateway.OpenAI, gateway.Generate)
}

func mustResolve(t *testing.T, s *catalog.Snapshot, name string) *gateway.Combo {
	m, ok := s.Resolve(name)
	if !ok {
		t.Fatal("nothing serves " + name)
	}
	return m.Combo
}

func (p *planned) Bind(c gateway.Candidate, a gateway.Protocol, o gateway.Operation, s *catalog.Snapshot) Candidate {
	bound := p.house.Bind(c, a, o, s)
	bound.Rate = p.rate.Bind(c, rate.Default())
	return bound
}

func (p *planned) take(t *rapid.T, c *Candidate) {
	f := flight{c: c, began: p.now}
	for _, room := range []resilience.Handle{c.Cooldown, c.Lockout, c.Gate, c.Rate, c.Breaker} {
		permit, _ := room.Allow(t.Context(), &resilience.Ask{Tokens: 5, AttemptsLeft: 3, Fallbacks: 1}, p.now)
		if permit == nil {
			for _, x := range f.permits {
				x.Record(gateway.Outcome{Kind: gateway.Canceled, EndedAt: p.now}, p.now)
			}
			return
		}
		f.permits = append(f.permits, permit)
	}
	f.rate = f.permits[3]
	p.live = append(p.live, f)
}

func (p *planned) end(t *rapid.T) {
	n := rapid.IntRange(0, len(p.live)-1).Draw(t, "flight")
	f := p.live[n]
	p.live = append(p.live[:n], p.live[n+1:]...)
	o := gateway.Outcome{Kind: gateway.Kind(rapid.IntRange(0, int(gateway.NumKinds)-1).Draw(t, "kind")), BeganAt: f.began, EndedAt: p.now,
		Scope:  rapid.SampledFrom([]gateway.Scope{gateway.ScopeAccount, gateway.ScopeModel, gateway.ScopeProvider}).Draw(t, "scope"),
		Status: rapid.SampledFrom([]int{0, 200, 402, 403, 429, 503}).Draw(t, "status"), Request: gateway.RequestID(strconv.Itoa(n)),
		RetryAfter: rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Hour}).Draw(t, "hint")}
	if o.RetryAfter > 0 {
		o.Hint = gateway.HintHeader
	}
	o.Usage.Input = rapid.IntRange(0, 50).Draw(t, "used")
	for _, x := range f.permits {
		x.Record(o, p.now)
	}
}

// happen is one random event.
func (p *planned) happen(t *rapid.T) {
	c := p.pool.Candidates[rapid.IntRange(0, len(p.pool.Candidates)-1).Draw(t, "candidate")]
	conn := c.Candidate.Connection
	connKey, account := c.Cooldown.Keys()
	switch what := rapid.IntRange(0, 25).Draw(t, "what"); {
	case what < 8:
		p.take(t, c)
	case what < 14:
		if len(p.live) > 0 {
			p.end(t)
		}
	case what == 14:
		if len(p.live) > 0 {
			for _, x := range p.live[0].permits {
				x.Alive(p.now)
			}
		}
	case what == 15:
		h := http.Header{}
		h.Set("X-Ratelimit-Limit-Requests", rapid.SampledFrom([]string{"3", "5000"}).Draw(t, "limit"))
		h.Set("X-Ratelimit-Remaining-Requests", rapid.SampledFrom([]string{"0", "2", "4000"}).Draw(t, "left"))
		h.Set("X-Ratelimit-Reset-Requests", "20s")
		var own resilience.Permit
		if len(p.live) > 0 && p.live[0].c == c {
			own = p.live[0].rate
		}
		c.Rate.Heard(own, h, p.now)
	case what == 16:
		_ = p.breaker.Force(breaker.ConnectionKey(conn), rapid.Bool().Draw(t, "open"), p.now.Add(time.Minute), "me", p.now)
	case what == 17:
		_ = p.breaker.Reset(breaker.ConnectionKey(conn), "me", p.now)
	case what == 18:
		_ = p.cooldown.Disable(rapid.SampledFrom([]string{connKey, account}).Draw(t, "key"), "me", p.now)
	case what == 19:
		_ = p.cooldown.Clear(rapid.SampledFrom([]string{connKey, account}).Draw(t, "key"), "me", true, p.now)
		for _, key := range c.Lockout.Keys() {
			_ = p.lockout.Clear(key, "me", false, p.now)
		}
	case what == 20:
		c.Cooldown.Return(p.now)
	case what == 21:
		c.Cooldown.Renewed(p.now)
	case what > 22: // a burst that may take the whole provider out
		for range 5 {
			if x, _ := c.Breaker.Allow(t.Context(), nil, p.now); x != nil {
				o := down
				o.BeganAt, o.EndedAt = p.now, p.now
				x.Record(o, p.now)
			}
			p.now = p.now.Add(time.Second)
		}
	default:
		p.cooldown.Retain(p.Snapshot.AllConnections())
		p.lockout.Retain(p.Snapshot.AllConnections())
		p.breaker.Retain(map[string]bool{conn.Identity: true})
		var records []resilience.Record
		for _, r := range p.kept {
			records = append(records, r)
		}
		p.cooldown.Restore(records, p.now)
		p.lockout.Restore(records, p.now)
		p.breaker.Restore(records, p.now)
		p.rate.Restore(records, p.now)
	}
}

// A plan that is used again skips the rooms that had nothing to say when they changed last. Whatever happens to the
// rooms, it must say what a plan says that has never been used, and a handle that calls itself plain must let everybody
// go, now and at any later time.
func TestPlainIsTrue(t *testing.T) {
	limits := "rate_limits: {rpm: 4, min_interval: 1s}"
	yaml := "providers:\n" + provider("a") + provider("b") + "connections:\n" + keys("a", 2) + keys("b", 2) + keys("a", 0) +
		"  - {id: a3, provider: a, key: key-of-a-1}\n  - {id: b3, provider: b, key: other, " + limits + "}\n" +
		"combos:\n  - {name: smart, targets: [a/m, b/m, a/n]}\n"
	rapid.Check(t, func(rt *rapid.T) {
		p := &planned{house: open(t, yaml), now: t0, kept: map[string]resilience.Record{}}
		keep := func(r resilience.Record) { p.kept[r.Room+r.Key] = r }
		p.rate = rate.New(rate.Options{Keep: keep, Changes: &p.changes})
		p.cooldown = cooldown.New(cooldown.Options{Keep: keep, Changes: &p.changes})
		p.breaker = breaker.New(breaker.Options{Keep: keep, Changes: &p.changes})
		p.compile(t)
		used := newPlan(p.pool)
		for range rapid.IntRange(1, 120).Draw(rt, "events") {
			p.now = p.now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 20 * time.Second, 2 * time.Minute, 25 * time.Hour}).Draw(rt, "dt"))
			p.happen(rt)
			ask := resilience.Ask{Tokens: 5, AttemptsLeft: rapid.IntRange(1, 3).Draw(rt, "left")}
			fresh, again := newPlan(p.pool), ask
			used.Make(&ask, nil, p.now)
			fresh.Make(&again, nil, p.now)
			for i, c := range p.pool.Candidates {
				if used.walkers[i].Ruling != fresh.walkers[i].Ruling {
					rt.Fatalf("candidate %d: the used plan says %+v, a fresh one %+v", i, used.walkers[i].Ruling, fresh.walkers[i].Ruling)
				}
				later := p.now.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(rt, "later")))
				for _, h := range []interface {
					resilience.Handle
					Plain() bool
				}{c.Breaker, c.Cooldown, c.Lockout, c.Rate} {
					if r := h.Peek(&again, later); h.Plain() && (!r.OK() || r.Probe) {
						rt.Fatalf("candidate %d: %T is plain and says %+v", i, h, r)
					}
				}
			}
		}
	})
}
