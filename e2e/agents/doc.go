//go:build agents

// Command agents answers one question: do the coding agents that people use get their work done through the gateway when
// the first upstream dies under every request? It installs one agent after the other by npm into an ignored folder, runs
// it with nothing of the caller's environment in an empty home, lets it answer a greeting and go once around a tool loop,
// and compares what it printed. It does so in a network of its own that has loopback and nothing else; a
// proxy there and the kernel's counters tell whether it tried to reach any other host, and an agent that did has failed.
//
// It is run by hand (make agents), on Linux: the downloads are large.
package main
