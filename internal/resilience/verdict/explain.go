package verdict

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// Explanation says how a verdict came about: what the rules saw, which of them were asked, and what the outcome is.
type Explanation struct {
	// Spoke is false when the upstream said nothing that rules are asked about: a success, a broken connection, a clock.
	// Then only Outcome is filled.
	Spoke bool `json:"spoke"`

	Received int                `json:"received"`             // status of the response
	Said     int                `json:"said"`                 // the same, or what an error inside a 200 stands for
	Status   int                `json:"status"`               // after restatement: what the rules were asked about
	Inside   bool               `json:"inside_200"`           // the error stands inside a 200
	Text     string             `json:"text,omitempty"`       // what text patterns see: lower case, without what the request says as well
	Codes    []string           `json:"codes,omitempty"`      // what code sees
	Type     string             `json:"error_type,omitempty"` // what error_type sees
	Hint     time.Duration      `json:"-"`
	HintFrom gateway.HintSource `json:"-"`

	Restated *Asked  `json:"restated,omitempty"` // the restatement that corrected the status
	Rule     *Asked  `json:"rule,omitempty"`     // the rule that decided
	Misses   []Asked `json:"misses,omitempty"`   // asked before it and near: all of the operator's, and built-in ones that know this provider, code or text
	Later    []Asked `json:"later,omitempty"`    // would hold as well, but come later: they had no say
	// Without says what decided when no rule did, or when the rule that matched gives no kind.
	Without string `json:"without,omitempty"`

	Outcome gateway.Outcome `json:"-"`
}

// Asked is a rule or a restatement, and what each of its conditions found.
type Asked struct {
	ID          string `json:"id"`
	Builtin     bool   `json:"builtin"`
	Restatement bool   `json:"restatement,omitempty"`
	Facts       []Fact `json:"conditions"`
}

// Fact is one condition and what was there.
type Fact struct {
	Field string `json:"field"` // as in the configuration
	Want  string `json:"want"`
	Have  string `json:"have"`
	Holds bool   `json:"holds"`
}

// Failed lists the conditions that did not hold.
func (a *Asked) Failed() (out []Fact) {
	for _, f := range a.Facts {
		if !f.Holds {
			out = append(out, f)
		}
	}
	return out
}

// Explain judges the evidence as Judge does and says why. It changes nothing, is safe for concurrent use, and costs far
// more than Judge: it is for people, not for requests.
func (r *Rules) Explain(e Evidence) Explanation {
	x := Explanation{Received: e.Status, Outcome: r.Judge(e)}
	if e.HostFault || e.complete() || !e.spoke() {
		x.Said, x.Status = e.Status, e.Status
		x.Without = "no error was said, so no rule is asked"
		return x
	}
	c := e.read()
	local := r.local[c.providerID()]
	x.Spoke, x.Said, x.Inside, x.Type = true, c.said, c.inside, clean(c.typ, e.secret(), maxName)
	x.Text = clean(c.prose.text, e.secret(), maxText)
	for _, code := range c.wire.codes {
		x.Codes = append(x.Codes, clean(code, e.secret(), maxName))
	}
	for i := range r.restate {
		re := &r.restate[i]
		x.note(&e, Asked{re.ID, re.builtin, true, re.facts(c, local, "from", re.From, re.Text, re.TextAny, re.TextNone)}, re.misses(c, local) == holds, &x.Restated)
	}
	r.restateReading(c, &e)
	x.Status, x.Hint, x.HintFrom = c.status, c.hint, c.source
	for i := range r.rules {
		rule := &r.rules[i]
		x.note(&e, Asked{rule.ID, rule.builtin, false, rule.facts(c, local, "status", rule.Status, rule.Text, rule.TextAny, rule.TextNone)}, rule.misses(c, local) == holds, &x.Rule)
	}
	switch o := &x.Outcome; {
	case x.Rule != nil && r.decides(x.Rule.ID):
	case o.Quirk != "" && o.Reason == gateway.CapabilityRefused:
		x.Without = fmt.Sprintf("the text refuses a feature: %s", o.Quirk)
	case c.status < 400:
		x.Without = "a 2xx that is no answer of its protocol counts as a service error"
	default:
		x.Without = fmt.Sprintf("the table of statuses: %d", c.status)
	}
	return x
}

// decides reports whether the rule of this id gives a kind; else the status does, and the rule only adds to it.
func (r *Rules) decides(id string) bool {
	at := slices.IndexFunc(r.rules, func(c compiled) bool { return c.ID == id })
	return at >= 0 && r.rules[at].Kind != nil
}

// note puts one that was asked where it belongs; hit is the place of the first that held.
func (x *Explanation) note(e *Evidence, a Asked, held bool, hit **Asked) {
	decided := *hit != nil
	if !held && (decided || !a.near()) {
		return
	}
	for i := range a.Facts { // what was found may hold a secret
		a.Facts[i].Have = clean(a.Facts[i].Have, e.secret(), maxMessage)
	}
	switch {
	case !held:
		x.Misses = append(x.Misses, a)
	case decided:
		x.Later = append(x.Later, a)
	default:
		*hit = &a
	}
}

