package store

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"time"

	"spillway/internal/gateway"
)

func (m *memory) CreateKey(_ context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, have := range m.keys {
		if name == k.Name || have.Hash == k.Hash {
			return ErrExists
		}
	}
	k.Scopes, k.Models, k.Connections = slices.Clone(k.Scopes), slices.Clone(k.Models), slices.Clone(k.Connections)
	k.CreatedAt, k.RevokedAt = milli(k.CreatedAt), milli(k.RevokedAt)
	m.keys[k.Name] = k
	return nil
}

func (m *memory) ListKeys(context.Context) ([]Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Key
	for _, k := range m.keys {
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func (m *memory) RevokeKey(_ context.Context, name gateway.ClientKeyID, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.keys[name]
	if !ok {
		return ErrNotFound
	}
	if k.RevokedAt.IsZero() {
		k.RevokedAt = milli(at)
		m.keys[name] = k
	}
	return nil
}

func (m *memory) Setting(_ context.Context, name string) ([]byte, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.settings[name]
	if !ok {
		return nil, 0, ErrNotFound
	}
	return bytes.Clone(s.value), s.version, nil
}

func (m *memory) PutSetting(_ context.Context, name string, value []byte, version int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.settings[name].version
	if version >= 0 && version != have {
		return 0, ErrConflict
	}
	m.settings[name] = setting{bytes.Clone(value), have + 1}
	return have + 1, nil
}

func (m *memory) AppendAudit(_ context.Context, r AuditRow) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.ID = 1
	if n := len(m.audit); n > 0 {
		r.ID = m.audit[n-1].ID + 1
	}
	r.At, r.Before, r.After = milli(r.At), bytes.Clone(r.Before), bytes.Clone(r.After)
	if m.audit = append(m.audit, r); len(m.audit) > MemoryRequests {
		m.audit = append(m.audit[:0:0], m.audit[1000:]...)
	}
	return nil
}

func (m *memory) ListAudit(_ context.Context, before int64, limit int) ([]AuditRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := Filter{Limit: limit}.Rows()
	var out []AuditRow
	for i := len(m.audit) - 1; i >= 0 && len(out) < rows; i-- {
		if r := m.audit[i]; before == 0 || r.ID < before {
			out = append(out, r)
		}
	}
	return out, nil
}

func (m *memory) PutModels(_ context.Context, name string, list []byte, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.models[name] = cached{bytes.Clone(list), until}
	return nil
}

func (m *memory) Models(_ context.Context, name string, now time.Time) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.models[name]
	if !ok || !now.Before(c.until) {
		return nil, ErrNotFound
	}
	return bytes.Clone(c.list), nil
}
