package attempt

import (
	"time"

	"spillway/internal/protocol"
)

// guarded reports whether the start guard still wants the head held back. A stream that is complete never is.
func (f *flight) guarded() bool {
	if !f.run.job.Guards.StartGuard || f.facts.last || !f.watch.Held() {
		return false
	}
	if f.probe {
		f.permits.renew(time.Now())
	}
	return true
}

// textBytes is how much text an event with text holds, as far as a guard looks at it: at least one byte.
func (f *flight) textBytes(data []byte) int {
	if g := &f.run.job.Guards; !g.StartGuard && !g.Throughput {
		return len(data)
	}
	return max(protocol.TextBytes(data, f.run.job.Family.TextMember()), 1)
}
