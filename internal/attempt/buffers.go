package attempt

import (
	"sync"
	"sync/atomic"
)

// Buffers counts the bytes that requests hold in memory (bodies and held streams) against limits.buffered_bytes, and
// keeps a pool of body buffers. It is safe for concurrent use.
type Buffers struct {
	limit int64
	used  atomic.Int64
	free  sync.Pool
}

// NewBuffers returns a counter with a limit in bytes; 0 = no limit.
func NewBuffers(limit int64) *Buffers { return &Buffers{limit: limit} }

// Take counts n bytes; it refuses, and counts nothing, when that would pass the limit.
func (b *Buffers) Take(n int64) bool {
	if now := b.used.Add(n); b.limit > 0 && now > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give returns n bytes.
func (b *Buffers) Give(n int64) { b.used.Add(-n) }

// Used is what is counted now.
func (b *Buffers) Used() int64 { return b.used.Load() }

// keepMost is the largest buffer that is kept for reuse; larger ones would pin memory.
const keepMost = 256 << 10

// Get returns an empty buffer with room for size bytes.
func (b *Buffers) Get(size int) *[]byte {
	if p, ok := b.free.Get().(*[]byte); ok {
		if cap(*p) >= size {
			*p = (*p)[:0]
			return p
		}
	}
	buf := make([]byte, 0, max(size, 8<<10))
	return &buf
}

// Put gives a buffer back; nothing may read it afterwards.
func (b *Buffers) Put(p *[]byte) {
	if p != nil && cap(*p) <= keepMost {
		b.free.Put(p)
	}
}
