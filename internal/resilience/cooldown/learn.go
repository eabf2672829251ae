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
	for _, k := range [...]struct {
		cell  *cell
		grant grant
	}{{h.conn, took.conn}, {h.account, took.account}} {
		e := e
		e.grant = k.grant
		var before time.Time
		after := k.cell.step(now, func(s state) state {
			before = s.Until
			s = s.see(o.ClientKey, now)
			switch {
			case o.Kind == gateway.Success:
				return s.succeed(e)
			case k.cell == blamed:
				return s.fail(e)
			}
			return s.settle(e.grant)
		})
		if k.cell == blamed && o.Kind == gateway.RateLimited && after.Until.After(before) {
			h.spread(e, after.Until)
		}
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
