package docs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"spillway/internal/attempt"
	"spillway/internal/config"
	"spillway/internal/gateway"
)

var update = flag.Bool("update", false, "rewrite generated pages and the outputs of examples")

// TestGeneratedPages compares the pages that are made from the code with the code; go generate ./docs rewrites them.
func TestGeneratedPages(t *testing.T) {
	for name, page := range map[string]string{
		"configuration.md": configurationPage(t),
		"outcomes.md":      outcomesPage(),
		"providers.md":     providersPage(),
	} {
		if *update {
			if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(have, []byte(page)) {
			t.Errorf("docs/%s is out of date (%v): run go generate ./docs", name, err)
		}
	}
	schema, err := os.ReadFile("spillway.schema.json")
	if err != nil || !bytes.Equal(schema, config.Schema()) {
		t.Errorf("docs/spillway.schema.json is out of date (%v): run go generate ./internal/config", err)
	}
}

// outcomesPage is resilience's table "who learns what", from the code that the rooms are tested against.
func outcomesPage() string {
	var b strings.Builder
	b.WriteString("# Outcomes: what an attempt's end means\n\n<!-- Made from the code by go generate ./docs. Do not edit. -->\n\n" +
		"Every attempt ends in exactly one outcome. It is made in one place (`internal/resilience/verdict`) and everything learns from it alone.\n" +
		"The numbers are those of profile `recommended`; a profile, a setting or a rule may say otherwise.\n\n" +
		"| kind | scope | breaker | cooldown | lockout | health | costs an attempt | ends the walk |\n|---|---|---|---|---|---|---|---|\n")
	for k := range gateway.NumKinds {
		row := attempt.Effects[k]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", k, row.Scope, row.Breaker, row.Cooldown, row.Lockout, row.Health,
			yes(row.Costs), yes(row.Stops))
	}
	b.WriteString("\n\"Ends the walk\": the request is not sent elsewhere, unless another target could accept it (a larger context window, a model that has the feature).\n\n" +
		"## Reasons\n\nEvery outcome, every candidate that is left out and every step has a reason. These names are in decision logs, in metrics and in `diagnostics` of errors.\n\n")
	var names []string
	for r := gateway.ReasonNone + 1; ; r++ {
		name := r.String()
		if strings.HasPrefix(name, "reason(") {
			break
		}
		names = append(names, "`"+name+"`")
	}
	b.WriteString(strings.Join(names, ", ") + ".\n")
	return b.String()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// providersPage lists the presets.
func providersPage() string {
	var b strings.Builder
	b.WriteString("# Provider presets\n\n<!-- Made from the code by go generate ./docs. Do not edit. -->\n\n" +
		"`providers: {NAME: {}}` is enough for a service of this table; any field overrides the preset. With a variable set and no connection written,\n" +
		"the provider gets a connection from it. *By itself* means: with no file at all, the variable alone configures the provider.\n" +
		"A preset knows a service's address and rules. It is not a claim that each of these services was tested against this version.\n\n" +
		"| name | protocols | base URL | variable | by itself |\n|---|---|---|---|---|\n")
	for _, p := range config.Presets() {
		vars := p.Env
		if p.BaseEnv != "" {
			vars = append(vars[:len(vars):len(vars)], p.BaseEnv)
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", p.Name, strings.ReplaceAll(p.Protocols, " ", ", "), p.BaseURL, strings.Join(vars, ", "), yes(p.Auto))
	}
	b.WriteString(builtinRules())
	return b.String()
}
