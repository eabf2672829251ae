package store

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// MemoryRequests is how many requests the store in memory keeps.
const MemoryRequests = 10_000

// memory keeps everything in maps. It starts nothing and waits for nothing, so it may live in a testing/synctest bubble.
type memory struct {
	mu       sync.Mutex
	cursor   int64
	order    []*Request // by cursor
	byID     map[gateway.RequestID]*Request
	attempts map[gateway.RequestID][]Attempt
	bodies   map[gateway.RequestID][]Body
	usage    Sums
	records  map[[2]string]resilience.Record
	marks    map[string]int64
	keys     map[gateway.ClientKeyID]Key
	settings map[string]setting
	audit    []AuditRow
	models   map[string]cached
}

type setting struct {
	value   []byte
	version int64
}

type cached struct {
	list  []byte
	until time.Time
}

// Memory returns a store that lives as long as the process and keeps the last [MemoryRequests] requests.
func Memory() Store {
	return &memory{byID: map[gateway.RequestID]*Request{}, attempts: map[gateway.RequestID][]Attempt{},
		bodies: map[gateway.RequestID][]Body{}, usage: Sums{}, records: map[[2]string]resilience.Record{},
		marks: map[string]int64{}, keys: map[gateway.ClientKeyID]Key{}, settings: map[string]setting{},
		models: map[string]cached{}}
}

func (m *memory) Close() error { return nil }

func (m *memory) Put(_ context.Context, b *Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range b.Requests {
		r := b.Requests[i]
		if m.byID[r.ID] != nil {
			continue
		}
		m.usage.Add(r.Line())
		m.cursor++
		r.Cursor, r.Detail, r.EndedAt = m.cursor, bytes.Clone(r.Detail), milli(r.EndedAt)
		r.Duration = r.Duration.Truncate(time.Millisecond)
		m.byID[r.ID] = &r
		m.order = append(m.order, &r)
	}
	for _, a := range b.Attempts {
		m.addAttempt(a)
	}
	for _, u := range b.Usage {
		m.usage.Add(u)
	}
	for _, r := range b.Records {
		k := [2]string{r.Room, r.Key}
		if have, ok := m.records[k]; !ok || !r.At.Before(have.At) {
			r.Value = bytes.Clone(r.Value)
			m.records[k] = r
		}
	}
	for _, body := range b.Bodies {
		m.addBody(body)
	}
	if b.Mark.Segment != "" {
		m.marks[b.Mark.Segment] = max(m.marks[b.Mark.Segment], b.Mark.Offset)
	}
	for _, s := range b.Done {
		delete(m.marks, s)
	}
	if over := len(m.order) - MemoryRequests; over > MemoryRequests/20 { // not one by one: dropping copies the list
		m.drop(over)
	}
	return nil
}

func (m *memory) addAttempt(a Attempt) {
	if m.byID[a.Request] == nil {
		return
	}
	list := m.attempts[a.Request]
	if slices.ContainsFunc(list, func(have Attempt) bool { return have.N == a.N }) {
		return
	}
	a.EndedAt, a.Duration = milli(a.EndedAt), a.Duration.Truncate(time.Millisecond)
	at, _ := slices.BinarySearchFunc(list, a.N, func(have Attempt, n int) int { return have.N - n })
	m.attempts[a.Request] = slices.Insert(list, at, a)
}

func (m *memory) addBody(b Body) {
	for _, have := range m.bodies[b.Request] {
		if have.Part == b.Part {
			return
		}
	}
	if len(m.bodies) >= MemoryRequests && m.bodies[b.Request] == nil {
		return
	}
	b.Data, b.At = bytes.Clone(b.Data), milli(b.At)
	m.bodies[b.Request] = append(m.bodies[b.Request], b)
}

// drop forgets the oldest n requests.
func (m *memory) drop(n int) {
	if n <= 0 {
		return
	}
	for _, r := range m.order[:n] {
		delete(m.byID, r.ID)
		delete(m.attempts, r.ID)
		delete(m.bodies, r.ID)
	}
	m.order = append(m.order[:0:0], m.order[n:]...)
}

