package httpapi

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/cache"
	"spillway/internal/commit"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// share is a request whose answer may be another one's, or may become one.
type share struct {
	q    *request
	cfg  *config.Cache
	job  *attempt.Job
	door *commit.Door
	key  cache.Key
}

// maxFailures is how many runs a request sees fail before it takes the failure for its own answer: the first may have
// had bad luck or less time left, the second has walked every candidate once more.
const maxFailures = 2

// serve takes part in the run of this key, or leads it. A run that fails is taken over by exactly one of those that
// waited for it, and the others wait for that one.
func (s *share) serve() *gateway.Error {
	for failed := 0; ; {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(s.q.r.Context()))
		r, leads := s.q.api.Cache.Flights.Join(s.key, s.job.Journey.ID, int64(s.cfg.MaxEntry), func() { cancel(context.Canceled) })
		if leads {
			gerr := s.lead(ctx, r)
			cancel(nil)
			return gerr
		}
		cancel(nil)
		out := s.follow(r)
		switch {
		case out.over:
			return out.err
		case out.err != nil:
			if failed++; failed >= maxFailures {
				return s.told(out.err)
			}
		}
	}
}

// lead runs the request for everybody who joins. The run goes on when this request's own client leaves, as long as
// somebody else waits for it; the handler stays with it, because it owns the run and what the run reads.
func (s *share) lead(ctx context.Context, r *cache.Reader) *gateway.Error {
	f := r.Flight()
	w := &source{flight: f, share: s}
	s.job.Door = w
	var run sync.WaitGroup
	var gerr *gateway.Error
	var panicked any
	run.Go(func() {
		defer func() {
			if panicked = recover(); panicked != nil {
				s.q.api.Log.Error("a shared run panicked", "request", s.job.Journey.ID, "panic", panicked, "stack", string(debug.Stack()))
				f.End(cache.End{Error: &gateway.Error{Code: gateway.Internal, Message: "the run that this request shared has failed"}})
			}
		}()
		gerr = s.run(ctx)
		f.End(w.end(gerr))
	})
	defer func() { // also when the delivery panics: the run reads what belongs to this request
		r.Leave()
		run.Wait()
	}()
	slow := s.deliver(r)
	r.Leave()
	run.Wait()
	switch {
	case panicked != nil:
		panic(panicked) // for net/http, as in a run of its own
	case gerr == nil && slow != nil:
		return s.told(slow)
	}
	return gerr
}

// deliver carries the answer to the leader's own client. What goes wrong with the run is the run's to tell; what it
// returns is to be told although the run is well: the client has nothing of the answer.
func (s *share) deliver(r *cache.Reader) *gateway.Error {
	ctx := s.q.r.Context()
	for begun := false; ; begun = true {
		b, end, err := r.Next(ctx)
		switch {
		case errors.Is(err, cache.ErrTooSlow):
			if !begun {
				return tooSlow()
			}
			_ = s.door.Fail(tooSlow(), nil) // it reads nothing anyway
			return nil
		case err != nil:
			return nil
		case end != nil:
			if !begun && r.Head() != nil { // an answer without a byte
				_ = s.pass(r, nil, false)
				begun = true
			}
			if begun {
				s.closed(end)
			}
			return nil
		}
		if s.pass(r, b, begun) != nil {
			return nil
		}
	}
}

// pass gives a client the next bytes, the first ones with the head.
func (s *share) pass(r *cache.Reader, b []byte, begun bool) error {
	if begun {
		return s.door.Write(b, time.Now())
	}
	a := *r.Head()
	a.Body = b
	return s.door.Commit(&a)
}

// followed is what came of waiting for another request's run.
type followed struct {
	over bool           // the request has its end
	err  *gateway.Error // to be told when it is over; else how the run failed, nil when only this reader was too slow
}

// follow gets the answer from another request's run. The request's own deadline holds up to the first content.
func (s *share) follow(r *cache.Reader) followed {
	defer r.Leave()
	q, j := s.q, s.job.Journey
	s.door.NoneLeft() // what remains is to wait for the run in hand
	ctx, cancel := q.r.Context(), context.CancelFunc(func() {})
	if d := s.job.Timeouts.Request; d > 0 {
		ctx, cancel = context.WithDeadlineCause(ctx, j.At.Add(d), errDeadline)
	}
	b, end, err := r.Next(ctx)
	cancel()
	switch {
	case errors.Is(err, cache.ErrTooSlow):
		return followed{}
	case errors.Is(err, errDeadline):
		return followed{over: true, err: s.told(&gateway.Error{Code: gateway.DeadlineExceeded,
			Message: "the request's deadline passed while the same request of another call was being answered"})}
	case err != nil:
		j.Status, j.Code, j.Error = 499, gateway.ClientGone.String(), "the client left before an answer began"
		return followed{over: true}
	case end != nil && end.Final:
		e := *end.Error
		return followed{over: true, err: s.told(&e)}
	case end != nil:
		e := gateway.Error{Code: gateway.Internal, Message: "the run that this request shared has ended without an answer"}
		if end.Error != nil {
			e = *end.Error
		}
		return followed{err: &e}
	}
	s.copy(r, b)
	return followed{over: true}
}

