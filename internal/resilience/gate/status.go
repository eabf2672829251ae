package gate

import (
	"strconv"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Reset forgets the AIMD state of a candidate's account and model. Counters cannot be reset: they are facts.
func (r *Room) Reset(c gateway.Candidate) {
	h := r.Bind(c, Default(), nil)
	r.mu.Lock()
	h.account.state.Store(nil)
	h.account.successAt.Store(0)
	r.mu.Unlock()
	r.onFree()
}

// Status is one line per key with attempts in flight or an engaged AIMD limit.
func (r *Room) Status(now time.Time) []resilience.Status {
	var out []resilience.Status
	count := func(what, key string, n int64) {
		if n > 0 {
			out = append(out, resilience.Status{Layer: gateway.LayerPacing, Key: key, State: "in_flight",
				Detail: map[string]string{"of": what, "in_flight": strconv.FormatInt(n, 10)}})
		}
	}
	count("global", "global", r.global.n.Load())
	for k, c := range r.providers.Snapshot() {
		count("provider", string(k), c.n.Load())
	}
	for k, c := range r.conns.Snapshot() {
		count("connection", k, c.n.Load())
	}
	for k, c := range r.models.Snapshot() {
		count("model", k.owner+" "+string(k.model), c.n.Load())
	}
	for k, a := range r.accounts.Snapshot() {
		s := a.state.Load()
		if s == nil || !s.engaged {
			continue
		}
		line := resilience.Status{Layer: gateway.LayerPacing, Key: k.owner + " " + string(k.model), State: "adaptive",
			Detail: map[string]string{"of": "account", "in_flight": strconv.FormatInt(a.n.Load(), 10),
				"limit": strconv.FormatFloat(s.limit, 'f', 1, 64), "cut_at": s.cutAt.UTC().Format(time.RFC3339)}}
		if a.n.Load() >= int64(s.limit) {
			line.State, line.Reason = "paced", gateway.Paced
		}
		out = append(out, line)
	}
	return out
}
