// Package ability answers: which features has this model refused lately, and how many tools does it take? The key is
// (provider, its base URL, model): what a model can do is the same at all accounts.
//
// It learns from outcomes alone: a capability refusal names its feature, a refusal of too many tools the number that is
// allowed. A feature counts as refused for ten minutes after two different requests have met it; a number of tools is
// believed for a day. An answer to a request that used the feature, or had more tools, disproves it.
//
// What it never does: forbid. The planner ranks last what refuses, and leaves out what takes fewer tools as long as
// something else may take them. Numbers of tools survive a restart.
package ability

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/state"
)

// RoomName is the room of its durable records.
const RoomName = "ability"

// Options are what a room needs from its surroundings; the zero value works.
type Options struct {
	// Keep stores what must survive a restart. It is called without any lock held.
	Keep resilience.Keep
}

// Room holds what is known about models. It is safe for concurrent use.
type Room struct {
	opts  Options
	cells *state.Index[string, cell]
	known atomic.Int64 // models about which something is known

	mu   sync.Mutex
	held map[string]*cell // those; the room itself holds them
}

// maxHeld bounds the memory: clients choose model names.
const maxHeld = 4096

// New returns an empty room.
func New(o Options) *Room {
	return &Room{opts: o, cells: state.NewIndex[string, cell](0, nil), held: map[string]*cell{}}
}

// cell is what is known about one model.
type cell struct {
	room            *Room
	key             string
	provider, model string

	hot atomic.Bool // something is or was known
	state.Cell[memory]
}

// Handle is the room bound to one candidate. It is safe for concurrent use; a nil Handle knows nothing and learns nothing.
type Handle struct{ cell *cell }

// Bind returns the handle of a candidate's model.
func (r *Room) Bind(c gateway.Candidate) *Handle {
	p := c.Connection.Provider
	return &Handle{r.cell(string(p.ID), string(c.Model), p.BaseURL)}
}

func (r *Room) cell(provider, model, base string) *cell {
	key := provider + " " + base + " " + model
	return r.cells.Get(key, func() *cell { return &cell{room: r, key: key, provider: provider, model: model} })
}

// Idle reports that nothing is known about any model: then nobody need ask.
func (h *Handle) Idle() bool { return h == nil || h.cell.room.known.Load() == 0 }

// Hot reports that something may be known about this model.
func (h *Handle) Hot() bool { return h != nil && h.cell.hot.Load() }

// Refuses names the first feature that the model refuses and the request asks for, and until when that is believed;
// "" = none.
func (h *Handle) Refuses(asked func(feature string) bool, now time.Time) (feature string, until time.Time) {
	if !h.Hot() {
		return "", time.Time{}
	}
	m := h.cell.Load()
	for i := range m.refusals {
		if r := &m.refusals[i]; r.holds(now) && asked(r.feature) {
			return r.feature, r.until
		}
	}
	if m.blank(now) {
		h.cell.room.hold(h.cell, now) // it is over: nobody need ask again
	}
	return "", time.Time{}
}

// Tools is the most tools that the model takes and until when that is believed; 0 = unknown.
func (h *Handle) Tools(now time.Time) (most int, until time.Time) {
	if !h.Hot() {
		return 0, time.Time{}
	}
	m := h.cell.Load()
	return m.limit(now), m.toolsTo
}

// Learn takes in how an attempt ended. tools is how many tools the request had: a limit that the request keeps is none.
func (h *Handle) Learn(o gateway.Outcome, tools int, now time.Time) {
	if h == nil || o.Uncounted || o.Reason != gateway.CapabilityRefused {
		return
	}
	switch {
	case o.ToolLimit > 0:
		if tools > o.ToolLimit {
			h.cell.step(now, func(m memory) memory { return m.takes(o.ToolLimit, now) })
		}
	case o.Quirk != "":
		h.cell.step(now, func(m memory) memory { return m.refuse(o.Quirk, o.Request, now) })
	}
}

