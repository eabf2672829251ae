// Package store is the contract of durable storage: what Spillway keeps when the process ends. It holds the decision
// log, the usage ledger, the durable records of the resilience rooms, client keys, settings, audit rows and cached
// lists of models.
//
// It never decides anything, never sees a secret in the clear (client keys come as hashes), and is never asked while a
// request waits for its answer: package account moves what was decided into it, in batches, afterwards.
//
// Every implementation passes the one suite of package storetest: [Memory] here, SQLite in store/sqlite. Times are kept
// to the millisecond, those of resilience records to the nanosecond.
package store

import (
	"context"
	"errors"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// Errors that callers tell apart.
var (
	ErrNotFound = errors.New("store: not found")
	ErrConflict = errors.New("store: changed meanwhile")
	ErrExists   = errors.New("store: exists already")
)

// Store is durable storage. Methods are safe for concurrent use. An error leaves everything as it was.
type Store interface {
	Log
	Records(ctx context.Context) ([]resilience.Record, error)
	Keys
	Settings
	Audit
	Models
	Close() error
}

// Log is the decision log and the usage ledger.
type Log interface {
	// Put stores a batch in one transaction. It is idempotent by request id: of a request that is stored already nothing
	// is stored or counted again. Of two records of one key the older (by At) loses whatever the order; a record with an
	// empty value deletes. Byte slices of the batch are not kept.
	Put(ctx context.Context, b *Batch) error
	// Request returns one request, or ErrNotFound.
	Request(ctx context.Context, id gateway.RequestID) (Request, error)
	// Requests lists requests, the last one to end first.
	Requests(ctx context.Context, f Filter) ([]Request, error)
	// Attempts lists the attempts of requests, the newest request first, within a request by number.
	Attempts(ctx context.Context, f Filter) ([]Attempt, error)
	// Bodies returns what is kept of a request's bodies.
	Bodies(ctx context.Context, id gateway.RequestID) ([]Body, error)
	// Usage sums the ledger over [since, until), one line per hour, client key, target and connection.
	Usage(ctx context.Context, since, until time.Time) ([]Usage, error)
	// Marks returns how far each journal segment was moved.
	Marks(ctx context.Context) ([]Mark, error)
	// Trim deletes at most limit requests, with their attempts and bodies: the oldest ones that ended before the given
	// time, or, when the log takes more than maxBytes (0 = any size), the oldest whatever their age. It returns how many
	// went; a caller repeats until that is less than limit. Usage is never trimmed.
	Trim(ctx context.Context, before time.Time, maxBytes int64, limit int) (int, error)
}

// Batch is what Put stores together.
type Batch struct {
	Requests []Request
	Attempts []Attempt // of requests in the batch that are not [Request.Inline]
	Usage    []Usage   // sums whose requests could not be kept one by one
	Records  []resilience.Record
	Bodies   []Body
	Mark     Mark     // everything in the batch came from before this place of the journal; zero = not from a journal
	Done     []string // journal segments that are gone: their marks are deleted
}

// Empty reports whether there is nothing to store.
func (b *Batch) Empty() bool {
	return len(b.Requests)+len(b.Attempts)+len(b.Usage)+len(b.Records)+len(b.Bodies)+len(b.Done) == 0 && b.Mark == Mark{}
}

// Mark is how far a journal segment was moved into the store.
type Mark struct {
	Segment string
	Offset  int64
}

// Request is one row of the decision log: what people filter by, and the rest as bytes that only package account reads.
type Request struct {
	ID         gateway.RequestID
	EndedAt    time.Time
	Duration   time.Duration
	ClientKey  string
	Model      string // as asked
	Target     string // provider/model that served or was tried last
	Connection string // likewise
	Status     int
	Code       string // error.code; "" = answered
	Outcome    string // of the last attempt; "" = success or no attempt
	Attempts   int
	Usage      gateway.Usage
	Detail     []byte

	// Cursor is the row's place in the list, set by Requests; Filter.After takes it.
	Cursor int64
}

// Inline reports whether the row is its only attempt, too: one attempt, which answered. That is nearly every request,
// so it is not stored a second time; the duration is then that of the request.
func (r *Request) Inline() bool { return r.Attempts == 1 && r.Outcome == "" && r.Code == "" }

// Attempt is one upstream call, for counting by connection and outcome.
type Attempt struct {
	Request    gateway.RequestID
	N          int
	Target     string
	Connection string
	Outcome    string
	Status     int
	EndedAt    time.Time
	Duration   time.Duration
}

// Filter narrows a list; zero fields do not narrow.
type Filter struct {
	ClientKey  string
	Model      string
	Provider   string
	Connection string
	Code       string
	Status     int
	Failed     bool      // only what did not end with an answer
	Since      time.Time // ended at or after
	Until      time.Time // ended before
	Slower     time.Duration
	After      int64 // cursor of the last row of the page before
	Limit      int   // default 100, at most 1000
}

// Rows is the limit that holds.
func (f Filter) Rows() int {
	switch {
	case f.Limit <= 0:
		return 100
	case f.Limit > 1000:
		return 1000
	}
	return f.Limit
}

// Usage is a line of the ledger: sums over an hour.
type Usage struct {
	Hour       time.Time // start of the hour, UTC
	ClientKey  string
	Target     string
	Connection string

	Requests    int64
	Failed      int64
	Input       int64
	CachedInput int64
	Output      int64
	Reasoning   int64
	Estimated   int64 // requests whose tokens were estimated
}

// Line is what a request adds to the ledger.
func (r *Request) Line() Usage {
	u := Usage{Hour: r.EndedAt.UTC().Truncate(time.Hour), ClientKey: r.ClientKey, Target: r.Target, Connection: r.Connection,
		Requests: 1, Input: int64(r.Usage.Input), CachedInput: int64(r.Usage.CachedInput), Output: int64(r.Usage.Output),
		Reasoning: int64(r.Usage.Reasoning)}
	if r.Code != "" {
		u.Failed = 1
	}
	if r.Usage.Estimated {
		u.Estimated = 1
	}
	return u
}

// UsageKey is what lines are summed by.
type UsageKey struct {
	Hour                          int64
	ClientKey, Target, Connection string
}

// Sums adds up lines of the ledger.
type Sums map[UsageKey]*Usage

// Add adds a line.
func (s Sums) Add(u Usage) {
	k := UsageKey{u.Hour.UnixMilli(), u.ClientKey, u.Target, u.Connection}
	have := s[k]
	if have == nil {
		first := u // of its own: the others need no memory
		s[k] = &first
		return
	}
	have.Requests += u.Requests
	have.Failed += u.Failed
	have.Input += u.Input
	have.CachedInput += u.CachedInput
	have.Output += u.Output
	have.Reasoning += u.Reasoning
	have.Estimated += u.Estimated
}

// Body is a kept request or answer body.
type Body struct {
	Request gateway.RequestID
	Part    string // request | answer
	At      time.Time
	Data    []byte
}

// Key is a client key as it is kept: the key itself never is.
type Key struct {
	gateway.ClientKey
	CreatedAt time.Time
	RevokedAt time.Time // zero = in use
}

// Keys are the client keys that were made at run time.
type Keys interface {
	// CreateKey stores a key; ErrExists when its name or its hash is taken, by a revoked key too.
	CreateKey(ctx context.Context, k Key) error
	// ListKeys returns all keys, revoked ones too, by name.
	ListKeys(ctx context.Context) ([]Key, error)
	// RevokeKey ends a key; ErrNotFound when there is none of that name. Revoking twice keeps the first time.
	RevokeKey(ctx context.Context, name gateway.ClientKeyID, at time.Time) error
}

// Settings are small named values, each with a version that a change must name.
type Settings interface {
	// Setting returns a value and its version, or ErrNotFound.
	Setting(ctx context.Context, name string) (value []byte, version int64, err error)
	// PutSetting stores a value when the stored version is still the given one (0 = there is none yet; a negative one
	// overwrites whatever there is) and returns the new version, or ErrConflict.
	PutSetting(ctx context.Context, name string, value []byte, version int64) (int64, error)
}

// AuditRow is one change that somebody made.
type AuditRow struct {
	ID     int64 // set by the store, growing
	At     time.Time
	Who    string
	What   string
	Before []byte // JSON; nil = there was nothing
	After  []byte
}

// Audit is the append-only list of changes.
type Audit interface {
	AppendAudit(ctx context.Context, r AuditRow) error
	// ListAudit returns rows, newest first; before is the id of the last row of the page before, 0 = from the newest.
	ListAudit(ctx context.Context, before int64, limit int) ([]AuditRow, error)
}

// Models caches upstreams' lists of models.
type Models interface {
	// PutModels stores a list under a name until a time.
	PutModels(ctx context.Context, name string, list []byte, until time.Time) error
	// Models returns a list that is good at now, or ErrNotFound.
	Models(ctx context.Context, name string, now time.Time) ([]byte, error)
}