func milli(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

func (m *memory) Request(_ context.Context, id gateway.RequestID) (Request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.byID[id]; r != nil {
		return *r, nil
	}
	return Request{}, ErrNotFound
}

func (f *Filter) match(r *Request) bool {
	switch {
	case f.ClientKey != "" && r.ClientKey != f.ClientKey, f.Model != "" && r.Model != f.Model,
		f.Connection != "" && r.Connection != f.Connection, f.Code != "" && r.Code != f.Code,
		f.Status != 0 && r.Status != f.Status, f.Failed && r.Code == "",
		f.Provider != "" && !strings.HasPrefix(r.Target, f.Provider+"/"),
		!f.Since.IsZero() && r.EndedAt.Before(f.Since), !f.Until.IsZero() && !r.EndedAt.Before(f.Until),
		r.Duration < f.Slower, f.After != 0 && r.Cursor >= f.After:
		return false
	}
	return true
}

func (m *memory) Requests(_ context.Context, f Filter) ([]Request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Request
	for i := len(m.order) - 1; i >= 0 && len(out) < f.Rows(); i-- {
		if r := m.order[i]; f.match(r) {
			out = append(out, *r)
		}
	}
	return out, nil
}

func (m *memory) Attempts(_ context.Context, f Filter) ([]Attempt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Attempt
	for i := len(m.order) - 1; i >= 0 && len(out) < f.Rows(); i-- {
		r := m.order[i]
		g := f
		g.Provider, g.Connection = "", "" // those are asked of the attempt
		if !g.match(r) {
			continue
		}
		list := m.attempts[r.ID]
		if r.Inline() {
			list = []Attempt{{Request: r.ID, N: 1, Target: r.Target, Connection: r.Connection,
				Outcome: gateway.Success.String(), Status: r.Status, EndedAt: r.EndedAt, Duration: r.Duration}}
		}
		for _, a := range list {
			if (f.Connection == "" || a.Connection == f.Connection) &&
				(f.Provider == "" || strings.HasPrefix(a.Target, f.Provider+"/")) && len(out) < f.Rows() {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

func (m *memory) Bodies(_ context.Context, id gateway.RequestID) ([]Body, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Clone(m.bodies[id])
	sort.Slice(out, func(i, j int) bool { return out[i].Part < out[j].Part })
	return out, nil
}

func (m *memory) Usage(_ context.Context, since, until time.Time) ([]Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Usage
	for _, u := range m.usage {
		if !u.Hour.Before(since) && u.Hour.Before(until) {
			out = append(out, *u)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if !a.Hour.Equal(b.Hour) {
			return a.Hour.Before(b.Hour)
		}
		return a.ClientKey+"\x00"+a.Target+"\x00"+a.Connection < b.ClientKey+"\x00"+b.Target+"\x00"+b.Connection
	})
	return out, nil
}

func (m *memory) Marks(context.Context) ([]Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Mark
	for s, o := range m.marks {
		out = append(out, Mark{s, o})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Segment < out[j].Segment })
	return out, nil
}

func (m *memory) Trim(_ context.Context, before time.Time, maxBytes int64, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < min(limit, len(m.order)) && m.order[n].EndedAt.Before(before) {
		n++
	}
	if n == 0 && maxBytes > 0 {
		var size int64
		for _, r := range m.order {
			size += int64(len(r.Detail)) + 200
		}
		for ; n < min(limit, len(m.order)) && size > maxBytes; n++ {
			size -= int64(len(m.order[n].Detail)) + 200
		}
	}
	m.drop(n)
	return n, nil
}

func (m *memory) Records(context.Context) ([]resilience.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []resilience.Record
	for _, r := range m.records {
		if len(r.Value) > 0 {
			out = append(out, r)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Room+"\x00"+out[i].Key < out[j].Room+"\x00"+out[j].Key
	})
	return out, nil
}
