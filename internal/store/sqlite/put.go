package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/store"
)

// rowsPerInsert is how many requests one prepared INSERT takes; what is left over goes one by one.
const rowsPerInsert = 20

const (
	requestColumns = "id, ended_at, duration_ms, client_key, model, target, connection, status, code, outcome, attempts, detail"
	requestParams  = 12
)

// statements are prepared on the one writing connection, below database/sql: its conversions and locks would cost more
// than the insert itself.
type statements struct {
	conn driver.Conn
	many driver.Stmt
	one  driver.Stmt
	args []driver.NamedValue
}

func (st *statements) close() error {
	if st == nil {
		return nil
	}
	return errors.Join(st.many.Close(), st.one.Close())
}

func (s *Store) prepared(ctx context.Context, c driver.Conn) (*statements, error) {
	if s.stmts != nil && s.stmts.conn == c {
		return s.stmts, nil
	}
	row := "(" + strings.Repeat(", ?", requestParams)[2:] + ")"
	head := "INSERT INTO requests (" + requestColumns + ") VALUES "
	tail := " ON CONFLICT (id) DO NOTHING"
	p, ok := c.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("sqlite: the driver cannot prepare")
	}
	many, err := p.PrepareContext(ctx, head+strings.Repeat(", "+row, rowsPerInsert)[2:]+tail)
	if err != nil {
		return nil, err
	}
	one, err := p.PrepareContext(ctx, head+row+tail)
	if err != nil {
		return nil, errors.Join(err, many.Close())
	}
	s.stmts = &statements{conn: c, many: many, one: one}
	return s.stmts, nil
}

// Put implements [store.Log].
func (s *Store) Put(ctx context.Context, b *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The driver watches a cancellable context with a goroutine per statement; a batch is short, so it is not worth it.
	ctx = context.WithoutCancel(ctx)
	c, err := s.write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer c.Close()
	err = s.put(ctx, c, b, b.Requests)
	if errors.Is(err, errDuplicate) {
		var fresh []store.Request
		if fresh, err = s.unknown(ctx, b.Requests); err == nil {
			err = s.put(ctx, c, b, fresh)
		}
	}
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

var errDuplicate = errors.New("a request is stored already")

func (s *Store) put(ctx context.Context, c *sql.Conn, b *store.Batch, requests []store.Request) error {
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if len(requests) > 0 {
		if err := c.Raw(func(dc any) error { return s.insertRequests(ctx, dc.(driver.Conn), requests) }); err != nil {
			return err
		}
	}
	if err := s.putLedger(ctx, tx, b.Usage, requests); err != nil {
		return err
	}
	if err := s.putRest(ctx, tx, b); err != nil {
		return err
	}
	return tx.Commit()
}

// insertRequests inserts rows and fails with errDuplicate when one of them was there: then the caller finds out which.
// That keeps the common case free of look-ups.
func (s *Store) insertRequests(ctx context.Context, c driver.Conn, rows []store.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.prepared(ctx, c)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n, stmt := 1, st.one
		if len(rows) >= rowsPerInsert {
			n, stmt = rowsPerInsert, st.many
		}
		args := st.args[:0]
		for i := range rows[:n] {
			args = appendRequest(args, &rows[i])
		}
		st.args = args
		ex, ok := stmt.(driver.StmtExecContext)
		if !ok {
			return errors.New("the driver cannot execute a prepared statement")
		}
		res, err := ex.ExecContext(ctx, args)
		if err != nil {
			return err
		}
		if got, err := res.RowsAffected(); err != nil || got != int64(n) {
			return errors.Join(err, errDuplicate)
		}
		rows = rows[n:]
	}
	clear(st.args) // keep no bytes of the batch alive
	return nil
}

func appendRequest(args []driver.NamedValue, r *store.Request) []driver.NamedValue {
	add := func(v driver.Value) { args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: v}) }
	text := func(s string) {
		if s == "" {
			add(nil) // a NULL is cheaper to bind and to keep
			return
		}
		add(s)
	}
	add(string(r.ID))
	add(r.EndedAt.UnixMilli())
	add(r.Duration.Milliseconds())
	text(r.ClientKey)
	text(r.Model)
	text(r.Target)
	text(r.Connection)
	add(int64(r.Status))
	text(r.Code)
	text(r.Outcome)
	add(int64(r.Attempts))
	add(r.Detail)
	return args
}

