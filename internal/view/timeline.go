package view

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"spillway/internal/gateway"
)

// Options of a timeline.
type Options struct {
	Zone *time.Location // of the instants shown; nil = UTC
}

// Timeline writes a decision log as plain text: what was asked, every exclusion, wait and attempt in the order in which
// they happened, what the client saw, and what to do next. Times are relative to the request's arrival.
func Timeline(w io.Writer, j *gateway.Journey, o Options) error {
	zone := o.Zone
	if zone == nil {
		zone = time.UTC
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n\n", j.ID, j.At.In(zone).Format("2006-01-02 15:04:05.000 MST"))
	summary(&b, j)
	b.WriteByte('\n')
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, l := range lines(j, zone) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", l.when(j.At), l.what, l.who, l.detail)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nClient saw  %s\n", saw(j))
	if n := next(j); n != "" {
		fmt.Fprintf(&b, "Next        %s\n", n)
	}
	_, err := io.WriteString(w, trimRight(b.String()))
	return err
}

// trimRight removes the blanks that aligned columns leave at line ends.
func trimRight(s string) string {
	rows := strings.Split(s, "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return strings.Join(rows, "\n")
}

func summary(b *strings.Builder, j *gateway.Journey) {
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "%-11s %s\n", name, text)
		}
	}
	asked := fmt.Sprintf("%s over %s", printable(j.Model), j.Protocol)
	if j.Operation != gateway.Generate {
		asked += ", " + strings.ReplaceAll(j.Operation.String(), "_", " ")
	}
	if j.Stream {
		asked += ", streamed"
	}
	if j.Tokens > 0 {
		asked += fmt.Sprintf(", about %d prompt tokens", j.Tokens)
	}
	row("Asked for", asked)
	row("Client key", string(j.ClientKey))
	row("Resolved", strings.Join(j.Path, " -> "))
	if j.Strategy != "" {
		pool := count(j.PoolSize, "candidate") + ", strategy " + j.Strategy
		if j.Combo != "" {
			pool = "combo " + j.Combo + ", " + pool
		}
		row("Pool", pool)
	}
	row("Session", session(j))
	row("Result", result(j))
	if u := j.Usage; u != (gateway.Usage{}) {
		text := fmt.Sprintf("%d in (%d cached), %d out (%d reasoning)", u.Input, u.CachedInput, u.Output, u.Reasoning)
		if u.Estimated {
			text += ", estimated"
		}
		row("Tokens", text)
	}
}

// session says to which connection the request's session was bound, and why it moved.
func session(j *gateway.Journey) string {
	if j.Session == "" {
		return ""
	}
	text := j.Session
	switch {
	case j.Bound != "":
		text += ", bound to " + string(j.Bound)
	case j.Moved != 0:
		text += ", was bound"
	default:
		text += ", not bound before"
	}
	if j.Moved != 0 {
		text += "; moved: " + phrase(j.Moved)
	}
	return text
}

func result(j *gateway.Journey) string {
	tries := count(len(j.Attempts), "attempt")
	took := ""
	if !j.EndedAt.IsZero() {
		took = fmt.Sprintf(" in %s, %s of it ours", short(j.EndedAt.Sub(j.At)), short(time.Duration(j.Overhead)*time.Microsecond))
	}
	switch State(j) {
	case Running:
		return "runs, " + tries + " so far"
	case Stopped:
		return "interrupted: the process ended first"
	case Failed:
		return fmt.Sprintf("failed with %s after %s%s", j.Code, tries, took)
	}
	by := ""
	if j.Served.Provider != "" {
		by = " by " + where(j.Served, j.Connection)
	}
	if j.CopyOf != "" {
		return fmt.Sprintf("answered %s%s; no upstream was asked", copied(j), took)
	}
	return fmt.Sprintf("answered%s after %s%s", by, tries, took)
}

