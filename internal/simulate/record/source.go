package record

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// unit is one connection's attempts on one model.
type unit struct {
	connection gateway.ConnectionID
	model      gateway.ModelID
	provider   gateway.ProviderID
	attempts   []sample // by their begin
}

// sample is an attempt and whether its request was streamed.
type sample struct {
	*gateway.Attempt
	stream bool
}

// sources are the connections of the log.
func (l *Log) sources(from time.Time, pools []*pool) []scenario.Source {
	byConnection := map[gateway.ConnectionID]*scenario.Source{}
	var out []*scenario.Source
	for _, u := range l.units() {
		s := byConnection[u.connection]
		if s == nil {
			s = &scenario.Source{Name: string(u.connection), Provider: string(u.provider), Tokens: answerWords, Asked: map[string]string{}}
			byConnection[u.connection] = s
			out = append(out, s)
		}
		for _, p := range pools {
			if s.Asked[p.name] == "" && p.serves(u.provider, u.model) {
				s.Asked[p.name] = string(u.model)
			}
		}
		u.play(s, from)
	}
	list := make([]scenario.Source, 0, len(out))
	for _, s := range out {
		list = append(list, *s)
	}
	return list
}

// units groups the attempts that say something about an upstream.
func (l *Log) units() []*unit {
	type key struct {
		c gateway.ConnectionID
		m gateway.ModelID
	}
	byKey := map[key]*unit{}
	for _, j := range l.journeys {
		for i := range j.Attempts {
			a := &j.Attempts[i]
			if a.EndedAt.IsZero() || a.Connection == "" || a.Kind == gateway.LocalError || a.Kind == gateway.Canceled && a.Reason != gateway.RaceLost {
				continue
			}
			k := key{a.Connection, a.Target.Model}
			if byKey[k] == nil {
				byKey[k] = &unit{connection: k.c, model: k.m, provider: a.Target.Provider}
			}
			byKey[k].attempts = append(byKey[k].attempts, sample{a, j.Stream})
		}
	}
	out := slices.Collect(maps.Values(byKey))
	for _, u := range out {
		slices.SortStableFunc(u.attempts, func(a, b sample) int { return a.BeganAt.Compare(b.BeganAt) })
	}
	slices.SortFunc(out, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(a.connection, b.connection), cmp.Compare(a.model, b.model))
	})
	return out
}

// play writes the unit's windows into the source's script.
func (u *unit) play(s *scenario.Source, from time.Time) {
	windows := u.windows()
	for i, w := range windows {
		after, length := time.Duration(0), time.Duration(0)
		if i > 0 {
			after = w[0].BeganAt.Sub(from)
		}
		if i < len(windows)-1 {
			length = windows[i+1][0].BeganAt.Sub(from) - after
		}
		for _, f := range faults(w) {
			f.After, f.For, f.Models = max(after, 0), length, []string{string(u.model)}
			s.Faults = append(s.Faults, f)
		}
		p := pace(w)
		p.After, p.For, p.Models = max(after, 0), length, []string{string(u.model)}
		s.Paces = append(s.Paces, p)
	}
}

// windows cuts the attempts into groups: an outage, which is [outageRun] failures or more in a row, is one of its own
// that lasts until the next attempt that went well; between outages the groups have the least size and length.
func (u *unit) windows() [][]sample {
	var out [][]sample
	cut := func(from, to int) {
		begin := from
		for i := from; i < to; i++ {
			if i-begin >= minSamples && to-i >= minSamples && u.attempts[i].BeganAt.Sub(u.attempts[begin].BeganAt) >= minWindow {
				out = append(out, u.attempts[begin:i])
				begin = i
			}
		}
		if begin < to {
			out = append(out, u.attempts[begin:to])
		}
	}
	done := 0
	for i := 0; i < len(u.attempts); {
		end := i
		for end < len(u.attempts) && u.attempts[end].Kind != gateway.Success {
			end++
		}
		if end-i >= outageRun {
			cut(done, i)
			out = append(out, u.attempts[i:end])
			done = end
		}
		i = end + 1
	}
	cut(done, len(u.attempts))
	return out
}

// faults are the failures of a window, each with its probability among the attempts that the ones before it let through.
func faults(w []sample) []fault.Fault {
	type group struct {
		f     fault.Fault
		n     int
		delay []time.Duration
	}
	var groups []*group
	for _, a := range w {
		f, ok := failure(a)
		if !ok {
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return same(g.f, f) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{f: f})
		}
		groups[i].n++
		groups[i].delay = append(groups[i].delay, f.Delay)
	}
	// What ends an attempt is decided first, so that what delays it is drawn among the rest.
	slices.SortStableFunc(groups, func(a, b *group) int {
		return cmp.Compare(btoi(!a.f.Ends()), btoi(!b.f.Ends()))
	})
	left := len(w)
	var out []fault.Fault
	for _, g := range groups {
		slices.Sort(g.delay)
		g.f.Delay = g.delay[len(g.delay)/2]
		g.f.Prob = float64(g.n) / float64(left)
		left -= g.n
		out = append(out, g.f)
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// same reports whether two failures are of one sort; how long they took may differ.
func same(a, b fault.Fault) bool {
	return a.Kind == b.Kind && a.Status == b.Status && a.RetryAfter == b.RetryAfter && a.Message == b.Message && a.HoldHeaders == b.HoldHeaders
}

// pace is how fast the successes of a window were. Those that were streamed tell both times; without any, the whole time
// stands before the first token.
func pace(w []sample) scenario.Pace {
	var first, rest, whole []time.Duration
	for _, a := range w {
		switch {
		case a.Kind != gateway.Success:
		case a.stream && !a.ContentAt.IsZero():
			first = append(first, max(a.ContentAt.Sub(a.BeganAt), 0))
			rest = append(rest, max(a.EndedAt.Sub(a.ContentAt), 0))
		default:
			whole = append(whole, max(a.EndedAt.Sub(a.BeganAt), 0))
		}
	}
	if len(first) == 0 {
		return scenario.Pace{Latency: quantiles(whole)}
	}
	return scenario.Pace{Latency: quantiles(first), Length: quantiles(rest)}
}

// quantiles are eleven points of a distribution, from the least to the most.
func quantiles(list []time.Duration) []time.Duration {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	out := make([]time.Duration, 11)
	for i := range out {
		out[i] = scenario.Quantile(list, float64(i)/10)
	}
	return out
}