// unknown returns the requests that are not stored yet, each once.
func (s *Store) unknown(ctx context.Context, rows []store.Request) ([]store.Request, error) {
	seen := make(map[gateway.RequestID]bool, len(rows))
	const chunk = 500 // far below any limit on the number of parameters
	for from := 0; from < len(rows); from += chunk {
		part := rows[from:min(from+chunk, len(rows))]
		args := make([]any, len(part))
		for i := range part {
			args[i] = string(part[i].ID)
		}
		q, err := s.read.QueryContext(ctx, "SELECT id FROM requests WHERE id IN ("+marks(len(args))+")", args...)
		if err != nil {
			return nil, err
		}
		for q.Next() {
			var id string
			if err := q.Scan(&id); err != nil {
				q.Close()
				return nil, err
			}
			seen[gateway.RequestID(id)] = true
		}
		if err := q.Err(); err != nil {
			return nil, err
		}
	}
	var fresh []store.Request
	for _, r := range rows {
		if !seen[r.ID] {
			seen[r.ID] = true
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

// marks is a list of n parameters.
func marks(n int) string { return strings.Repeat(", ?", n)[2:] }

const upsertLedger = `INSERT INTO ledger (hour, client_key, target, connection,
  requests, failed, input, cached_input, output, reasoning, estimated)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (hour, client_key, target, connection) DO UPDATE SET
  requests = ledger.requests + excluded.requests, failed = ledger.failed + excluded.failed,
  input = ledger.input + excluded.input, cached_input = ledger.cached_input + excluded.cached_input,
  output = ledger.output + excluded.output, reasoning = ledger.reasoning + excluded.reasoning,
  estimated = ledger.estimated + excluded.estimated`

const upsertMark = `INSERT INTO marks (segment, position) VALUES ($1, $2)
ON CONFLICT (segment) DO UPDATE SET position = excluded.position WHERE excluded.position > marks.position`

// putLedger adds requests, summed per line first, and lines to the ledger.
func (s *Store) putLedger(ctx context.Context, tx *sql.Tx, lines []store.Usage, requests []store.Request) error {
	sums := store.Sums{}
	for i := range requests {
		sums.Add(requests[i].Line())
	}
	for _, u := range lines {
		sums.Add(u)
	}
	stmt := tx.StmtContext(ctx, s.ledger)
	for _, u := range sums {
		_, err := stmt.ExecContext(ctx, u.Hour.UTC().Truncate(time.Hour).UnixMilli(), u.ClientKey, u.Target, u.Connection,
			u.Requests, u.Failed, u.Input, u.CachedInput, u.Output, u.Reasoning, u.Estimated)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) putRest(ctx context.Context, tx *sql.Tx, b *store.Batch) error {
	for _, a := range b.Attempts {
		if _, err := tx.ExecContext(ctx, `INSERT INTO attempts (request_id, n, target, connection, outcome, status, ended_at, duration_ms)
SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE EXISTS (SELECT 1 FROM requests WHERE id = $1)
ON CONFLICT (request_id, n) DO NOTHING`, string(a.Request), a.N, a.Target, a.Connection, a.Outcome, a.Status,
			a.EndedAt.UnixMilli(), a.Duration.Milliseconds()); err != nil {
			return err
		}
	}
	for _, r := range b.Records {
		value := r.Value
		if value == nil {
			value = []byte{}
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO records (room, name, value, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (room, name) DO UPDATE SET value = excluded.value, at = excluded.at WHERE excluded.at >= records.at`,
			r.Room, r.Key, value, r.At.UnixNano()); err != nil {
			return err
		}
	}
	for _, body := range b.Bodies {
		data := body.Data
		if data == nil {
			data = []byte{}
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO bodies (request_id, part, at, data) VALUES ($1, $2, $3, $4)
ON CONFLICT (request_id, part) DO NOTHING`, string(body.Request), body.Part, body.At.UnixMilli(), data); err != nil {
			return err
		}
	}
	if b.Mark.Segment != "" {
		if _, err := tx.StmtContext(ctx, s.mark).ExecContext(ctx, b.Mark.Segment, b.Mark.Offset); err != nil {
			return err
		}
	}
	for _, segment := range b.Done {
		if _, err := tx.ExecContext(ctx, `DELETE FROM marks WHERE segment = $1`, segment); err != nil {
			return err
		}
	}
	return nil
}
