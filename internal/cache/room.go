package cache

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
)

// Entry is an answer that may be served again. It is immutable.
type Entry struct {
	Body        []byte // as the client got it: the answer, or all events of a stream
	Stream      bool
	ContentType []string // of the header
	Served      gateway.Target
	Request     gateway.RequestID // that it was made for
	At          time.Time         // when it was complete

	key          Key
	newer, older *Entry
}

// overhead is what an entry costs beside its body: itself, its place in the map, its names.
const overhead = 512

func (e *Entry) cost() int64 { return int64(len(e.Body)) + overhead }

// Room keeps answers. It is safe for concurrent use. A new room keeps nothing until it is configured.
type Room struct {
	Flights Flights

	mu       sync.Mutex
	entries  map[Key]*Entry
	newest   *Entry
	oldest   *Entry
	limit    int64 // bytes of entries and of copies that are being made
	used     int64 // of entries
	copying  int64 // of copies that are being made
	counters counters

	scratch sync.Pool // *[]byte: memory of copies that have ended, none of more than keptCopy
}

type counters struct{ hits, misses, shared, stored, unfit, evicted atomic.Uint64 }

// New returns a room that keeps nothing yet. Flights count their bytes with b, which may be nil.
func New(b Bytes) *Room {
	r := &Room{entries: map[Key]*Entry{}}
	r.Flights.bytes, r.Flights.flights = b, map[Key]*Flight{}
	return r
}

// Configure sets the bound in bytes; what is beyond it goes. 0 empties the room.
func (r *Room) Configure(limit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = max(limit, 0)
	r.fit(0)
}

// Load returns the answer of a key that is younger than limit, and counts it as used now; nil = there is none.
func (r *Room) Load(k Key, limit time.Duration, now time.Time) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[k]
	if e == nil || !fresh(e.At, now, limit) { // one that is too old for this caller may be young enough for the next
		r.counters.misses.Add(1)
		return nil
	}
	r.counters.hits.Add(1)
	r.unlink(e)
	r.link(e)
	return e
}

// Shared counts a request that was answered by another one's run.
func (r *Room) Shared() { r.counters.shared.Add(1) }

// link puts e in front.
func (r *Room) link(e *Entry) {
	e.older, e.newer = r.newest, nil
	if r.newest != nil {
		r.newest.newer = e
	}
	r.newest = e
	if r.oldest == nil {
		r.oldest = e
	}
}

func (r *Room) unlink(e *Entry) {
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		r.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		r.oldest = e.newer
	}
	e.newer, e.older = nil, nil
}

func (r *Room) drop(e *Entry) {
	r.unlink(e)
	delete(r.entries, e.key)
	r.used -= e.cost()
}

// fit makes room for n bytes more, at the cost of the entries that were used least recently; it reports whether they fit.
func (r *Room) fit(n int64) bool {
	for r.oldest != nil && r.used+r.copying+n > r.limit {
		r.drop(r.oldest)
		r.counters.evicted.Add(1)
	}
	return r.used+r.copying+n <= r.limit
}

// Snapshot is what a room holds and has counted since it was made.
type Snapshot struct {
	Entries int
	Bytes   int64 // of entries and of copies that are being made

	Hits, Misses, Shared uint64
	Stored               uint64
	Unfit                uint64 // answers that were looked at and not kept: not whole, too large, no room
	Evicted              uint64
}

// Snapshot returns the present numbers.
func (r *Room) Snapshot() Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counters
	return Snapshot{Entries: len(r.entries), Bytes: r.used + r.copying, Hits: c.hits.Load(), Misses: c.misses.Load(),
		Shared: c.shared.Load(), Stored: c.stored.Load(), Unfit: c.unfit.Load(), Evicted: c.evicted.Load()}
}

// Copy is an answer that is being copied while it goes to its client. It belongs to one goroutine. Close must be called.
type Copy struct {
	room    *Room
	most    int64 // bytes of the body
	counted int64
	body    []byte
	memory  *[]byte // where body stands, when the next copy may have it
	given   bool    // given up: too large, or there is no room
}

// Bytes of a copy: its room at first, and the most that is used again for another one.
const (
	firstCopy = 4 << 10
	keptCopy  = 16 << 10
)

// Copy begins a copy of an answer of at most that many bytes.
func (r *Room) Copy(most int64) *Copy { return &Copy{room: r, most: most} }

// Add appends what has gone to the client. A copy that becomes too large is given up, with everything it holds.
func (c *Copy) Add(b []byte) {
	if c.given || len(b) == 0 {
		return
	}
	need := int64(len(c.body) + len(b))
	if need > c.most || need > c.counted && !c.grow(need) {
		c.Close()
		return
	}
	c.body = append(c.body, b...)
}

func (c *Copy) grow(need int64) bool {
	size := max(need, min(2*c.counted, c.most), firstCopy)
	if !c.room.reserve(size) {
		return false
	}
	c.room.release(c.counted)
	c.counted = size
	if c.memory == nil {
		if c.memory, _ = c.room.scratch.Get().(*[]byte); c.memory == nil {
			c.memory = new([]byte)
		}
		c.body = (*c.memory)[:0]
	}
	if int64(cap(c.body)) < size {
		grown := make([]byte, len(c.body), size)
		copy(grown, c.body)
		c.body = grown
	}
	return true
}

// Close gives up what was not recorded. It is idempotent.
func (c *Copy) Close() {
	c.room.release(c.counted)
	if c.memory != nil && cap(c.body) <= keptCopy {
		*c.memory = c.body[:0]
		c.room.scratch.Put(c.memory)
	}
	c.body, c.memory, c.counted, c.given = nil, nil, 0, true
}

// reserve takes bytes for copies, which never take more than half of the room from what is kept.
func (r *Room) reserve(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copying+n > r.limit/2 || !r.fit(n) {
		return false
	}
	r.copying += n
	return true
}

func (r *Room) release(n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copying -= n
}

// Record keeps an answer when its proof allows that and the copy is whole. A newer answer replaces the older. The copy
// must not be used afterwards. It reports whether the answer was kept.
func (r *Room) Record(k Key, e Entry, c *Copy, p Proof) bool {
	defer c.Close()
	if c.given || len(c.body) == 0 || !p.Keep() {
		r.counters.unfit.Add(1)
		return false
	}
	e.Body, e.key, e.newer, e.older = bytes.Clone(c.body), k, nil, nil // to its size: copies grow by doubling
	c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.entries[k]; old != nil {
		r.drop(old)
	}
	if !r.fit(e.cost()) {
		r.counters.unfit.Add(1)
		return false
	}
	r.entries[k] = &e
	r.used += e.cost()
	r.link(&e)
	r.counters.stored.Add(1)
	return true
}
