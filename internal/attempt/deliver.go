package attempt

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/verdict"
)

// deliver hands a good head to the client and, for a stream, everything that follows. From here on failing over is
// impossible: what breaks now ends in an error of the client's protocol.
func (r *run) deliver(f *flight) *gateway.Error {
	defer f.release()
	j := r.job.Journey
	answer := &gateway.Answer{
		Status: f.response.StatusCode, Header: f.response.Header, Stream: f.reader != nil,
		Candidate: f.candidate.Candidate, Attempts: len(r.history), Overhead: r.overhead(time.Now()), Dropped: f.lost,
	}
	if answer.Stream {
		answer.Body = f.held
	} else {
		answer.Body = f.renamedBody()
		f.complete() // the answer is whole: the slot is free before a slow client has read it
	}
	j.Committed = time.Now()
	j.Served, j.Connection = f.candidate.Candidate.Target(), f.candidate.Candidate.Connection.ID
	r.moved(f.candidate.ID)
	r.remember(f)
	j.Status = answer.Status
	j.Overhead = answer.Overhead.Microseconds()
	if answer.Stream { // a slow client blocks here; that is no silence of the upstream
		f.watch.Paused(true, j.Committed)
	}
	gone := r.job.Door.Commit(answer) != nil
	if answer.Stream {
		f.watch.Paused(false, time.Now())
		f.attempt.Bytes += int64(len(f.held))
		if gone = gone || f.pump(r.job.Door); gone {
			f.end(verdict.Evidence{ClientGone: true})
		}
	}
	r.remember(f)
	r.ended(f, &r.history[f.slot])
	j.Usage = f.outcome.Usage
	r.prove(f)
	return r.afterCommit(f)
}

// afterCommit tells the client about a stream that broke.
func (r *run) afterCommit(f *flight) *gateway.Error {
	o := f.outcome
	switch {
	case o.Kind == gateway.Canceled:
		r.job.Journey.Code = string(o.Reason.String())
		return nil
	case !o.Failed() && o.Kind != gateway.LocalError:
		return nil
	}
	e := r.streamError(f)
	r.job.Journey.Code, r.job.Journey.Error = string(e.Code), e.Message
	if err := r.job.Door.Fail(e, &f.state); err != nil {
		r.engine.Log.Debug("the client left before its error", "request", r.job.Journey.ID)
	}
	return nil
}

// overhead is what the request has taken beyond waiting: for upstreams, for slots, for time to pass.
func (r *run) overhead(now time.Time) time.Duration {
	return max(now.Sub(r.began)-r.upstream-r.queued, 0)
}

func (f *flight) renamedBody() []byte {
	if !f.renamed {
		return *f.whole
	}
	return f.run.job.Family.ReplaceModel(nil, *f.whole, f.run.job.Envelope.Model)
}

// release gives back the buffers of a flight; its bytes must not be read afterwards.
func (f *flight) release() {
	if f.attempt.EndedAt.IsZero() { // only after a panic
		f.end(verdict.Evidence{HostFault: true})
	}
	if f.reader != nil {
		f.reader.Reset(nil)
		readers.Put(f.reader)
		f.reader = nil
	}
	f.run.engine.Buffers.Put(f.whole)
	f.whole, f.held = nil, nil
}
