package docs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/resilience/breaker"
)

// setting is one row of docs/settings.md: a value of resilience or timeouts, with what the loader itself accepts.
type setting struct {
	path, variable string
	def            any
	accepted       string // the range, found by trying
	a, b           string // two different accepted values, neither the default where there are three
}

// TestSettings takes every setting through every layer and finds its range by trying it; docs/settings.md is the table
// of what it found.
func TestSettings(t *testing.T) {
	var rows []setting
	for _, s := range load(t, sample).Global().Explain(gateway.APIKey) {
		if s.Path == "resilience.profile" {
			continue // it chooses the defaults of all others; config.TestProfiles
		}
		row := probe(t, s)
		if row.a == "" {
			t.Errorf("%s: found no value that it accepts", s.Path)
			continue
		}
		layers(t, row)
		rows = append(rows, row)
	}
	page := settingsPage(rows)
	if *update {
		if err := os.WriteFile("settings.md", page, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("settings.md")
	if err != nil || !bytes.Equal(have, page) {
		t.Errorf("docs/settings.md is out of date (%v): run go test ./docs -run TestSettings -update", err)
	}
}

// try loads the sample with one setting and returns the effective value; a refusal must name the path and the place.
func try(t *testing.T, path, value string) (effective any, ok bool) {
	t.Helper()
	c, err := config.Load(config.Source{Path: "s.yaml", Bytes: []byte(sample + "\n" + nested(path, value)), Env: noEnv})
	if err == nil {
		return effectiveOf(c.Global(), path), true
	}
	var problems *config.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("%s: %s: %v is no list of problems", path, value, err)
	}
	for _, p := range problems.List {
		if p.Line == 0 {
			t.Errorf("%s: %s: the problem %v has no line", path, value, p)
		}
		if room := path[:strings.LastIndexByte(path, '.')]; !strings.HasPrefix(p.Path, room) && !strings.HasPrefix(room, p.Path) {
			t.Errorf("%s: %s: the problem is at %q", path, value, p.Path)
		}
	}
	return nil, false
}

// nested is a.b.c: value as YAML in one line.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	return strings.Join(parts, ": {") + ": " + value + besides[path][2] + strings.Repeat("}", len(parts)-1)
}

func effectiveOf(s *config.Settings, path string) any {
	for _, x := range s.Explain(gateway.APIKey) {
		if x.Path == path {
			return x.Value
		}
	}
	return nil
}

// layers checks that each layer wins over those below it: environment < file < provider < connection.
func layers(t *testing.T, s setting) {
	t.Helper()
	const up = "providers: {p: {protocols: [openai], base_url: 'http://127.0.0.1:1/v1'%s}}\nconnections: [{id: c, provider: p, key: k%s}]\n%s\n"
	want := map[string]any{}
	for _, v := range []string{s.a, s.b} {
		want[v], _ = try(t, s.path, v)
	}
	at := func(v string) string { return ", " + nested(s.path, v) }
	for _, step := range []struct {
		env, file, provider, connection string // "" = not written
		global, prov, conn              string
	}{
		{env: s.a, global: s.a, prov: s.a, conn: s.a},
		{env: s.a, file: s.b, global: s.b, prov: s.b, conn: s.b},
		{env: s.b, file: s.b, provider: s.a, global: s.b, prov: s.a, conn: s.a},
		{env: s.b, file: s.a, provider: s.a, connection: s.b, global: s.a, prov: s.a, conn: s.b},
	} {
		if s.variable == "" && step.file == "" {
			continue // has no variable
		}
		var file, provider, connection string
		if step.file != "" {
			file = nested(s.path, step.file)
		}
		if step.provider != "" {
			provider = at(step.provider)
		}
		if step.connection != "" {
			connection = at(step.connection)
		}
		c, err := config.Load(config.Source{Path: "s.yaml", Bytes: fmt.Appendf(nil, up, provider, connection, file),
			Env: s.env(step.env)})
		if err != nil {
			t.Errorf("%s: %+v: %v", s.path, step, err)
			continue
		}
		for _, x := range []struct {
			where string
			set   *config.Settings
			want  string
		}{{"global", c.Global(), step.global}, {"provider", c.ProviderSettings("p"), step.prov}, {"connection", c.Settings("c"), step.conn}} {
			if got := effectiveOf(x.set, s.path); fmt.Sprint(got) != fmt.Sprint(want[x.want]) {
				t.Errorf("%s: %+v: %s is %v, want %v", s.path, step, x.where, got, want[x.want])
			}
		}
	}
}

// env is an environment with the setting's variable.
func (s setting) env(value string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if with := besides[s.path]; with[0] != "" && name == with[0] {
			return with[1], true
		}
		if value == "" || name != s.variable {
			return "", false
		}
		return strings.Trim(value, `[]"`), true
	}
}

// besides are settings that only make sense beside another one: its variable, value and YAML.
var besides = map[string][3]string{
	"resilience.breaker.count_mode": {"SPILLWAY_RESILIENCE_BREAKER_EVIDENCE_MODE", "off", ", evidence_mode: off"},
}

