package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/store"
)

const selectRequest = `SELECT seq, id, ended_at, duration_ms, COALESCE(client_key, ''), COALESCE(model, ''),
  COALESCE(target, ''), COALESCE(connection, ''), status, COALESCE(code, ''), COALESCE(outcome, ''), attempts, detail
FROM requests`

func scanRequest(row interface{ Scan(...any) error }) (r store.Request, err error) {
	var ended, took int64
	err = row.Scan(&r.Cursor, &r.ID, &ended, &took, &r.ClientKey, &r.Model, &r.Target, &r.Connection, &r.Status,
		&r.Code, &r.Outcome, &r.Attempts, &r.Detail)
	r.EndedAt, r.Duration = fromMilli(ended), time.Duration(took)*time.Millisecond
	return r, err
}

func fromMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Request implements [store.Log].
func (s *Store) Request(ctx context.Context, id gateway.RequestID) (store.Request, error) {
	r, err := scanRequest(s.read.QueryRowContext(ctx, selectRequest+" WHERE id = $1", string(id)))
	return r, wrap(err)
}

func wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	}
	return fmt.Errorf("sqlite: %w", err)
}

// where builds the conditions of a filter over requests.
type where struct {
	conds []string
	args  []any
}

func (w *where) add(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

func (w *where) text(column, value string) {
	if value != "" {
		w.add(column+" = ?", value)
	}
}

func (w *where) prefix(column, provider string) {
	if provider != "" {
		w.add(column+" >= ? AND "+column+" < ?", provider+"/", provider+"0") // '0' follows '/'
	}
}

func (w *where) request(f store.Filter) {
	w.text("r.client_key", f.ClientKey)
	w.text("r.model", f.Model)
	w.text("r.code", f.Code)
	if f.Status != 0 {
		w.add("r.status = ?", f.Status)
	}
	if f.Failed {
		w.add("r.code IS NOT NULL")
	}
	if !f.Since.IsZero() {
		w.add("r.ended_at >= ?", f.Since.UnixMilli())
	}
	if !f.Until.IsZero() {
		w.add("r.ended_at < ?", f.Until.UnixMilli())
	}
	if f.Slower > 0 {
		w.add("r.duration_ms >= ?", f.Slower.Milliseconds())
	}
	if f.After != 0 {
		w.add("r.seq < ?", f.After)
	}
}

func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// Requests implements [store.Log].
func (s *Store) Requests(ctx context.Context, f store.Filter) ([]store.Request, error) {
	var w where
	w.request(f)
	w.text("r.connection", f.Connection)
	w.prefix("r.target", f.Provider)
	return collect(ctx, s.read, selectRequest+" r"+w.String()+" ORDER BY seq DESC LIMIT ?", append(w.args, f.Rows()),
		func(rows *sql.Rows) (store.Request, error) { return scanRequest(rows) })
}

// inline is store.Request.Inline in SQL.
const inline = "(r.attempts = 1 AND r.outcome IS NULL AND r.code IS NULL)"

// Attempts implements [store.Log].
func (s *Store) Attempts(ctx context.Context, f store.Filter) ([]store.Attempt, error) {
	var w where
	w.add("r.attempts > 0")
	w.request(f)
	w.text("COALESCE(a.connection, r.connection)", f.Connection)
	w.prefix("COALESCE(a.target, r.target)", f.Provider)
	w.add("(" + inline + " OR a.n IS NOT NULL)")
	return collect(ctx, s.read, `SELECT r.id, COALESCE(a.n, 1), COALESCE(a.target, r.target, ''),
  COALESCE(a.connection, r.connection, ''), COALESCE(a.outcome, r.outcome, 'success'), COALESCE(a.status, r.status),
  COALESCE(a.ended_at, r.ended_at), COALESCE(a.duration_ms, r.duration_ms)
FROM requests r LEFT JOIN attempts a ON a.request_id = r.id AND NOT `+inline+w.String()+
		" ORDER BY r.seq DESC, a.n LIMIT ?", append(w.args, f.Rows()), func(rows *sql.Rows) (a store.Attempt, err error) {
		var ended, took int64
		err = rows.Scan(&a.Request, &a.N, &a.Target, &a.Connection, &a.Outcome, &a.Status, &ended, &took)
		a.EndedAt, a.Duration = fromMilli(ended), time.Duration(took)*time.Millisecond
		return a, err
	})
}

// Bodies implements [store.Log].
func (s *Store) Bodies(ctx context.Context, id gateway.RequestID) ([]store.Body, error) {
	return collect(ctx, s.read, `SELECT request_id, part, at, data FROM bodies WHERE request_id = ? ORDER BY part`,
		[]any{string(id)}, func(rows *sql.Rows) (b store.Body, err error) {
			var at int64
			err = rows.Scan(&b.Request, &b.Part, &at, &b.Data)
			b.At = fromMilli(at)
			return b, err
		})
}

// Usage implements [store.Log].
func (s *Store) Usage(ctx context.Context, since, until time.Time) ([]store.Usage, error) {
	return collect(ctx, s.read, `SELECT hour, client_key, target, connection, requests, failed, input, cached_input,
  output, reasoning, estimated FROM ledger WHERE hour >= ? AND hour < ? ORDER BY hour, client_key, target, connection`,
		[]any{since.UnixMilli(), until.UnixMilli()}, func(rows *sql.Rows) (u store.Usage, err error) {
			var hour int64
			err = rows.Scan(&hour, &u.ClientKey, &u.Target, &u.Connection, &u.Requests, &u.Failed, &u.Input,
				&u.CachedInput, &u.Output, &u.Reasoning, &u.Estimated)
			u.Hour = fromMilli(hour)
			return u, err
		})
}

// Marks implements [store.Log].
func (s *Store) Marks(ctx context.Context) ([]store.Mark, error) {
	return collect(ctx, s.read, `SELECT segment, position FROM marks ORDER BY segment`, nil,
		func(rows *sql.Rows) (m store.Mark, err error) {
			err = rows.Scan(&m.Segment, &m.Offset)
			return m, err
		})
}

// Records implements [store.Store].
func (s *Store) Records(ctx context.Context) ([]resilience.Record, error) {
	return collect(ctx, s.read, `SELECT room, name, value, at FROM records WHERE length(value) > 0 ORDER BY room, name`, nil,
		func(rows *sql.Rows) (r resilience.Record, err error) {
			var at int64
			err = rows.Scan(&r.Room, &r.Key, &r.Value, &at)
			r.At = time.Unix(0, at).UTC()
			return r, err
		})
}

// collect runs a query and reads all its rows.
func collect[T any](ctx context.Context, db *sql.DB, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, wrap(err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, wrap(err)
		}
		out = append(out, v)
	}
	return out, wrap(rows.Err())
}
