package envelope

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"net/http"
	"strings"

	"spillway/internal/gateway"
)

// sessionHeaders name the session of a request, the first that is set wins. None of them goes upstream.
var sessionHeaders = []string{"X-Session-Id", "X-Codex-Session-Id", "X-Claude-Code-Session-Id", "Session-Id",
	"X-Spillway-Session", "X-Omniroute-Session", "X-Session-Affinity"}

// Source says what named a session, from the clearest to the vaguest.
type Source uint8

// The sources of a session.
const (
	NoSession   Source = iota
	ByHeader           // a header of the client
	ByField            // a field of the body
	ByPrompt           // a fingerprint of what every turn begins with
	FirstPrompt        // the same for a first turn: alike prompts may begin different conversations
)

// SessionOf names the session of a request: by header, by a field of the body, or by the beginning of its prompt. The
// name is empty when nothing tells. It is stable over processes and versions of Spillway, since it is kept.
func SessionOf(e *gateway.Envelope, h http.Header) (name string, by Source) {
	for _, k := range sessionHeaders {
		if v := h[k]; len(v) > 0 && v[0] != "" {
			return v[0], ByHeader
		}
	}
	s := &e.Session
	switch {
	case s.Field != "":
		return s.Field, ByField
	case !s.User:
		return "", NoSession
	case s.Begins:
		return fingerprint(e.Raw, s.Prefix), FirstPrompt
	}
	return fingerprint(e.Raw, s.Prefix), ByPrompt
}

// fingerprint hashes ranges of b to 16 bytes. It is no cryptographic hash: whoever makes two prompts collide sends them
// with one key of his own.
func fingerprint(b []byte, spans []gateway.Span) string {
	m := mixer{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f}
	for _, s := range spans {
		p := b[s.Start:s.End]
		if len(p) > 2*fingerEnd { // a long text is told by its ends and its length
			m.write(p[:fingerEnd])
			m.a ^= uint64(len(p))
			p = p[len(p)-fingerEnd:]
		}
		m.write(p)
	}
	var out [16]byte
	binary.BigEndian.PutUint64(out[:8], fold(m.a^0x165667b19e3779f9, m.b^0x27d4eb2f165667c5))
	binary.BigEndian.PutUint64(out[8:], fold(m.b^0xff51afd7ed558ccd, m.a^0xc4ceb9fe1a85ec53))
	return string(out[:])
}

// fingerEnd is how much of either end of a long text a fingerprint looks at.
const fingerEnd = 16 << 10

// mixer has two lanes of 64 bits; each takes 16 bytes per step by one wide multiplication.
type mixer struct{ a, b uint64 }

// fold multiplies to 128 bits and folds them to 64.
func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

func (m *mixer) write(p []byte) {
	const k0, k1, k2, k3 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3
	a, b := m.a^uint64(len(p))*k0, m.b
	for ; len(p) >= 32; p = p[32:] {
		q := (*[32]byte)(p)
		a = fold(binary.LittleEndian.Uint64(q[0:8])^k0^a, binary.LittleEndian.Uint64(q[8:16])^k1) + a
		b = fold(binary.LittleEndian.Uint64(q[16:24])^k2^b, binary.LittleEndian.Uint64(q[24:32])^k3) + b
	}
	var rest [32]byte
	copy(rest[:], p)
	a = fold(binary.LittleEndian.Uint64(rest[0:8])^k1^a, binary.LittleEndian.Uint64(rest[8:16])^k2) + a
	b = fold(binary.LittleEndian.Uint64(rest[16:24])^k3^b, binary.LittleEndian.Uint64(rest[24:32])^k0) + b
	m.a, m.b = a, b
}

// The fields of a body that may name its session, from the vaguest to the clearest. A prompt cache key may be shared by
// conversations that begin alike, so anything else is clearer.
const (
	byCacheKey = iota + 1
	byConversation
	byMetadata
	bySessionID
)

// field notes a session field unless a clearer one was seen.
func (d *decoder) field(rank int, value string) {
	if value != "" && rank > d.fieldRank {
		d.env.Session.Field, d.fieldRank = value, rank
	}
}

// maxMetadata is how large a metadata object may be to be looked into.
const maxMetadata = 16 << 10

// metadata looks for a session in the client's notes. Claude Code writes one into user_id, as JSON or, in earlier
// versions, behind "_session_".
func (d *decoder) metadata(value []byte) {
	if len(value) > maxMetadata || value[0] != '{' {
		return
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(value, &m) != nil {
		return
	}
	for _, name := range []string{"session_id", "conversation_id", "thread_id"} {
		if id, ok := text(m[name]); ok {
			d.field(byMetadata, id)
		}
	}
	user, _ := text(m["user_id"])
	if _, id, ok := strings.Cut(user, "_session_"); ok {
		d.field(byMetadata, id)
	}
	var in struct {
		Session string `json:"session_id"`
	}
	if strings.HasPrefix(user, "{") && json.Unmarshal([]byte(user), &in) == nil {
		d.field(byMetadata, in.Session)
	}
}

// refer notes a reference to a stored object: the JSON string of its id, or an object with it.
func (d *decoder) refer(param string, value []byte) {
	if len(value) == 0 {
		return
	}
	id, ok := text(value)
	if value[0] == '{' && len(value) <= maxMetadata {
		var o struct {
			ID string `json:"id"`
		}
		ok = json.Unmarshal(value, &o) == nil
		id = o.ID
	}
	if ok && id != "" && len(id) <= gateway.MaxRef {
		d.need(gateway.Ref{Param: param, ID: id})
	}
}

// need adds a reference. So many are looked at as no request needs.
func (d *decoder) need(ref gateway.Ref) {
	const most = 256
	if len(d.env.Refs) < most {
		d.env.Refs = append(d.env.Refs, ref)
		d.env.Needs |= gateway.NeedStateful
	}
}

// isStoredFile reports whether a URI of Gemini is a file of an account; others are public or belong to no account.
func isStoredFile(uri []byte) bool {
	return bytes.HasPrefix(uri, []byte("files/")) || bytes.Contains(uri, []byte("generativelanguage.googleapis.com/")) && bytes.Contains(uri, []byte("/files/"))
}
