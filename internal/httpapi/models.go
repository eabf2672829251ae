package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"spillway/internal/auth"
	"spillway/internal/catalog"
	"spillway/internal/gateway"
)

// modelObject is a model as the OpenAI API lists it.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// models serves GET /v1/models: the union of what is configured, plus combos and aliases.
func (a *API) models(w http.ResponseWriter, r *http.Request) {
	live := a.Live()
	p, gerr := a.identify(live, r)
	if gerr != nil {
		a.refuse(w, dialect(r), gerr)
		return
	}
	if a.Lists != nil {
		live = a.Lists.Complete(r.Context(), live)
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{Object: "list", Data: []modelObject{}}
	for _, m := range live.Board.Snapshot.Models() {
		if auth.AllowModel(&p, m.ID, nil) == nil {
			list.Data = append(list.Data, modelObject{ID: m.ID, Object: "model", OwnedBy: owner(m)})
		}
	}
	writeJSON(w, http.StatusOK, list)
}

// model serves GET /v1/models/{id}.
func (a *API) model(w http.ResponseWriter, r *http.Request) {
	live := a.Live()
	p, gerr := a.identify(live, r)
	if gerr != nil {
		a.refuse(w, dialect(r), gerr)
		return
	}
	id := r.PathValue("id")
	if m, ok := live.Board.Snapshot.Resolve(id); ok && auth.AllowModel(&p, id, m.Combo) == nil {
		writeJSON(w, http.StatusOK, modelObject{ID: id, Object: "model", OwnedBy: m.Combo.Name})
		return
	}
	a.refuse(w, dialect(r), &gateway.Error{Code: gateway.ModelNotFound, Param: "model",
		Message: "the model " + gateway.Quote(id) + " is not served here", Next: "GET /v1/models lists what is."})
}

// owner names who serves a model, for people.
func owner(m catalog.ModelInfo) string {
	if len(m.Providers) == 0 {
		return m.Kind
	}
	return string(m.Providers[0])
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, `{"error":{"code":"internal_error"}}`, http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that left needs no answer
}
