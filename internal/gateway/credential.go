package gateway

import (
	"context"
	"sync"
	"sync/atomic"
)

// Credential is a connection's key and, when it comes from a file or a command, the way to read it again. It is safe
// for concurrent use.
type Credential struct {
	value  atomic.Pointer[Secret]
	mu     sync.Mutex // one reader of the source at a time
	source func(context.Context) (Secret, error)
}

// NewCredential returns a credential with a known value. source may be nil: then Reload never changes anything.
func NewCredential(value Secret, source func(context.Context) (Secret, error)) *Credential {
	c := &Credential{source: source}
	c.value.Store(&value)
	return c
}

// Value returns the current key; it never blocks.
func (c *Credential) Value() Secret {
	if c == nil {
		return ""
	}
	return *c.value.Load()
}

// Reload reads the source again and reports whether the key differs from used, the one an attempt was refused with. A
// caller that lost a race sees the winner's key and is told "changed" without a second read.
func (c *Credential) Reload(ctx context.Context, used Secret) (changed bool, err error) {
	if c == nil || c.source == nil {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Value() != used {
		return true, nil
	}
	fresh, err := c.source(ctx)
	if err != nil {
		return false, err
	}
	if fresh == used {
		return false, nil
	}
	c.value.Store(&fresh)
	return true, nil
}
