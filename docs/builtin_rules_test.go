package docs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spillway/internal/resilience/verdict"
)

// builtinRules lists what is known of providers' errors: the built-in restatements and rules, in the order in which they
// are asked.
func builtinRules() string {
	rules, restatements := verdict.Builtin()
	var b strings.Builder
	b.WriteString("\n## Built-in rules\n\nWhat is known of the errors of providers, in the order in which it is asked; [rules](guide/rules.md) of your own come first, and the id of one\n" +
		"of these takes its place. A built-in rule knows its provider by the id that you chose or by a part of its host name. Texts and codes are cut after a few.\n\n" +
		"| id | provider | when | then |\n|---|---|---|---|\n")
	for _, r := range restatements {
		fmt.Fprintf(&b, "| `%s` | %s | %s %s | status %d; the client is told %s |\n", r.ID, names(r.Provider), statuses(r.From), few(r.TextAny...), r.To, r.DefaultRetryAfter)
	}
	for _, r := range rules {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, names(r.Provider), conditions(r), effects(r))
	}
	return b.String()
}

func conditions(r verdict.Rule) string {
	var out []string
	add := func(name string, texts ...string) {
		if s := few(texts...); s != "" {
			out = append(out, strings.TrimSpace(name+" "+s))
		}
	}
	if len(r.Status) > 0 {
		out = append(out, statuses(r.Status))
	}
	if r.Class != nil {
		out = append(out, "class "+r.Class.String())
	}
	add("code", r.Code)
	add("type", r.ErrorType)
	add("header", r.Header.Name)
	add("text", append([]string{r.Text}, r.TextAny...)...)
	add("not", r.TextNone...)
	if r.NamesModel {
		out = append(out, "names the model")
	}
	if r.HintMin > 0 {
		out = append(out, "hint of at least "+r.HintMin.String())
	}
	if r.HintMax > 0 {
		out = append(out, "hint of at most "+r.HintMax.String())
	}
	return strings.Join(out, "; ")
}

func effects(r verdict.Rule) string {
	var out []string
	for _, v := range []any{r.Kind, r.Scope, r.Reason} {
		text, err := json.Marshal(v)
		if s := strings.Trim(string(text), `"`); err == nil && s != "null" {
			out = append(out, s)
		}
	}
	if r.Cooldown > 0 {
		out = append(out, r.Cooldown.String())
	}
	if r.Retired {
		out = append(out, "retired")
	}
	if r.Count != nil && !*r.Count {
		out = append(out, "not counted")
	}
	return strings.Join(out, ", ")
}

func statuses(list []verdict.StatusRange) string {
	var out []string
	for _, s := range list {
		if text, err := s.MarshalText(); err == nil {
			out = append(out, string(text))
		}
	}
	return strings.Join(out, " ")
}

func names(globs string) string {
	if globs == "" {
		return "any"
	}
	return strings.ReplaceAll(globs, "|", " ")
}

// few are the first alternatives of some patterns, as code.
func few(patterns ...string) string {
	const most = 3
	var all []string
	for _, p := range patterns {
		for alt := range strings.SplitSeq(p, "|") {
			if alt != "" {
				all = append(all, alt)
			}
		}
	}
	if slices.ContainsFunc(all, func(s string) bool { return strings.ContainsAny(s, "()[]`") }) { // no list of words
		all = []string{strings.Join(patterns, " ")}
		if r := []rune(all[0]); len(r) > 60 {
			all[0] = string(r[:59]) + "…"
		}
	}
	more := ""
	if len(all) > most {
		all, more = all[:most], " …"
	}
	for i, s := range all {
		all[i] = "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(s) + "`"
	}
	return strings.Join(all, " ") + more
}

// Every built-in rule stands on the page, each on a line of its own.
func TestBuiltinRulesAreListed(t *testing.T) {
	page := builtinRules()
	rules, restatements := verdict.Builtin()
	if n := strings.Count(page, "\n| `"); n != len(rules)+len(restatements) {
		t.Errorf("%d lines for %d rules", n, len(rules)+len(restatements))
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| `") && (strings.Contains(line, "|  |") || strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 5) {
			t.Errorf("a broken line: %s", line)
		}
	}
}
