package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/attempt/next"
	"spillway/internal/auth"
	"spillway/internal/catalog"
	"spillway/internal/commit"
	"spillway/internal/config"
	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/protocol"
	"spillway/internal/protocol/families"
	"spillway/internal/route"
)

// call is what the path said of a request.
type call struct {
	protocol  gateway.Protocol
	operation gateway.Operation
	model     string // of the path; "" = the body names it
	stream    bool
}

// guard is what keeps web pages out of a gateway without client keys.
func (c call) guard() func(*catalog.Snapshot, *http.Request) *gateway.Error {
	if c.operation.Form() {
		return auth.GuardForm
	}
	return auth.Guard
}

// serve serves one request: one direction, each step takes a value and returns one.
func (a *API) serve(w http.ResponseWriter, r *http.Request, c call) {
	began := time.Now()
	family := families.For(c.protocol)
	a.active.Add(1)
	defer a.active.Add(-1)
	if a.draining.Load() {
		w.Header().Set("Connection", "close")
		writeError(w, family, &gateway.Error{Code: gateway.Draining, RetryAfter: time.Second,
			Message: "this gateway is shutting down", Next: "Send the request again; another instance will take it."})
		return
	}
	live := a.Live()
	principal, gerr := a.identify(live, r, c.guard())
	if gerr == nil {
		gerr = auth.Require(&principal, auth.Inference)
	}
	if gerr == nil {
		gerr = a.limiter.Allow(&principal, began)
	}
	if gerr != nil {
		writeError(w, family, gerr)
		return
	}
	body, gerr := a.read(w, r, live)
	if gerr != nil {
		writeError(w, family, gerr)
		return
	}
	q := request{api: a, w: w, r: r, live: live, principal: principal, family: family, body: body}
	defer q.release()
	q.serve(c, began)
}

// request is one request on its way through this package.
type request struct {
	api       *API
	w         http.ResponseWriter
	r         *http.Request
	live      *Snapshot
	principal gateway.Principal
	family    protocol.Family
	body      body
	readers   envelope.Readers
	warning   []string // something was done in another way than it was asked for; nil = nothing
	copied    *copied  // whose answer it gets; nil = its own
}

func (q *request) serve(c call, began time.Time) {
	env, gerr := q.decode(c)
	if gerr != nil {
		writeError(q.w, q.family, gerr)
		return
	}
	if env.Background.Set() {
		q.warning = inForeground
	}
	rt, gerr := route.Resolve(q.live.Board.Snapshot, env.Model)
	if gerr == nil && rt.Guess && q.api.Lists != nil { // nobody is known to serve it: the providers' own lists may tell
		q.live = q.api.Lists.Complete(q.r.Context(), q.live)
		rt, gerr = route.Resolve(q.live.Board.Snapshot, env.Model)
	}
	if gerr == nil {
		gerr = auth.AllowModel(&q.principal, env.Model, rt.Combo)
	}
	if gerr != nil {
		writeError(q.w, q.family, gerr)
		return
	}
	pool := q.live.Board.Pool(rt.Combo, c.protocol, c.operation)
	j := &gateway.Journey{
		ID: gateway.NewRequestID(began), At: began, ClientKey: q.principal.Key, Protocol: c.protocol, Operation: c.operation, Model: env.Model,
		Combo: rt.Combo.Name, Strategy: rt.Combo.Strategy, Path: rt.Path, Stream: env.Stream, Tokens: env.Tokens,
	}
	if q.api.Ledger != nil {
		q.api.Ledger.Begin(j)
	}
	defer q.settle(j) // also when the engine panics: net/http turns that into a broken connection
	q.run(env, pool, rt.Renamed, j)
}

func (q *request) decode(c call) (*gateway.Envelope, *gateway.Error) {
	o := envelope.Options{Protocol: c.protocol, Operation: c.operation, Model: c.model, Stream: c.stream}
	if c.operation.Form() && auth.FormBody(q.r.Header) {
		return envelope.DecodeForm(q.body.bytes(), q.r.Header.Get("Content-Type"), o)
	}
	return envelope.Decode(q.body.bytes(), o)
}

// settle closes the books of a request. It runs before the handler returns: what a client has got is accounted.
func (q *request) settle(j *gateway.Journey) {
	j.EndedAt = time.Now()
	if q.api.Ledger != nil {
		q.api.Ledger.Close(j)
	}
	if q.api.Done != nil {
		q.api.Done(j)
	}
}

func (q *request) run(env *gateway.Envelope, pool *plan.Pool, renamed bool, j *gateway.Journey) {
	cfg := q.live.Board.Snapshot.Config()
	streams := &q.live.Streams
	door := commit.New(commit.Options{Writer: q.w, Family: q.family, Stream: env.Stream, Early: q.early(pool),
		EarlyAfter: streams.EarlyCommitAfter, Heartbeat: streams.Heartbeat,
		Headers: func(h http.Header, a *gateway.Answer) { q.headers(h, j, a) }})
	defer door.Close()
	job := &attempt.Job{
		Envelope: env, Bodies: &q.readers, Family: q.family, Pool: pool, Rules: q.live.Rules, Principal: q.principal,
		Allowed: q.allowed(), Header: q.r.Header, Door: door, Journey: j, Walk: walk(cfg, pool), Timeouts: q.live.Timeouts,
		Queue: pool.Queue, Guards: streams.Watchdog, Rename: renamed, NoneLeft: door.NoneLeft,
		Hold: attempt.Hold{Bytes: int(streams.HoldBytes), Events: streams.HoldEvents}, EndGrace: streams.EndGrace,
		AllowEmpty: pool.Combo.Options.AllowEmpty || !streams.RefuseEmpty,
		Emergency:  q.emergency(pool, env),
	}
	gerr := q.answer(&cfg.Cache, job, door)
	if gerr == nil || env.Operation == gateway.CountTokens && uncounted(gerr, j) && q.estimate(env, door, j) {
		return
	}
	q.visible(gerr)
	if !door.Shut() {
		_ = door.Fail(gerr, nil) // a client that left meanwhile needs no error
		return
	}
	q.headers(q.w.Header(), j, nil)
	q.w.Header()["X-Spillway-Attempts"] = []string{strconv.Itoa(len(j.Attempts))}
	writeError(q.w, q.family, gerr)
}

