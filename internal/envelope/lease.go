package envelope

import "sync/atomic"

// Readers counts the readers of one body that are still open. A transport may go on reading a request body after its
// answer began, and closes it when it is done: only then may the bytes be used for something else.
type Readers struct{ open atomic.Int32 }

// Open returns a fresh reader over the body.
func (r *Readers) Open(b *Body) *Reader {
	r.open.Add(1)
	return &Reader{body: *b, readers: r}
}

// Idle reports whether every reader was closed.
func (r *Readers) Idle() bool { return r.open.Load() == 0 }
