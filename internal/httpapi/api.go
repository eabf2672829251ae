// Package httpapi serves the client API: it limits and reads bodies, finds out who asks, hands the request to the engine
// and writes the answer or one clear error in the caller's own protocol. It decides nothing about upstreams.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/auth"
	"spillway/internal/cache"
	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/protocol/families"
	"spillway/internal/resilience/queue"
	"spillway/internal/resilience/verdict"
)

// Snapshot is what a request is served from: it holds on to the one that it began with.
type Snapshot struct {
	Board    *plan.Board
	Rules    *verdict.Rules
	Timeouts gateway.Timeouts // global ones
	Queue    queue.Config
	Streams  config.Streams // global ones

	// Emergency names the combo over which a request goes on when what it asked for has failed; "" = none. Whoever
	// assembles a snapshot decides; a new one switches it at run time.
	Emergency string
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
	Cache   *cache.Room // nil = no answer is used twice
	Log     *slog.Logger
	Done    func(j *gateway.Journey) // told about every request that ended; may be nil
}

// API is the client API. It is safe for concurrent use.
type API struct {
	Options
	draining atomic.Bool
	active   atomic.Int64
	limiter  auth.Limiter // of client keys; it outlives snapshots
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
		for path, c := range paths {
			add(prefix+path, a.post(c))
		}
		a.storedRoutes(add, prefix)
		for _, version := range []string{"/v1", "/v1beta"} {
			models := prefix + version + "/models"
			add("GET "+models, a.models)
			add("GET "+models+"/{id...}", a.model)
			add("POST "+models+"/{call...}", a.gemini)
			add(models, a.only("GET, HEAD"))
			add(models+"/{id...}", a.noMethod)
		}
		add(prefix+"/v1/", a.unknown)
		add(prefix+"/v1beta/", a.unknown)
	}
}

// paths are those that take a POST and name the model in the body.
var paths = map[string]call{
	"/v1/chat/completions":      {protocol: gateway.OpenAI},
	"/v1/completions":           {protocol: gateway.OpenAI, operation: gateway.Complete},
	"/v1/embeddings":            {protocol: gateway.OpenAI, operation: gateway.Embed},
	"/v1/moderations":           {protocol: gateway.OpenAI, operation: gateway.Moderate},
	"/v1/rerank":                {protocol: gateway.OpenAI, operation: gateway.Rerank},
	"/v1/images/generations":    {protocol: gateway.OpenAI, operation: gateway.MakeImage},
	"/v1/images/edits":          {protocol: gateway.OpenAI, operation: gateway.EditImage},
	"/v1/images/variations":     {protocol: gateway.OpenAI, operation: gateway.VaryImage},
	"/v1/audio/speech":          {protocol: gateway.OpenAI, operation: gateway.Speak},
	"/v1/audio/transcriptions":  {protocol: gateway.OpenAI, operation: gateway.Transcribe},
	"/v1/audio/translations":    {protocol: gateway.OpenAI, operation: gateway.TranslateAudio},
	"/v1/responses":             {protocol: gateway.Responses},
	"/v1/messages":              {protocol: gateway.Anthropic},
	"/v1/messages/count_tokens": {protocol: gateway.Anthropic, operation: gateway.CountTokens},
}

// verbs are the calls of Gemini, which stand behind the model in the path.
var verbs = map[string]call{
	"generateContent":       {protocol: gateway.Gemini},
	"streamGenerateContent": {protocol: gateway.Gemini, stream: true},
	"countTokens":           {protocol: gateway.Gemini, operation: gateway.CountTokens},
	"embedContent":          {protocol: gateway.Gemini, operation: gateway.Embed},
	"batchEmbedContents":    {protocol: gateway.Gemini, operation: gateway.BatchEmbed},
}

// post serves a call of a path of its own.
func (a *API) post(c call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			a.wrongMethod(w, r, c.protocol, http.MethodPost)
			return
		}
		a.serve(w, r, c)
	}
}

// gemini serves POST .../models/{model}:{verb}.
func (a *API) gemini(w http.ResponseWriter, r *http.Request) {
	model, verb, ok := cutLast(r.PathValue("call"), ':')
	c, known := verbs[verb]
	switch {
	case !ok || !known:
		a.refuse(w, gateway.Gemini, &gateway.Error{Code: gateway.NotFound, Message: "nothing is served at POST " + printable(r.URL.Path) + ".",
			Next: "Gemini calls end in :generateContent, :streamGenerateContent, :countTokens, :embedContent or :batchEmbedContents."})
		return
	case c.stream && r.URL.Query().Get("alt") != "sse":
		a.refuse(w, gateway.Gemini, &gateway.Error{Code: gateway.InvalidRequest, Param: "alt",
			Message: "streams are served as server-sent events only", Next: "Add ?alt=sse to the URL."})
		return
	}
	c.model = model
	a.serve(w, r, c)
}

// only refuses the methods that a path does not have.
func (a *API) only(allow string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { a.wrongMethod(w, r, dialect(r), allow) }
}

// noMethod refuses what is served neither at a model nor at a call of one.
func (a *API) noMethod(w http.ResponseWriter, r *http.Request) {
	if _, verb, ok := cutLast(r.PathValue("id"), ':'); ok && verbs[verb] != (call{}) {
		a.wrongMethod(w, r, gateway.Gemini, http.MethodPost)
		return
	}
	a.wrongMethod(w, r, dialect(r), "GET, HEAD, POST")
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
		Next: "The client API has /v1/chat/completions, /v1/responses, /v1/messages, /v1/completions, /v1/embeddings, /v1/moderations, " +
			"/v1/rerank, /v1/images, /v1/audio, /v1/models and /v1beta/models/{model}:generateContent."})
}

// dialect guesses the protocol of a caller from a path that belongs to none.
func dialect(r *http.Request) gateway.Protocol {
	switch {
	case r.Header.Get("Anthropic-Version") != "":
		return gateway.Anthropic
	case strings.Contains(r.URL.Path+"/", "/v1beta/") || r.Header.Get("X-Goog-Api-Key") != "":
		return gateway.Gemini
	}
	return gateway.OpenAI
}

// identify says who asks, by the rules of a gateway with client keys or without. A body may be a form where guard allows it.
func (a *API) identify(s *Snapshot, r *http.Request, guard func(*catalog.Snapshot, *http.Request) *gateway.Error) (gateway.Principal, *gateway.Error) {
	if err := guard(s.Board.Snapshot, r); err != nil {
		return gateway.Principal{}, err
	}
	var query url.Values
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	return auth.Identify(s.Board.Snapshot, r.Header, query)
}

// refuse writes an error before any request was run.
func (a *API) refuse(w http.ResponseWriter, p gateway.Protocol, e *gateway.Error) {
	writeError(w, families.For(p), e)
}
