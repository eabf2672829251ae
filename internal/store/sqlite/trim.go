package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// Trim implements [store.Log]. Rows are in the order in which requests ended, so what is old is a prefix: no index by
// time is needed, and a call costs what it deletes. The size is that of the pages in use; SQLite reuses freed pages, so
// the file stops growing but does not shrink.
func (s *Store) Trim(ctx context.Context, before time.Time, maxBytes int64, limit int) (n int, err error) {
	limit = min(max(limit, 1), 500) // ids are passed one by one: stay far below the limit on parameters
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		over := false
		if maxBytes > 0 {
			var used int64
			if err := tx.QueryRowContext(ctx, `SELECT (p.page_count - f.freelist_count) * z.page_size
FROM pragma_page_count() p, pragma_freelist_count() f, pragma_page_size() z`).Scan(&used); err != nil {
				return wrap(err)
			}
			over = used > maxBytes
		}
		ids, last, err := oldest(ctx, tx, before, over, limit)
		if err != nil || len(ids) == 0 {
			return wrap(err)
		}
		n = len(ids)
		list := marks(n)
		for _, stmt := range []string{`DELETE FROM attempts WHERE request_id IN (` + list + `)`,
			`DELETE FROM bodies WHERE request_id IN (` + list + `)`} {
			if _, err := tx.ExecContext(ctx, stmt, ids...); err != nil {
				return wrap(err)
			}
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM requests WHERE seq <= $1`, last)
		return wrap(err)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// oldest returns the ids of the rows to delete and the last of their places.
func oldest(ctx context.Context, tx *sql.Tx, before time.Time, any bool, limit int) (ids []any, last int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT seq, id, ended_at FROM requests ORDER BY seq LIMIT $1`, limit)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq, ended int64
		var id string
		if err := rows.Scan(&seq, &id, &ended); err != nil {
			return nil, 0, err
		}
		if !any && ended >= before.UnixMilli() {
			break
		}
		ids, last = append(ids, id), seq
	}
	return ids, last, rows.Err()
}
