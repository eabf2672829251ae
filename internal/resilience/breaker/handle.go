package breaker

import (
	"context"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Handle is the breaker of one candidate: the cell of its own evidence, the cell of its connection where models are
// kept apart, and its provider's group in scope auto. It is immutable and safe for concurrent use.
type Handle struct {
	room  *Room
	rules *rules
	own   *cell
	conn  *cell  // nil when there is one cell only
	group *group // nil but in scope auto
	model gateway.ModelID
}

var _ resilience.Handle = (*Handle)(nil)

// Plain reports that every part is plainly closed: Peek allows everybody until something changes.
func (h *Handle) Plain() bool {
	return h.own.healthy() && (h.conn == nil || h.conn.healthy()) && (h.group == nil || h.group.quiet())
}

// Quiet reports that the provider is not out as a whole: then first content of an attempt that is no trial changes nothing
// for anybody else.
func (h *Handle) Quiet() bool { return h.group == nil || h.group.quiet() }

// Peek is the ruling if Allow were called now. An open breaker that is due allows with Probe set.
func (h *Handle) Peek(ask *resilience.Ask, now time.Time) resilience.Ruling {
	if h.Plain() {
		return resilience.Ruling{}
	}
	return h.ruling(h.peek(mayProbe(h.rules, ask), h.room.ns(now)))
}

// mayProbe says whether this request may pay for a probe: one that can still fail over afterwards, or one that has
// nowhere else to go. A nil ask may.
func mayProbe(r *rules, ask *resilience.Ask) bool {
	return !r.withFallback || ask == nil || ask.Fallbacks == 0 || ask.AttemptsLeft != 1
}

func (h *Handle) peek(may bool, now int64) ruling {
	out := h.own.peek(h.rules, may, now)
	if !out.admit {
		return out
	}
	if h.conn != nil {
		up := h.conn.peek(h.rules, may, now)
		if !up.admit {
			return up
		}
		out.probe, out.weak = out.probe || up.probe, out.weak || up.weak
	}
	if h.group != nil && !out.probe {
		if g := h.group.peek(h.rules, h.model, may, now); !g.admit || g.probe {
			return g
		}
	}
	return out
}

func (c *cell) peek(r *rules, may bool, now int64) ruling {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.peek(r, may, now)
}

func (h *Handle) ruling(out ruling) resilience.Ruling {
	if out.admit {
		return resilience.Ruling{Probe: out.probe, Weak: out.weak}
	}
	return resilience.Ruling{Verdict: resilience.Forbidden, Layer: gateway.LayerBreaker, Reason: out.reason,
		Until: h.room.time(out.until)}
}

// Allow takes a permit or refuses. The permit has a Renew method for attempts that stay silent for longer than the
// lease of a probe.
func (h *Handle) Allow(_ context.Context, ask *resilience.Ask, now time.Time) (resilience.Permit, resilience.Ruling) {
	own := h.own.word.Load()
	up := int64(0)
	if h.conn != nil {
		up = h.conn.word.Load()
	}
	if own >= 0 && up >= 0 && (h.group == nil || h.group.quiet()) {
		return &permit{h: h, own: grant{ep: own >> 1}, conn: grant{ep: up >> 1}}, resilience.Ruling{}
	}
	p, out := h.allow(mayProbe(h.rules, ask), h.room.ns(now))
	if p == nil {
		h.room.counts.denied.Add(1)
		return nil, h.ruling(out)
	}
	return p, h.ruling(out)
}

// allow asks first and takes then.
func (h *Handle) allow(may bool, now int64) (*permit, ruling) {
	out := h.peek(may, now)
	if !out.admit {
		return nil, out
	}
	p, refusal := h.take(may, now)
	if p == nil {
		return nil, refusal
	}
	return p, out
}

// take takes from the connection's cell, then from the model's. Somebody else may have been faster since the peek; what
// is half taken is given back.
func (h *Handle) take(may bool, now int64) (*permit, ruling) {
	p := &permit{h: h}
	ev := event{kind: evAcquire, token: h.room.tokens.Add(1), mayProbe: may}
	var fx [2]*effects
	if h.conn != nil {
		got, e, ep := h.conn.apply(h.room, h.rules, ev, now)
		fx[0] = e
		if !got.admit {
			h.room.settle(h.group, fx[:]...)
			return nil, got
		}
		p.conn = grant{ep: ep, token: tokenOf(got, ev)}
	}
	got, e, ep := h.own.apply(h.room, h.rules, ev, now)
	fx[1] = e
	if !got.admit {
		h.room.settle(h.group, fx[:]...)
		if h.conn != nil {
			_, e, _ := h.conn.apply(h.room, h.rules, p.conn.report(policy{}, gateway.Canceled), now)
			h.room.settle(h.group, e)
		}
		return nil, got
	}
	p.own = grant{ep: ep, token: tokenOf(got, ev)}
	h.room.settle(h.group, fx[:]...)
	return p, got
}

// tokenOf is the lease that an acquire took, 0 when it took none.
func tokenOf(got ruling, ev event) uint64 {
	if got.probe {
		return ev.token
	}
	return 0
}

// State is the worst state of the candidate's parts, for people and for selection.
func (h *Handle) State(now time.Time) State {
	if h.Plain() {
		return Closed
	}
	ns := h.room.ns(now)
	s := h.own.state(h.rules, ns)
	if h.conn != nil {
		s = worse(s, h.conn.state(h.rules, ns))
	}
	if h.group != nil && s != Open && s != HalfOpen {
		if g := h.group.peek(h.rules, h.model, true, ns); !g.admit {
			s = Open
		} else if g.probe {
			s = HalfOpen
		}
	}
	return s
}

func (c *cell) state(r *rules, now int64) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.see(r, now)
}

// worse orders closed < degraded < half_open < open.
func worse(a, b State) State {
	rank := [...]int{Closed: 0, Degraded: 1, HalfOpen: 2, Open: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}
