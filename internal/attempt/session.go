package attempt

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/resilience/affinity"
	"spillway/internal/state"
)

// session is what a request belongs to. It is written before the first attempt and only read afterwards, except for what
// only the run's own goroutine looks at.
type session struct {
	on    bool // the request names a session, and sessions are bound
	key   affinity.Key
	first bool // by the beginning of its prompt, which other conversations may share
	bound bool // it was bound when the request came
	home  int  // candidate that it was bound to, -1 = not in this pool
	bond  affinity.Bond

	unknown []gateway.Ref // objects that were not made here, as far as is known
	blind   atomic.Bool   // an upstream could not read what is encrypted in the conversation; written by any flight
}

// recognize finds out where the request belongs: stored objects that it refers to leave one connection, its session
// prefers one. The error is the caller's: what the request refers to is nowhere to be found.
func (r *run) recognize(now time.Time) *gateway.Error {
	r.session.home = -1
	room := r.engine.Affinity
	if room == nil {
		return nil
	}
	if gerr := r.pin(room, now); gerr != nil {
		return r.closeWith(gerr)
	}
	env := r.job.Envelope
	if !env.Operation.Converses() || !room.On() {
		return nil
	}
	name, by := envelope.SessionOf(env, r.job.Header)
	if by == envelope.NoSession {
		return nil
	}
	s, j := &r.session, r.job.Journey
	// Prompt caches belong to a model, and a client uses several in one session.
	s.on, s.first, s.key = true, by == envelope.FirstPrompt, affinity.KeyOf(string(j.ClientKey), r.job.Pool.Name, name)
	j.Session = s.key.Short()
	if s.first {
		return nil // a conversation that begins has nothing cached anywhere
	}
	bond, mayReturn, ok := room.Peek(s.key, now)
	if !ok {
		return nil
	}
	s.bond, s.bound = bond, true
	if s.home = r.plan.Prefer(bond.Connection, gateway.ModelID(bond.Model), mayReturn); s.home >= 0 {
		j.Bound = r.job.Pool.Candidates[s.home].Candidate.Connection.ID
	}
	return nil
}

// learn tells the session's bond how an attempt ended. It may be called beside the run, for raced attempts.
func (r *run) learn(f *flight, o gateway.Outcome) {
	if !r.session.on {
		return
	}
	c := f.candidate.Candidate
	r.engine.Affinity.Record(r.session.key, affinity.Event{Connection: state.Identity(c.Connection), Model: string(c.Model),
		Account: f.candidate.AccountName, Moved: f.mixed(), Outcome: o, Tokens: r.job.Envelope.Tokens, First: r.session.first}, o.EndedAt)
}

// reason is why the first attempt goes where it goes; another attempt's reason is the walk's.
func (r *run) reason(id int, walk gateway.Reason) gateway.Reason {
	switch {
	case r.asked != nil && len(r.history) == len(r.before):
		return gateway.EmergencyFallback
	case walk != gateway.FirstChoice:
	case r.plan.Pinned():
		return gateway.ObjectPinned
	case id == r.session.home:
		return gateway.SessionBound
	}
	return walk
}

// moved notes why another connection than the session's own has answered.
func (r *run) moved(served int) {
	s := &r.session
	if !s.bound || served == s.home {
		return
	}
	j := r.job.Journey
	if s.home < 0 {
		j.Moved = gateway.Unavailable
		return
	}
	for i := range r.history {
		if t := &r.history[i]; t.ID == s.home && !t.Live {
			j.Moved = t.Outcome.Reason
			return
		}
	}
	switch ruling := r.plan.Ruling(s.home); {
	case r.plan.Returns:
		j.Moved = gateway.SessionReturned
	case !ruling.OK():
		j.Moved = ruling.Reason
	case ruling.Probe:
		j.Moved = gateway.ProbeBusy // on trial, which is nothing for a request that can go elsewhere
	case r.refused.Reason != 0:
		j.Moved = r.refused.Reason // lost between the look and the taking
	default:
		j.Moved = gateway.NextCandidate
	}
}

// patient lengthens the wait for the session's own connection, when that has just failed, by what is cached there.
func (r *run) patient(c *next.Config) {
	if n := len(r.history); n > 0 && r.session.home >= 0 && r.history[n-1].ID == r.session.home {
		c.PreferWait = max(c.PreferWait, r.session.bond.Patience())
	}
}

// object is the key of a stored object, which only the client key that made it knows.
func (r *run) object(id string) affinity.Key { return ObjectKey(r.job.Journey.ClientKey, id) }

// ObjectKey is the key of a stored object of a client key, as Engine.Affinity knows it.
func ObjectKey(client gateway.ClientKeyID, id string) affinity.Key {
	return affinity.KeyOf(string(client), "object", id)
}

// pin leaves the one connection at which everything is stored that the request refers to.
func (r *run) pin(room *affinity.Room, now time.Time) *gateway.Error {
	var at string
	var by, unknown gateway.Ref
	for _, ref := range r.job.Envelope.Refs {
		conn, ok := room.PeekPin(r.object(ref.ID), now)
		switch {
		case !ok:
			r.session.unknown = append(r.session.unknown, ref)
			if !ref.Loose {
				unknown = ref
			}
		case at != "" && conn != at:
			return &gateway.Error{Code: gateway.InvalidRequest, Param: ref.Param, Message: fmt.Sprintf(
				"%s and %s are stored at two accounts; no request can use both", called(by), called(ref)),
				Next: "Send what they hold in the request itself."}
		default:
			at, by = conn, ref
		}
	}
	switch {
	case at != "":
		if !r.plan.Pin(at) {
			return &gateway.Error{Code: gateway.NotFound, Param: by.Param, Message: fmt.Sprintf(
				"%s is stored at connection %s, which does not serve %s (any more)", called(by), r.name(at), gateway.Quote(r.job.Envelope.Model)),
				Next: "Send the whole conversation, or ask for the model that made it."}
		}
	case unknown.ID != "" && !r.sole(unknown):
		return &gateway.Error{Code: gateway.NotFound, Param: unknown.Param, Message: fmt.Sprintf(
			"%s %s is not known: this client key has made nothing of that id here, and several accounts could hold it",
			unknown.Param, gateway.Quote(unknown.ID)),
			Next: "Send the whole conversation, or ask for a model that one account serves."}
	}
	return nil
}

// called names a stored object for people.
func called(ref gateway.Ref) string {
	if ref.Loose { // its id is ours and says nothing to anybody
		return "the compacted conversation"
	}
	return ref.Param + " " + gateway.Quote(ref.ID)
}

// name is a connection's id, for callers that may see it.
func (r *run) name(identity string) string {
	if !r.job.Principal.Diagnostics {
		return "(hidden)"
	}
	id, _, _ := strings.Cut(identity, "#")
	return gateway.Quote(id)
}

// sole reports whether only one account could hold an object that was not made here. What can be made here, a response, an
// item of one or a container, is not looked for on behalf of one client key among others: it may be another one's.
func (r *run) sole(ref gateway.Ref) bool {
	switch ref.Param {
	case "previous_response_id", "item_reference", "container":
		if !r.job.Principal.Anonymous {
			return false
		}
	}
	account := -1
	for _, c := range r.job.Pool.Candidates {
		if r.job.Allowed != nil && !r.job.Allowed(c.Candidate.Connection) {
			continue
		}
		if account >= 0 && c.Account != account {
			return false
		}
		account = c.Account
	}
	return true
}
