package plan

import "spillway/internal/gateway"

// Prefer tells the plan what the request's session is bound to: a connection, by identity, and a model. It returns the
// candidate, or -1 when the pool has none such. mayReturn allows the session to go back to a target that an ordered
// strategy puts higher.
func (pl *Plan) Prefer(connection string, model gateway.ModelID, mayReturn bool) (id int) {
	pl.home, pl.mayReturn = pl.Pool.home[place{connection, model}]-1, mayReturn
	return pl.home
}

// Pin leaves one connection, by identity, and forbids all others. It reports whether the pool has it.
func (pl *Plan) Pin(connection string) bool {
	c, ok := pl.Pool.conns[connection]
	if ok {
		pl.pin = c
	}
	return ok
}

// Pinned reports whether Pin left one connection.
func (pl *Plan) Pinned() bool { return pl.pin >= 0 }

// stay puts the target of the session's own candidate first and returns it, -1 when the session does not stay. Health
// wins: a candidate that is out or on trial is passed over. The order of a strategy without a preference is no reason to
// leave what the upstream has cached; of one that has a preference, it is when little is cached.
func (pl *Plan) stay() int {
	pl.Returns = false
	if r := &pl.walkers[pl.home].Ruling; !r.OK() || r.Probe {
		return -1
	}
	own := pl.Pool.Candidates[pl.home].Target
	switch {
	case pl.order[0] == own:
	case pl.Pool.Ordered && pl.mayReturn:
		pl.Returns = true
	default:
		toFront(pl.order, own)
	}
	return own
}

// toFront moves x to the front of a list that has it and keeps the order of the others.
func toFront(list []int, x int) {
	for i, v := range list {
		if v == x {
			copy(list[1:i+1], list[:i])
			list[0] = x
			return
		}
	}
}
