package cooldown

import (
	"time"

	"spillway/internal/gateway"
)

// learn brings an outcome to the keys that it concerns.
func (h *Handle) learn(o gateway.Outcome, now time.Time, took taken) {
	if o.Uncounted || o.Kind == gateway.LocalError || o.Kind == gateway.Canceled {
		return
	}
	e := event{o: o, cfg: h.cfg, conn: h.c.Connection, now: now}
	blamed := h.blamed(o)
	if blamed != nil {
		e.u = h.room.opts.Rand()
	}
	h.apply(h.conn, &e, took.conn, blamed)
	h.apply(h.account, &e, took.account, blamed)
}

// apply brings an outcome to one of the two keys.
func (h *Handle) apply(c *cell, e *event, took grant, blamed *cell) {
	if e.o.Kind == gateway.Success && c.served(e.o.ClientKey, e.now) {
		return
	}
	e.grant = took
	var before time.Time
	after := c.step(e.now, func(s state) state {
		before = s.Until
		switch {
		case e.o.Kind == gateway.Success:
			return s.succeed(*e)
		case c == blamed:
			s.see(e.o.ClientKey, e.now)
			return s.fail(*e)
		}
		s.see(e.o.ClientKey, e.now)
		return s.settle(e.grant)
	})
	if c == blamed && e.o.Kind == gateway.RateLimited && after.Until.After(before) {
		h.spread(*e, after.Until)
	}
}

// blamed is the cell that a failure concerns by its scope; nil = this room has nothing to learn from it.
func (h *Handle) blamed(o gateway.Outcome) *cell {
	owner := h.account
	switch o.Kind {
	case gateway.RateLimited, gateway.QuotaExhausted:
		if h.perModel(o) {
			return nil
		}
	case gateway.CreditsExhausted, gateway.Banned:
	case gateway.AuthError, gateway.RequestRejected:
		owner = h.conn
	case gateway.ServiceError:
		if o.Scope == gateway.ScopeProvider || o.Scope == gateway.ScopeConnection {
			return h.conn
		}
		return nil
	case gateway.Stall:
		if h.cfg.StreamStallCooldown {
			return h.conn
		}
		return nil
	default:
		return nil
	}
	switch o.Scope {
	case gateway.ScopeConnection:
		return h.conn
	case gateway.ScopeAccount:
		return h.account
	case gateway.ScopeProvider:
		return owner
	}
	return nil // one request, one model, one family: not ours
}

// perModel reports whether a rate limit or quota concerns one model. A rule's scope is final; the plain status table
// knows no models, so there the provider decides.
func (h *Handle) perModel(o gateway.Outcome) bool {
	return o.Rule == "" && o.Scope == gateway.ScopeAccount && h.c.Connection.Provider.PerModelQuota
}

// spread cools the other accounts that leave by the same egress.
func (h *Handle) spread(e event, until time.Time) {
	groups := h.room.egress.Load()
	if h.egress == "" || groups == nil {
		return
	}
	for _, s := range (*groups)[h.egress] {
		if s.account != h.account.key {
			s.cell.step(e.now, func(st state) state { return st.join(until, e) })
		}
	}
}
