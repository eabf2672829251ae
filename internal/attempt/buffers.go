package attempt

import (
	"sync"
	"sync/atomic"
)

// Buffers counts the bytes that requests hold in memory (bodies and held streams) against limits.buffered_bytes, and
// keeps body buffers for reuse, by size: making a large one costs more than filling it. It is safe for concurrent use.
type Buffers struct {
	limit int64
	used  atomic.Int64
	free  [classes]sync.Pool
}

// Sizes of kept buffers: 8 KiB, 32 KiB, 128 KiB, 512 KiB, 2 MiB. Larger ones are left to the collector; idle ones go with
// its second turn.
const (
	classes   = 5
	classLow  = 8 << 10
	classStep = 2 // bits
)

// class is the smallest class that holds size bytes; classes when none does.
func class(size int) int {
	for c := range classes {
		if size <= classLow<<(classStep*c) {
			return c
		}
	}
	return classes
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

// Get returns an empty buffer with room for size bytes.
func (b *Buffers) Get(size int) *[]byte {
	c := class(size)
	if c == classes {
		buf := make([]byte, 0, size)
		return &buf
	}
	if p, ok := b.free[c].Get().(*[]byte); ok {
		*p = (*p)[:0]
		return p
	}
	buf := make([]byte, 0, classLow<<(classStep*c))
	return &buf
}

// Put gives a buffer back; nothing may read it afterwards. One that was grown goes to the class that it fills.
func (b *Buffers) Put(p *[]byte) {
	if p == nil {
		return
	}
	c := class(cap(*p))
	if c < classes && cap(*p) < classLow<<(classStep*c) {
		c-- // a class promises its full size
	}
	if c >= 0 && c < classes {
		b.free[c].Put(p)
	}
}
