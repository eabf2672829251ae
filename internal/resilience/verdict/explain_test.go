package verdict

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/gateway"
)

// Over every sample, with operator rules of every condition: the explanation's outcome is the verdict's, and what it says
// of each condition adds up to what the rules decide by.
func TestExplainAgreesWithJudge(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	oauth := gateway.OAuth
	rules := mustCompile(t, []Rule{
		{ID: "op-header", Header: HeaderMatch{"Retry-After", `^\d$`}, Cooldown: time.Second},
		{ID: "op-conn", Connection: "glm-1", Status: on(418), Count: new(false)},
		{ID: "op-class", Class: &oauth, HintMin: time.Hour, Reason: new(gateway.QuotaHit)},
		{ID: "op-text", Text: "overload", TextAny: Patterns{"busy"}, TextNone: Patterns{"error", "try"}, Kind: new(gateway.ServiceError)},
		{ID: "op-model", NamesModel: true, HintMax: time.Minute, Kind: new(gateway.RateLimited)},
	}).Local("glm")
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		input, _, _ := strings.Cut(string(raw), dashes)
		e, r := sample(t, input), rules
		if i%2 == 1 { // each set of rules sees every other sample
			r = builtinRules
		}
		want, x := r.Judge(e), r.Explain(e)
		if diff := cmp.Diff(want, x.Outcome); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		named := ""
		switch {
		case x.Rule != nil:
			named = x.Rule.ID
		case x.Restated != nil:
			named = x.Restated.ID
		}
		if named != want.Rule {
			t.Errorf("%s: explained by %q, judged by %q", file, named, want.Rule)
		}
		if x.Rule == nil && x.Without == "" {
			t.Errorf("%s: nothing is said to have decided", file)
		}
		if i%3 == 0 {
			agree(t, file, rules, e)
		}
	}
}

// agree checks each rule's facts against its decision.
func agree(t *testing.T, file string, r *Rules, e Evidence) {
	t.Helper()
	c := e.read()
	r.restateReading(c, &e)
	local := r.local[c.providerID()]
	for i := range r.rules {
		k := &r.rules[i]
		a := Asked{Facts: k.facts(c, local, "status", k.Status, k.Text, k.TextAny, k.TextNone)}
		if all := len(a.Failed()) == 0; all != (k.misses(c, local) == holds) {
			t.Errorf("%s: rule %s: all conditions hold %t, but the rule misses by field %d: %+v", file, k.ID, all, k.misses(c, local), a.Facts)
		}
	}
}

func TestExplainNamesNearMissesAndLateRules(t *testing.T) {
	r := mustCompile(t, []Rule{
		{ID: "wrong-text", Provider: "p", Status: on(429), Text: "weekly limit", Kind: new(gateway.QuotaExhausted)},
		{ID: "mine", Status: on(429), Kind: new(gateway.RateLimited), Cooldown: 20 * time.Second},
		{ID: "late", Status: on(429), Kind: new(gateway.Banned)},
	})
	x := r.Explain(httpError(429, `{"error":{"message":"daily limit"}}`))
	if x.Rule == nil || x.Rule.ID != "mine" || x.Outcome.RetryAfter != 20*time.Second {
		t.Fatalf("%+v", x.Rule)
	}
	if len(x.Misses) == 0 || x.Misses[0].ID != "wrong-text" {
		t.Fatalf("misses %+v", x.Misses)
	}
	if f := x.Misses[0].Failed(); len(f) != 1 || f[0].Field != "text" || f[0].Have != "not found" {
		t.Errorf("failed %+v", f)
	}
	if len(x.Later) == 0 || x.Later[0].ID != "late" {
		t.Errorf("later %+v", x.Later)
	}
}

// Words that stand in the request prove nothing, and the explanation says so.
func TestExplainTellsEchoes(t *testing.T) {
	r := mustCompile(t, []Rule{{ID: "busy", Text: "too busy", Kind: new(gateway.RateLimited)}})
	e := httpError(400, `{"error":{"message":"bad value: too busy"}}`)
	e.RequestText = func() []byte { return []byte("too busy") }
	x := r.Explain(e)
	if x.Rule != nil || len(x.Misses) == 0 || !strings.Contains(x.Misses[0].Failed()[0].Have, "stands in the request") {
		t.Errorf("%+v", x)
	}
}

