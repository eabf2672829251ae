// Package auth answers two questions about a request: who asks ([Identify], [Require], [AllowModel]) and may it be
// served at all when no keys protect the gateway ([Guard])? It also makes keys.
//
// A client key is 32 random bytes, so its SHA-256 is enough to store and cheap enough to compute on every request: one
// hash and one map look-up, whatever was sent. Every failure to identify has the same wording, whether a key is missing,
// mistyped, revoked or from somebody else's service; nothing about stored keys is ever told.
//
// The package keeps nothing, logs nothing and never passes a key on.
package auth
