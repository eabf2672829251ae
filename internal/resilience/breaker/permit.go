package breaker

import (
	"sync"
	"time"

	"spillway/internal/gateway"
)

// grant is what one cell gave for one attempt.
type grant struct {
	ep    int64
	token uint64 // lease of a probe, 0 = normal permit
	alive bool   // the cell took the Alive
}

func (g grant) report(pol policy, k gateway.Kind) event {
	return event{kind: evReport, token: g.token, ep: g.ep, alive: g.alive, pol: pol, okind: k}
}

// permit implements resilience.Permit.
type permit struct {
	h *Handle

	mu        sync.Mutex
	own, conn grant
	alive     bool
	settled   bool
}

// Alive reports first content: it ends a losing run, and for a probe it is the success.
func (p *permit) Alive(now time.Time) {
	h, ns := p.h, p.h.room.ns(now)
	p.mu.Lock()
	if p.alive || p.settled {
		p.mu.Unlock()
		return
	}
	p.alive = true
	up, own := p.each(evAlive, ns)
	p.mu.Unlock()
	if h.group != nil && h.group.content(ns) {
		h.room.free()
	}
	if up != nil || own != nil {
		h.room.settle(h.group, up, own)
	}
}

// Renew extends the lease of a probe whose attempt still lives; on any other permit it does nothing.
func (p *permit) Renew(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settled && p.own.token|p.conn.token != 0 {
		p.each(evRenew, p.h.room.ns(now))
	}
}

// each sends an event without further content to both cells; p.mu is held.
func (p *permit) each(kind eventKind, ns int64) (up, own *effects) {
	send := func(c *cell, g *grant) *effects {
		if kind == evAlive && c.quickContent(g.ep, ns) {
			g.alive = true
			return nil
		}
		out, e, _ := c.apply(p.h.room, p.h.rules, event{kind: kind, token: g.token, ep: g.ep, alive: g.alive}, ns)
		g.alive = g.alive || (kind == evAlive && !out.stale)
		return e
	}
	if p.h.conn != nil {
		up = send(p.h.conn, &p.conn)
	}
	return up, send(p.h.own, &p.own)
}

// Record ends the attempt. Only the first counts.
func (p *permit) Record(o gateway.Outcome, now time.Time) {
	h := p.h
	pol := h.rules.classify(&o)
	ns := h.room.ns(now)
	p.mu.Lock()
	if p.settled {
		p.mu.Unlock()
		return
	}
	p.settled = true
	first := !p.alive
	if pol.class <= throttled && p.own.token|p.conn.token == 0 {
		p.mu.Unlock()
		return
	}
	up, own := p.report(&o, pol, ns)
	p.mu.Unlock()
	if h.group != nil && first && (pol.class == succeeded || pol.class == alive) && h.group.content(ns) {
		h.room.free()
	}
	if up != nil || own != nil {
		h.room.settle(h.group, up, own)
	}
}

// report tells both cells; p.mu is held. The model's cell judges whether leaving early was its failure, and the
// connection's cell follows.
func (p *permit) report(o *gateway.Outcome, pol policy, ns int64) (up, own *effects) {
	h := p.h
	if pol.class == succeeded && h.own.quickSuccess(h.rules, p.own.ep, ns) {
		if h.conn == nil || h.conn.quickSuccess(h.rules, p.conn.ep, ns) {
			return nil, nil
		}
		return p.reportUp(p.event(o, pol), pol, false, ns), nil
	}
	ev := p.event(o, pol)
	out, own, _ := h.own.apply(h.room, h.rules, ev, ns)
	if h.conn == nil {
		return nil, own
	}
	return p.reportUp(ev, pol, out.counted, ns), own
}

// event is the report to the model's cell.
func (p *permit) event(o *gateway.Outcome, pol policy) event {
	ev := p.own.report(pol, o.Kind)
	ev.model, ev.below, ev.retryAfter = p.h.model, o.BelowHTTP, int64(o.RetryAfter)
	if rand := p.h.room.opts.Rand; rand != nil && pol.class >= slow {
		ev.u = int64(rand()*65536) & 65535
	}
	return ev
}

// reportUp sends the event to the connection's cell; counted is the model's judgement.
func (p *permit) reportUp(ev event, pol policy, counted bool, ns int64) *effects {
	ev.token, ev.ep, ev.alive, ev.gated = p.conn.token, p.conn.ep, p.conn.alive, true
	if pol.class == slow && p.conn.token == 0 {
		ev.pol.class = neutral
		if counted {
			ev.pol.class = failure
		}
	}
	_, up, _ := p.h.conn.apply(p.h.room, p.h.rules, ev, ns)
	return up
}
