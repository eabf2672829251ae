// Package attempt runs a request: it asks the walk (attempt/next) what to do, takes permits, sends, watches, holds the
// head of the answer until it proves good, judges the end, and lets every room learn from that one outcome. It knows no
// wire protocol: commit, end, error, usage and content come from protocol.Family.
//
// The loop of a request runs in the goroutine that called Run. Only a raced probe starts others, and Run waits for
// them. Whatever Run took (permits, slots, places in a queue, timers, buffers) is given back when it returns, also when
// it panics.
package attempt

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/envelope"
	"spillway/internal/gateway"
	"spillway/internal/plan"
	"spillway/internal/protocol"
	"spillway/internal/resilience/affinity"
	"spillway/internal/resilience/queue"
	"spillway/internal/resilience/verdict"
	"spillway/internal/resilience/watchdog"
)

// Sender sends one upstream request. It is http.RoundTripper per connection.
type Sender interface {
	For(c *gateway.Connection) (http.RoundTripper, error)
}

// Outages turns the outcomes of many connections into facts about an endpoint or about our own network.
type Outages interface {
	Observe(c gateway.Candidate, o gateway.Outcome, now time.Time) gateway.Outcome
	Alive(c gateway.Candidate, now time.Time)
}

// Door is the one-way door to the client: pending, then committed, then closed. After Commit failover is impossible.
// Errors mean that the client is gone.
type Door interface {
	Commit(a *gateway.Answer) error                        // status, headers and the first bytes; flushes
	Write(events []byte, now time.Time) error              // whole events; flushes
	Fail(e *gateway.Error, st *protocol.StreamState) error // in-band; st is nil when no stream has begun
	Committed() bool                                       // content has been sent
	Opened() bool                                          // headers have been sent, by Commit or early
}

// Events tell others what happened; nil fields are not called. They are called outside locks and must return quickly.
type Events struct {
	Attempt func(c gateway.Candidate, a *gateway.Attempt)
	Waiting func(delta int)
	// Emergency hears of requests that went on over the emergency combo, when they end.
	Emergency func(answered bool)
}

// Options are what an engine is made of. All fields but Log, Events and Affinity are required.
type Options struct {
	Sender  Sender
	Outages Outages
	Queues  *queue.Room
	Log     *slog.Logger
	Events  Events
	Agent   string // User-Agent sent upstream
	Buffers *Buffers

	Affinity *affinity.Room // nil = sessions are not bound, and nothing is known about stored objects
}

// Engine runs requests. It is safe for concurrent use.
type Engine struct {
	Options
	agent []string // the User-Agent header
	mu    sync.Mutex
	pools map[string]*budget
}

// New returns an engine.
func New(o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{Options: o, agent: []string{cmp.Or(o.Agent, "spillway")}, pools: map[string]*budget{}}
}

// Job is one request to be run.
type Job struct {
	Envelope  *gateway.Envelope
	Bodies    *envelope.Readers // of the envelope's bytes
	Family    protocol.Family
	Pool      *plan.Pool
	Rules     *verdict.Rules
	Principal gateway.Principal
	Allowed   func(*gateway.Connection) bool // nil = every connection
	Header    http.Header                    // the client's; only what is on the allow-list goes upstream
	Door      Door
	Journey   *gateway.Journey
	Walk      next.Config
	Timeouts  gateway.Timeouts
	Queue     queue.Config // bounds of the pool's line; the depth is of the whole pool
	Guards    watchdog.Config
	Hold      Hold          // of a stream before its first content
	EndGrace  time.Duration // how long a stream may linger after its terminal event; 0 = 500 ms
	// AllowEmpty makes an answer without anything in it an answer.
	AllowEmpty bool
	Rename     bool // an alias was asked for: put its name back into the answer
	// Emergency is where the request goes on when Pool has failed it; nil = nowhere. The run then changes Pool and Walk.
	Emergency *Emergency
	// NoneLeft is told whenever it becomes known that no untried candidate is left.
	NoneLeft func()
	// Ended is told how a committed answer ended; nil = nobody.
	Ended func(gateway.Proof)
}

// Hold is how much of a stream is held back before its first content; zero fields take the default.
type Hold struct{ Bytes, Events int }

// Run runs the request to its one end. It returns nil when the door was committed (also when the stream then broke: the
// door has told the client), else the error to be sent.
func (e *Engine) Run(ctx context.Context, job *Job) *gateway.Error {
	r := &run{engine: e, job: job, parent: ctx, began: job.Journey.At, budget: e.budgetOf(job.Pool.Name),
		jitter: rand.Float64}
	r.walkAt, r.history = r.began, r.first[:0]
	if job.Emergency != nil {
		job.Walk.Kept = kept(job.Walk.AttemptLimit)
		job.Walk.AttemptLimit -= job.Walk.Kept
	}
	defer r.close()
	return r.ending(r.loop())
}

// maxBudgets bounds the memory of pools: their names can come from clients.
const maxBudgets = 4096

func (e *Engine) budgetOf(pool string) *budget {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.pools[pool]
	if b == nil {
		if len(e.pools) >= maxBudgets {
			for name, old := range e.pools { // any idle one: a full bucket is what a new one would be, too
				if old.idle(time.Now()) {
					delete(e.pools, name)
					break
				}
			}
		}
		b = newBudget(time.Now())
		e.pools[pool] = b
	}
	return b
}
