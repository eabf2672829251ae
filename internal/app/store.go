package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"spillway/internal/account"
	"spillway/internal/auth"
	"spillway/internal/config"
	"spillway/internal/journal"
	"spillway/internal/store"
	"spillway/internal/store/sqlite"
)

// openStore opens the database and the journal in front of it, and starts the ledger.
func (a *App) openStore(ctx context.Context, cfg *config.Config) error {
	a.store = a.options.Store
	var log *journal.Journal
	if a.store == nil {
		if !cfg.SQLite() || !cfg.Memory() {
			return errors.New("database and state: this version keeps them in sqlite and memory only")
		}
		dir := cfg.Data
		if err := os.MkdirAll(dir, 0o700); err != nil { // readable by its owner only
			return fmt.Errorf("data: %w", err)
		}
		db, err := sqlite.Open(ctx, dir)
		if err != nil {
			return fmt.Errorf("open the database in %s: %w", dir, err)
		}
		a.store = db
		a.onStop("database", func(context.Context) error { return db.Close() })
		if log, err = journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), Sync: cfg.JournalSync == "always", Log: a.log}); err != nil {
			return fmt.Errorf("open the journal in %s: %w", dir, err)
		}
	}
	a.ledger = account.New(account.Options{Journal: log, Store: a.store, Log: a.log, Bodies: cfg.Log.Bodies, Retention: cfg.Log.Retention})
	a.onStop("ledger", a.ledger.Stop)
	return a.ledger.Open(ctx)
}

const tokenSetting = "management_token"

// managementToken returns the hash of the management token; at the first start it makes one and prints it, once.
func (a *App) managementToken(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	hash, _, err := a.store.Setting(ctx, tokenSetting)
	if err == nil {
		return string(hash), nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("read the management token: %w", err)
	}
	plain, made := auth.NewManagementToken()
	if _, err := a.store.PutSetting(ctx, tokenSetting, []byte(made), 0); err != nil {
		return "", fmt.Errorf("store the management token: %w", err)
	}
	fmt.Fprintf(a.options.Out, "management token: %s (shown once)\n", plain.Reveal())
	return made, nil
}
