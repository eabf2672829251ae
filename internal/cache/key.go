// Package cache answers two questions: has exactly this request been answered before, and is it being answered now?
//
// A key is a SHA-256 over everything that can change an answer: the client key, the call, the route, the headers that
// go upstream, and every byte of the body. Nothing is normalized, so two requests share an answer only when they are
// the same request of the same client key, in force under the same configuration.
//
// The room keeps answers in memory, bounded in bytes, the least recently used go first. Flights let requests that are
// the same and in flight at once share one run. Nothing here sends, judges or learns; an answer is kept only with the
// proof of whoever ran it ([Proof.Keep]). All methods that depend on time take it.
package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/http"

	"spillway/internal/gateway"
)

// Key names a request: equal keys are equal requests.
type Key [sha256.Size]byte

// Facts are what a key is made of.
type Facts struct {
	Envelope  *gateway.Envelope
	Principal *gateway.Principal
	Header    http.Header
	Route     []string // what the model was resolved to: version of the configuration, combo, candidates
}

// marks are the request headers that go upstream and can change an answer. What only names a call or its caller
// (Idempotency-Key, HTTP-Referer, X-Title) is none of them.
var marks = []string{"Anthropic-Beta", "Anthropic-Version", "Openai-Beta", "Openai-Organization", "Openai-Project", "X-App", "Originator"}

// keyFormat changes whenever the meaning of a key does.
const keyFormat = "spillway cache 1"

// KeyOf makes the key of a request.
func KeyOf(f Facts) (k Key) {
	e := f.Envelope
	s := sum{h: sha256.New()}
	s.text(keyFormat)
	s.text(string(f.Principal.Key))
	s.bits(f.Principal.Anonymous, f.Principal.Management, e.Stream, e.IncludeUsage)
	s.number(int(e.Protocol))
	s.number(int(e.Operation))
	s.text(e.Model)
	s.text(e.FormType)
	s.number(len(f.Route))
	for _, r := range f.Route {
		s.text(r)
	}
	for _, name := range marks {
		v := f.Header[name]
		s.number(len(v))
		for _, one := range v {
			s.text(one)
		}
	}
	s.number(len(e.Raw))
	s.flush()
	s.h.Write(e.Raw)
	s.h.Sum(k[:0])
	return k
}

// sum hashes values so that no two lists of values look alike: each is led by its length. It gathers what is short.
type sum struct {
	h    hash.Hash
	room [192]byte
	n    int // bytes of room that the hash has not seen
}

func (s *sum) flush() {
	s.h.Write(s.room[:s.n])
	s.n = 0
}

func (s *sum) number(n int) {
	if len(s.room)-s.n < binary.MaxVarintLen64 {
		s.flush()
	}
	s.n += binary.PutUvarint(s.room[s.n:], uint64(n))
}

func (s *sum) text(t string) {
	s.number(len(t))
	for len(t) > 0 {
		if s.n == len(s.room) {
			s.flush()
		}
		n := copy(s.room[s.n:], t)
		s.n, t = s.n+n, t[n:]
	}
}

func (s *sum) bits(flags ...bool) {
	n := 0
	for i, on := range flags {
		if on {
			n |= 1 << i
		}
	}
	s.number(n)
}
