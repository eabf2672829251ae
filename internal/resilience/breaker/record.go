package breaker

import (
	"encoding/json"
	"slices"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// kept is the durable form of a cell. Leases, the window and half-open successes are not kept: after a restart they
// would only make the breaker more permissive.
type kept struct {
	State    phase             `json:"st"`
	Epoch    int64             `json:"ep"`
	Fails    int32             `json:"fails,omitzero"`
	Kinds    map[string]uint16 `json:"kinds,omitempty"`
	Until    int64             `json:"ot,omitzero"`
	Cause    string            `json:"oc,omitzero"`
	Streak   int32             `json:"streak,omitzero"`
	Closed   int64             `json:"cs,omitzero"`
	Episode  int64             `json:"et,omitzero"`
	Longest  int64             `json:"d,omitzero"`
	Since    int64             `json:"since,omitzero"`
	BelowLow bool              `json:"low,omitzero"`
	Counted  int64             `json:"lf,omitzero"`
	OuterN   int32             `json:"wn,omitzero"`
	OuterAt  int64             `json:"ws,omitzero"`
	NotYet   int64             `json:"nb,omitzero"`
	Failed   []keptFailure     `json:"failed,omitempty"` // of a connection whose models are kept apart
	Forced   force             `json:"forced,omitzero"`
	ForcedTo int64             `json:"fu,omitzero"`
	ForcedBy string            `json:"fby,omitzero"`
	Moved    int64             `json:"lt,omitzero"`

	Parent     string               `json:"parent,omitzero"`
	Conn       string               `json:"conn,omitzero"`
	Provider   gateway.ProviderID   `json:"provider,omitzero"`
	Connection gateway.ConnectionID `json:"connection,omitzero"`
	Model      gateway.ModelID      `json:"model,omitzero"`
	UpdatedAt  int64                `json:"updated_at"`
	History    []Transition         `json:"history,omitempty"`
}

// keptFailure is the last failure of a model; the second entry is "any other model".
type keptFailure struct {
	Model gateway.ModelID `json:"model,omitzero"`
	At    int64           `json:"at"`
}

func keptFailures(s *state) []keptFailure {
	if s.failAt == 0 {
		return nil
	}
	return []keptFailure{{s.failModel, s.failAt}, {"", s.otherFailAt}}
}

// encode writes the cell as JSON; c.mu is held.
func (c *cell) encode(at int64) []byte {
	s := &c.s
	k := kept{
		State: s.st, Epoch: s.ep, Fails: s.fails, Until: s.ot, Cause: s.oc.String(), Streak: s.streak, Closed: s.cs,
		Episode: s.et, Longest: s.d, Since: s.since, BelowLow: s.tripLow, Counted: s.lf, OuterN: s.wn, OuterAt: s.ws,
		NotYet: s.nb, Forced: s.forced, ForcedTo: s.fu, ForcedBy: s.fby, Moved: s.lt,
		Failed: keptFailures(s), Parent: c.id.parent, Conn: c.id.conn, Provider: c.id.provider, Connection: c.id.connection, Model: c.id.model,
		UpdatedAt: at, History: c.history,
	}
	for i, n := range s.kinds {
		if n > 0 {
			if k.Kinds == nil {
				k.Kinds = map[string]uint16{}
			}
			k.Kinds[gateway.Kind(i).String()] = n
		}
	}
	b, err := json.Marshal(k)
	if err != nil { // nothing in it can fail to marshal; traffic must not depend on that
		return nil
	}
	return b
}

func keepRecord(r *Room, e *effects) resilience.Record {
	return resilience.Record{Room: RoomName, Key: e.key, Value: e.record, At: r.time(e.at)}
}

// Restore takes over kept records, before or after Bind. A half-open breaker comes back open and due: its probes are
// gone. Records of other rooms, and what cannot be read, are passed over; a cell that already knows a later epoch
// keeps it.
func (r *Room) Restore(records []resilience.Record, now time.Time) {
	ns := r.ns(now)
	touched := map[*group]bool{}
	for rec, k := range memory.Decode[kept](RoomName, records) {
		if k.State > half {
			continue
		}
		r.mu.Lock()
		c := r.cells[rec.Key]
		if c == nil {
			c = &cell{id: identity{key: rec.Key, parent: k.Parent, conn: k.Conn, provider: k.Provider,
				connection: k.Connection, model: k.Model}, changes: r.opts.Changes}
			r.cells[rec.Key] = c
		}
		g := r.groups[c.id.provider]
		r.mu.Unlock()
		c.restore(k, ns)
		if g != nil {
			touched[g] = true
		}
	}
	for g := range touched {
		g.judge()
	}
}

func (c *cell) restore(k kept, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.ep > k.Epoch {
		return
	}
	s := state{
		st: k.State, ep: k.Epoch, fails: k.Fails, run: k.Fails, ot: k.Until, streak: k.Streak, cs: k.Closed,
		et: k.Episode, d: k.Longest, since: k.Since, tripLow: k.BelowLow, lf: k.Counted, wn: k.OuterN, ws: k.OuterAt,
		nb: k.NotYet, forced: k.Forced, fu: k.ForcedTo, fby: k.ForcedBy, lt: k.Moved,
	}
	if len(k.Failed) == 2 {
		s.failModel, s.failAt, s.otherFailAt = k.Failed[0].Model, k.Failed[0].At, k.Failed[1].At
	}
	if i := slices.Index(causeNames[:], k.Cause); i > 0 {
		s.oc = cause(i)
	}
	for name, n := range k.Kinds {
		var kind gateway.Kind
		if kind.UnmarshalText([]byte(name)) == nil && kind < gateway.NumKinds {
			s.kinds[kind] = n
		}
	}
	if s.st == half {
		// Pacing outlives the probes: what said "not before" still holds.
		s.st, s.ot, s.nb = open, max(s.nb, min(s.ot, now)), 0
	}
	c.s, c.history, c.saved, c.savedAt = s, k.History, k.Fails, k.UpdatedAt
	r := c.rules
	if r == nil {
		r = unbound
	}
	c.shown = s.degraded(r, now)
	c.publish(r)
}
