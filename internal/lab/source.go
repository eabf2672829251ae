package lab

import (
	"context"
	"errors"
	"net/http"
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
	plays   sync.Pool // of *play: the memory of requests that were answered
	group   []*Source // the sources that the control endpoints speak of
	coarse  bool      // tokens go out in bundles; see bundle and release

	// What cfg says, reckoned once.
	luck, voice uint64
	words       int

	mu    sync.Mutex
	state fault.State
	began time.Time // zero until the first request or Reset
}

// NewSource returns a source that takes a token from each bucket per request.
func NewSource(cfg SourceConfig, buckets ...*fault.Bucket) *Source {
	s := &Source{cfg: cfg, script: cfg.Script(), buckets: buckets, luck: cfg.Luck(), voice: cfg.Voice(), words: cfg.Words()}
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

// step asks the fault script. The faults are written into list.
func (s *Source) step(list []*fault.Fault, a fault.Ask, now time.Time) (faults []*fault.Fault, elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		s.began = now
	}
	elapsed = now.Sub(s.began)
	return s.script.StepInto(list, &s.state, a, elapsed), elapsed
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
func (s *Source) ServeHTTP(w http.ResponseWriter, r *http.Request) { front{s}.ServeHTTP(w, r) }

// asked is a request that was read into a play.
type asked struct {
	err error // the client's fault
	key string
	at  time.Time
}

// play takes the memory of an earlier request for the next one.
func (s *Source) play() *play {
	if p, ok := s.plays.Get().(*play); ok {
		return p
	}
	return new(play)
}

// free keeps the memory of a request whose handler is about to return.
func (s *Source) free(p *play) {
	*p = play{reply: reply{frames: kept(p.frames), held: kept(p.held), timer: p.timer}, sent: kept(p.sent), out: p.out, faults: p.faults}
	if !s.coarse {
		p.timer = nil // a timer must not leave the bubble of a test; a source of a simulation does not either
	}
	s.plays.Put(p)
}

// handle answers a request as this source.
func (s *Source) handle(w http.ResponseWriter, r *http.Request, q asked, p *play) {
	id := wire.Fingerprint(labID, p.sent)
	a := &Attempt{Source: s.cfg.Name, At: q.at, Protocol: p.call.Protocol, Path: r.URL.Path, Model: p.call.Model,
		Stream: p.call.Stream, Prefill: p.call.HasPrefill, Body: id[len(labID):]}
	running := s.log.begin(a)
	p.s, p.a = s, a
	p.reply.begin(w, r, s, a)
	p.id = id
	defer func() {
		gone := r.Context().Err() != nil
		s.log.end(a, gone, time.Now())
	}()
	if q.err != nil {
		p.fail(wire.Failure{Status: http.StatusBadRequest, Message: q.err.Error()}, 0)
		return
	}
	p.run(q.key, running, q.at)
	_ = p.release() // a client that is gone needs no more
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
