package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"sort"
	"strings"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, in one transaction that holds the write lock from its start, so that of two
// processes starting at once the second finds nothing left to do. Migrations are applied in the order of their names
// and never undone; a database made by a newer program is refused.
func migrate(ctx context.Context, db *sql.DB) error {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	sort.Strings(names)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migrations (n INTEGER PRIMARY KEY, name TEXT NOT NULL)`); err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	var have int
	if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(n), 0) FROM migrations`).Scan(&have); err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	if have > len(names) {
		return fmt.Errorf("sqlite: the database has schema %d, this program knows %d: use a newer spillway", have, len(names))
	}
	for i := have; i < len(names); i++ {
		script, err := migrations.ReadFile(names[i])
		if err != nil {
			return err
		}
		for stmt := range strings.SplitSeq(string(script), ";\n") {
			if strings.TrimSpace(stmt) == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, stmt); err != nil {
				return fmt.Errorf("sqlite: %s: %w", names[i], err)
			}
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO migrations (n, name) VALUES ($1, $2)`, i+1, names[i]); err != nil {
			return fmt.Errorf("sqlite: migrate: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	return nil
}
