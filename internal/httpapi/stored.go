package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/auth"
	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/protocol/families"
	"spillway/internal/resilience/verdict"
	"spillway/internal/state"
)

// storedRoutes adds the calls on stored responses. They go to the connection that made the response and nowhere else, and
// teach nothing about it: they are no generations.
func (a *API) storedRoutes(add func(string, http.HandlerFunc), prefix string) {
	at := prefix + "/v1/responses/{id}"
	add("GET "+at, a.unlessCompact(a.stored("")))
	add("DELETE "+at, a.unlessCompact(a.stored("")))
	add("GET "+at+"/input_items", a.stored("/input_items"))
	add("POST "+at+"/cancel", a.stored("/cancel"))
	add(at, a.unlessCompact(a.only("GET, HEAD, DELETE")))
	add("POST "+prefix+"/v1/responses/"+compact, a.post(call{protocol: gateway.Responses, operation: gateway.Compact}))
	add(at+"/input_items", a.only("GET, HEAD"))
	add(at+"/cancel", a.only("POST"))
}

// compact stands where the id of a response would, and is none: it takes a POST that names a model.
const compact = "compact"

// unlessCompact serves calls on an id; for the path that only looks like one it names the method that it has.
func (a *API) unlessCompact(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == compact {
			a.wrongMethod(w, r, gateway.Responses, http.MethodPost)
			return
		}
		h(w, r)
	}
}

// stored serves one call on a stored response; what is the path behind its id.
func (a *API) stored(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a.active.Add(1)
		defer a.active.Add(-1)
		live := a.Live()
		principal, gerr := a.identify(live, r, auth.Guard)
		if gerr == nil {
			gerr = auth.Require(&principal, auth.Inference)
		}
		if gerr == nil {
			gerr = a.limiter.Allow(&principal, began)
		}
		if gerr == nil && a.draining.Load() {
			gerr = &gateway.Error{Code: gateway.Draining, RetryAfter: time.Second, Message: "this gateway is shutting down",
				Next: "Send the request again; another instance will take it."}
		}
		if gerr != nil {
			a.refuse(w, gateway.Responses, gerr)
			return
		}
		f := fetch{q: request{api: a, w: w, r: r, live: live, principal: principal, family: families.For(gateway.Responses)}, what: what}
		f.serve(began)
	}
}

// fetch is one call on a stored response.
type fetch struct {
	q    request
	what string
	conn *gateway.Connection
	j    *gateway.Journey
}

func (f *fetch) serve(began time.Time) {
	q := &f.q
	id := q.r.PathValue("id")
	if f.conn = f.find(id, began); f.conn == nil {
		writeError(q.w, q.family, &gateway.Error{Code: gateway.NotFound, Param: "id",
			Message: "no response " + gateway.Quote(id) + " is known that this client key has made here.",
			Next:    "Responses made with store: false, and those older than resilience.affinity.pin_ttl, are not remembered."})
		return
	}
	f.j = &gateway.Journey{ID: gateway.NewRequestID(began), At: began, ClientKey: q.principal.Key, Protocol: gateway.Responses,
		Model: "stored response", Path: []string{q.r.Method + " " + q.r.URL.Path}, PoolSize: 1}
	if q.api.Ledger != nil {
		q.api.Ledger.Begin(f.j)
	}
	defer q.settle(f.j)
	if gerr := f.forward(id); gerr != nil {
		f.j.Status, f.j.Code, f.j.Error = gerr.HTTPStatus(), string(gerr.Code), gerr.Message
		q.w.Header().Set("X-Spillway-Request-Id", string(f.j.ID))
		writeError(q.w, q.family, gerr)
	}
}

// find returns the connection that has made a response for this caller, or the only one that could have; nil = none.
func (f *fetch) find(id string, now time.Time) *gateway.Connection {
	q := &f.q
	if !isObjectID(id) {
		return nil
	}
	at, pinned := "", false
	if room := q.api.Engine.Affinity; room != nil {
		at, pinned = room.PeekPin(attempt.ObjectKey(q.principal.Key, id), now)
	}
	allowed := q.allowed()
	var sole *gateway.Connection
	for _, c := range q.live.Board.Snapshot.AllConnections() {
		switch {
		case !c.Provider.Speaks(gateway.Responses), allowed != nil && !allowed(c):
		case pinned:
			if state.Identity(c) == at {
				return c
			}
		case sole != nil:
			return nil // several could have it
		default:
			sole = c
		}
	}
	if !q.principal.Anonymous {
		return nil
	}
	return sole
}

// isObjectID keeps what could change the upstream's path out of it.
func isObjectID(id string) bool {
	return id != "" && len(id) <= 256 && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
	})
}