// copied says whose answer a request got.
func copied(j *gateway.Journey) string {
	if j.Shared {
		return fmt.Sprintf("with the answer to %s, which was the same request in flight,", j.CopyOf)
	}
	return fmt.Sprintf("from the cache with the answer to %s", j.CopyOf)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func where(t gateway.Target, c gateway.ConnectionID) string {
	if c == "" {
		return t.String()
	}
	return t.String() + " on " + string(c)
}

// line is one row of the timeline.
type line struct {
	at                time.Time
	what, who, detail string
}

func (l line) when(start time.Time) string {
	if l.at.IsZero() {
		return ""
	}
	d := l.at.Sub(start)
	if d < 0 {
		return "-" + short(-d)
	}
	return "+" + short(d)
}

// short rounds a duration to what a person reads.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// lines puts everything in the order in which it happened.
func lines(j *gateway.Journey, zone *time.Location) []line {
	out := excluded(j, zone)
	head := len(out)
	for _, w := range j.Waits {
		out = append(out, line{w.At, "wait", short(w.For), phrase(w.Reason)})
	}
	for i := range j.Attempts {
		out = append(out, attemptLines(&j.Attempts[i])...)
	}
	if !j.Committed.IsZero() {
		detail := "first content to the client"
		if len(j.Attempts) > 1 {
			detail += "; what failed before was invisible to it"
		}
		out = append(out, line{j.Committed, "committed", "", detail})
	}
	timed := out[head:]
	sort.SliceStable(timed, func(a, b int) bool { return timed[a].at.Before(timed[b].at) })
	if !j.EndedAt.IsZero() {
		out = append(out, line{at: j.EndedAt, what: "end"})
	}
	return out
}

// excluded lists who was left out at planning, then those that are only counted.
func excluded(j *gateway.Journey, zone *time.Location) (out []line) {
	named := map[string]int{}
	for _, x := range j.Excluded {
		named[x.Reason.String()]++
		detail := fmt.Sprintf("%s: %s", x.Layer, phrase(x.Reason))
		if !x.Until.IsZero() {
			detail += fmt.Sprintf(", until %s (%s after arrival)", x.Until.In(zone).Format("15:04:05"), short(max(0, x.Until.Sub(j.At))))
		}
		out = append(out, line{j.At, "left out", where(x.Target, x.Connection), detail})
	}
	var rest []string
	for name, n := range j.Reasons {
		if n > named[name] {
			rest = append(rest, fmt.Sprintf("%d %s", n-named[name], name))
		}
	}
	if len(rest) > 0 {
		sort.Strings(rest)
		out = append(out, line{at: j.At, what: "left out", who: "others", detail: strings.Join(rest, ", ")})
	}
	return out
}

func attemptLines(a *gateway.Attempt) (out []line) {
	why := phrase(a.Why)
	if a.Probe {
		why += "; a probe: it decides whether the candidate is back"
	}
	name := fmt.Sprintf("attempt %d", a.N)
	out = append(out, line{a.BeganAt, name, where(a.Target, a.Connection), why})
	if !a.HeadersAt.IsZero() {
		detail := ""
		if a.Status != 0 {
			detail = fmt.Sprintf("status %d", a.Status)
		}
		out = append(out, line{a.HeadersAt, name, "headers", detail})
	}
	if !a.ContentAt.IsZero() {
		out = append(out, line{a.ContentAt, name, "first content", ""})
	}
	if !a.EndedAt.IsZero() {
		out = append(out, line{a.EndedAt, name, "ended", outcome(a)})
	}
	return out
}

func saw(j *gateway.Journey) string {
	switch State(j) {
	case Running:
		return "nothing final yet"
	case Stopped:
		return "a connection that broke"
	}
	text := fmt.Sprintf("status %d", j.Status)
	switch {
	case j.Code != "" && !j.Committed.IsZero() && j.Status < 400:
		text += ", then an error in the stream, " + j.Code
	case j.Code != "":
		text += ", " + j.Code
	}
	if j.Error != "" {
		text += ": " + printable(j.Error)
	}
	return text
}
