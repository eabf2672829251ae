package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"

	"spillway/internal/store"
)

// Reader reads the decision log of a database that another process may be writing. It changes nothing in it, the schema
// neither. It is safe for concurrent use.
type Reader struct{ read *sql.DB }

// OpenReader opens a database file for reading. It does not make one.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(30000)", "query_only(1)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return &Reader{db}, nil
}

// Requests lists requests, as [Store.Requests] does.
func (r *Reader) Requests(ctx context.Context, f store.Filter) ([]store.Request, error) {
	return (&Store{read: r.read}).Requests(ctx, f)
}

// Close closes the database.
func (r *Reader) Close() error { return r.read.Close() }
