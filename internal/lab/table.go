package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes reports for people, side by side.
func WriteTable(w io.Writer, reports ...RunReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range tableRows(reports) {
		fmt.Fprintln(t, l.name+"\t"+strings.Join(l.cells, "\t"))
	}
	return t.Flush()
}

// tableRow is one line of the table, one cell per report.
type tableRow struct {
	name  string
	cells []string
}

// tableRows is the judge's table, for text and for pages.
func tableRows(reports []RunReport) []tableRow {
	var out []tableRow
	row := func(name string, cell func(r *RunReport) string) {
		l := tableRow{name: name}
		for i := range reports {
			l.cells = append(l.cells, cell(&reports[i]))
		}
		out = append(out, l)
	}
	format := func(name, layout string, values func(r *RunReport) []any) {
		row(name, func(r *RunReport) string { return fmt.Sprintf(layout, values(r)...) })
	}
	format("scenario", "%s (policy %s, %s)", func(r *RunReport) []any { return []any{r.Scenario, r.Policy, r.Engine} })
	format("calls", "%d in %.1f s", func(r *RunReport) []any { return []any{r.Calls, r.WallS} })
	format("success", "%d, wrong %d, oracle %d (efficiency %.3f)", func(r *RunReport) []any {
		return []any{r.Success, r.WrongSuccess, r.OracleSuccess, r.OracleEfficiency}
	})
	format("first content", "p50 %.0f ms, p95 %.0f ms, p99 %.0f ms", func(r *RunReport) []any { return []any{r.TTFCP50, r.TTFCP95, r.TTFCP99} })
	format("end", "p50 %.0f ms, p95 %.0f ms, p99 %.0f ms", func(r *RunReport) []any { return []any{r.EndP50, r.EndP95, r.EndP99} })
	format("attempts per call", "%.2f, rate limited %.1f %%", func(r *RunReport) []any { return []any{r.AttemptsPerCall, 100 * r.RateLimitedShare} })
	format("attempts", "%d, oracle %d, on what was dead %d", func(r *RunReport) []any { return []any{r.Attempts, r.OracleAttempts, r.dead()} })
	for _, name := range union(reports, func(r *RunReport) map[string]int { return r.AttemptsBySource }) {
		format("  at "+name, "%d, dead %d, unused when healthy for %.1f s at most", func(r *RunReport) []any {
			return []any{r.AttemptsBySource[name], r.DeadAttempts[name], r.OutageS[name]}
		})
	}
	for _, end := range union(reports, func(r *RunReport) map[string]int { return r.Ends }) {
		format("  ended: "+end, "%d", func(r *RunReport) []any { return []any{r.Ends[end]} })
	}
	for i := range reports[0].Holds {
		row(holdName(&reports[0].Holds[i]), func(r *RunReport) string { return r.Holds[i].verdict() })
	}
	return out
}

func holdName(h *HoldReport) string { return h.What + " " + h.Limit }

func (h *HoldReport) verdict() string {
	if h.OK {
		return fmt.Sprintf("holds: %.4g", h.Value)
	}
	return fmt.Sprintf("BROKEN: %.4g", h.Value)
}

// union is the keys of all reports' maps, in order.
func union(reports []RunReport, of func(*RunReport) map[string]int) []string {
	all := map[string]int{}
	for i := range reports {
		for k := range of(&reports[i]) {
			all[k]++
		}
	}
	return sortedKeys(all)
}
