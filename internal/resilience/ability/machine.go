package ability

import (
	"time"

	"spillway/internal/gateway"
)

// Lengths and bounds of the memory.
const (
	Window    = 10 * time.Minute // two refusals within it make a memory, which lasts as long behind the last one
	LimitFor  = 24 * time.Hour   // a learned number of tools is believed
	maxAtOnce = 8                // features that are remembered of one model; the oldest goes first
)

// refusal is what is known about one feature.
type refusal struct {
	feature string // "" = free
	request gateway.RequestID
	at      time.Time // of the last refusal
	until   time.Time // zero = one request alone was refused so far
}

// memory is what is known about one model. The zero value knows nothing.
type memory struct {
	refusals [maxAtOnce]refusal

	tools   int // the most that it takes; 0 = nothing is known
	toolsTo time.Time
}

// blank reports whether nothing is known at now.
func (m *memory) blank(now time.Time) bool {
	for i := range m.refusals {
		if m.refusals[i].alive(now) {
			return false
		}
	}
	return m.limit(now) == 0
}

func (r *refusal) alive(now time.Time) bool { return r.feature != "" && now.Sub(r.at) < Window }

// holds reports whether the refusal counts: two different requests have met it.
func (r *refusal) holds(now time.Time) bool { return r.feature != "" && now.Before(r.until) }

// limit is the most tools that the model takes, 0 = unknown.
func (m *memory) limit(now time.Time) int {
	if now.Before(m.toolsTo) {
		return m.tools
	}
	return 0
}

// refuse notes that a request met the refusal of a feature. A second request makes it count, and each further one
// prolongs it; one that is refused twice proves no more than once.
func (m memory) refuse(feature string, request gateway.RequestID, now time.Time) memory {
	at := 0
	for i := range m.refusals {
		r := &m.refusals[i]
		if r.feature == feature {
			at = i
			break
		}
		if r.at.Before(m.refusals[at].at) {
			at = i
		}
	}
	r := &m.refusals[at]
	if r.feature != feature || !r.alive(now) && !r.holds(now) {
		*r = refusal{feature: feature, request: request, at: now}
		return m
	}
	if r.request != request || r.holds(now) {
		r.until = later(r.until, now.Add(Window))
	}
	r.at = later(r.at, now)
	return m
}

// takes notes how many tools the model takes at most, in its provider's words.
func (m memory) takes(most int, now time.Time) memory {
	m.tools, m.toolsTo = most, now.Add(LimitFor)
	return m
}

// worked forgets what an answer has disproved: asked reports whether the request used a feature, tools is how many it had.
func (m memory) worked(asked func(feature string) bool, tools int) memory {
	for i := range m.refusals {
		if f := m.refusals[i].feature; f != "" && asked(f) {
			m.refusals[i] = refusal{}
		}
	}
	if tools > m.tools {
		m.tools, m.toolsTo = 0, time.Time{}
	}
	return m
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
