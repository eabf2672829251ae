// Package admin serves the management API under /api: JSON, protected by the management token, or by being on loopback
// while no client keys are configured. It reads what others know and changes it through their methods; it decides
// nothing.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"spillway/internal/auth"
	"spillway/internal/catalog"
	"spillway/internal/gateway"
	"spillway/internal/store"
	"spillway/internal/view"
)

// Ledger finds decision logs.
type Ledger interface {
	Get(ctx context.Context, id gateway.RequestID) (*gateway.Journey, error)
}

// Options are what the API is made of.
type Options struct {
	Live   func() *catalog.Snapshot
	Ledger Ledger
	Token  string // hash of the management token
	Log    *slog.Logger
}

// API is the management API. It is safe for concurrent use.
type API struct{ o Options }

// New returns the API.
func New(o Options) *API { return &API{o} }

// Routes adds the management API to a mux.
func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/requests/{id}", a.guarded(a.request))
}

// guarded lets pass who has the management token, a client key with scope management, or, while there are no client
// keys, anybody on this machine who is no web page.
func (a *API) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		snap := a.o.Live()
		if e := auth.Guard(snap, r); e != nil {
			problem(w, e)
			return
		}
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if ok && auth.Matches(a.o.Token, gateway.Secret(strings.TrimSpace(token))) {
			next(w, r)
			return
		}
		p, e := auth.Identify(snap, r.Header, r.URL.Query())
		if e == nil && p.Anonymous && local(r) {
			next(w, r)
			return
		}
		if e == nil {
			e = auth.Require(&p, auth.Management)
		}
		if e != nil {
			problem(w, e)
			return
		}
		next(w, r)
	}
}

// local reports whether a request comes from this machine.
func local(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// request serves the decision log of one request.
func (a *API) request(w http.ResponseWriter, r *http.Request) {
	id := gateway.RequestID(r.PathValue("id"))
	j, err := a.o.Ledger.Get(r.Context(), id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, &gateway.Error{Code: gateway.NotFound, Param: "id",
			Message: "no decision log is kept under this id",
			Next:    "Ids are in the response header x-spillway-request-id; logs are kept for log.retention."})
	case err != nil:
		a.o.Log.Error("read a decision log", "id", id, "err", err)
		problem(w, &gateway.Error{Code: gateway.Internal, Message: "the decision log cannot be read now"})
	case strings.HasPrefix(r.Header.Get("Accept"), "text/plain"):
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = view.Timeline(w, j, view.Options{}) // a client that left needs no answer
	default:
		writeJSON(w, http.StatusOK, view.JSON(j))
	}
}

// problem answers with problem details (RFC 9457) and the path of the field at fault.
func problem(w http.ResponseWriter, e *gateway.Error) {
	body := map[string]any{"type": "about:blank", "status": e.HTTPStatus(), "title": http.StatusText(e.HTTPStatus()),
		"code": e.Code, "detail": e.Message}
	if e.Param != "" {
		body["field"] = e.Param
	}
	if e.Next != "" {
		body["next"] = e.Next
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.HTTPStatus())
	_ = json.NewEncoder(w).Encode(body) // a client that left needs no answer
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}
