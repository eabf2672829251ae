//go:build agents

// Command agents answers one question: do the coding agents that people use get their work done through the gateway when
// the first upstream dies under every request? It installs one agent after the other by npm into an ignored folder, runs
// it with nothing of the caller's environment in an empty home, lets it answer a greeting and go once around a tool loop,
// and compares what it printed. A proxy on loopback tells whether it tried to reach any other host.
//
// It is run by hand (make agents): the downloads are large.
package main
