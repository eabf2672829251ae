package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"spillway/internal/gateway"
)

// Prefixes of what Spillway issues: they let secret scanners and people recognise it.
const (
	KeyPrefix        = "sk-spw-"
	ManagementPrefix = "spw_"
	HashPrefix       = "sha256:"
)

// NewKey makes a client key: the key, to be shown once, and what to store of it.
func NewKey() (plain gateway.Secret, hash string) { return fresh(KeyPrefix) }

// NewManagementToken makes the token of the management API, likewise.
func NewManagementToken() (plain gateway.Secret, hash string) { return fresh(ManagementPrefix) }

func fresh(prefix string) (gateway.Secret, string) {
	var b [32]byte
	rand.Read(b[:]) // never fails: the runtime ends the program first
	plain := gateway.Secret(prefix + base64.RawURLEncoding.EncodeToString(b[:]))
	return plain, Hash(plain)
}

// Hash is the stored form of a key or token: sha256: and hex.
func Hash(plain gateway.Secret) string {
	sum := sumOf(plain.Reveal())
	return HashPrefix + hex.EncodeToString(sum[:])
}

// Matches reports whether plain is the key that hash was made of, in a time that does not depend on where they differ.
// A hash that is not one matches nothing.
func Matches(hash string, plain gateway.Secret) bool {
	digits, ok := strings.CutPrefix(hash, HashPrefix)
	want, err := hex.DecodeString(digits)
	if !ok || err != nil || len(want) != sha256.Size || !plain.Set() {
		return false
	}
	have := sumOf(plain.Reveal())
	return subtle.ConstantTimeCompare(have[:], want) == 1
}

// sumOf hashes without leaving a copy of the key on the heap.
func sumOf(key string) [sha256.Size]byte {
	var buf [128]byte
	if len(key) <= len(buf) {
		return sha256.Sum256(buf[:copy(buf[:], key)])
	}
	return sha256.Sum256([]byte(key))
}
