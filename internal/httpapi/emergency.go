package httpapi

import (
	"spillway/internal/attempt"
	"spillway/internal/auth"
	"spillway/internal/gateway"
	"spillway/internal/plan"
)

// emergency is where a request goes on when its own pool has failed it; nil = nowhere. Only completions do: vectors,
// moderations and counts of another model would be wrong, not late. The client's key must allow the emergency combo as if
// it had been asked for: by its name, or by all of its targets.
func (q *request) emergency(asked *plan.Pool, env *gateway.Envelope) *attempt.Emergency {
	name := q.live.Emergency
	if name == "" || name == asked.Name || !env.Operation.Completes() {
		return nil
	}
	combo, ok := q.live.Board.Snapshot.Combo(name)
	if !ok || auth.AllowModel(&q.principal, name, combo) != nil {
		return nil
	}
	pool := q.live.Board.Pool(combo, env.Protocol, env.Operation)
	return &attempt.Emergency{Pool: pool, Walk: walk(q.live.Board.Snapshot.Config(), pool),
		AllowEmpty: combo.Options.AllowEmpty || !q.live.Streams.RefuseEmpty}
}
