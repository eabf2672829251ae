package attempt

import (
	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// prove tells what is known about an answer that has ended.
func (r *run) prove(f *flight) {
	if r.job.Ended == nil {
		return
	}
	flags := f.facts.flags
	r.job.Ended(gateway.Proof{Kind: f.outcome.Kind, Status: r.job.Journey.Status,
		Content: f.facts.content || !r.job.Envelope.Operation.Completes() && f.attempt.Bytes > 0,
		Refused: flags.Has(protocol.Refused), Length: flags.Has(protocol.Length), Mended: f.facts.malformed > 0,
		Unsure: flags.Has(protocol.Odd) || f.facts.broken})
}