// Worked takes in that a request was answered. It is worth calling only for a model that is Hot.
func (h *Handle) Worked(asked func(feature string) bool, tools int, now time.Time) {
	if h.Hot() {
		h.cell.step(now, func(m memory) memory { return m.worked(asked, tools) })
	}
}

// step applies a pure step, keeps the cell while it knows something, and stores a changed number of tools.
func (c *cell) step(now time.Time, f func(memory) memory) {
	c.Lock()
	before, after := c.State, f(c.State)
	c.State = after
	todo := c.Note(state.News{At: now, Keep: before.tools != after.tools || !before.toolsTo.Equal(after.toolsTo)})
	c.Unlock()
	c.room.hold(c, now)
	if todo {
		c.Publish(func(m memory, n state.News) {
			c.room.opts.Keep.Save(n.Record(RoomName, c.key, m.encode(c)))
		})
	}
}

// hold keeps or lets go of a cell, and makes room when there are too many. The mutex of the room is held around that of a
// cell, never the other way.
func (r *Room) hold(c *cell, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(c, now)
	if len(r.held) > maxHeld {
		for _, x := range r.held { // what is over goes first, then anything
			r.put(x, now)
		}
		for key, x := range r.held {
			if len(r.held) <= maxHeld {
				break
			}
			x.hot.Store(false)
			delete(r.held, key)
		}
	}
	r.known.Store(int64(len(r.held)))
}

// put holds a cell that knows something; r.mu is held.
func (r *Room) put(c *cell, now time.Time) {
	m := c.Load()
	hot := !m.blank(now)
	c.hot.Store(hot)
	if hot {
		r.held[c.key] = c
	} else {
		delete(r.held, c.key)
	}
}

// stored is the durable form: the number of tools alone. The rest is over before a restart is noticed.
type stored struct {
	Provider string    `json:"provider"`
	Model    string    `json:"model"`
	Base     string    `json:"base"`
	Tools    int       `json:"tools"`
	Until    time.Time `json:"until"`
}

func (m *memory) encode(c *cell) []byte {
	if m.tools == 0 {
		return nil
	}
	base := strings.TrimSuffix(strings.TrimPrefix(c.key, c.provider+" "), " "+c.model)
	b, err := json.Marshal(stored{c.provider, c.model, base, m.tools, m.toolsTo})
	if err != nil {
		return nil
	}
	return b
}

// Restore takes over records of an earlier process.
func (r *Room) Restore(records []resilience.Record, now time.Time) {
	for rec, d := range state.Decode[stored](RoomName, records) {
		if d.Tools < 1 || !now.Before(d.Until) {
			r.opts.Keep.Save(resilience.Record{Room: RoomName, Key: rec.Key, At: rec.At.Add(1)}) // it is over
			continue
		}
		if most := now.Add(LimitFor); d.Until.After(most) { // the clock was set back
			d.Until = most
		}
		state.Tie(now, &d.Until)
		c := r.cell(d.Provider, d.Model, d.Base)
		c.Follow(rec.At)
		c.step(now, func(m memory) memory {
			m.tools, m.toolsTo = d.Tools, d.Until
			return m
		})
	}
}

// Status lists what is known, by model.
func (r *Room) Status(now time.Time) []resilience.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []resilience.Status
	for _, c := range r.held {
		m := c.Load()
		add := func(state string, reason gateway.Reason, until time.Time) {
			out = append(out, resilience.Status{Layer: gateway.LayerRoute, Key: "model:" + c.provider + "/" + c.model, State: state,
				Reason: reason, Until: until, Detail: map[string]string{"provider": c.provider, "model": c.model}})
		}
		for i := range m.refusals {
			if x := &m.refusals[i]; x.holds(now) {
				add("refuses "+x.feature, gateway.CapabilityRefused, x.until)
			}
		}
		if n := m.limit(now); n > 0 {
			add("takes "+plural(n), gateway.ToolLimit, m.toolsTo)
		}
	}
	slices.SortFunc(out, func(a, b resilience.Status) int { return strings.Compare(a.Key+a.State, b.Key+b.State) })
	return out
}
