package app

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"spillway/internal/config"
	"spillway/internal/route/strategy"
)

// source is where the configuration comes from; a reload reads the same things again.
func (a *App) source() config.Source {
	src := a.options.Source
	src.Strategies = strategy.Names()
	return src
}

// load reads the configuration; when it names no provider the lab stands in.
func (a *App) load(ctx context.Context) (*config.Config, error) {
	cfg, err := config.Load(a.source())
	switch {
	case err != nil || !cfg.LabOnly:
		return cfg, err
	case a.labURL == "":
		return a.startLab(ctx)
	}
	return a.withLab()
}

// Reload reads the configuration again and puts it in force, or refuses it with every problem and changes nothing. What
// only a restart can change (listen, data, database, state) stays as it was, with a warning.
func (a *App) Reload(ctx context.Context) error {
	a.reloads.Lock()
	defer a.reloads.Unlock()
	cfg, err := a.load(ctx)
	if err != nil {
		a.metrics.reload(false)
		a.log.Error("the configuration was refused; the old one stays in force", "err", err)
		return err
	}
	if cfg.Listen != a.config.Listen || cfg.Data != a.config.Data || cfg.Database != a.config.Database || cfg.State != a.config.State {
		a.log.Warn("listen, data, database and state take effect at the next start only")
	}
	snap, err := a.compile(cfg)
	if err != nil {
		a.metrics.reload(false)
		a.log.Error("the configuration was refused; the old one stays in force", "err", err)
		return err
	}
	a.install(snap)
	a.metrics.reload(true)
	for _, w := range cfg.Warnings {
		a.log.Warn("configuration", "problem", w.String())
	}
	a.log.Info("configuration in force", "file", cfg.File, "version", cfg.Version)
	return nil
}

// settle is how long a file must be quiet before it is read: editors write in several steps.
const settle = 100 * time.Millisecond

// watch reloads when the file changes. The folder is watched, not the file: editors and orchestrators replace it.
func (a *App) watch(file string) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := w.Add(filepath.Dir(file)); err != nil {
		w.Close()
		return err
	}
	var owner sync.WaitGroup
	owner.Go(func() { a.watchLoop(w, filepath.Clean(file)) })
	a.onStop("configuration watch", func(context.Context) error {
		err := w.Close()
		owner.Wait()
		return err
	})
	return nil
}

func (a *App) watchLoop(w *fsnotify.Watcher, file string) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case ev, ok := <-w.Events:
			if !ok {
				return
			}
			// A mounted configuration changes by a swapped link elsewhere in the folder (..data), so any change counts.
			if filepath.Clean(ev.Name) == file || filepath.Base(ev.Name) == "..data" {
				timer.Reset(settle)
			}
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			a.log.Warn("watching the configuration", "err", err)
		case <-timer.C:
			_ = a.Reload(context.Background()) // logged there
		}
	}
}
