package verdict

import (
	"errors"
	"regexp"
	"strings"
)

// matcher is a text pattern, split at its top-level alternatives: those that are plain words are searched as such, some
// fifty times faster than by a case-blind expression.
type matcher struct {
	words []string
	re    *regexp.Regexp
}

func newMatcher(pattern string) (matcher, error) {
	var m matcher
	if pattern == "" {
		return m, nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return m, err
	}
	var rest []string
	for _, part := range alternatives(pattern) {
		switch {
		case part == "":
			return m, errors.New("an alternative is empty, so it would match everything")
		case regexp.QuoteMeta(part) == part:
			m.words = append(m.words, strings.ToLower(part))
		default:
			rest = append(rest, part)
		}
	}
	if rest == nil {
		return m, nil
	}
	var err error
	if m.re, err = regexp.Compile("(?i)" + strings.Join(rest, "|")); err != nil {
		return m, err
	}
	if m.re.MatchString("") {
		return m, errors.New("it matches an empty text, so it would match everything")
	}
	return m, nil
}

// alternatives splits a valid pattern at each | that stands in no group, class or quotation. A flag group such as (?i)
// changes what follows it, so a pattern with one stays whole.
func alternatives(pattern string) (out []string) {
	if strings.Contains(pattern, `\Q`) || strings.Contains(pattern, "(?") && flags.MatchString(pattern) {
		return []string{pattern}
	}
	depth, class, from := 0, false, 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if strings.HasPrefix(pattern[i+1:], "^]") {
				i += 2
			} else if strings.HasPrefix(pattern[i+1:], "]") {
				i++
			}
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			out = append(out, pattern[from:i])
			from = i + 1
		}
	}
	return append(out, pattern[from:])
}

var flags = regexp.MustCompile(`\(\?[a-zA-Z-]+\)`)

func (m matcher) set() bool { return m.words != nil || m.re != nil }

// proves reports a match that the client's own text could not have made.
func (m matcher) proves(p *prose) bool {
	for _, w := range m.words {
		if strings.Contains(p.text, w) && !p.inRequest(w) {
			return true
		}
	}
	if m.re != nil {
		for _, found := range m.re.FindAllString(p.text, 8) {
			if !p.inRequest(found) {
				return true
			}
		}
	}
	return false
}

// occurs reports any match: a veto only ever leads back to the plain reading of the status, so it needs no proof.
func (m matcher) occurs(text string) bool {
	for _, w := range m.words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return m.re != nil && m.re.MatchString(text)
}

// restated returns the status that was meant, and the restatement that says so.
func (r *Rules) restated(c *reading) (int, *restating) {
	local := r.local[c.providerID()]
	for i := range r.restate {
		if re := &r.restate[i]; re.misses(c, local) == holds {
			return re.To, re
		}
	}
	return c.status, nil
}

// match returns the first rule that holds, or nil.
func (r *Rules) match(c *reading) *compiled {
	local := len(r.local) > 0 && r.local[c.providerID()]
	for i := range r.rules {
		if rule := &r.rules[i]; rule.misses(c, local) == holds {
			return rule
		}
	}
	return nil
}