// forward asks the upstream and passes its answer on.
func (f *fetch) forward(id string) *gateway.Error {
	q, conn := &f.q, f.conn
	base, query := conn.Provider.BaseURL, q.r.URL.Query()
	query.Del("key") // may be the client's own
	u, err := url.Parse(protocol.JoinURL(base, "/responses/"+id+f.what, query.Encode()))
	if err != nil {
		return &gateway.Error{Code: gateway.Internal, Message: "the provider's address cannot be used"}
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), q.live.Timeouts.Request)
	defer cancel()
	head := time.AfterFunc(conn.Timeouts.LastChance, cancel)
	defer head.Stop()
	req := (&http.Request{Method: q.r.Method, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody}).WithContext(ctx)
	req.Header.Set("Accept-Encoding", "identity")
	for _, name := range []string{"Openai-Beta", "Openai-Organization", "Openai-Project", "Accept"} {
		if v := q.r.Header[name]; v != nil {
			req.Header[name] = v
		}
	}
	for name, value := range conn.Provider.Headers {
		req.Header.Set(name, value)
	}
	q.family.Authorize(req.Header, gateway.Candidate{Connection: conn}, conn.Credential.Value())
	rt, err := q.api.Engine.Sender.For(conn)
	if err != nil {
		return &gateway.Error{Code: gateway.Internal, Message: "the connection cannot be used"}
	}
	at := time.Now()
	res, err := rt.RoundTrip(req)
	if err != nil {
		f.attempted(at, 0, nil, err)
		if ctx.Err() != nil && q.r.Context().Err() == nil {
			return &gateway.Error{Code: gateway.UpstreamTimeout, Message: "the connection that has this response did not answer in time"}
		}
		return &gateway.Error{Code: gateway.UpstreamError, Message: "the connection that has this response could not be reached"}
	}
	head.Stop()
	defer res.Body.Close()
	f.pass(at, res)
	if q.r.Method == http.MethodDelete && res.StatusCode < 300 && q.api.Engine.Affinity != nil {
		q.api.Engine.Affinity.ForgetPin(attempt.ObjectKey(q.principal.Key, id), time.Now())
	}
	return nil
}

// storedWrite bounds one write: a client that takes nothing for so long is gone.
const storedWrite = 5 * time.Minute

// pass gives the answer to the client as it comes, headers by the rules of every answer.
func (f *fetch) pass(at time.Time, res *http.Response) {
	q, h := &f.q, f.q.w.Header()
	f.j.Committed, f.j.Status, f.j.Connection = time.Now(), res.StatusCode, f.conn.ID
	f.j.Served = gateway.Target{Provider: f.conn.Provider.ID, Model: "stored response"}
	q.headers(h, f.j, &gateway.Answer{Header: res.Header, Stream: true, Candidate: gateway.Candidate{Connection: f.conn}, Attempts: 1,
		Overhead: max(at.Sub(f.j.At), 0)})
	delete(h, "X-Spillway-Model")
	for _, name := range []string{"Content-Type", "Content-Encoding"} { // the bytes are passed on as they are
		if v := res.Header[name]; v != nil {
			h[name] = v
		}
	}
	q.w.WriteHeader(res.StatusCode)
	flush := http.NewResponseController(q.w)
	defer func() {
		_ = flush.SetWriteDeadline(time.Time{}) // the connection lives on
	}()
	var kept []byte // the beginning of an error, for the decision log
	buf := make([]byte, 16<<10)
	for {
		n, err := res.Body.Read(buf)
		if res.StatusCode >= 400 && len(kept) < 16<<10 {
			kept = append(kept, buf[:n]...)
		}
		if n > 0 {
			_ = flush.SetWriteDeadline(time.Now().Add(storedWrite)) // not every writer has deadlines
			if _, werr := q.w.Write(buf[:n]); werr != nil || flush.Flush() != nil {
				break // the client has left
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			f.attempted(at, res.StatusCode, kept, err)
			f.j.Code, f.j.Error = string(gateway.UpstreamError), "the answer broke off"
			panic(http.ErrAbortHandler) // the client must not take it for whole
		}
	}
	f.attempted(at, res.StatusCode, kept, nil)
}

// attempted writes the call into the decision log. Nothing else learns from it.
func (f *fetch) attempted(at time.Time, status int, body []byte, err error) {
	c := gateway.Candidate{Connection: f.conn}
	o := f.q.live.Rules.Judge(verdict.Evidence{Candidate: c, Request: f.j.ID, ClientKey: f.j.ClientKey, BeganAt: at, EndedAt: time.Now(),
		Status: status, Body: body, Transport: err, Terminal: true, Content: true, ClientGone: f.q.r.Context().Err() != nil})
	f.j.Attempts = append(f.j.Attempts, gateway.Attempt{N: 1, Target: gateway.Target{Provider: f.conn.Provider.ID, Model: "stored response"},
		Connection: f.conn.ID, Why: gateway.ObjectPinned, BeganAt: at, EndedAt: o.EndedAt, Kind: o.Kind, Scope: o.Scope, Reason: o.Reason,
		Status: status, Message: o.Message, Uncounted: true})
	if status >= 400 && f.j.Code == "" {
		f.j.Code, f.j.Error = string(gateway.UpstreamError), o.Message
	}
}
