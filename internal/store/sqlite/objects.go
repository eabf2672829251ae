package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/store"
)

// toMilli keeps the zero time as 0.
func toMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func optMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return fromMilli(ms)
}

// CreateKey implements [store.Keys].
func (s *Store) CreateKey(ctx context.Context, k store.Key) error {
	scopes, err1 := json.Marshal(k.Scopes)
	models, err2 := json.Marshal(k.Models)
	conns, err3 := json.Marshal(k.Connections)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	hash := hex.EncodeToString(k.Hash[:])
	res, err := s.write.ExecContext(ctx, `INSERT INTO client_keys
  (name, hash, scopes, models, connections, rpm, created_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING`, string(k.Name), hash, string(scopes), string(models), string(conns), k.RPM,
		toMilli(k.CreatedAt), toMilli(k.RevokedAt))
	return changed(res, err, store.ErrExists)
}

// changed turns "no row was changed" into an error.
func changed(res sql.Result, err, none error) error {
	if err != nil {
		return wrap(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(wrap(err), none)
	}
	return nil
}

// ListKeys implements [store.Keys].
func (s *Store) ListKeys(ctx context.Context) ([]store.Key, error) {
	return collect(ctx, s.read, `SELECT name, hash, scopes, models, connections, rpm, created_at, revoked_at
FROM client_keys ORDER BY name`, nil, func(rows *sql.Rows) (k store.Key, err error) {
		var hash, scopes, models, conns string
		var created, revoked int64
		if err = rows.Scan(&k.Name, &hash, &scopes, &models, &conns, &k.RPM, &created, &revoked); err != nil {
			return k, err
		}
		sum, err := hex.DecodeString(hash)
		copy(k.Hash[:], sum)
		k.CreatedAt, k.RevokedAt = optMilli(created), optMilli(revoked)
		return k, errors.Join(err, json.Unmarshal([]byte(scopes), &k.Scopes), json.Unmarshal([]byte(models), &k.Models),
			json.Unmarshal([]byte(conns), &k.Connections))
	})
}

// RevokeKey implements [store.Keys].
func (s *Store) RevokeKey(ctx context.Context, name gateway.ClientKeyID, at time.Time) error {
	res, err := s.write.ExecContext(ctx, `UPDATE client_keys
SET revoked_at = CASE WHEN revoked_at = 0 THEN $1 ELSE revoked_at END WHERE name = $2`, toMilli(at), string(name))
	return changed(res, err, store.ErrNotFound)
}

// Setting implements [store.Settings].
func (s *Store) Setting(ctx context.Context, name string) (value []byte, version int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT value, version FROM settings WHERE name = $1`, name).Scan(&value, &version)
	return value, version, wrap(err)
}

// PutSetting implements [store.Settings].
func (s *Store) PutSetting(ctx context.Context, name string, value []byte, version int64) (next int64, err error) {
	if value == nil {
		value = []byte{}
	}
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		var have int64
		err := tx.QueryRowContext(ctx, `SELECT version FROM settings WHERE name = $1`, name).Scan(&have)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return wrap(err)
		}
		if version >= 0 && version != have {
			return store.ErrConflict
		}
		next = have + 1
		_, err = tx.ExecContext(ctx, `INSERT INTO settings (name, value, version) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, version = excluded.version`, name, value, next)
		return wrap(err)
	})
	if err != nil {
		return 0, err
	}
	return next, nil
}

// AppendAudit implements [store.Audit].
func (s *Store) AppendAudit(ctx context.Context, r store.AuditRow) error {
	_, err := s.write.ExecContext(ctx, `INSERT INTO audit (at, who, what, before, after) VALUES ($1, $2, $3, $4, $5)`,
		r.At.UnixMilli(), r.Who, r.What, r.Before, r.After)
	return wrap(err)
}

// ListAudit implements [store.Audit].
func (s *Store) ListAudit(ctx context.Context, before int64, limit int) ([]store.AuditRow, error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	return collect(ctx, s.read, `SELECT id, at, who, what, before, after FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?`,
		[]any{before, store.Filter{Limit: limit}.Rows()}, func(rows *sql.Rows) (r store.AuditRow, err error) {
			var at int64
			err = rows.Scan(&r.ID, &at, &r.Who, &r.What, &r.Before, &r.After)
			r.At = fromMilli(at)
			return r, err
		})
}

// PutModels implements [store.Models].
func (s *Store) PutModels(ctx context.Context, name string, list []byte, until time.Time) error {
	if list == nil {
		list = []byte{}
	}
	_, err := s.write.ExecContext(ctx, `INSERT INTO model_lists (name, list, until) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET list = excluded.list, until = excluded.until`, name, list, until.UnixMilli())
	return wrap(err)
}

// Models implements [store.Models].
func (s *Store) Models(ctx context.Context, name string, now time.Time) (list []byte, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT list FROM model_lists WHERE name = $1 AND until > $2`, name,
		now.UnixMilli()).Scan(&list)
	return list, wrap(err)
}
