package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/cache"
	"spillway/internal/commit"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/plan"
)

// answer gets the request its answer: from the cache or another request's run where the configuration and the caller
// allow it, else from its own run. It returns the error that the client is still to be told.
func (q *request) answer(cfg *config.Cache, job *attempt.Job, door *commit.Door) *gateway.Error {
	room := q.api.Cache
	if room == nil || !cfg.Enabled && !cfg.Deduplicate {
		return q.api.Engine.Run(q.r.Context(), job)
	}
	wish := cache.WishOf(q.r.Header)
	if wish.NoStore || !cache.Eligible(job.Envelope) {
		return q.api.Engine.Run(q.r.Context(), job)
	}
	var route [24]string
	key := cache.KeyOf(cache.Facts{Envelope: job.Envelope, Principal: &q.principal, Header: q.r.Header,
		Route: appendRoute(route[:0], q.live.Board.Snapshot.Version, job.Pool, job.Rename)})
	if cfg.Enabled && !wish.NoCache {
		now := time.Now()
		if e := room.Load(key, wish.Limit(cfg.TTL), now); e != nil {
			q.replay(e, job, door, now)
			return nil
		}
	}
	s := share{q: q, cfg: cfg, job: job, door: door, key: key}
	if cfg.Deduplicate && !wish.NoCache {
		return s.serve()
	}
	return s.run(q.r.Context())
}

// appendRoute names everything that a model was resolved to: a reload that changes where a name leads makes other keys.
func appendRoute(out []string, version string, pool *plan.Pool, renamed bool) []string {
	out = append(out, version, pool.Name, strconv.FormatBool(renamed))
	for _, c := range pool.Candidates {
		out = append(out, c.Candidate.Connection.Identity, string(c.Candidate.Model))
	}
	return out
}

// copied is the answer of another request that this one gets.
type copied struct {
	of     gateway.RequestID
	served gateway.Target
	kept   bool      // it comes from the cache
	at     time.Time // when it was complete, for kept ones
}

// replay answers with what is kept.
func (q *request) replay(e *cache.Entry, job *attempt.Job, door *commit.Door, now time.Time) {
	q.copied = &copied{of: e.Request, served: e.Served, kept: true, at: e.At}
	a := &gateway.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": e.ContentType}, Stream: e.Stream, Body: e.Body}
	q.begin(job.Journey, a, now)
	if door.Commit(a) != nil {
		job.Journey.Code = gateway.ClientGone.String()
	}
}

// begin notes in the decision log that the client now gets another request's answer. No upstream was asked for it, so
// nothing is accounted.
func (q *request) begin(j *gateway.Journey, a *gateway.Answer, now time.Time) {
	j.CopyOf, j.Shared, j.Served = q.copied.of, !q.copied.kept, q.copied.served
	j.Status, j.Code, j.Error, j.Committed = a.Status, "", "", now
	if q.copied.kept {
		j.Overhead = max(now.Sub(j.At), 0).Microseconds()
	}
}

var fromCache = []string{"cache"}

// copiedHeaders sets the headers of another request's answer. What the upstream said of that request's id and of the
// account's rates is not this one's.
func (q *request) copiedHeaders(set *headerSetter, j *gateway.Journey, a *gateway.Answer) {
	h := set.h
	if !a.Stream {
		if ct := a.Header["Content-Type"]; ct != nil {
			h["Content-Type"] = ct
		}
		set.one("Content-Length", strconv.Itoa(len(a.Body)))
	}
	if a.Dropped != nil {
		set.one("X-Spillway-Dropped", strings.Join(a.Dropped, ", "))
	}
	h["X-Spillway-Source"] = fromCache
	set.one("X-Spillway-Provider", string(q.copied.served.Provider))
	set.one("X-Spillway-Model", string(q.copied.served.Model))
	set.one("X-Spillway-Attempts", "0")
	age := time.Duration(0)
	if q.copied.kept {
		age = j.Committed.Sub(q.copied.at)
		set.one("X-Spillway-Overhead-Us", strconv.FormatInt(j.Overhead, 10))
	}
	set.one("Age", strconv.Itoa(int(max(age, 0)/time.Second)))
}

// tee is a door that copies what passes it.
type tee struct {
	attempt.Door
	copy  *cache.Copy
	entry cache.Entry
	proof gateway.Proof // zero until the answer has ended: no proof
	less  bool          // parts of the request did not go upstream
}

// Commit implements attempt.Door.
func (t *tee) Commit(a *gateway.Answer) error {
	t.entry.Stream, t.entry.Served = a.Stream, a.Candidate.Target()
	t.entry.ContentType, t.less = a.Header["Content-Type"], a.Dropped != nil
	t.copy.Add(a.Body)
	return t.Door.Commit(a)
}

// Write implements attempt.Door.
func (t *tee) Write(events []byte, now time.Time) error {
	t.copy.Add(events)
	return t.Door.Write(events, now)
}

// run runs the request, and keeps its answer where that is switched on and the answer proves good.
func (s *share) run(ctx context.Context) *gateway.Error {
	q, job := s.q, s.job
	if !s.cfg.Enabled {
		return q.api.Engine.Run(ctx, job)
	}
	pool, door := job.Pool, job.Door
	t := &tee{Door: door, copy: q.api.Cache.Copy(int64(s.cfg.MaxEntry)), entry: cache.Entry{Request: job.Journey.ID}}
	defer t.copy.Close()
	job.Door, job.Ended = t, func(p gateway.Proof) { t.proof = p }
	gerr := q.api.Engine.Run(ctx, job)
	job.Door, job.Ended = door, nil
	if t.entry.Served.Provider == "" { // nothing was committed
		return gerr
	}
	proof := cache.Proof(t.proof)
	// Where another combo has stood in, or parts of the request were dropped, it is not the answer to what the key names.
	proof.Mended = proof.Mended || t.less || job.Pool != pool || gerr != nil
	t.entry.At = time.Now()
	q.api.Cache.Record(s.key, t.entry, t.copy, proof)
	return gerr
}
