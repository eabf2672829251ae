package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spillway/internal/gateway"
	"spillway/internal/resilience/verdict"
)

// Rule is one line of `rules:`. With `from` and `to` it restates a status that lies; otherwise it classifies an upstream
// error. The fields are those of [verdict.Restatement] and [verdict.Rule].
type Rule struct {
	verdict.Rule
	Restatement *verdict.Restatement // nil = it classifies
}

var patternsType = reflect.TypeFor[verdict.Patterns]()

// decodeNode reads the form that the fields say.
func (r *Rule) decodeNode(d *decoder, n *node, path string) {
	if n.kind == nullNode {
		return
	}
	if n.field("from") != nil || n.field("to") != nil {
		r.Restatement = &verdict.Restatement{}
		d.decodeInto(n, r.Restatement, path)
		return
	}
	d.decodeInto(n, &r.Rule, path)
}

// RuleSet is the operator's compiled rules with the built-in ones behind them, as every provider sees them.
func (c *Config) RuleSet() *verdict.Rules { return c.rules }

var ruleError = regexp.MustCompile(`^(rules|restatements)\[(\d+)\](?: \(.*?\))?: ([a-z_]+(?:\.[a-z_]+|\[\d+\])*): (?s)(.*)$`)

// checkRules compiles the rules and puts each problem at its line.
func (l *loader) checkRules() {
	var rules []verdict.Rule
	var restate []verdict.Restatement
	places := map[string][]int{}
	for i, r := range l.cfg.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		if r.Restatement != nil {
			restate = append(restate, *r.Restatement)
			places["restatements"] = append(places["restatements"], i)
			l.checkRuleRefs(path+".provider", r.Restatement.Provider, l.providerNames(), "provider")
			l.checkRuleRefs(path+".connection", r.Restatement.Connection, l.connectionNames(), "connection")
			continue
		}
		rules = append(rules, r.Rule)
		places["rules"] = append(places["rules"], i)
		l.checkRuleRefs(path+".provider", r.Provider, l.providerNames(), "provider")
		l.checkRuleRefs(path+".connection", r.Connection, l.connectionNames(), "connection")
	}
	compiled, err := verdict.Compile(rules, restate)
	for _, e := range splitErrors(err) {
		m := ruleError.FindStringSubmatch(e.Error())
		if m == nil {
			l.at("rules", "%s", mask(e.Error()))
			continue
		}
		at, _ := strconv.Atoi(m[2])
		msg := m[4]
		if m[3] == "id" && strings.HasSuffix(msg, "has the same") {
			msg = "another rule has this id; an id is unique"
		}
		l.at(fmt.Sprintf("rules[%d].%s", places[m[1]][at], m[3]), "%s", mask(msg))
	}
	if err == nil {
		var local []gateway.ProviderID
		for id, p := range l.cfg.Providers {
			if !p.UseGlobalRules {
				local = append(local, id)
			}
		}
		l.cfg.rules = compiled.Local(local...)
	}
}

// checkRuleRefs checks the alternatives of a condition: a plain name must exist, a pattern should match something.
func (l *loader) checkRuleRefs(path, condition string, known []string, what string) {
	for alt := range strings.SplitSeq(condition, "|") {
		alt = strings.TrimSpace(alt)
		if alt == "" || slices.ContainsFunc(known, func(k string) bool { return Glob(strings.ToLower(alt), strings.ToLower(k)) }) {
			continue
		}
		if strings.ContainsAny(alt, "*?") {
			l.warn(path, "%s matches no %s, so the rule never applies", quote(alt), what)
			continue
		}
		l.at(path, "unknown %s %s%s", what, quote(alt), didYouMean(alt, known))
	}
}

func (l *loader) providerNames() []string {
	var out []string
	for _, id := range sortedKeys(l.cfg.Providers) {
		out = append(out, string(id))
	}
	return out
}

func (l *loader) connectionNames() []string {
	var out []string
	for _, c := range l.cfg.Connections {
		out = append(out, string(c.ID))
	}
	return out
}