// probe finds the range of a setting, and two values for its layers.
func probe(t *testing.T, s config.Setting) setting {
	t.Helper()
	row := setting{path: s.Path, variable: "SPILLWAY_" + strings.ToUpper(strings.ReplaceAll(s.Path, ".", "_")), def: s.Default}
	switch def := s.Default.(type) {
	case bool:
		row.accepted, row.a, row.b = "`true`, `false`", fmt.Sprint(!def), fmt.Sprint(def)
	case string:
		if _, err := time.ParseDuration(def); err == nil {
			row.span(t, func(n float64) string { return time.Duration(n).String() }, float64(time.Millisecond), float64(2*365*24*time.Hour))
			break
		}
		row.words(t, def)
	case []string:
		row.accepted, row.a, row.b = "list", "[probe]", "[probe, rate]"
	case []int:
		row.accepted, row.a, row.b = "list", "[429]", "[500, 503]"
	case float64:
		row.span(t, func(n float64) string { return fmt.Sprint(math.Round(n*1000) / 1000) }, 0.001, 1e10)
	case map[string]breaker.KindPolicy:
		row.accepted, row.variable, row.a, row.b = "mapping", "", "{timeout: {class: neutral}}", "{timeout: {class: alive}}"
	default:
		row.span(t, func(n float64) string { return fmt.Sprintf("%.0f", n) }, 1, 1e12)
	}
	return row
}

// words finds which of the words that some setting knows this one accepts.
func (s *setting) words(t *testing.T, def string) {
	t.Helper()
	if _, isSize := try(t, s.path, "77KiB"); isSize {
		s.accepted, s.a, s.b = "size", "77KiB", "78KiB"
		return
	}
	var ok []string
	for _, w := range words {
		if _, accepted := try(t, s.path, w); accepted {
			ok = append(ok, w)
		}
	}
	if len(ok) < 2 || !slices.ContainsFunc(ok, func(w string) bool { return strings.Trim(w, `"`) == def }) {
		t.Errorf("%s: accepts %v of the words known to this test, with the default %q", s.path, ok, def)
		return
	}
	s.accepted, s.a, s.b = "`"+strings.ReplaceAll(strings.Join(ok, "`, `"), `"`, "")+"`", ok[0], ok[1]
}

// words are all names that settings of resilience take.
var words = []string{`"off"`, `"on"`, "auto", "on_demand", "on-demand", "always", "provider", "connection", "consecutive", "leaky", "cumulative", "suppress", "run_test",
	"on_close", "stable", "live", "live_with_fallback", "prefill", "text", "episode", "streak", "factor", "fixed", "fail_closed", "fail_open", "local_shadow", "error", "local", "none", "nonsense"}

// span finds the least and the greatest accepted number by trying powers of ten, then halving. unit is the least step.
func (s *setting) span(t *testing.T, write func(float64) string, unit, most float64) {
	t.Helper()
	accepts := func(n float64) bool {
		_, ok := try(t, s.path, write(n))
		return ok
	}
	if accepts(-unit) {
		t.Errorf("%s: accepts %s", s.path, write(-unit))
	}
	if accepts(most) {
		t.Errorf("%s: has no upper limit: a slip of a unit would not be noticed", s.path)
	}
	steps := ladder(unit, most)
	some := slices.IndexFunc(steps, accepts) // what is accepted is one range, and perhaps 0 for "off"
	if some < 0 {
		return
	}
	last := some + sort.Search(len(steps)-some, func(i int) bool { return !accepts(steps[some+i]) }) - 1
	low, high := steps[some], steps[last]
	from, to := write(low), write(high)
	switch {
	case accepts(0):
		from = write(0)
	case some > 0:
		from = write(edge(accepts, low, steps[some-1], unit))
	}
	if last < len(steps)-1 {
		to = write(edge(accepts, high, steps[last+1], unit))
	}
	s.accepted = from + " to " + to
	s.a, s.b = write(low), write(high)
	if middle := write(steps[(some+last)/2]); middle != fmt.Sprint(s.def) && middle != s.b {
		s.a = middle // a value that is not the default shows more
	}
	if s.a == s.b {
		s.b = from
	}
	if s.a == s.b {
		t.Errorf("%s: found only one value, %s", s.path, s.a)
	}
}

// ladder are the numbers that people write as limits, from unit to most.
func ladder(unit, most float64) []float64 {
	var out []float64
	for n := unit; n <= most; n *= 10 {
		out = append(out, n, 2*n, 5*n)
	}
	if unit == float64(time.Millisecond) {
		for _, d := range []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
			6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour} {
			out = append(out, float64(d))
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(n float64) bool { return n > most })
}

// edge is the last accepted number on the way from in, which is accepted, to out, which is not. Most limits are steps of
// the ladder, so the next number is tried first.
func edge(accepts func(float64) bool, in, out, unit float64) float64 {
	if next := in + math.Copysign(unit, out-in); !accepts(next) {
		return in
	}
	for math.Abs(in-out) > unit*1.001 {
		mid := math.Round((in+out)/2/unit) * unit
		if mid == in || mid == out {
			break
		}
		if accepts(mid) {
			in = mid
		} else {
			out = mid
		}
	}
	return in
}

func settingsPage(rows []setting) []byte {
	var b bytes.Buffer
	b.WriteString("# Settings of resilience and timeouts\n\n<!-- Made by go test ./docs -run TestSettings -update. Do not edit. -->\n\n" +
		"Made by a test that tries every setting in every layer. *Accepted* is what `spillway check` accepts while everything else has its default.\n" +
		"Each value may be written at the top of the file, under a provider (`providers.NAME.resilience`)\n" +
		"and under a connection, or be set by its variable. The nearest one holds: connection, provider, file, variable, default.\n" +
		"What each setting means: [configuration.md](configuration.md).\n\n" +
		"| setting | default | accepted | variable |\n|---|---|---|---|\n")
	for _, s := range rows {
		def := fmt.Sprint(s.def)
		if def == "" {
			def = "-"
		}
		variable := "-"
		if s.variable != "" {
			variable = "`" + s.variable + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.path, def, s.accepted, variable)
	}
	return b.Bytes()
}
