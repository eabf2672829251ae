package lab

import (
	"bytes"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	s := small(t, `
name: "plots & <more>"
sources:
  - {name: a, faults: [{kind: status, prob: 0.3}, {kind: rate_limit, prob: 0.2}]}
load: {calls: 60, workers: 4}
holds: [{what: success_rate, min: 0.99}]
`)
	r, err := RunScenario(t.Context(), RunOptions{Scenario: s, Start: firstOnly(t)})
	if err != nil {
		t.Fatal(err)
	}
	other := r
	other.Policy = "another"
	var b bytes.Buffer
	if err := WriteHTML(&b, r, other); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"plots &amp; &lt;more&gt;", "recommended", "another", "Attempts at a: 60", `class="limited"`, `class="broke"`, "p99", "BROKEN"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if loads := regexp.MustCompile(`(?i)(src|href)\s*=|@import|url\(|<script|https?://`).FindString(page); loads != "" {
		t.Errorf("the page loads something: %q", loads)
	}
	svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(svgs) != 2+2*2 {
		t.Errorf("%d drawings", len(svgs))
	}
	for _, svg := range svgs {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
}

func TestTableSideBySide(t *testing.T) {
	one := RunReport{Scenario: "s", Policy: "one", Engine: "real", Calls: 10, Success: 9, AttemptsBySource: map[string]int{"a": 3}, Ends: map[string]int{"error x": 1},
		Holds: []HoldReport{{What: "success_rate", OK: true, Value: 0.9, Limit: ">= 0.5"}}}
	two := one
	two.Policy, two.Ends, two.Holds = "two", nil, []HoldReport{{What: "success_rate", Value: 0.1, Limit: ">= 0.5"}}
	var b bytes.Buffer
	if err := WriteTable(&b, one, two); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"policy one", "policy two", "ended: error x", "holds: 0.9 ", "BROKEN: 0.1", "at a"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
