package lab

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"spillway/internal/lab/wire"
)

// front is one listener's handler: it reads a request and hands it to the source that it belongs to. Several sources
// stand behind one front when they are connections of one provider (told apart by the credential) or the cases of the
// failover suite (told apart by the model).
type front []*Source

// ServeHTTP implements http.Handler.
func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i := strings.LastIndex(r.URL.Path, "/lab/"); i >= 0 && f[0].control(w, r, r.URL.Path[i+len("/lab/"):]) {
		return
	}
	if r.Method == http.MethodHead || r.URL.Path == "/" && r.Method == http.MethodGet {
		w.WriteHeader(http.StatusOK)
		return
	}
	q := asked{at: time.Now(), key: credential(r)}
	var err error
	q.call, err = wire.Route(r.Method, r.URL.Path, r.URL.Query(), r.Header.Get("anthropic-version") != "")
	if err != nil {
		http.Error(w, `{"error":{"message":"unknown path","type":"invalid_request_error","param":null,"code":"unknown_url"}}`, http.StatusNotFound)
		return
	}
	if q.call.Op == wire.ListModels || q.call.Op == wire.GetModel {
		w.Header().Set("Content-Type", "application/json")
		w.Write(wire.Other(&q.call, f.models(), q.at))
		return
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		q.call.Form = r.Header.Get("Content-Type")
	}
	if q.body, q.err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); q.err == nil {
		q.err = q.call.Decode(q.body)
	}
	f.pick(q).handle(w, r, q)
}

// pick finds the source that a request belongs to: by key, then by model, else the first.
func (f front) pick(q asked) *Source {
	for _, s := range f {
		if slices.Contains(s.cfg.Keys, q.key) {
			return s
		}
	}
	for _, s := range f {
		if slices.Contains(s.cfg.Models, q.call.Model) {
			return s
		}
	}
	return f[0]
}

func (f front) models() []string {
	var out []string
	for _, s := range f {
		for _, m := range s.cfg.Models {
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	if out == nil {
		out = []string{"lab-model"}
	}
	return out
}

// credential finds the client's key wherever one of the protocols puts it.
func credential(r *http.Request) string {
	if k, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return k
	}
	for _, h := range []string{"x-api-key", "x-goog-api-key", "api-key"} {
		if k := r.Header.Get(h); k != "" {
			return k
		}
	}
	return r.URL.Query().Get("key")
}

// control serves the endpoints for judges that run in another process.
func (s *Source) control(w http.ResponseWriter, r *http.Request, what string) bool {
	now := time.Now()
	var out any
	switch r.Method + " " + what {
	case "GET log":
		list := []Attempt{}
		for _, g := range s.group {
			list = append(list, g.Attempts(now)...)
		}
		out = list
	case "GET sources":
		out = s.overview()
	case "POST reset":
		for _, g := range s.group {
			g.Reset(now)
		}
		out = map[string]bool{"ok": true}
	default:
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(out)
	return true
}

func (s *Source) overview() any {
	type row struct {
		Name     string   `json:"name"`
		InFlight int      `json:"in_flight"`
		Peak     int      `json:"peak_in_flight"`
		Faults   []string `json:"faults"`
	}
	list := []row{}
	for _, g := range s.group {
		x := row{Name: g.cfg.Name, InFlight: g.InFlight(), Peak: g.PeakInFlight(), Faults: []string{}}
		for _, f := range g.cfg.Faults {
			x.Faults = append(x.Faults, string(f.Kind))
		}
		list = append(list, x)
	}
	return list
}
