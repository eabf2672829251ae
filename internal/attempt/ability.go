package attempt

import (
	"time"

	"spillway/internal/envelope"
	"spillway/internal/gateway"
)

// able lets what is known about the model learn from the end of an attempt.
func (f *flight) able(o gateway.Outcome, now time.Time) {
	h := f.candidate.Ability
	env := f.run.job.Envelope
	switch {
	case o.Reason == gateway.CapabilityRefused:
		h.Learn(o, env.Tools, now)
	case o.Kind == gateway.Success && h.Hot():
		h.Worked(func(feature string) bool { return envelope.Asks(env, feature) }, env.Tools, now)
	}
}

// noteDemoted writes into the decision log which targets rank last for what they refuse.
func (r *run) noteDemoted() {
	j := r.job.Journey
	for _, d := range r.plan.Demoted {
		j.Path = append(j.Path[:len(j.Path):len(j.Path)], d.Target.String()+" ranked last, it refuses "+d.Feature)
	}
}
