package attempt

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/protocol/jsonscan"
	"spillway/internal/resilience/affinity"
	"spillway/internal/state"
)

// object is something that an answer has made at its account.
type object struct {
	kind protocol.ObjectKind
	id   string // of an encrypted text the bytes of its seal
}

// made takes over the objects of an event. A stream may name each several times.
func (x *facts) made(list []protocol.Object) {
	const most = 1024
next:
	for _, o := range list {
		found := object{o.Kind, jsonscan.Unquote(o.ID)}
		switch {
		case o.Kind == protocol.SealedText, o.Kind == protocol.SealedState: // long texts, of which only the name is kept
			seal := gateway.SealOf(found.id)
			found.id = string(seal[:])
		case len(found.id) > gateway.MaxRef:
			continue // no request can refer to it
		}
		if len(x.objects) >= most {
			return
		}
		for i := range x.objects {
			if x.objects[i] == found {
				continue next
			}
		}
		x.objects = append(x.objects, found)
	}
}

// remember pins what an answer has made to the connection that made it: before the client can refer to it, or at the end
// of a stream that tells its id late.
func (r *run) remember(f *flight) {
	room := r.engine.Affinity
	if room == nil {
		return
	}
	now, at := time.Now(), state.Identity(f.candidate.Candidate.Connection)
	if f.facts.id != "" && !f.pinned && !r.job.Envelope.Unstored {
		f.pinned = true
		room.RecordPin(r.object(f.facts.id), at, now)
	}
	for ; f.told < len(f.facts.objects); f.told++ {
		r.rememberObject(room, f, f.facts.objects[f.told], now)
	}
	for _, ref := range r.session.unknown { // the answer proves that the connection has them
		room.RecordPin(r.object(ref.ID), at, now)
	}
	r.session.unknown = nil
}

func (r *run) rememberObject(room *affinity.Room, f *flight, o object, now time.Time) {
	at := state.Identity(f.candidate.Candidate.Connection)
	switch o.kind {
	case protocol.StoredItem:
		if !r.job.Envelope.Unstored {
			room.RecordPin(r.object(o.id), at, now)
		}
	case protocol.KeptObject:
		room.RecordPin(r.object(o.id), at, now)
	case protocol.SealedText:
		room.RecordSeal(gateway.Seal([]byte(o.id)), f.candidate.AccountName, now)
	case protocol.SealedState:
		room.RecordPin(r.object(gateway.Seal([]byte(o.id)).ObjectID()), at, now)
	}
}

// unseal finds the encrypted reasoning in the request that another account than the attempt's is known to have made, and
// returns what to cut. Nothing is known of a text whose maker is forgotten in a session that only this account has served.
func (f *flight) unseal(env *gateway.Envelope) []envelope.Cut {
	r, here := f.run, f.candidate.AccountName
	room, s := r.engine.Affinity, &f.run.session
	f.blind = s.blind.Load()
	if !env.Operation.Converses() || !f.blind && (room == nil || s.bound && f.alone()) {
		return nil
	}
	cuts, lost := envelope.Unseal(env, string(f.candidate.Candidate.Model), func(seal gateway.Seal) bool {
		if f.blind {
			return true
		}
		if by, ok := room.PeekSeal(seal, f.attempt.BeganAt); ok {
			return by != here
		}
		return s.bound // served by another account last, or by several
	})
	f.lost = lost
	if lost != nil {
		r.engine.Log.Debug("what another account has encrypted is left out", "request", r.job.Journey.ID,
			"connection", f.candidate.Candidate.Connection.ID, "what", lost)
	}
	return cuts
}

// alone reports whether the attempt's account has given all answers of the session, which is bound.
func (f *flight) alone() bool {
	return f.run.session.bond.Sole(state.Identity(f.candidate.Candidate.Connection), f.candidate.AccountName)
}

// mixed reports whether other accounts than the attempt's have answered in the session.
func (f *flight) mixed() bool { return f.lost != nil || f.run.session.bound && !f.alone() }

// unreadable takes an upstream's word for it that it cannot read what is encrypted in the conversation: nothing was known
// of it, and the request is worth another try without. That blames nobody, and happens once.
func (f *flight) unreadable(o gateway.Outcome, body []byte) gateway.Outcome {
	env := f.run.job.Envelope
	if o.Kind != gateway.Alive || o.Status != http.StatusBadRequest || !env.Sealed || f.blind || !env.Operation.Converses() || !refusesSeals(body) {
		return o
	}
	cuts, _ := envelope.Unseal(env, string(f.candidate.Candidate.Model), func(gateway.Seal) bool { return true })
	if len(cuts) == 0 {
		return o
	}
	f.run.session.blind.Store(true)
	o.Kind, o.Scope, o.Uncounted = gateway.LocalError, gateway.ScopeRequest, true
	return o
}

// sealRefusals are the words with which upstreams refuse what another account has encrypted: OpenAI's code and sentence,
// Anthropic's, Google's. A signature that is missing is another matter.
var sealRefusals = [][]byte{[]byte("invalid_encrypted_content"), []byte("encrypted content"), []byte("invalid `signature` in `thinking`"),
	[]byte("invalid signature in thinking"), []byte("invalid thought signature"), []byte("corrupted thought signature"),
	[]byte("thought signature is not valid")}

func refusesSeals(body []byte) bool {
	body = bytes.ToLower(body[:min(len(body), 4<<10)])
	return slices.ContainsFunc(sealRefusals, func(words []byte) bool { return bytes.Contains(body, words) })
}
