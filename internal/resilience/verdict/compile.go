package verdict

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
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
	conditions
}

type restating struct {
	Restatement
	conditions
}

// Compile checks and compiles the operator's rules and restatements and puts the built-in ones behind them. The id of a
// built-in rule or restatement takes its place, also with enabled: false. The error joins every problem; each starts with
// the rule and the field, as in `rules[2] ("slow"): text: ...`. On error the Rules are nil.
func Compile(operator []Rule, restate []Restatement) (*Rules, error) {
	c := compiler{out: &Rules{}, seen: map[string]string{}}
	for i, rule := range operator {
		where := fmt.Sprintf("rules[%d]", i)
		named := where
		if rule.ID != "" {
			named = fmt.Sprintf("%s (%q)", where, rule.ID)
		}
		rule.ID = c.take(where, rule.ID, "rule-"+strconv.Itoa(i+1))
		if off(rule.Enabled) {
			continue
		}
		one, problems := compile(rule)
		c.report(named, problems)
		c.out.rules = append(c.out.rules, one)
	}
	for i, re := range restate {
		where := fmt.Sprintf("restatements[%d]", i)
		c.take(where, re.ID, "")
		if off(re.Enabled) && re.ID != "" {
			continue
		}
		one, problems := compileRestatement(re)
		c.report(fmt.Sprintf("%s (%q)", where, re.ID), problems)
		c.out.restate = append(c.out.restate, one)
	}
	slices.SortStableFunc(c.out.rules, func(a, b compiled) int { return a.Priority - b.Priority })
	slices.SortStableFunc(c.out.restate, func(a, b restating) int { return a.Priority - b.Priority })
	c.builtin()
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return c.out, nil
}

// compiler gathers rules and what is wrong with them.
type compiler struct {
	out  *Rules
	seen map[string]string // id -> where it was given
	errs []error
}

// take notes an id, or gives the one that stands for none.
func (c *compiler) take(where, id, other string) string {
	if id == "" {
		return other
	}
	if first, dup := c.seen[id]; dup {
		c.errs = append(c.errs, fmt.Errorf("%s (%q): id: %s has the same", where, id, first))
	}
	c.seen[id] = where
	return id
}

func (c *compiler) report(where string, problems []string) {
	for _, p := range problems {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", where, p))
	}
}

// builtin puts the built-in ones behind the operator's.
func (c *compiler) builtin() {
	own := compiledBuiltin()
	c.errs = append(c.errs, own.errs...)
	for _, one := range own.out.rules {
		if _, replaced := c.seen[one.ID]; !replaced {
			c.out.rules = append(c.out.rules, one)
		}
	}
	for _, one := range own.out.restate {
		if _, replaced := c.seen[one.ID]; !replaced {
			c.out.restate = append(c.out.restate, one)
		}
	}
}

// compiledBuiltin compiles the built-in ones once: they are the same in every configuration, and their patterns take
// longer than all the rest of reading one.
var compiledBuiltin = sync.OnceValue(func() *compiler {
	c := &compiler{out: &Rules{}}
	rules, restatements := Builtin()
	for _, rule := range rules {
		one, problems := compile(rule)
		c.report(fmt.Sprintf("built-in rule %q", rule.ID), problems)
		one.builtin = true
		c.out.rules = append(c.out.rules, one)
	}
	for _, re := range restatements {
		one, problems := compileRestatement(re)
		c.report(fmt.Sprintf("built-in restatement %q", re.ID), problems)
		one.builtin = true
		c.out.restate = append(c.out.restate, one)
	}
	return c
})

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

func off(enabled *bool) bool { return enabled != nil && !*enabled }

const maxCooldown = 24 * time.Hour

// complaint adds a problem to a field.
type complaint func(field, format string, args ...any)

func compile(rule Rule) (c compiled, problems []string) {
	bad := func(field, format string, args ...any) {
		problems = append(problems, field+": "+fmt.Sprintf(format, args...))
	}
	c = compiled{Rule: rule, conditions: conditions{provider: newGlobs(rule.Provider), conn: newGlobs(rule.Connection), class: rule.Class,
		codes: newGlobs(rule.Code), types: newGlobs(rule.ErrorType), namesModel: rule.NamesModel, hintMin: rule.HintMin, hintMax: rule.HintMax}}
	c.statuses("status", rule.Status, bad)
	c.texts(rule.Text, rule.TextAny, rule.TextNone, bad)
	c.headers(rule.Header, bad)
	if !c.given() && len(problems) == 0 {
		bad("status", "a rule needs at least one condition: provider, connection, class, status, text, text_any, header, code, error_type, names_model, hint_min or hint_max")
	}
	checkEffects(rule, bad)
	return c, problems
}

func (k *conditions) statuses(field string, list []StatusRange, bad complaint) {
	for _, s := range list {
		if !s.valid() {
			bad(field, "%d-%d is outside 100-599", s.From, s.To)
			continue
		}
		k.status.add(s)
	}
}

func (k *conditions) texts(text string, any, none Patterns, bad complaint) {
	one := func(field, pattern string) (out []matcher) {
		m, err := newMatcher(pattern)
		switch {
		case err != nil:
			bad(field, "%v", err)
		case !m.set():
			bad(field, "is empty")
		default:
			return []matcher{m}
		}
		return nil
	}
	if text != "" {
		k.text = one("text", text)
	}
	for i, p := range any {
		k.text = append(k.text, one(fmt.Sprintf("text_any[%d]", i), p)...)
	}
	for i, p := range none {
		field := fmt.Sprintf("text_none[%d]", i)
		if len(none) == 1 {
			field = "text_none"
		}
		k.none = append(k.none, one(field, p)...)
	}
}

func (k *conditions) headers(h HeaderMatch, bad complaint) {
	k.headerName = h.Name
	if h.Pattern == "" {
		return
	}
	if h.Name == "" {
		bad("header.name", "is missing, but there is a pattern")
	}
	var err error
	if k.header, err = regexp.Compile("(?i)" + h.Pattern); err != nil {
		bad("header.pattern", "%v", err)
	}
}

func checkEffects(rule Rule, bad complaint) {
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
	c = restating{Restatement: re, conditions: conditions{provider: newGlobs(re.Provider), conn: newGlobs(re.Connection), class: re.Class,
		codes: newGlobs(re.Code), types: newGlobs(re.ErrorType)}}
	if re.ID == "" {
		bad("id", "is missing")
	}
	if len(re.From) == 0 {
		bad("from", "needs at least one status")
	}
	c.statuses("from", re.From, bad)
	if re.To < 400 || re.To > 599 {
		bad("to", "must be between 400 and 599, not %d", re.To)
	}
	if re.Text == "" && len(re.TextAny) == 0 && re.Header.Name == "" && !c.structured() {
		bad("text_any", "needs at least one pattern, or text, header, code or error_type beside from")
	}
	if re.DefaultRetryAfter < 0 {
		bad("default_retry_after", "must not be negative")
	}
	c.texts(re.Text, re.TextAny, re.TextNone, bad)
	c.headers(re.Header, bad)
	return c, problems
}
