package state

import (
	"encoding/json"
	"iter"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Decode yields the records of one room with their values read as JSON. Records of other rooms, deletions and values
// that cannot be read are passed over: what an older or newer version wrote must not keep the gateway from starting.
func Decode[D any](room string, records []resilience.Record) iter.Seq2[resilience.Record, D] {
	return func(yield func(resilience.Record, D) bool) {
		for _, rec := range records {
			var d D
			if rec.Room != room || len(rec.Value) == 0 || json.Unmarshal(rec.Value, &d) != nil {
				continue
			}
			if !yield(rec, d) {
				return
			}
		}
	}
}

// Identity is the name by which the state of a connection is kept: its identity, so that a connection that is re-pointed
// to another base URL or credential starts fresh; or its id where no identity was computed (tests, programs that embed
// the engine).
func Identity(c *gateway.Connection) string {
	if c.Identity == "" {
		return string(c.ID)
	}
	return c.Identity
}

// Account is the name by which the state of a connection's account is kept. An account is a provider's: "main" at one has
// nothing to do with "main" at another.
func Account(c *gateway.Connection) string {
	account := string(c.Account)
	if account == "" {
		account = Identity(c)
	}
	if c.Provider == nil {
		return account
	}
	return string(c.Provider.ID) + "/" + account
}

// Tie ties stored instants to the process's own clock, of which now is a reading: a later step of the wall clock makes
// none of them come earlier or later.
func Tie(now time.Time, all ...*time.Time) {
	for _, t := range all {
		if !t.IsZero() {
			*t = now.Add(t.Sub(now))
		}
	}
}
