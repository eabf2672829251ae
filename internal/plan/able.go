package plan

import (
	"slices"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
)

// wish is what a request asks of a model, as far as models are known to refuse it.
type wish struct {
	env  *gateway.Envelope
	asks func(e *gateway.Envelope, feature string) bool
}

// Want tells the plan what the request asks of a model: targets that are known to refuse it rank last, those that take
// fewer tools are left out. asks finds out about one feature; it is called only when something is known about a model.
func (pl *Plan) Want(env *gateway.Envelope, asks func(e *gateway.Envelope, feature string) bool) {
	pl.wish = wish{env, asks}
}

// Demoted is a target that ranks last, and the feature that it refuses.
type Demoted struct {
	Target  gateway.Target
	Feature string
}

// ignorant reports that nothing is known about any model, or that the request did not say what it wants.
func (pl *Plan) ignorant() bool {
	return pl.wish.env == nil || len(pl.Pool.Candidates) == 0 || pl.Pool.Candidates[0].Ability.Idle()
}

// limitTools leaves out what takes fewer tools than the request has, as long as something else may take them: to send
// them there would be a refusal for sure, and end the walk.
func (pl *Plan) limitTools(now time.Time) {
	n := pl.wish.env.Tools
	if n == 0 {
		return
	}
	fits := false
	for i, c := range pl.Pool.Candidates {
		if pl.walkers[i].Ruling.Layer != gateway.LayerRoute {
			most, _ := c.Ability.Tools(now)
			fits = fits || most == 0 || n <= most
		}
	}
	if !fits {
		return
	}
	for i, c := range pl.Pool.Candidates {
		r := &pl.walkers[i].Ruling
		most, until := c.Ability.Tools(now)
		if most == 0 || n <= most || r.Layer == gateway.LayerRoute {
			continue
		}
		if r.OK() && !r.Probe {
			pl.Open--
		}
		pl.bar(i, gateway.ToolLimit, until)
	}
}

// demote puts last what is known to refuse a feature that the request uses, and keeps the order otherwise.
func (pl *Plan) demote(now time.Time) {
	pl.Demoted = pl.Demoted[:0]
	asked := func(feature string) bool { return pl.wish.asks(pl.wish.env, feature) }
	var last []*next.Candidate
	at := 0
	for _, x := range pl.Ranked {
		c := pl.Pool.Candidates[x.ID]
		feature, _ := c.Ability.Refuses(asked, now)
		if feature == "" {
			pl.Ranked[at] = x
			at++
			continue
		}
		last = append(last, x)
		if d := (Demoted{c.Candidate.Target(), feature}); !slices.Contains(pl.Demoted, d) {
			pl.Demoted = append(pl.Demoted, d)
		}
	}
	copy(pl.Ranked[at:], last)
}
