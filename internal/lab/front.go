package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
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
	p := f[0].play()
	q := asked{at: time.Now(), key: credential(r)}
	var query url.Values
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	var err error
	p.call, err = wire.Route(r.Method, r.URL.Path, query, r.Method != http.MethodPost && r.Header.Get("Anthropic-Version") != "")
	if err != nil {
		http.Error(w, `{"error":{"message":"unknown path","type":"invalid_request_error","param":null,"code":"unknown_url"}}`, http.StatusNotFound)
		return
	}
	if p.call.Op == wire.ListModels || p.call.Op == wire.GetModel {
		w.Header().Set("Content-Type", "application/json")
		w.Write(wire.Other(&p.call, f.models(), q.at))
		return
	}
	if kind := r.Header.Get("Content-Type"); strings.HasPrefix(kind, "multipart/form-data") {
		p.call.Form = kind
	}
	body := r.Body
	if r.ContentLength < 0 || r.ContentLength > maxBody { // else it is as long as it says
		body = http.MaxBytesReader(w, body, maxBody)
	}
	if p.sent, q.err = readAll(p.sent, body); q.err == nil {
		q.err = p.call.Decode(p.sent)
	}
	f.pick(q.key, p.call.Model).handle(w, r, q, p)
	f[0].free(p)
}

// readAll is io.ReadAll into the memory of b.
func readAll(b []byte, r io.Reader) ([]byte, error) {
	into := bytes.NewBuffer(b[:0])
	_, err := into.ReadFrom(r)
	return into.Bytes(), err
}

// pick finds the source that a request belongs to: by key, then by model, else the first.
func (f front) pick(key, model string) *Source {
	for _, s := range f {
		if slices.Contains(s.cfg.Keys, key) {
			return s
		}
	}
	for _, s := range f {
		if slices.Contains(s.cfg.Models, model) {
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
	for _, h := range [...]string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		if k := r.Header.Get(h); k != "" {
			return k
		}
	}
	if r.URL.RawQuery == "" {
		return ""
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