var errDeadline = errors.New("the request's deadline has passed")

// copy passes on an answer that has begun, to its end. From here on failing over is impossible.
func (s *share) copy(r *cache.Reader, b []byte) {
	q, j := s.q, s.job.Journey
	head := r.Head()
	q.api.Cache.Shared()
	q.copied = &copied{of: r.Leader(), served: head.Candidate.Target()}
	q.begin(j, head, time.Now())
	err := s.pass(r, b, false)
	for err == nil {
		var end *cache.End
		if b, end, err = r.Next(q.r.Context()); err != nil {
			break
		}
		if end != nil {
			if e := end.Error; e != nil {
				j.Code, j.Error = string(e.Code), e.Message
			}
			s.closed(end)
			return
		}
		err = s.pass(r, b, true)
	}
	if errors.Is(err, cache.ErrTooSlow) {
		e := tooSlow()
		j.Code, j.Error = string(e.Code), e.Message
		_ = s.door.Fail(e, nil) // it reads nothing anyway
		return
	}
	j.Code = gateway.ClientGone.String()
}

// closed tells a client that has part of an answer how the run ended, when that was no good end. A client that left needs
// no error.
func (s *share) closed(end *cache.End) {
	switch {
	case end.Error == nil:
	case end.Tail != nil:
		_ = s.door.Write(end.Tail, time.Now())
	default:
		_ = s.door.Fail(end.Error, nil)
	}
}

// told notes an error that the client is told without a run of its own.
func (s *share) told(e *gateway.Error) *gateway.Error {
	j := s.job.Journey
	j.Status, j.Code, j.Error = e.HTTPStatus(), string(e.Code), e.Message
	return e
}

func tooSlow() *gateway.Error {
	return &gateway.Error{Code: gateway.Overloaded, RetryAfter: time.Second,
		Message: "this client reads too slowly for an answer that others share",
		Next:    "Send the request again, with Cache-Control: no-cache if it must have a run of its own."}
}

// source is the door of a run that others share: everything goes into the flight, and each request takes it from there.
type source struct {
	flight *cache.Flight
	share  *share
	begun  bool
	failed *gateway.Error
	tail   []byte
}

// Commit implements attempt.Door.
func (w *source) Commit(a *gateway.Answer) error {
	w.begun = true
	return w.flight.Commit(a)
}

// Write implements attempt.Door.
func (w *source) Write(events []byte, _ time.Time) error { return w.flight.Write(events) }

// Fail implements attempt.Door: those that have part of the answer are told at its end.
func (w *source) Fail(e *gateway.Error, st *protocol.StreamState) error {
	c := *e
	w.failed, w.tail = &c, w.share.q.family.StreamError(nil, e, st)
	return nil
}

// Committed implements attempt.Door.
func (w *source) Committed() bool { return w.begun }

// Opened implements attempt.Door.
func (w *source) Opened() bool { return w.begun || w.share.door.Opened() }

// end says how the run ended. An error is everybody's only when it is the caller's own fault: then the same request of
// the same key gets the same answer.
func (w *source) end(gerr *gateway.Error) cache.End {
	switch {
	case gerr != nil:
		c := *gerr
		return cache.End{Error: &c, Final: callersFault(w.share.job.Journey)}
	case w.failed != nil:
		return cache.End{Error: w.failed, Tail: w.tail}
	case !w.begun || w.share.job.Journey.Code != "":
		return cache.End{Error: &gateway.Error{Code: gateway.UpstreamStreamError, Message: "the run that this request shared was given up"}}
	}
	return cache.End{}
}

// callersFault reports whether the last word of a run was that the request itself is wrong.
func callersFault(j *gateway.Journey) bool {
	if len(j.Attempts) == 0 {
		return false
	}
	switch j.Attempts[len(j.Attempts)-1].Kind {
	case gateway.Alive, gateway.ContentRefused, gateway.InvalidResult:
		return true
	}
	return false
}
