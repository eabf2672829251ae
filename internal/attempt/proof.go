package attempt

import (
	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// Proof is what is known about a committed answer once it has ended, for those who want to use it again. It says nothing
// about the client: an answer is whole when its upstream has ended it, whether or not it was read.
type Proof struct {
	Kind    gateway.Kind // of the attempt that gave it
	Status  int          // as the client got it
	Content bool         // there is something in it
	Refused bool         // it was stopped by a content filter
	Length  bool         // it was stopped by a token limit
	Mended  bool         // events that could not be read were left out of it
	Unsure  bool         // its end leaves a doubt: for an unknown reason, or the connection broke right behind it
}

func (r *run) prove(f *flight) {
	if r.job.Ended == nil {
		return
	}
	flags := f.facts.flags
	r.job.Ended(Proof{Kind: f.outcome.Kind, Status: r.job.Journey.Status,
		Content: f.facts.content || !r.job.Envelope.Operation.Completes() && f.attempt.Bytes > 0,
		Refused: flags.Has(protocol.Refused), Length: flags.Has(protocol.Length), Mended: f.facts.malformed > 0,
		Unsure: flags.Has(protocol.Odd) || f.facts.broken})
}
