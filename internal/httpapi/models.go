package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

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

// anthropicModel is a model as the Anthropic API lists it. Its date is the epoch, which stands for an unknown one there.
type anthropicModel struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// geminiModel is a model as the Gemini API lists it.
type geminiModel struct {
	Name        string   `json:"name"`
	BaseModelID string   `json:"baseModelId"`
	Version     string   `json:"version"`
	DisplayName string   `json:"displayName"`
	Methods     []string `json:"supportedGenerationMethods"`
}

// What can be done with a model is told by its name alone; both lists are true of what the gateway passes on.
var (
	generates = []string{"generateContent", "streamGenerateContent", "countTokens"}
	embeds    = []string{"embedContent", "batchEmbedContents", "countTokens"}
)

// object is a model in the caller's own form.
func object(p gateway.Protocol, id, owner string) any {
	switch p {
	case gateway.Anthropic:
		return anthropicModel{Type: "model", ID: id, DisplayName: id, CreatedAt: "1970-01-01T00:00:00Z"}
	case gateway.Gemini:
		methods := generates
		if strings.Contains(strings.ToLower(id), "embed") {
			methods = embeds
		}
		return geminiModel{Name: "models/" + id, BaseModelID: id, Version: "001", DisplayName: id, Methods: methods}
	}
	return modelObject{ID: id, Object: "model", OwnedBy: owner}
}

// collection is a list of models in the caller's own form. It is always whole: there is no further page.
func collection(p gateway.Protocol, list []any, first, last string) any {
	switch p {
	case gateway.Anthropic:
		out := map[string]any{"data": list, "has_more": false, "first_id": nil, "last_id": nil}
		if len(list) > 0 {
			out["first_id"], out["last_id"] = first, last
		}
		return out
	case gateway.Gemini:
		return map[string]any{"models": list}
	}
	return map[string]any{"object": "list", "data": list}
}

// known says who asks for models and completes the lists; false when an error was written.
func (a *API) known(w http.ResponseWriter, r *http.Request) (*Snapshot, gateway.Principal, bool) {
	live := a.Live()
	p, gerr := a.identify(live, r, auth.Guard)
	if gerr != nil {
		a.refuse(w, dialect(r), gerr)
		return nil, p, false
	}
	if a.Lists != nil {
		live = a.Lists.Complete(r.Context(), live)
	}
	return live, p, true
}

// models serves GET /v1/models and /v1beta/models: the union of what is configured, plus combos and aliases.
func (a *API) models(w http.ResponseWriter, r *http.Request) {
	live, p, ok := a.known(w, r)
	if !ok {
		return
	}
	list, first, last := []any{}, "", ""
	for _, m := range live.Board.Snapshot.Models() {
		if auth.AllowModel(&p, m.ID, nil) != nil {
			continue
		}
		if list = append(list, object(dialect(r), m.ID, owner(m))); first == "" {
			first = m.ID
		}
		last = m.ID
	}
	writeJSON(w, http.StatusOK, collection(dialect(r), list, first, last))
}

// model serves GET /v1/models/{id} and /v1beta/models/{id}.
func (a *API) model(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if _, verb, ok := cutLast(id, ':'); ok && verbs[verb] != (call{}) {
		a.noMethod(w, r)
		return
	}
	live, p, ok := a.known(w, r)
	if !ok {
		return
	}
	if m, ok := live.Board.Snapshot.Resolve(id); ok && auth.AllowModel(&p, id, m.Combo) == nil {
		writeJSON(w, http.StatusOK, object(dialect(r), id, m.Combo.Name))
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
