// Package httpapi serves the client API: it limits and reads bodies, finds out who asks, hands the request to the engine
// and writes the answer or one clear error in the caller's own protocol. It decides nothing about upstreams.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/auth"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/protocol/families"
	"spillway/internal/resilience/queue"
	"spillway/internal/resilience/verdict"
	"spillway/internal/resilience/watchdog"
)

// Snapshot is what a request is served from: it holds on to the one that it began with.
type Snapshot struct {
	Board    *plan.Board
	Rules    *verdict.Rules
	Timeouts gateway.Timeouts // global ones
	Queue    queue.Config
	Guards   watchdog.Config
}

// Ledger keeps accounts: it is told about every request when it begins and when it has ended.
type Ledger interface {
	Begin(j *gateway.Journey)
	Close(j *gateway.Journey)
}

// Lists completes what is known about models: it may ask providers for their own lists, and returns the snapshot to go on
// with.
type Lists interface {
	Complete(ctx context.Context, s *Snapshot) *Snapshot
}

// Options are what the API is made of.
type Options struct {
	Live    func() *Snapshot
	Engine  *attempt.Engine
	Ledger  Ledger // nil = nothing is kept about requests
	Lists   Lists  // nil = what is configured is all there is
	Buffers *attempt.Buffers
	Log     *slog.Logger
	Done    func(j *gateway.Journey) // told about every request that ended; may be nil
}

// API is the client API. It is safe for concurrent use.
type API struct {
	Options
	draining atomic.Bool
	active   atomic.Int64
}

// New returns the API.
func New(o Options) *API { return &API{Options: o} }

// Drain makes every new request fail with 503 `draining`; those in flight go on.
func (a *API) Drain() { a.draining.Store(true) }

// Wait returns when no request is in flight, or ctx ends.
func (a *API) Wait(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for a.active.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Active is the number of requests in flight.
func (a *API) Active() int64 { return a.active.Load() }

// Routes adds the client API to a mux, under / and under /api (the seeds' path).
func (a *API) Routes(mux *http.ServeMux) {
	add := func(pattern string, h http.HandlerFunc) { mux.HandleFunc(pattern, a.cross(h)) }
	for _, prefix := range []string{"", "/api"} {
		add(prefix+"/v1/chat/completions", a.post(gateway.OpenAI))
		add(prefix+"/v1/responses", a.post(gateway.Responses))
		add(prefix+"/v1/messages", a.post(gateway.Anthropic))
		add("GET "+prefix+"/v1/models", a.models)
		add("GET "+prefix+"/v1/models/{id...}", a.model)
		add("POST "+prefix+"/v1/models/{call...}", a.gemini)
		add("POST "+prefix+"/v1beta/models/{call...}", a.gemini)
		add(prefix+"/v1/models", a.only("GET, HEAD"))
		add(prefix+"/v1/models/{id...}", a.only("GET, HEAD, POST"))
		add(prefix+"/v1beta/models/{call...}", a.only("POST"))
		add(prefix+"/v1/", a.unknown)
		add(prefix+"/v1beta/", a.unknown)
	}
}

// post serves the generation call of one protocol.
func (a *API) post(p gateway.Protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			a.wrongMethod(w, r, p, http.MethodPost)
			return
		}
		a.generate(w, r, call{protocol: p})
	}
}

// gemini serves POST .../models/{model}:{verb}.
func (a *API) gemini(w http.ResponseWriter, r *http.Request) {
	model, verb, ok := cutLast(r.PathValue("call"), ':')
	switch {
	case ok && verb == "generateContent":
		a.generate(w, r, call{protocol: gateway.Gemini, model: model})
	case ok && verb == "streamGenerateContent":
		if r.URL.Query().Get("alt") != "sse" {
			a.refuse(w, gateway.Gemini, &gateway.Error{Code: gateway.InvalidRequest, Param: "alt",
				Message: "streams are served as server-sent events only", Next: "Add ?alt=sse to the URL."})
			return
		}
		a.generate(w, r, call{protocol: gateway.Gemini, model: model, stream: true})
	default:
		a.refuse(w, gateway.Gemini, &gateway.Error{Code: gateway.NotFound, Message: "nothing is served at POST " + printable(r.URL.Path) + ".",
			Next: "Gemini calls end in :generateContent or :streamGenerateContent."})
	}
}

// only refuses the methods that a path does not have.
func (a *API) only(allow string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { a.wrongMethod(w, r, dialect(r), allow) }
}

func (a *API) wrongMethod(w http.ResponseWriter, r *http.Request, p gateway.Protocol, allow string) {
	w.Header().Set("Allow", allow)
	a.refuse(w, p, &gateway.Error{Code: gateway.MethodNotAllowed, Message: printable(r.Method) + " is not served at " + printable(r.URL.Path) + ".",
		Next: "This path takes " + allow + "."})
}

// printable quotes what a caller sent when it holds anything but plain text, and cuts it to a length that people read.
func printable(s string) string {
	const most = 120
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	if i := strings.LastIndexByte(s, sep); i > 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	a.refuse(w, dialect(r), &gateway.Error{Code: gateway.NotFound, Message: "nothing is served at " + printable(r.Method+" "+r.URL.Path) + ".",
		Next: "The client API has /v1/chat/completions, /v1/responses, /v1/messages, /v1/models and /v1beta/models/{model}:generateContent."})
}

// dialect guesses the protocol of a caller from a path that belongs to none.
func dialect(r *http.Request) gateway.Protocol {
	switch {
	case r.Header.Get("Anthropic-Version") != "":
		return gateway.Anthropic
	case strings.Contains(r.URL.Path, "/v1beta/") || r.Header.Get("X-Goog-Api-Key") != "":
		return gateway.Gemini
	}
	return gateway.OpenAI
}

// identify says who asks, by the rules of a gateway with client keys or without.
func (a *API) identify(s *Snapshot, r *http.Request) (gateway.Principal, *gateway.Error) {
	if err := auth.Guard(s.Board.Snapshot, r); err != nil {
		return gateway.Principal{}, err
	}
	return auth.Identify(s.Board.Snapshot, r.Header, r.URL.Query())
}

// refuse writes an error before any request was run.
func (a *API) refuse(w http.ResponseWriter, p gateway.Protocol, e *gateway.Error) {
	writeError(w, families.For(p), e)
}
