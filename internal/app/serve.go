package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"spillway/internal/config"
)

// Limits of the client side of the listener. There is no write time-out: a stream may last an hour; the door bounds each
// write instead.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 256 << 10
)

func (a *App) routes() http.Handler {
	mux := http.NewServeMux()
	a.api.Routes(mux)
	a.admin.Routes(mux)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { plainText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("/readyz", a.readyz)
	mux.Handle("GET /metrics", a.metrics.handler())
	mux.HandleFunc("/{$}", a.root)
	return mux
}

// readyz tells a load balancer whether to send requests here.
func (a *App) readyz(w http.ResponseWriter, _ *http.Request) {
	if !a.ready.Load() {
		plainText(w, http.StatusServiceUnavailable, "not ready: starting or draining\n")
		return
	}
	plainText(w, http.StatusOK, "ready\n")
}

// root answers GET and HEAD /: some agents look whether anybody is there before they send.
func (a *App) root(w http.ResponseWriter, _ *http.Request) {
	plainText(w, http.StatusOK, "Spillway "+Version+" is running. The OpenAI-compatible API is at /v1.\n")
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, text) // a client that left needs no answer
}

func (a *App) listen(cfg *config.Config) error {
	a.onStop("requests", a.drain)
	if a.options.NoListener {
		return nil
	}
	listen := net.Listen
	if a.options.Listen != nil {
		listen = a.options.Listen
	}
	l, err := listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w (is another Spillway running? choose a free address with --listen)", cfg.Listen, err)
	}
	a.listener = l
	a.server = &http.Server{
		Handler: a.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: serverLog(a.log),
	}
	a.served.Go(func() {
		if err := a.server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the listener stopped", "err", err)
		}
	})
	return nil
}

// drain refuses new requests and lets those in flight finish, for drain_timeout at most.
func (a *App) drain(ctx context.Context) error {
	a.api.Drain()
	ctx, cancel := context.WithTimeout(ctx, a.config.DrainTimeout)
	defer cancel()
	if a.server == nil {
		return a.api.Wait(ctx)
	}
	err := a.server.Shutdown(ctx)
	if err != nil { // streams that are still open are cut now
		a.log.Warn("drain_timeout is over; streams that are still open are cut", "in_flight", a.api.Active())
		err = a.server.Close()
	}
	a.served.Wait()
	return err
}
