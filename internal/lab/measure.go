package lab

import (
	"fmt"
	"slices"
	"time"

	"spillway/internal/lab/client"
	"spillway/internal/lab/scenario"
)

// measure turns what was seen into numbers. It is pure.
type measure struct {
	s        *scenario.Scenario
	results  map[int]client.Result
	attempts map[string][]Attempt
	peaks    map[string]int
	oracle   *oracle
	wall     time.Duration

	success, wrong, unclean, gaveUp int
	first, whole                    []time.Duration // of the successes, sorted
}

// right reports whether a text is the whole answer of one of the sources.
func right(s *scenario.Scenario, prompt, text string) bool {
	for _, src := range s.Sources {
		if slices.Contains(src.Answers(prompt), text) {
			return true
		}
	}
	return false
}

func (m *measure) report() RunReport {
	r := RunReport{Scenario: m.s.Name, Engine: "real", Calls: len(m.results), OracleSuccess: m.oracle.success,
		AttemptsBySource: map[string]int{}, WallS: m.wall.Seconds(), Ends: map[string]int{}, Holds: []HoldReport{}}
	for i, res := range m.results {
		if why := m.count(i, res); why != "" {
			r.Ends[why]++
		}
	}
	slices.Sort(m.first)
	slices.Sort(m.whole)
	r.Success, r.WrongSuccess = m.success, m.wrong
	all, limited := m.total()
	for name, list := range m.attempts {
		r.AttemptsBySource[name] = len(list)
	}
	r.OracleEfficiency = ratio(r.Success, r.OracleSuccess)
	r.AttemptsPerCall, r.RateLimitedShare = ratio(all, r.Calls), ratio(limited, all)
	r.TTFCP50, r.TTFCP95 = quantile(m.first, 0.5), quantile(m.first, 0.95)
	for _, h := range m.s.Holds {
		r.Holds = append(r.Holds, m.hold(h, r))
	}
	return r
}

// count sorts one call in; it names the end of a call that was no success.
func (m *measure) count(i int, res client.Result) string {
	switch res.End {
	case client.Complete:
		if right(m.s, ask(m.s, i).prompt, res.Text) {
			m.success++
			m.first = append(m.first, res.FirstAfter)
			m.whole = append(m.whole, res.EndedAfter)
			return ""
		}
		m.wrong++
		return "complete with wrong text"
	case client.Truncated:
		m.wrong++
		return "truncated, shown as success"
	case client.Failed:
		return clip(fmt.Sprintf("error %d %s %s", res.Status, res.ErrorCode, res.ErrorMessage), 100)
	case client.Hung:
		m.gaveUp++
		m.unclean++
		return "the client gave up"
	}
	if res.Status < 400 {
		m.unclean++
	}
	return clip(fmt.Sprintf("broken: status %d, %s", res.Status, res.Note), 100)
}

func (m *measure) total() (all, limited int) {
	for _, list := range m.attempts {
		all += len(list)
		for _, a := range list {
			if rateLimited(a) {
				limited++
			}
		}
	}
	return all, limited
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
func (m *measure) value(h scenario.Hold, r RunReport) float64 {
	all, _ := m.total()
	switch h.What {
	case "success_rate":
		return ratio(r.Success, r.Calls)
	case "wrong_success":
		return float64(r.WrongSuccess)
	case "oracle_efficiency":
		return r.OracleEfficiency
	case "attempts_per_call":
		return r.AttemptsPerCall
	case "rate_limited_share":
		return r.RateLimitedShare
	case "ttfc_p50_ms":
		return r.TTFCP50
	case "ttfc_p95_ms":
		return r.TTFCP95
	case "ttfc_p99_ms":
		return quantile(m.first, 0.99)
	case "end_p99_ms":
		return quantile(m.whole, 0.99)
	case "attempts":
		return float64(len(m.attempts[h.Source]))
	case "attempts_share":
		return ratio(len(m.attempts[h.Source]), all)
	case "peak_in_flight":
		return float64(m.peaks[h.Source])
	case "longest_outage_s":
		return m.oracle.outage(h.Source, m.attempts[h.Source]).Seconds()
	case "unclean_errors":
		return float64(m.unclean)
	case "gave_up":
		return float64(m.gaveUp)
	}
	panic("lab: a measure that the scenario reader takes and the judge does not know: " + h.What)
}

func (m *measure) hold(h scenario.Hold, r RunReport) HoldReport {
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