// near reports whether a miss is worth telling: each of the operator's is, of the built-in ones those that fail on one
// condition only and hold on one that tells something. This very provider tells something, too, but not beside another
// of its codes.
func (a *Asked) near() bool {
	if !a.Builtin {
		return true
	}
	failed := a.Failed()
	if len(failed) != 1 {
		return false
	}
	other := failed[0].Field == "code" || failed[0].Field == "error_type"
	return slices.ContainsFunc(a.Facts, func(f Fact) bool {
		return f.Holds && f.Field != "status" && f.Field != "from" && f.Field != "text_none" && !(other && f.Field == "provider")
	})
}

// facts checks every condition that is given. All of them hold exactly when misses says so; a test compares the two.
func (k *conditions) facts(c *reading, local bool, statusField string, statuses []StatusRange, text string, any, none Patterns) (out []Fact) {
	add := func(given bool, field, want, have string, holds bool) {
		if given {
			out = append(out, Fact{field, want, have, holds})
		}
	}
	var names []string
	for _, s := range statuses {
		b, _ := s.MarshalText() // never fails
		names = append(names, string(b))
	}
	have := strconv.Itoa(c.status)
	if c.inside {
		have += " inside a 200"
	}
	add(k.status.some, statusField, strings.Join(names, ", "), have, k.statusHolds(c))
	add(local && k.global(), "use_global_rules", "true", "false at this provider", false)
	who := []string{c.providerName}
	if k.builtin {
		who = append(who, strings.Join(c.labels, "."))
	}
	add(k.provider != nil, "provider", k.provider.String(), orNone(strings.Trim(strings.Join(who, ", "), ", ")), k.provider != nil && k.providerHolds(c))
	add(k.conn != nil, "connection", k.conn.String(), orNone(c.connection), k.conn.match(c.connection))
	if k.class != nil {
		class := "none"
		if c.provider != nil {
			class = c.provider.Class.String()
		}
		add(true, "class", k.class.String(), class, class == k.class.String())
	}
	hint := "no hint"
	if c.hint > 0 {
		hint = c.hint.String()
	}
	add(k.hintMin > 0, "hint_min", k.hintMin.String(), hint, c.hint >= k.hintMin)
	add(k.hintMax > 0, "hint_max", k.hintMax.String(), hint, c.hint > 0 && c.hint <= k.hintMax)
	add(k.codes != nil, "code", k.codes.String(), orNone(strings.Join(c.wire.codes, ", ")), c.hasCode(k.codes))
	add(k.types != nil, "error_type", k.types.String(), orNone(c.typ), k.types.match(c.typ))
	if k.headerName != "" {
		want := k.headerName
		if k.header != nil {
			want += ": " + strings.TrimPrefix(k.header.String(), "(?i)")
		}
		add(true, "header", want, orNone(strings.Join(c.header.Values(k.headerName), ", ")), k.headerHolds(c))
	}
	add(k.namesModel, "names_model", "true", strconv.FormatBool(c.prose.names()), !c.wire.html && c.prose.names())
	k.textFacts(c, add, text, any, none)
	return out
}

func (k *conditions) textFacts(c *reading, add func(given bool, field, want, have string, holds bool), text string, any, none Patterns) {
	field, want := "text", text
	if len(any) > 0 {
		field, want = "text_any", strings.Join(append(slices.Clone(any), nonEmpty(text)...), " | ")
	}
	proof, echoed := k.found(c)
	have := "not found"
	switch {
	case k.builtin && c.wire.html:
		have = "a page, which proves nothing"
	case proof != "":
		have = proof
	case echoed != "":
		have = fmt.Sprintf("%q, which also stands in the request", echoed)
	}
	add(k.text != nil, field, want, have, k.text != nil && k.textHolds(c))
	have = "not found"
	for _, m := range k.none {
		if s := m.first(c.prose.text); s != "" {
			have = s
		}
	}
	add(k.none != nil, "text_none", strings.Join(none, " | "), have, have == "not found")
}

// found is the first text that a pattern proves, else the first that only the request's own words make.
func (k *conditions) found(c *reading) (proof, echoed string) {
	for _, m := range k.text {
		for _, s := range m.all(c.prose.text) {
			if !c.prose.inRequest(s) {
				return s, ""
			}
			echoed = s
		}
	}
	return "", echoed
}

// all are the matches in a text, a few of each alternative.
func (m matcher) all(text string) (out []string) {
	for _, w := range m.words {
		if strings.Contains(text, w) {
			out = append(out, w)
		}
	}
	if m.re != nil {
		out = append(out, m.re.FindAllString(text, 8)...)
	}
	return out
}

func (m matcher) first(text string) string {
	if all := m.all(text); len(all) > 0 {
		return all[0]
	}
	return ""
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// String is the condition as it is written.
func (g globs) String() string {
	var parts []string
	for _, p := range g {
		parts = append(parts, p.text)
	}
	return strings.Join(parts, "|")
}

// StatusText is a status with its name, for people.
func StatusText(status int) string {
	if name := http.StatusText(status); name != "" {
		return fmt.Sprintf("%d %s", status, name)
	}
	return strconv.Itoa(status)
}
