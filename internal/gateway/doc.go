// Package gateway holds the nouns of Spillway and nothing else. It imports only the standard library, so every
// other package may import it.
//
// The story in one paragraph. A client sends a request in one wire [Protocol]. It is identified as a [Principal] and
// read, without decoding its body, into an [Envelope]. The model it asks for is resolved to a [Route]: an ordered list
// of [Target] values (provider + model). Each target, bound to a concrete [Connection] (one key at a provider), is a
// [Candidate]. Attempts are made on candidates, one after the other and sometimes two at once, until one answers.
// Every attempt ends in exactly one [Outcome] {kind, scope, reason}; every resilience mechanism learns from that
// outcome and from nothing else. What was decided, and why, is appended to the [Journey] of the request, which is the
// decision log that people read.
//
// Ownership. Everything reachable from a catalogue snapshot (Provider, Connection, Combo, Target) is immutable once the
// snapshot is published and may be shared freely. An Envelope's Raw bytes are never changed after Decode. A Journey is
// written by one goroutine, the one that runs the request, and may be read by others only after it was closed.
//
// Units. Durations are time.Duration, instants are time.Time, sizes are bytes, tokens are counts. A zero value means
// "not set" or "unknown" everywhere, never "none allowed".
package gateway
