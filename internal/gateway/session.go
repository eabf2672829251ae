package gateway

import (
	"crypto/sha256"
	"encoding/hex"
)

// Session is what a request's body says about the conversation that it belongs to.
type Session struct {
	Field  string // value of the most telling session field; "" = none
	Prefix []Span // the texts that every turn of a conversation begins with: system, tools, first user turn
	User   bool   // a user turn is among them; without one the prefix names no conversation
	Begins bool   // no answer of a model is in the body: the first turn of a conversation
}

// Ref is a reference to an object that is stored at one account of an upstream.
type Ref struct {
	Param string // the field that refers to it
	ID    string
	// Loose says that nothing may be known of the object and the request goes on all the same.
	Loose bool
}

// MaxRef is the longest id of a stored object in bytes; what is longer is nobody's, and not remembered.
const MaxRef = 512

// Seal names an encrypted text that only the account that made it can read, by a hash of it.
type Seal [16]byte

// SealOf is the name of an encrypted text.
func SealOf(text string) (s Seal) {
	sum := sha256.Sum256([]byte(text))
	copy(s[:], sum[:])
	return s
}

// ObjectID is the id under which an encrypted text is known among stored objects, when a request cannot go on without it.
func (s Seal) ObjectID() string { return "sealed:" + hex.EncodeToString(s[:]) }
