package verdict

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"spillway/internal/gateway"
)

// Rules are compiled rules and restatements, the operator's first. They are immutable and safe for concurrent use.
type Rules struct {
	rules   []compiled
	restate []restating
	local   map[gateway.ProviderID]bool // providers that take no global rule
}

type compiled struct {
	Rule
	builtin        bool
	provider, conn globs
	codes, types   globs
	status         statusSet
	text, none     matcher
	header         *regexp.Regexp
	structured     bool // decided by a code or type
}

type restating struct {
	Restatement
	builtin   bool
	provider  globs
	status    statusSet
	any, none []matcher
}

// Compile checks and compiles the operator's rules and restatements and puts the built-in ones behind them. The error
// joins every problem; each starts with the rule and the field, as in `rules[2] ("slow"): text: ...`. On error the
// Rules are nil.
func Compile(operator []Rule, restate []Restatement) (*Rules, error) {
	var errs []error
	out := &Rules{}
	seen := map[string]int{}
	for i, rule := range operator {
		where := fmt.Sprintf("rules[%d]", i)
		if rule.ID != "" {
			where += fmt.Sprintf(" (%q)", rule.ID)
			if first, dup := seen[rule.ID]; dup {
				errs = append(errs, fmt.Errorf("%s: id: rules[%d] has the same", where, first))
			}
			seen[rule.ID] = i
		} else {
			rule.ID = "rule-" + strconv.Itoa(i+1)
		}
		if off(rule) {
			continue
		}
		c, problems := compile(rule)
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("%s: %s", where, p))
		}
		out.rules = append(out.rules, c)
	}
	slices.SortStableFunc(out.rules, func(a, b compiled) int { return a.Priority - b.Priority })
	for i, re := range restate {
		c, problems := compileRestatement(re)
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("restatements[%d] (%q): %s", i, re.ID, p))
		}
		out.restate = append(out.restate, c)
	}
	rules, restatements := Builtin()
	for _, rule := range rules {
		if _, replaced := seen[rule.ID]; replaced {
			continue
		}
		c, problems := compile(rule)
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("built-in rule %q: %s", rule.ID, p))
		}
		c.builtin = true
		out.rules = append(out.rules, c)
	}
	for _, re := range restatements {
		if slices.ContainsFunc(restate, func(own Restatement) bool { return own.ID == re.ID }) {
			continue
		}
		c, problems := compileRestatement(re)
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("built-in restatement %q: %s", re.ID, p))
		}
		c.builtin = true
		out.restate = append(out.restate, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Local returns rules under which the given providers take only rules that name a provider or a connection
// (use_global_rules: false). The receiver is unchanged.
func (r *Rules) Local(providers ...gateway.ProviderID) *Rules {
	out := *r
	out.local = make(map[gateway.ProviderID]bool, len(providers)+len(r.local))
	for id := range r.local {
		out.local[id] = true
	}
	for _, id := range providers {
		out.local[id] = true
	}
	return &out
}

func off(r Rule) bool { return r.Enabled != nil && !*r.Enabled }

const maxCooldown = 24 * time.Hour

func compile(rule Rule) (c compiled, problems []string) {
	bad := func(field, format string, args ...any) {
		problems = append(problems, field+": "+fmt.Sprintf(format, args...))
	}
	c = compiled{Rule: rule, provider: newGlobs(rule.Provider), conn: newGlobs(rule.Connection),
		codes: newGlobs(rule.Code), types: newGlobs(rule.ErrorType)}
	c.structured = len(c.codes) > 0 || len(c.types) > 0
	for _, s := range rule.Status {
		if !s.valid() {
			bad("status", "%d-%d is outside 100-599", s.From, s.To)
			continue
		}
		c.status.add(s)
	}
	var err error
	if c.text, err = newMatcher(rule.Text); err != nil {
		bad("text", "%v", err)
	}
	if c.none, err = newMatcher(rule.TextNone); err != nil {
		bad("text_none", "%v", err)
	}
	if rule.Header.Pattern != "" {
		if rule.Header.Name == "" {
			bad("header.name", "is missing, but there is a pattern")
		}
		if c.header, err = regexp.Compile("(?i)" + rule.Header.Pattern); err != nil {
			bad("header.pattern", "%v", err)
		}
	}
	if c.provider == nil && c.conn == nil && rule.Class == nil && len(rule.Status) == 0 && rule.Text == "" &&
		rule.Header.Name == "" && !c.structured && !rule.NamesModel && rule.HintMin == 0 && rule.HintMax == 0 {
		bad("status", "a rule needs at least one condition: provider, connection, class, status, text, header, code, error_type, names_model, hint_min or hint_max")
	}
	checkEffects(rule, bad)
	return c, problems
}

func checkEffects(rule Rule, bad func(field, format string, args ...any)) {
	if rule.Kind == nil && rule.Scope == nil && rule.Reason == nil && rule.Cooldown == 0 && rule.Count == nil &&
		rule.Quirk == "" && !rule.Retired && rule.IgnoreHintBelow == 0 {
		bad("kind", "a rule needs at least one effect: kind, scope, reason, cooldown, ignore_hint_below, count, quirk or retired")
	}
	if rule.Kind != nil {
		switch k := *rule.Kind; {
		case k == gateway.Success || k == gateway.Canceled || k >= gateway.NumKinds:
			bad("kind", "a rule cannot make an error %s", k)
		case rule.Quirk != "" && k != gateway.Alive:
			bad("quirk", "goes with kind alive, not %s", k)
		case rule.Retired && k != gateway.ModelUnavailable:
			bad("retired", "goes with kind model_unavailable, not %s", k)
		}
	} else if rule.Quirk != "" || rule.Retired {
		bad("kind", "quirk needs kind alive, retired needs kind model_unavailable")
	}
	if rule.Cooldown < 0 || rule.Cooldown > maxCooldown {
		bad("cooldown", "must be between 0s and 24h, not %s", rule.Cooldown)
	}
	if rule.HintMin < 0 {
		bad("hint_min", "must not be negative")
	}
	if rule.HintMax < 0 || rule.HintMax > 0 && rule.HintMax < rule.HintMin {
		bad("hint_max", "must be at least hint_min")
	}
	if rule.IgnoreHintBelow < 0 {
		bad("ignore_hint_below", "must not be negative")
	}
}

func compileRestatement(re Restatement) (c restating, problems []string) {
	bad := func(field, format string, args ...any) {
		problems = append(problems, field+": "+fmt.Sprintf(format, args...))
	}
	c = restating{Restatement: re, provider: newGlobs(re.Provider)}
	if re.ID == "" {
		bad("id", "is missing")
	}
	if len(re.From) == 0 {
		bad("from", "needs at least one status")
	}
	for _, s := range re.From {
		if !s.valid() {
			bad("from", "%d-%d is outside 100-599", s.From, s.To)
			continue
		}
		c.status.add(s)
	}
	if re.To < 400 || re.To > 599 {
		bad("to", "must be between 400 and 599, not %d", re.To)
	}
	if len(re.TextAny) == 0 {
		bad("text_any", "needs at least one pattern")
	}
	if re.DefaultRetryAfter < 0 {
		bad("default_retry_after", "must not be negative")
	}
	list := func(field string, patterns []string) (out []matcher) {
		for i, p := range patterns {
			m, err := newMatcher(p)
			if err == nil && p == "" {
				err = errors.New("is empty")
			}
			if err != nil {
				bad(fmt.Sprintf("%s[%d]", field, i), "%v", err)
				continue
			}
			out = append(out, m)
		}
		return out
	}
	c.any, c.none = list("text_any", re.TextAny), list("text_none", re.TextNone)
	return c, problems
}