func TestExplainShowsNoSecret(t *testing.T) {
	e := httpError(401, `{"error":{"message":"key test-credential-0123456789 is wrong","code":"sk-abcdefghijklmnop"}}`)
	e.Header = headers("X-Echo", "test-credential-0123456789")
	r := mustCompile(t, []Rule{{ID: "h", Header: HeaderMatch{Name: "X-Echo"}, Text: "key .* is wrong", Code: "nothing", Kind: new(gateway.AuthError)}})
	x := r.Explain(e)
	for _, a := range append(x.Misses, Asked{Facts: []Fact{{Have: x.Text}, {Have: strings.Join(x.Codes, " ")}}}) {
		for _, f := range a.Facts {
			if strings.Contains(f.Have, "0123456789") || strings.Contains(f.Have, "abcdefghijklmnop") {
				t.Errorf("a secret in %+v", f)
			}
		}
	}
}

// Both stages take the same conditions.
func TestRestatementConditions(t *testing.T) {
	body := `{"error":{"message":"busy today","code":"e77","type":"odd"}}`
	for name, c := range map[string]struct {
		re   Restatement
		want int
	}{
		"text":            {Restatement{Text: "busy"}, 429},
		"text or any":     {Restatement{Text: "nothing", TextAny: Patterns{"else", "today"}}, 429},
		"veto":            {Restatement{Text: "busy", TextNone: Patterns{"today"}}, 500},
		"code":            {Restatement{Code: "e7*"}, 429},
		"other code":      {Restatement{Code: "e8*"}, 500},
		"type":            {Restatement{ErrorType: "odd"}, 429},
		"header":          {Restatement{Header: HeaderMatch{"X-Load", "^9"}}, 429},
		"other header":    {Restatement{Header: HeaderMatch{"X-Load", "^1"}}, 500},
		"connection":      {Restatement{Text: "busy", Connection: "p-1"}, 429},
		"other":           {Restatement{Text: "busy", Connection: "p-2"}, 500},
		"class":           {Restatement{Text: "busy", Class: new(gateway.Local)}, 500},
		"off":             {Restatement{Text: "busy", Enabled: new(false)}, 500},
		"other provider":  {Restatement{Text: "busy", Provider: "q"}, 500},
		"outside of from": {Restatement{Text: "busy", From: on(418)}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			c.re.ID, c.re.To = "r", 429
			if c.re.From == nil {
				c.re.From = on(500)
			}
			r, err := Compile(nil, []Restatement{c.re})
			if err != nil {
				t.Fatal(err)
			}
			e := httpError(500, body)
			e.Header = headers("X-Load", "99")
			if o := r.Judge(e); o.Status != c.want {
				t.Errorf("status %d, want %d", o.Status, c.want)
			}
		})
	}
}

// The first restatement that holds decides, by priority; the id of a built-in one removes or replaces it, in either form.
func TestRestatementOrder(t *testing.T) {
	r, err := Compile(nil, []Restatement{
		{ID: "late", Priority: 5, From: on(500), To: 503, Text: "busy"},
		{ID: "early", Priority: 1, From: on(500), To: 429, Text: "busy"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Judge(httpError(500, `{"error":"busy"}`)); o.Status != 429 {
		t.Errorf("status %d", o.Status)
	}
	e := httpError(403, `{"error":{"message":"额度不足","type":"t"}}`)
	e.Candidate = candidate("agentrouter", "https://agentrouter.org/v1", "m1")
	if o := builtinRules.Judge(e); o.Status != 429 {
		t.Fatalf("built in: status %d", o.Status)
	}
	if o := mustCompile(t, []Rule{{ID: "agentrouter-quota-misstatus", Enabled: new(false)}}).Judge(e); o.Status != 403 {
		t.Errorf("switched off as a rule: status %d", o.Status)
	}
	off, err := Compile(nil, []Restatement{{ID: "agentrouter-quota-misstatus", Enabled: new(false)}})
	if err != nil {
		t.Fatal(err)
	}
	if o := off.Judge(e); o.Status != 403 {
		t.Errorf("switched off: status %d", o.Status)
	}
	if _, err := Compile([]Rule{{ID: "x", Status: on(500), Kind: new(gateway.RateLimited)}}, []Restatement{{ID: "x", From: on(500), To: 429, Text: "a"}}); err == nil {
		t.Error("a rule and a restatement share an id")
	}
}

func BenchmarkJudgeBare(b *testing.B) {
	for _, c := range []struct {
		name   string
		status int
		body   string
	}{{"429", 429, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`}, {"500", 500, `{"error":{"message":"Internal error","type":"server_error"}}`}, {"503 empty", 503, ""}} {
		b.Run(c.name, func(b *testing.B) {
			e := httpError(c.status, c.body)
			b.ReportAllocs()
			for b.Loop() {
				builtinRules.Judge(e)
			}
		})
	}
}