func (q *request) early(pool *plan.Pool) string {
	if v := q.r.Header.Get("X-Spillway-Early-Commit"); v != "" {
		return v
	}
	return cmp.Or(pool.Combo.Options.EarlyCommit, q.live.Streams.EarlyCommit)
}

// allowed is the caller's allow-list of connections; nil = all.
func (q *request) allowed() func(*gateway.Connection) bool {
	list := q.principal.Connections
	if len(list) == 0 {
		return nil
	}
	return func(c *gateway.Connection) bool { return slices.Contains(list, c.ID) }
}

// walk are the settings of the walk for a pool.
func walk(cfg *config.Config, pool *plan.Pool) next.Config {
	limits, waits, o := cfg.Limits, cfg.Waits, pool.Combo.Options
	c := next.Config{
		Ordered: pool.Ordered, AttemptLimit: limits.Attempts, ContentFailover: o.ContentRefused == "failover",
		ExcludeStatus: o.ExcludeStatus, StallWindow: waits.StallWindow, PreferWait: waits.PreferWait,
		WaitsEnabled: waits.Enabled, MaxWait: waits.MaxWait, MaxWaits: waits.MaxAttempts, WaitBudget: waits.Budget,
	}
	if o.FailoverMode == gateway.MaxAttemptsMode && o.MaxAttempts > 0 {
		c.AttemptMax = o.MaxAttempts
	}
	return c
}

// visible takes connection names out of an error for callers that may not see them.
func (q *request) visible(e *gateway.Error) {
	if q.principal.Diagnostics || e.Diagnostics == nil {
		return
	}
	d := *e.Diagnostics
	d.Excluded, d.AttemptOrder = nil, nil
	e.Diagnostics = &d
}

// release gives the body's bytes back, unless a transport still reads them.
func (q *request) release() { q.body.release(q.readers.Idle()) }

// passed are upstream response headers that clients use. Rate-limit headers belong to the key's owner: with client keys
// configured they need scope diagnostics.
func (q *request) pass(h http.Header, up http.Header) {
	for name, v := range up {
		switch {
		case name == "X-Request-Id", name == "Request-Id", name == "Openai-Processing-Ms", name == "Openai-Version":
			h[name] = v
		case name == "Retry-After" || strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-"):
			if q.principal.Diagnostics {
				h[name] = v
			}
		}
	}
}

// headers sets the response headers of an answer, or of an error or a stream that is opened before its answer is there
// (a == nil). The latter happens beside the attempts, so of the journey only what never changes may be read here.
func (q *request) headers(h http.Header, j *gateway.Journey, a *gateway.Answer) {
	set := headerSetter{h: h}
	set.one("X-Spillway-Request-Id", string(j.ID))
	if q.warning != nil {
		h["X-Spillway-Warning"] = q.warning
	}
	if q.live.Board.Snapshot.Config().LabOnly {
		h["X-Spillway-Lab"] = labNotice
	}
	if a == nil {
		h["X-Spillway-Source"] = fromGateway
		return
	}
	if q.copied != nil {
		q.copiedHeaders(&set, j, a)
		return
	}
	q.pass(h, a.Header)
	if !a.Stream {
		if ct := a.Header["Content-Type"]; ct != nil {
			h["Content-Type"] = ct
		}
		set.one("Content-Length", strconv.Itoa(len(a.Body)))
	}
	if a.Dropped != nil {
		h["X-Spillway-Dropped"] = []string{strings.Join(a.Dropped, ", ")}
	}
	conn := a.Candidate.Connection
	h["X-Spillway-Source"] = fromUpstream
	if conn.Provider.Lab {
		h["X-Spillway-Source"] = fromLab
	}
	if q.principal.Diagnostics {
		set.one("X-Spillway-Connection", string(conn.ID))
	}
	set.one("X-Spillway-Provider", string(conn.Provider.ID))
	set.one("X-Spillway-Model", string(a.Candidate.Model))
	set.one("X-Spillway-Attempts", strconv.Itoa(a.Attempts))
	set.one("X-Spillway-Overhead-Us", strconv.FormatInt(a.Overhead.Microseconds(), 10))
}

// headerSetter sets headers of one value each, with one allocation for all their slices.
type headerSetter struct {
	h    http.Header
	room []string
}

func (s *headerSetter) one(name, value string) {
	if len(s.room) == cap(s.room) {
		s.room = make([]string, 0, 8)
	}
	n := len(s.room)
	s.room = append(s.room, value)
	s.h[name] = s.room[n : n+1 : n+1]
}

var (
	fromGateway  = []string{"gateway"}
	fromUpstream = []string{"upstream"}
	fromLab      = []string{"lab"}
	inForeground = []string{"background: true is answered in the foreground; the response is complete when it arrives"}
	labNotice    = []string{"answers come from the built-in lab; configure a provider for real ones"}
)
