package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/wire"
)

// maxBody bounds a request body, in bytes.
const maxBody = 64 << 20

// Source is one fake upstream. It is an http.Handler, safe for concurrent use. It starts no goroutine; each of its
// waits ends when the request's context does.
type Source struct {
	cfg     SourceConfig
	script  *fault.Script
	buckets []*fault.Bucket
	log     attemptLog
	group   []*Source // the sources that the control endpoints speak of

	mu    sync.Mutex
	state fault.State
	began time.Time // zero until the first request or Reset
}

// NewSource returns a source that takes a token from each bucket per request.
func NewSource(cfg SourceConfig, buckets ...*fault.Bucket) *Source {
	s := &Source{cfg: cfg, script: cfg.Script(), buckets: buckets}
	s.group = []*Source{s}
	return s
}

// Name is the source's name.
func (s *Source) Name() string { return s.cfg.Name }

// Attempts returns a copy of the request log, in order of arrival.
func (s *Source) Attempts(now time.Time) []Attempt { return s.log.snapshot(now) }

// InFlight is the number of requests that the source is serving.
func (s *Source) InFlight() int { return s.log.inFlight() }

// PeakInFlight is the highest number of requests served at once since the last Reset.
func (s *Source) PeakInFlight() int { return s.log.peakInFlight() }

// Reset forgets the log and starts the fault script anew, at now. Shared buckets are filled.
func (s *Source) Reset(now time.Time) {
	s.log.reset()
	for _, b := range s.buckets {
		b.Reset()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.began = fault.State{}, now
}

// step asks the fault script.
func (s *Source) step(a fault.Ask, now time.Time) (faults []*fault.Fault, elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		s.began = now
	}
	elapsed = now.Sub(s.began)
	return s.script.Step(&s.state, a, elapsed), elapsed
}

// Peek reports whether the source would surely fail a request now, and why. It counts nothing and takes no token.
func (s *Source) Peek(a fault.Ask, now time.Time) (kind fault.Kind, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var elapsed time.Duration
	if !s.began.IsZero() {
		elapsed = now.Sub(s.began)
	}
	if f := s.script.Peek(&s.state, a, elapsed); f != nil {
		return f.Kind, true
	}
	return "", false
}

// ServeHTTP implements http.Handler.
func (s *Source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i := strings.LastIndex(r.URL.Path, "/lab/"); i >= 0 && s.control(w, r, r.URL.Path[i+len("/lab/"):]) {
		return
	}
	if r.Method == http.MethodHead || r.URL.Path == "/" && r.Method == http.MethodGet {
		w.WriteHeader(http.StatusOK)
		return
	}
	now := time.Now()
	call, err := wire.Route(r.Method, r.URL.Path, r.URL.Query(), r.Header.Get("anthropic-version") != "")
	if err != nil {
		http.Error(w, `{"error":{"message":"unknown path","type":"invalid_request_error","param":null,"code":"unknown_url"}}`, http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = call.Decode(body)
	}
	if call.Op == wire.ListModels || call.Op == wire.GetModel {
		w.Header().Set("Content-Type", "application/json")
		w.Write(wire.Other(&call, s.modelNames(), now))
		return
	}
	a := &Attempt{Source: s.cfg.Name, At: now, Protocol: call.Protocol, Path: r.URL.Path, Model: call.Model,
		Stream: call.Stream, Prefill: call.HasPrefill, Body: fingerprint(body)}
	running := s.log.inFlight()
	s.log.begin(a)
	p := &play{s: s, reply: newReply(w, r, s, a), call: &call, a: a}
	defer func() {
		gone := r.Context().Err() != nil
		s.log.update(func() { a.Cancelled = gone && !a.Whole })
		s.log.end(a, time.Now())
	}()
	if err != nil {
		p.fail(wire.Failure{Status: http.StatusBadRequest, Message: err.Error()}, 0)
		return
	}
	p.run(credential(r), running, now)
}

func (s *Source) modelNames() []string {
	if len(s.cfg.Models) > 0 {
		return s.cfg.Models
	}
	return []string{"lab-model"}
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

func fingerprint(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64())
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

// errGone says that the client left while the source was at work.
var errGone = errors.New("lab: the client left")

// pause waits for d or for the client to leave.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		if ctx.Err() != nil {
			return errGone
		}
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errGone
	}
}

// forever waits for d, or without end when d is 0, and for the client to leave in both cases.
func forever(ctx context.Context, d time.Duration) error {
	if d > 0 {
		return pause(ctx, d)
	}
	<-ctx.Done()
	return errGone
}
