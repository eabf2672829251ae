package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes one page about the reports, side by side: the judge's table, latencies, and what happened over time.
// It is complete in itself: it loads nothing and runs no script.
func WriteHTML(w io.Writer, reports ...RunReport) error {
	p := page{Title: reports[0].Scenario}
	for i := range reports {
		r := &reports[i]
		p.Policies = append(p.Policies, r.Policy)
		p.Columns = append(p.Columns, column{Policy: r.Policy, OK: r.OK(), Calls: callPlot(r), Sources: sourcePlots(r, busiest(reports))})
	}
	p.Rows = tableRows(reports)
	for _, l := range []struct {
		title string
		of    func(*RunReport) [3]float64
	}{
		{"Time to the first content", func(r *RunReport) [3]float64 { return [3]float64{r.TTFCP50, r.TTFCP95, r.TTFCP99} }},
		{"Time to the end", func(r *RunReport) [3]float64 { return [3]float64{r.EndP50, r.EndP95, r.EndP99} }},
	} {
		p.Latencies = append(p.Latencies, latencyPlot(l.title, reports, l.of))
	}
	return pageTemplate.Execute(w, p)
}

type page struct {
	Title     string
	Policies  []string
	Rows      []tableRow
	Columns   []column
	Latencies []plot
}

// Name and Cells are for the template.
func (l tableRow) Name() string { return l.name }

// Cells are the values, one per report.
func (l tableRow) Cells() []string { return l.cells }

type column struct {
	Policy  string
	OK      bool
	Calls   plot
	Sources []plot
}

// plot is a drawing of bars, in the units of its view box.
type plot struct {
	Title         string
	Width, Height float64
	Bars          []bar
	Labels        []label
	Legend        []string // classes, in the order in which they are stacked
}

type bar struct {
	X, Y, W, H float64
	Class      string
	Tip        string
}

type label struct {
	X, Y float64
	Text string
	End  bool // the text ends at X
}

// The frame of a plot over time: room on the left for the scale and below for the time.
const (
	plotW, plotH = 560.0, 130.0
	left, below  = 44.0, 18.0
)

// stack is the counts of one slot, in the order of the legend.
type stack []int

// overTime draws stacked bars, one per slot. most is the top of the scale; 0 = the highest bar.
func overTime(title string, slot time.Duration, legend []string, slots []stack, most int) plot {
	p := plot{Title: title, Width: plotW, Height: plotH, Legend: legend}
	for _, s := range slots {
		most = max(most, sum(s))
	}
	most = max(most, 1)
	w := (plotW - left) / float64(max(len(slots), 1))
	scale := (plotH - below - 6) / float64(most)
	for i, s := range slots {
		y := plotH - below
		for j, n := range s {
			if n == 0 {
				continue
			}
			h := float64(n) * scale
			y -= h
			p.Bars = append(p.Bars, bar{X: left + float64(i)*w, Y: y, W: w - 0.6, H: h, Class: legend[j],
				Tip: fmt.Sprintf("%s: %d %s", (time.Duration(i) * slot).Round(time.Millisecond), n, legend[j])})
		}
	}
	p.Labels = []label{
		{left - 4, 12, fmt.Sprint(most), true}, {left - 4, plotH - below, "0", true},
		{left, plotH - 4, "0s", false}, {plotW, plotH - 4, (time.Duration(len(slots)) * slot).Round(time.Millisecond).String(), true},
	}
	return p
}

func sum(s stack) int {
	n := 0
	for _, v := range s {
		n += v
	}
	return n
}

func callPlot(r *RunReport) plot {
	var slots []stack
	for _, s := range r.Trace.Calls {
		slots = append(slots, stack{s.Good, s.Failed, s.Wrong})
	}
	return overTime(fmt.Sprintf("Calls, by the time they began: %d, of which %d right", r.Calls, r.Success), r.Trace.Slot,
		[]string{"right", "failed", "wrong"}, slots, 0)
}

// busiest is the highest number of attempts of a slot at one source, over all reports: their plots have one scale.
func busiest(reports []RunReport) int {
	most := 0
	for i := range reports {
		for _, slots := range reports[i].Trace.Sources {
			for _, s := range slots {
				most = max(most, s.Whole+s.Left+s.Limited+s.Failed)
			}
		}
	}
	return most
}

func sourcePlots(r *RunReport, most int) []plot {
	var out []plot
	for _, name := range sortedKeys(r.AttemptsBySource) {
		var slots []stack
		for _, s := range r.Trace.Sources[name] {
			slots = append(slots, stack{s.Whole, s.Left, s.Limited, s.Failed})
		}
		out = append(out, overTime(fmt.Sprintf("Attempts at %s: %d, dead %d", name, r.AttemptsBySource[name], r.DeadAttempts[name]),
			r.Trace.Slot, []string{"answered", "left", "limited", "broke"}, slots, most))
	}
	return out
}

// latencyPlot draws three percentiles per report as lines of bars.
func latencyPlot(title string, reports []RunReport, of func(*RunReport) [3]float64) plot {
	const row, name, value = 16.0, 150.0, 70.0
	legend := []string{"p50", "p95", "p99"}
	most := 1.0
	for i := range reports {
		v := of(&reports[i])
		most = max(most, slices.Max(v[:]))
	}
	p := plot{Title: title, Width: plotW, Height: float64(len(reports))*(3*row+8) + 4, Legend: legend}
	y := 4.0
	for i := range reports {
		p.Labels = append(p.Labels, label{0, y + 2*row - 4, reports[i].Policy, false})
		for j, v := range of(&reports[i]) {
			w := v / most * (plotW - name - value)
			p.Bars = append(p.Bars, bar{X: name, Y: y, W: max(w, 1), H: row - 3, Class: legend[j], Tip: fmt.Sprintf("%s %.0f ms", legend[j], v)})
			p.Labels = append(p.Labels, label{name + max(w, 1) + 5, y + row - 5, fmt.Sprintf("%s %.0f ms", legend[j], v), false})
			y += row
		}
		y += 8
	}
	return p
}
