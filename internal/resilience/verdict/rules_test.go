package verdict

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"spillway/internal/gateway"
)

func mustCompile(t *testing.T, rules []Rule, restate ...Restatement) *Rules {
	t.Helper()
	r, err := Compile(rules, restate)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func httpError(status int, body string) Evidence {
	return evidence(func(e *Evidence) { e.Status, e.Body = status, []byte(body) })
}

const overload = `{"error":{"message":"Worker pool busy, token expired","code":"w_17","type":"pool"}}`

func TestRulesFromYAML(t *testing.T) {
	const text = `
- id: oauth-refresh
  priority: 5
  provider: cli*
  status: [401, 500-504, 4xx]
  text: token expired
  count: false
- id: overload
  connection: p-1
  status: [422]
  header: {name: x-shed, pattern: "^yes$"}
  code: "w_*"
  error_type: pool
  kind: service_error
  scope: connection
  reason: rule_matched
  cooldown: 90s
`
	var rules []Rule
	if err := yaml.UnmarshalWithOptions([]byte(text), &rules, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if want := []StatusRange{{401, 401}, {500, 504}, {400, 499}}; !cmp.Equal(rules[0].Status, want) {
		t.Error(cmp.Diff(rules[0].Status, want))
	}
	r := mustCompile(t, rules)
	e := httpError(422, overload)
	if o := r.Judge(e); o.Kind != gateway.Alive {
		t.Errorf("without the header: %v", o.Kind)
	}
	e.Header = headers("X-Shed", "yes")
	o := r.Judge(e)
	if o.Kind != gateway.ServiceError || o.Scope != gateway.ScopeConnection || o.Reason != gateway.RuleMatched || o.Rule != "overload" ||
		o.RetryAfter != 90*time.Second || o.Hint != gateway.HintRule || !o.Structured || o.Uncounted {
		t.Errorf("%+v", o)
	}
	e.Candidate = candidate("cli-proxy", "", "m1")
	if o := r.Judge(e); o.Rule != "oauth-refresh" || !o.Uncounted || o.Kind != gateway.Alive {
		t.Errorf("count: false keeps what the status says: %+v", o)
	}
	e.Status = 401
	if o := r.Judge(e); !o.Uncounted || o.Kind != gateway.AuthError {
		t.Errorf("%+v", o)
	}

	// The same through JSON, as the admin API takes them.
	raw, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	var again []Rule
	if err := json.Unmarshal(raw, &again); err != nil || !cmp.Equal(rules, again) {
		t.Errorf("%v\n%s", err, cmp.Diff(rules, again))
	}
	var n StatusRange
	if err := json.Unmarshal([]byte(`429`), &n); err != nil || n != (StatusRange{429, 429}) {
		t.Errorf("%v %v", n, err)
	}
}

func TestRestatementFromYAML(t *testing.T) {
	const text = `
id: busy-as-400
from: [400, 422]
to: 503
text_any: [worker pool busy]
text_none: [permanent]
default_retry_after: 7s
`
	var re Restatement
	if err := yaml.UnmarshalWithOptions([]byte(text), &re, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	r := mustCompile(t, nil, re)
	o := r.Judge(httpError(422, overload))
	if o.Kind != gateway.ServiceError || o.Status != 503 || o.TellAfter != 7*time.Second || o.RetryAfter != 0 || o.Rule != "busy-as-400" {
		t.Errorf("%+v", o)
	}
	if o := r.Judge(httpError(422, strings.Replace(overload, "busy", "busy, permanent worker pool busy", 1))); o.Status != 422 {
		t.Errorf("the veto did not hold: %+v", o)
	}
	e := httpError(422, overload)
	e.Header = headers("Retry-After", "3")
	if o := r.Judge(e); o.TellAfter != 0 || o.RetryAfter != 3*time.Second {
		t.Errorf("a hint of the upstream outranks the default: %+v", o)
	}
}

func TestCompileNamesRuleAndField(t *testing.T) {
	alive := new(gateway.Alive)
	for _, c := range []struct {
		want string
		rule Rule
	}{
		{`rules[0] ("x"): text: error parsing regexp`, Rule{ID: "x", Text: "(", Kind: alive}},
		{`rules[0] ("x"): text_none: an alternative is empty`, Rule{ID: "x", Text: "a", TextNone: Patterns{"b|"}, Kind: alive}},
		{`rules[0]: text: it matches an empty text`, Rule{Text: "x*", Kind: alive}},
		{`rules[0]: header.pattern:`, Rule{Header: HeaderMatch{"X", "["}, Kind: alive}},
		{`rules[0]: header.name: is missing`, Rule{Header: HeaderMatch{"", "a"}, Status: on(400), Kind: alive}},
		{`rules[0]: status: a rule needs at least one condition`, Rule{Kind: alive}},
		{`rules[0]: status: 700-800 is outside`, Rule{Status: []StatusRange{{700, 800}}, Kind: alive}},
		{`rules[0]: kind: a rule needs at least one effect`, Rule{Status: on(400)}},
		{`rules[0]: kind: a rule cannot make an error success`, Rule{Status: on(400), Kind: new(gateway.Success)}},
		{`rules[0]: quirk: goes with kind alive`, Rule{Status: on(400), Kind: new(gateway.Banned), Quirk: "tools"}},
		{`rules[0]: retired: goes with kind model_unavailable`, Rule{Status: on(400), Kind: alive, Retired: true}},
		{`rules[0]: kind: quirk needs kind alive`, Rule{Status: on(400), Quirk: "tools"}},
		{`rules[0]: cooldown: must be between 0s and 24h`, Rule{Status: on(400), Cooldown: 25 * time.Hour}},
		{`rules[0]: hint_max: must be at least hint_min`, Rule{Status: on(400), HintMin: time.Hour, HintMax: time.Minute, Kind: alive}},
	} {
		_, err := Compile([]Rule{c.rule}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	_, err := Compile([]Rule{{ID: "a", Status: on(400), Kind: alive}, {ID: "a", Status: on(401), Kind: alive}, {Kind: alive}}, []Restatement{{ID: "r", To: 200}})
	for _, want := range []string{`rules[1] ("a"): id: rules[0] has the same`, "rules[2]: status:", `restatements[0] ("r"): from:`, `restatements[0] ("r"): to:`, `restatements[0] ("r"): text_any:`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	var s StatusRange
	for _, bad := range []string{"", "abc", "99", "600", "500-400", "7xx", "4xx-5xx"} {
		if s.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q was taken as %v", bad, s)
		}
	}
}

func TestOperatorRulesComeFirst(t *testing.T) {
	body := `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`
	e := httpError(429, body)
	if o := builtinRules.Judge(e); o.Kind != gateway.CreditsExhausted || o.Rule != "code-credits" {
		t.Fatalf("%+v", o)
	}
	rules := []Rule{
		{ID: "late", Priority: 9, Status: on(429), Kind: new(gateway.RateLimited)},
		{ID: "early", Priority: 1, Code: "insufficient_quota", Kind: new(gateway.QuotaExhausted), Cooldown: time.Minute},
		{ID: "off", Priority: 0, Enabled: new(bool), Status: on(429), Kind: new(gateway.Banned)},
	}
	if o := mustCompile(t, rules).Judge(e); o.Rule != "early" || o.Kind != gateway.QuotaExhausted || o.RetryAfter != time.Minute {
		t.Errorf("%+v", o)
	}
	// The upstream's own hint is better evidence than a declared time.
	e.Header = headers("Retry-After", "7")
	if o := mustCompile(t, rules).Judge(e); o.RetryAfter != 7*time.Second || o.Hint != gateway.HintHeader {
		t.Errorf("%+v", o)
	}
	e.Header = nil
	// The id of a built-in rule removes or replaces it.
	if o := mustCompile(t, []Rule{{ID: "code-credits", Enabled: new(bool)}}).Judge(e); o.Kind != gateway.RateLimited {
		t.Errorf("switched off: %+v", o)
	}
	if o := mustCompile(t, []Rule{{ID: "code-credits", Code: "insufficient_quota", Kind: new(gateway.Alive)}}).Judge(e); o.Kind != gateway.Alive {
		t.Errorf("replaced: %+v", o)
	}
}

func TestLocalRules(t *testing.T) {
	r := mustCompile(t, []Rule{
		{ID: "global", Status: on(418), Kind: new(gateway.ServiceError)},
		{ID: "own", Provider: "p", Status: on(419), Kind: new(gateway.ServiceError)},
	})
	local := r.Local("p")
	for _, c := range []struct {
		rules  *Rules
		status int
		rule   string
	}{{r, 418, "global"}, {r, 419, "own"}, {local, 418, ""}, {local, 419, "own"}} {
		if o := c.rules.Judge(httpError(c.status, "")); o.Rule != c.rule {
			t.Errorf("%d: rule %q, want %q", c.status, o.Rule, c.rule)
		}
	}
	e := httpError(418, "")
	e.Candidate = candidate("other", "", "m1")
	if o := local.Judge(e); o.Rule != "global" {
		t.Errorf("another provider lost its rule: %+v", o)
	}
}

// Rules see 400 as well as errors inside a 200, for every provider.
func TestRulesSeeEverything(t *testing.T) {
	r := mustCompile(t, []Rule{{ID: "in-stream", Status: on(200), Text: "worker pool", Kind: new(gateway.RateLimited)}, {ID: "bad", Status: on(400), Text: "worker pool", Kind: new(gateway.ServiceError)}})
	e := httpError(200, overload)
	e.InStream = true
	if o := r.Judge(e); o.Rule != "in-stream" || o.Status != 429 {
		t.Errorf("%+v", o)
	}
	if o := r.Judge(httpError(400, overload)); o.Rule != "bad" {
		t.Errorf("%+v", o)
	}
}

func TestBuiltinIsSound(t *testing.T) {
	rules, restate := Builtin()
	seen := map[string]bool{}
	for _, r := range rules {
		if r.ID == "" || seen[r.ID] {
			t.Errorf("id %q is missing or used twice", r.ID)
		}
		seen[r.ID] = true
		if r.Text == "" {
			continue
		}
		for _, s := range r.Status {
			if s.To >= 500 {
				t.Errorf("%s: text decides under status %d", r.ID, s.To)
			}
		}
		if r.Kind != nil && (*r.Kind == gateway.Banned || *r.Kind == gateway.CreditsExhausted) && len(r.Status) == 0 {
			t.Errorf("%s: a text may end an account under any status", r.ID)
		}
	}
	if len(restate) == 0 {
		t.Error("no restatement")
	}
}

func TestAlternatives(t *testing.T) {
	for pattern, want := range map[string][]string{
		"a|b":           {"a", "b"},
		"a(b|c)|d":      {"a(b|c)", "d"},
		`a\|b|c`:        {`a\|b`, "c"},
		"[|a]|b":        {"[|a]", "b"},
		"[]|]|b":        {"[]|]", "b"},
		"[^]|]|b":       {"[^]|]", "b"},
		"(?i)a|b":       {"(?i)a|b"},
		"(?:a|b){2}|cc": {"(?:a|b){2}", "cc"},
	} {
		if got := alternatives(pattern); !cmp.Equal(got, want) {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		p, s string
		want bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*b", "ab", true}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*x*y*", "axbyc", true}, {"*x*y*", "aybxc", false}, {"*", "", true}, {"a*b*c", "abcbc", true}, {"*perday*permodel*", "generaterequestsperdayperprojectpermodel-freetier", true},
	} {
		if got := glob(c.p, c.s); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.p, c.s, got)
		}
	}
}
