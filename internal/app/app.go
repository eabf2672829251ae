// Package app puts Spillway together: configuration, rooms, store, engine, listeners, and the life of the process. It has
// one straight wiring function; each start is followed by its named undo, and a failure rolls back the same way.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/account"
	"spillway/internal/admin"
	"spillway/internal/attempt"
	"spillway/internal/cache"
	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/httpapi"
	"spillway/internal/resilience"
	"spillway/internal/resilience/breaker"
	"spillway/internal/store"
	"spillway/internal/upstream"
)

// Version is the version of this build.
const Version = "0.1.0"

// Options say how to run.
type Options struct {
	Source config.Source // where the configuration comes from
	Log    *slog.Logger  // nil = nothing is logged
	Out    io.Writer     // for people: what was started, the curl line; nil = nothing

	// Store replaces the database; it is not closed. nil opens what the configuration says.
	Store store.Store
	// Dial and Listen replace the network, for tests in virtual time.
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Listen func(network, addr string) (net.Listener, error)
	// Transport carries all requests to upstreams instead of the network, for the simulator.
	Transport http.RoundTripper
	// NoListener serves through Handler and RoundTripper only.
	NoListener bool
	// Level hears of log.level whenever a configuration comes into force; nil = nobody.
	Level func(level string)
	// Watch reloads the configuration file when it changes.
	Watch bool
}

// App is a running gateway.
type App struct {
	options Options
	log     *slog.Logger
	config  *config.Config // that it was started with: listen, data, database, state
	live    atomic.Pointer[httpapi.Snapshot]
	lists   catalog.ModelList
	rooms   *rooms
	ledger  *account.Ledger
	store   store.Store
	buffers *attempt.Buffers
	cache   *cache.Room
	engine  *attempt.Engine
	api     *httpapi.API
	admin   *admin.API
	metrics *metrics
	handler http.Handler
	sender  *upstream.Transports

	listener net.Listener
	server   *http.Server
	ready    atomic.Bool
	served   sync.WaitGroup
	reloads  sync.Mutex
	labURL   string // of the built-in lab, when it runs
	undo     []undo
}

type undo struct {
	name string
	do   func(context.Context) error
}

func (a *App) onStop(name string, do func(context.Context) error) {
	a.undo = append(a.undo, undo{name, do})
}

// Open builds and starts a gateway. When it fails, everything that was started is stopped again.
func Open(ctx context.Context, o Options) (*App, error) {
	a := &App{options: o, log: o.Log}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.options.Out == nil {
		a.options.Out = io.Discard
	}
	if err := a.setup(ctx); err != nil {
		return nil, errors.Join(err, a.Close(context.WithoutCancel(ctx)))
	}
	return a, nil
}

// setup is deliberately one straight line: each step needs what the ones before it made.
func (a *App) setup(ctx context.Context) error {
	cfg, err := a.load(ctx)
	if err != nil {
		return err
	}
	a.config = cfg
	if err := a.openStore(ctx, cfg); err != nil {
		return err
	}
	a.metrics = newMetrics(a)
	a.rooms = newRooms(cfg.Global(), events{keep: a.ledger.Keep(), transition: a.onTransition, changed: a.onChange})
	records, err := a.ledger.Records(ctx)
	if err != nil {
		return fmt.Errorf("read the state of the last run: %w", err)
	}
	a.rooms.restore(records, time.Now())
	a.sender = upstream.New(upstream.Options{Dial: a.options.Dial, Transport: a.options.Transport})
	a.onStop("upstream connections", func(context.Context) error { a.sender.Close(); return nil })
	a.buffers = attempt.NewBuffers(int64(cfg.Limits.BufferedBytes))
	a.cache = cache.New(a.buffers)
	a.engine = attempt.New(attempt.Options{
		Sender: a.sender, Outages: a.rooms.outage, Queues: a.rooms.queues, Log: a.log, Agent: "spillway/" + Version,
		Buffers: a.buffers, Events: a.metrics.events(), Affinity: a.rooms.affinity,
	})
	snap, err := a.compile(cfg)
	if err != nil {
		return err
	}
	a.install(snap)
	o := httpapi.Options{Live: a.live.Load, Engine: a.engine, Buffers: a.buffers, Cache: a.cache, Log: a.log, Done: a.metrics.done, Lists: a}
	if cfg.Log.Decisions {
		o.Ledger = a.ledger
	}
	a.api = httpapi.New(o)
	token, err := a.managementToken(ctx)
	if err != nil {
		return err
	}
	a.admin = admin.New(admin.Options{Live: func() *catalog.Snapshot { return a.live.Load().Board.Snapshot },
		Ledger: a.ledger, Token: token, Log: a.log})
	a.handler = a.routes()
	if err := a.listen(cfg); err != nil {
		return err
	}
	if a.options.Watch && cfg.File != "" {
		if err := a.watch(cfg.File); err != nil {
			return fmt.Errorf("watch %s: %w", cfg.File, err)
		}
	}
	a.ready.Store(true)
	a.announce(cfg)
	return nil
}

// Handler serves everything that the listener serves.
func (a *App) Handler() http.Handler { return a.handler }

// Addr is the address that is listened on; nil without a listener.
func (a *App) Addr() net.Addr {
	if a.listener == nil {
		return nil
	}
	return a.listener.Addr()
}

// Close stops the gateway: new requests are refused, those in flight may finish until ctx or drain_timeout ends, what was
// recorded is written out. It is idempotent.
func (a *App) Close(ctx context.Context) error {
	a.ready.Store(false)
	var errs []error
	for i := len(a.undo) - 1; i >= 0; i-- {
		if err := a.undo[i].do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", a.undo[i].name, err))
		}
	}
	a.undo = nil
	return errors.Join(errs...)
}

func (a *App) onTransition(t breaker.Transition) {
	a.log.Info("breaker", "key", t.Key, "from", t.From.String(), "to", t.To.String(), "cause", t.Cause, "until", t.Until)
	a.metrics.transition(t)
}

func (a *App) onChange(s resilience.Status, _ time.Time) {
	a.log.Info(s.Layer.String(), "key", s.Key, "state", s.State, "reason", s.Reason.String(), "until", s.Until)
}

// Engine-wide facts for metrics and tests.

// InFlight is the number of client requests that are being served.
func (a *App) InFlight() int64 { return a.api.Active() }

// Buffered is how many bytes of requests are held in memory.
func (a *App) Buffered() int64 { return a.buffers.Used() }

// Status lists what is out or limited now.
func (a *App) Status() []resilience.Status { return a.rooms.status(time.Now()) }

// Journey returns the decision log of a request.
func (a *App) Journey(ctx context.Context, id gateway.RequestID) (*gateway.Journey, error) {
	return a.ledger.Get(ctx, id)
}
