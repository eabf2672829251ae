package lab

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/lab/wire"
)

// voice is a way to answer: the texts of sources with equal voices are equal.
type voice struct {
	seed  uint64
	words int
}

func voicesOf(s *scenario.Scenario) []voice {
	var out []voice
	add := func(v voice) {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	for i := range s.Sources {
		src := &s.Sources[i]
		add(voice{src.Voice(), src.Words()})
		for _, f := range src.Faults {
			if f.Kind == fault.Short {
				add(voice{src.Voice() ^ wire.ShortSeed, f.ShortTokens()})
			}
		}
	}
	return out
}

// right reports whether a text is the whole answer of one of the sources.
func right(voices []voice, prompt, text string) bool {
	for _, v := range voices {
		if wire.Text(prompt, v.seed, v.words) == text {
			return true
		}
	}
	return false
}

// judge sorts one call in.
func (t *traffic) judge(q question, res client.Result) callEnd {
	e := callEnd{first: res.FirstAfter, took: res.EndedAfter}
	switch res.End {
	case client.Complete:
		e.good = right(t.voices, q.prompt, res.Text)
		if !e.good {
			e.wrong, e.why = true, "complete with wrong text"
		}
	case client.Truncated:
		e.wrong, e.why = true, "truncated, shown as success"
	case client.Failed:
		e.why = clip(fmt.Sprintf("error %d %s %s", res.Status, res.ErrorCode, res.ErrorMessage), 100)
	case client.Hung:
		e.hung, e.unclean, e.why = true, true, "the client gave up"
	default:
		e.unclean = res.Status < 400
		e.why = clip(fmt.Sprintf("broken: status %d, %s", res.Status, res.Note), 100)
	}
	return e
}

// measure turns what was seen into numbers. It is pure.
type measure struct {
	s        *scenario.Scenario
	calls    []callEnd
	attempts map[string][]Attempt
	peaks    map[string]int
	sights   map[string][]sight
	oracle   *oracle
	began    time.Time
	wall     time.Duration

	unclean, gaveUp int
	first, whole    []time.Duration // of the successes, sorted
}

func (m *measure) report() RunReport {
	o := consult(m.s, m.arrivals())
	m.oracle = o
	r := RunReport{Scenario: m.s.Name, Engine: "real", Calls: len(m.calls), OracleSuccess: o.success, OracleAttempts: o.attempts,
		AttemptsBySource: map[string]int{}, DeadAttempts: map[string]int{}, OutageS: map[string]float64{},
		WallS: m.wall.Seconds(), Ends: map[string]int{}, Holds: []HoldReport{}}
	for _, c := range m.calls {
		m.count(c, &r)
	}
	slices.Sort(m.first)
	slices.Sort(m.whole)
	limited := 0
	for name, list := range m.attempts {
		r.AttemptsBySource[name] = len(list)
		r.Attempts += len(list)
		for i := range list {
			if rateLimited(&list[i]) {
				limited++
			}
			if list[i].Dead {
				r.DeadAttempts[name]++
			}
		}
		r.OutageS[name] = outage(m.sights[name], list).Seconds()
	}
	r.OracleEfficiency = ratio(r.Success, r.OracleSuccess)
	if r.OracleSuccess == 0 && r.Success == 0 {
		r.OracleEfficiency = 1 // nobody could do better
	}
	r.AttemptsPerCall, r.RateLimitedShare = ratio(r.Attempts, r.Calls), ratio(limited, r.Attempts)
	r.TTFCP50, r.TTFCP95, r.TTFCP99 = quantile(m.first, 0.5), quantile(m.first, 0.95), quantile(m.first, 0.99)
	r.EndP50, r.EndP95, r.EndP99 = quantile(m.whole, 0.5), quantile(m.whole, 0.95), quantile(m.whole, 0.99)
	r.Trace = m.trace()
	for _, h := range m.s.Holds {
		r.Holds = append(r.Holds, m.hold(h, &r))
	}
	return r
}

// arrivals are the beginnings of the calls, in their order.
func (m *measure) arrivals() []arrival {
	out := make([]arrival, 0, len(m.calls))
	for _, c := range m.calls {
		out = append(out, arrival{c.n, c.at})
	}
	slices.SortFunc(out, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.call, b.call)) })
	return out
}

func (m *measure) count(c callEnd, r *RunReport) {
	if c.good {
		r.Success++
		m.first = append(m.first, c.first)
		m.whole = append(m.whole, c.took)
		return
	}
	r.Ends[c.why]++
	if c.wrong {
		r.WrongSuccess++
	}
	if c.unclean {
		m.unclean++
	}
	if c.hung {
		m.gaveUp++
	}
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// quantile is in milliseconds; the list is sorted.
func quantile(list []time.Duration, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return float64(list[min(len(list)-1, int(q*float64(len(list))))].Microseconds()) / 1000
}

// value is one measure by its name.
func (m *measure) value(h scenario.Hold, r *RunReport) float64 {
	switch h.What {
	case "success_rate":
		return ratio(r.Success, r.Calls)
	case "wrong_success":
		return float64(r.WrongSuccess)
	case "oracle_efficiency":
		return r.OracleEfficiency
	case "attempts_vs_oracle":
		return ratio(r.Attempts, r.OracleAttempts)
	case "attempts_per_call":
		return r.AttemptsPerCall
	case "rate_limited_share":
		return r.RateLimitedShare
	case "ttfc_p50_ms":
		return r.TTFCP50
	case "ttfc_p95_ms":
		return r.TTFCP95
	case "ttfc_p99_ms":
		return r.TTFCP99
	case "end_p50_ms":
		return r.EndP50
	case "end_p95_ms":
		return r.EndP95
	case "end_p99_ms":
		return r.EndP99
	case "attempts":
		return float64(r.AttemptsBySource[h.Source])
	case "attempts_share":
		return ratio(r.AttemptsBySource[h.Source], r.Attempts)
	case "dead_attempts":
		if h.Source != "" {
			return float64(r.DeadAttempts[h.Source])
		}
		return float64(r.dead())
	case "peak_in_flight":
		return float64(m.peaks[h.Source])
	case "longest_outage_s":
		return r.OutageS[h.Source]
	case "unclean_errors":
		return float64(m.unclean)
	case "gave_up":
		return float64(m.gaveUp)
	}
	panic("lab: a measure that the scenario reader takes and the judge does not know: " + h.What)
}

func (m *measure) hold(h scenario.Hold, r *RunReport) HoldReport {
	out := HoldReport{What: h.What, OK: true, Value: m.value(h, r)}
	if h.Source != "" {
		out.What += " of " + h.Source
	}
	if h.Min != nil {
		out.Limit = fmt.Sprintf(">= %g", *h.Min)
		out.OK = out.Value >= *h.Min
	}
	if h.Max != nil {
		if out.Limit != "" {
			out.Limit += ", "
		}
		out.Limit += fmt.Sprintf("<= %g", *h.Max)
		out.OK = out.OK && out.Value <= *h.Max
	}
	return out
}
