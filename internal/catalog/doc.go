// Package catalog answers one question: what does this name mean, and who can serve it? It compiles a configuration
// into an immutable [Snapshot]: providers, connections, combos with nested ones expanded, aliases, client keys, all
// ready for look-up without locks. A request loads the snapshot once and keeps it to its end, so a reload never changes
// a request in flight.
//
// It decides nothing about health (the rooms of resilience do) and asks no upstream anything: lists of models that were
// fetched elsewhere come in through [Snapshot.WithUpstreamModels] and [ModelList].
package catalog
