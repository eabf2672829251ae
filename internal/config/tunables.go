package config

import (
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/watchdog"
)

// Affinity says how sessions stick to a connection.
type Affinity struct {
	// How long a session stays bound after its last success; 0s = off. Default 1h.
	TTL time.Duration `yaml:"ttl"`
	// A session idle for longer goes back to a higher target. Default 5m.
	ReturnIdle time.Duration `yaml:"return_idle"`
	// A session whose last prompt had fewer tokens goes back to a higher target. Default 20000.
	ReturnTokens int `yaml:"return_tokens"`
	// How long objects stored at one account (responses, files, batches) are remembered. Default 720h.
	PinTTL time.Duration `yaml:"pin_ttl"`
}

// Streams says how streams are held, watched and ended.
type Streams struct {
	// Whether a streaming client gets its 200 before content: auto, off or on. Default auto.
	EarlyCommit string `yaml:"early_commit" enum:"auto,off,on"`
	// With early_commit auto: how long nothing was sent and no untried candidate is left. Default 45s.
	EarlyCommitAfter time.Duration `yaml:"early_commit_after"`
	// What happens when a committed stream breaks: off, prefill or text; a combo may say otherwise. Default prefill.
	Continuation string `yaml:"continuation" enum:"off,prefill,text"`
	// Bytes held before the first content; more commits. Default 256KiB.
	HoldBytes Size `yaml:"hold_bytes"`
	// Events held before the first content; more commits. Default 512.
	HoldEvents int `yaml:"hold_events"`
	// Comment sent to a waiting client. Default 15s.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// How long a stream may linger after its terminal event. Default 500ms.
	EndGrace time.Duration `yaml:"end_grace"`
	// An answer without any content is an error. Default true.
	RefuseEmpty bool `yaml:"refuse_empty"`
	// Throughput watchdog and start guard.
	Watchdog watchdog.Config `yaml:"watchdog"`
}

// Timeouts are the clocks of one attempt; see gateway.Timeouts.
type Timeouts struct {
	// Dial and TLS. Default 10s.
	Connect time.Duration `yaml:"connect"`
	// From dispatch to the first content: the floor, which learned times raise. Default 10s.
	FirstContent time.Duration `yaml:"first_content"`
	// First content when there is nowhere better to go. Default 5m (class local 10m).
	LastChance time.Duration `yaml:"last_chance"`
	// Gap between content events after the first. Default 30s.
	Idle time.Duration `yaml:"idle"`
	// Response headers, where it was learned that they come well before content. Default 30s.
	Headers time.Duration `yaml:"headers"`
	// One attempt from dispatch to its end, whatever was learned; 0s = off. Default 0s.
	Total time.Duration `yaml:"total"`
	// A committed stream. Default 60m.
	StreamTotal time.Duration `yaml:"stream_total"`
	// Deadline of a request: all waits and attempts up to first content, or to the end when not streamed. Only the
	// global value counts. Default 10m.
	Request time.Duration `yaml:"request"`
}

// Gateway is the form that the rest of the gateway uses.
func (t Timeouts) Gateway() gateway.Timeouts { return gateway.Timeouts(t) }

func defaultAffinity() Affinity {
	return Affinity{TTL: time.Hour, ReturnIdle: 5 * time.Minute, ReturnTokens: 20_000, PinTTL: 720 * time.Hour}
}

func defaultStreams() Streams {
	return Streams{EarlyCommit: "auto", EarlyCommitAfter: 45 * time.Second, Continuation: "prefill",
		HoldBytes: 256 << 10, HoldEvents: 512, Heartbeat: 15 * time.Second, EndGrace: 500 * time.Millisecond,
		RefuseEmpty: true, Watchdog: watchdog.Default()}
}

func defaultTimeouts(class gateway.Class) Timeouts {
	t := Timeouts{Connect: 10 * time.Second, FirstContent: 10 * time.Second, LastChance: 5 * time.Minute,
		Idle: 30 * time.Second, Headers: 30 * time.Second, StreamTotal: 60 * time.Minute, Request: 10 * time.Minute}
	if class == gateway.Local {
		t.LastChance = 10 * time.Minute
	}
	return t
}
