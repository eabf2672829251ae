package gateway

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// Identifiers are distinct string types so that the compiler refuses to mix them up.
type (
	ProviderID   string
	ConnectionID string
	// AccountID names the connections that share one credential; 429, quota, rates and bans belong to it.
	AccountID string
	// ModelID is the model's name at the upstream.
	ModelID   string
	RequestID string
	// ClientKeyID is the name of a key that Spillway issued; empty when no key was needed.
	ClientKeyID string
)

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewRequestID returns an id that sorts by time: 48 bits of milliseconds, then 72 random bits, in 24 letters
// behind the prefix "req_".
func NewRequestID(now time.Time) RequestID {
	var b [15]byte
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(b[:6], ms[2:])
	rand.Read(b[6:])
	var out [28]byte
	copy(out[:], "req_")
	idEncoding.Encode(out[4:], b[:])
	return RequestID(out[:])
}
