package health

import (
	"strconv"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Flight is one attempt in flight. Its methods are idempotent and safe for concurrent use; End must be called once
// the attempt is over, whatever happened (defer it: only the first call counts).
type Flight struct {
	cell      *cell
	class     *class
	form      int
	bytes     int
	beganAt   time.Time
	headersAt time.Time
	content   bool
	ended     bool

	// Place among the flights without content.
	silentAt   time.Time // zero = the p95 is unknown, so it is never silent
	prev, next *Flight
	listed     bool
	overdue    bool
}

// Begin counts an attempt in flight from now on.
func (h *Handle) Begin(f Facts, now time.Time) *Flight {
	c, s, size := h.cell, formOf(f.Stream), sizeClass(f.Bytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.Store(true)
	cl := c.classes[s][size]
	if cl == nil {
		cl = new(class)
		c.classes[s][size] = cl
		c.made = append(c.made, cl)
	}
	fl := &Flight{cell: c, class: cl, form: s, bytes: f.Bytes, beganAt: now}
	if p95, _ := cl.p95(c.cfg, now); p95.wait > 0 {
		fl.silentAt = now.Add(p95.wait)
		cl.waiting.push(fl)
	}
	c.state.flying++
	c.publish()
	return fl
}

// Headers tells that the response headers arrived.
func (f *Flight) Headers(now time.Time) {
	f.cell.mu.Lock()
	defer f.cell.mu.Unlock()
	if f.headersAt.IsZero() && !f.ended {
		f.headersAt = now
	}
}

// Content tells that the first content arrived; for an answer that is not streamed, the whole of it.
func (f *Flight) Content(now time.Time) {
	f.cell.mu.Lock()
	defer f.cell.mu.Unlock()
	f.deliver(now)
	f.cell.publish()
}

func (f *Flight) deliver(now time.Time) {
	if f.content || f.ended {
		return
	}
	f.content = true
	f.class.waiting.drop(f)
	s := &f.cell.state
	s.talking++
	s.contentAt, s.presentAt = now, now
	wait := now.Sub(f.beganAt)
	f.class.add(wait, now)
	var headers time.Duration
	if !f.headersAt.IsZero() {
		headers = max(f.headersAt.Sub(f.beganAt), 1)
	}
	f.cell.habits[f.form].learn(headers, wait, promptShare(f.bytes), now)
}

// promptShare is the part of a wait that reading the prompt explains: 1 s per 40 KiB, as in the clocks.
func promptShare(bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / (40 << 10)
}

// End tells how the attempt ended. Only the first call counts.
func (f *Flight) End(o gateway.Outcome, now time.Time) {
	c := f.cell
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.publish()
	if f.ended {
		return
	}
	if o.Kind == gateway.Success && !o.Uncounted {
		f.deliver(now) // an answer is content, also when nobody said so before
	}
	f.ended = true
	f.class.waiting.drop(f)
	c.state.flying--
	if f.content {
		c.state.talking--
		if !o.Failed() {
			c.state.presentAt = now
		}
	}
	if o.Uncounted {
		return
	}
	if value, counts := weight(o.Kind); counts {
		c.state.observe(c.cfg, value, now)
	}
	if cut(o, f.content) {
		f.class.addCut(now.Sub(f.beganAt), now)
	}
}

// line holds the flights without content by their begin, which is the order in which they become silent: when the p95
// has fallen meanwhile, a later one counts when the one before it does. Those that are silent already are counted
// once, so asking costs nothing per flight.
type line struct {
	first, last *Flight // not yet silent
	silent      int
}

func (l *line) push(f *Flight) {
	f.listed, f.prev = true, l.last
	if l.last != nil {
		l.last.next = f
	} else {
		l.first = f
	}
	l.last = f
}

func (l *line) unlink(f *Flight) {
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		l.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		l.last = f.prev
	}
	f.prev, f.next, f.listed = nil, nil, false
}

func (l *line) drop(f *Flight) {
	switch {
	case f.listed:
		l.unlink(f)
	case f.overdue:
		l.silent--
		f.overdue = false
	}
}

func (c *class) silent(now time.Time) int {
	l := &c.waiting
	for l.first != nil && !now.Before(l.first.silentAt) {
		f := l.first
		l.unlink(f)
		f.overdue = true
		l.silent++
	}
	return l.silent
}

func (c *cell) status(k key, now time.Time) (resilience.Status, bool) {
	if !c.used.Load() {
		return resilience.Status{}, false
	}
	h := Handle{cell: c, seen: c.seen, cfg: c.cfg}
	v, l := h.View(now), h.Learned(true, 0, now)
	c.mu.Lock()
	contentAt := c.state.contentAt
	c.mu.Unlock()
	state := "unproven"
	if v.Proven {
		state = "proven"
	}
	return resilience.Status{Key: k.String(), State: state, Detail: map[string]string{
		"health":         strconv.FormatFloat(v.Health(), 'f', 3, 64),
		"success":        strconv.FormatFloat(v.Success, 'f', 3, 64),
		"in_flight":      strconv.Itoa(v.InFlight),
		"silent":         strconv.FormatFloat(v.Silent, 'f', 1, 64),
		"p95_stream_1k":  l.P95.String(),
		"headers_early":  strconv.FormatBool(l.HeadersEarly),
		"thinks_silent":  strconv.FormatBool(l.ThinksSilently),
		"last_content":   stamp(contentAt),
		"samples_stream": strconv.Itoa(l.Samples),
	}}, true
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
