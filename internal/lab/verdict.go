package lab

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"spillway/internal/lab/client"
	"spillway/internal/lab/scenario"
)

// Verdict is what the failover suite says of one case.
type Verdict uint8

// The verdicts, from the best.
const (
	Pass    Verdict = iota // the right end and every conduct check
	Partial                // answered, an advisory check failed
	Safe                   // not answered, one bounded clean error
	Fail                   // a hang, wrong text shown as success, an end that no client can read, hammering
)

var verdictNames = [...]string{"pass", "partial", "safe", "fail"}

func (v Verdict) String() string { return verdictNames[v] }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// evidence is everything that a case is judged by.
type evidence struct {
	began   time.Time // of the load, and of the sources' scripts
	results []client.Result
	texts   []string // the right answers
	primary []Attempt
	second  []Attempt // of the fallback
	words   int       // tokens of a whole answer
}

// ruling collects what is found; the worst verdict stays.
type ruling struct {
	verdict Verdict
	notes   []string
}

func (r *ruling) say(v Verdict, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if v > r.verdict {
		r.verdict = v
	}
	if slices.Contains(r.notes, note) {
		return
	}
	r.notes = append(r.notes, note)
}

// judge is the suite's verdict on a case. It is a pure function of what was seen.
func judge(c scenario.Case, e evidence) (Verdict, string) {
	var r ruling
	for i, res := range e.results {
		r.end(c, res, e.texts[i])
	}
	if r.verdict <= Partial { // an advisory check says nothing about what was not answered
		r.clocks(c, e)
	}
	r.conduct(c, e)
	if c.Expect.NamesServed && r.verdict <= Partial {
		r.served(e)
	}
	return r.verdict, strings.Join(r.notes, "; ")
}

// end looks at how one request ended.
func (r *ruling) end(c scenario.Case, res client.Result, want string) {
	wantError := c.Expect.ErrorStatus != 0
	switch res.End {
	case client.Complete:
		if problem := compare(res.Text, want); problem != "" {
			r.say(Fail, "%s, shown as success", problem)
		} else if wantError {
			r.say(Partial, "answered by another source: the provider's reason is hidden")
		}
	case client.Failed:
		switch {
		case wantError && res.Status == c.Expect.ErrorStatus && strings.Contains(res.ErrorMessage, c.Expect.ErrorText):
		case wantError:
			r.say(Safe, "another error than the provider's: %s", describeError(res))
		default:
			r.say(Safe, "%s", describeError(res))
		}
	case client.Broken:
		if res.Status >= 400 {
			r.say(Safe, "status %d, not in the protocol's form", res.Status)
			return
		}
		r.say(Fail, "no end that a client can read: %s", res.Note)
	default:
		r.say(Fail, "%s: %s", res.End, res.Note)
	}
}

func describeError(res client.Result) string {
	where := fmt.Sprintf("status %d", res.Status)
	if res.InStream {
		where = "in the stream"
	}
	return fmt.Sprintf("error %s (%s)", where, clip(strings.TrimSpace(res.ErrorCode+" "+res.ErrorMessage), 90))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// compare names the way in which a text is wrong, "" when it is right.
func compare(got, want string) string {
	switch {
	case got == want:
		return ""
	case got == "":
		return "empty text"
	case strings.HasPrefix(want, got):
		return fmt.Sprintf("truncated text (%d of %d bytes)", len(got), len(want))
	}
	seen := map[string]bool{}
	for w := range strings.FieldsSeq(got) {
		if seen[w] {
			return "duplicated text (" + w + " twice)"
		}
		seen[w] = true
	}
	return "wrong text"
}

// clocks looks at the times that a case sets.
func (r *ruling) clocks(c scenario.Case, e evidence) {
	for _, res := range e.results {
		if limit := c.Expect.Within; limit > 0 && res.EndedAfter > limit {
			r.say(Partial, "took %.1f s, limit %s", res.EndedAfter.Seconds(), limit)
		}
		if limit := c.Expect.Tail; limit > 0 && res.End == client.Complete && res.EndedAfter-res.LastAfter > limit {
			r.say(Partial, "ended %.1f s after its last content, limit %s", (res.EndedAfter - res.LastAfter).Seconds(), limit)
		}
	}
}

// conduct looks at what the sources were asked.
func (r *ruling) conduct(c scenario.Case, e evidence) {
	x := c.Expect
	from, to, window := c.Down()
	n := len(e.primary)
	if window {
		n = 0
		for _, a := range e.primary {
			if t := a.At.Sub(e.began); t >= from && t < to {
				n++
			}
		}
	}
	if x.Hammering > 0 && n > x.Hammering {
		r.say(Fail, "hammering: %d attempts on the dead primary", n)
	}
	advise := func(format string, args ...any) {
		if r.verdict <= Partial {
			r.say(Partial, format, args...)
		}
	}
	if x.PrimaryMax > 0 && n > x.PrimaryMax {
		advise("%d attempts on the primary, limit %d", n, x.PrimaryMax)
	}
	if x.DeadMax > 0 && n > x.DeadMax {
		advise("%d attempts on the dead primary, limit %d", n, x.DeadMax)
	}
	if x.FallbackMax != nil && len(e.second) > *x.FallbackMax {
		advise("%d attempts on the fallback, limit %d", len(e.second), *x.FallbackMax)
	}
	if x.NotBefore > 0 && len(e.primary) > 1 {
		if gap := e.primary[1].At.Sub(e.primary[0].At); gap < x.NotBefore {
			advise("asked again after %.2f s, not before %s", gap.Seconds(), x.NotBefore)
		}
	}
	if x.BackWithin > 0 && window {
		r.back(e, to, x.BackWithin, advise)
	}
}

// back looks at when the primary served again.
func (r *ruling) back(e evidence, up, limit time.Duration, advise func(string, ...any)) {
	for _, a := range e.primary {
		if t := a.At.Sub(e.began); a.Whole && t >= up {
			if t > up+limit {
				advise("back on the primary %.0f s after its recovery, limit %s", (t - up).Seconds(), limit)
			}
			return
		}
	}
	advise("never back on the primary")
}

// served looks at whether the answer says who gave it and what it cost.
func (r *ruling) served(e evidence) {
	for _, res := range e.results {
		by := lastWhole(e)
		if by == nil || res.End != client.Complete {
			continue
		}
		if !names(res, by.Source) {
			r.say(Partial, "neither the answer (model %q) nor its headers name the %s that served", res.Model, by.Source)
		}
		if res.Usage.Output != e.words || res.Usage.Reports != 1 {
			r.say(Partial, "usage says %d output tokens in %d reports, %d were served", res.Usage.Output, res.Usage.Reports, e.words)
		}
	}
}

func lastWhole(e evidence) *Attempt {
	for _, list := range [][]Attempt{e.second, e.primary} {
		for i := range list {
			if list[i].Whole {
				return &list[i]
			}
		}
	}
	return nil
}

// names reports whether the model in the answer or any header tells the source.
func names(res client.Result, source string) bool {
	if strings.Contains(res.Model, source) {
		return true
	}
	return headerNames(res.Header, source)
}

func headerNames(h http.Header, source string) bool {
	other := "primary"
	if source == other {
		other = "fallback"
	}
	for _, vs := range h {
		for _, v := range vs {
			// A list of everything that was tried names the source as well, but does not say that it served.
			if strings.Contains(v, source) && !strings.Contains(v, other) {
				return true
			}
		}
	}
	return false
}
