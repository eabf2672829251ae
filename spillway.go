// Package spillway runs the Spillway engine inside a Go program: the same failover, isolation and pacing as the gateway
// binary, with no port open. A [Gateway] is an http.Handler (mount it in a server of your own) and, at the same time, an
// http.RoundTripper (give it to any SDK's HTTP client).
//
//	g, err := spillway.New(spillway.Config{File: "spillway.yaml"})
//	if err != nil { ... }
//	defer g.Close()
//	client := &http.Client{Transport: g.RoundTripper()}
//	// point the SDK at http://spillway/v1 with that client
//
// Without a file and without well-known variables (OPENAI_API_KEY ...) it answers from the built-in lab, as the binary
// does. Nothing is kept on disk unless Config.Data says where.
package spillway

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"spillway/internal/app"
	"spillway/internal/config"
	"spillway/internal/store"
)

// Config says how to run. The zero value reads ./spillway.yaml when it exists, else the environment.
type Config struct {
	File string // configuration file; "" = ./spillway.yaml when it exists
	YAML []byte // the configuration itself, instead of a file; File then only names it in messages
	// Env looks variables up; nil = the process's environment.
	Env func(name string) (value string, ok bool)
	// Data is the directory of the database and the journal. "" keeps decision logs and health in memory only, the last
	// 10 000 requests of them.
	Data string
	// Watch reloads File when it changes.
	Watch bool
	Log   *slog.Logger // nil = nothing is logged
}

// Gateway is a running engine. It is safe for concurrent use.
type Gateway struct{ app *app.App }

// New starts an engine. The error lists every problem of the configuration with its place. Close must be called.
func New(c Config) (*Gateway, error) {
	o := app.Options{
		Source: config.Source{Path: c.File, Bytes: c.YAML, Env: c.Env, Flags: config.Flags{Data: c.Data}},
		Log:    c.Log, Out: io.Discard, NoListener: true, Watch: c.Watch,
	}
	if c.Data == "" {
		o.Store = store.Memory()
	}
	a, err := app.Open(context.Background(), o)
	if err != nil {
		return nil, err
	}
	return &Gateway{a}, nil
}

// Handler serves the client API, the management API, /healthz, /readyz and /metrics. While no client keys are
// configured it takes requests for loopback hosts only, as the binary does.
func (g *Gateway) Handler() http.Handler { return g.app.Handler() }

// RoundTripper serves requests in this process, whatever their host is. Answers stream as they come; ending a request's
// context, or closing its response body early, cancels the upstream call.
func (g *Gateway) RoundTripper() http.RoundTripper { return &local{handler: g.app.Handler()} }

// Reload reads the configuration again. A bad one is refused with every problem and changes nothing; requests in flight
// finish on the configuration that they began with.
func (g *Gateway) Reload(ctx context.Context) error { return g.app.Reload(ctx) }

// closeLimit bounds Close: what has not finished by then is cut.
const closeLimit = time.Minute

// Close stops the engine: new requests are refused, those in flight may finish for up to drain_timeout, what was recorded
// is written out. It is idempotent.
func (g *Gateway) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return g.app.Close(ctx)
}
