package verdict

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// conditions are what both stages ask of an error: a restatement and a rule have the same ones. What is not given holds
// for everything. A compiled value is immutable.
type conditions struct {
	builtin        bool
	provider, conn globs
	class          *gateway.Class
	status         statusSet
	text, none     []matcher // one of text must be found, none of none
	headerName     string
	header         *regexp.Regexp // nil asks only that the header is there
	codes, types   globs
	namesModel     bool
	hintMin        time.Duration
	hintMax        time.Duration
}

// field is a condition by its name in the configuration; 0 = none.
type field uint8

// The conditions, in the order in which they are asked: the cheap ones first.
const (
	holds field = iota
	byStatus
	byGlobal
	byProvider
	byConnection
	byClass
	byHint
	byCode
	byErrorType
	byHeader
	byNamesModel
	byText
	byTextNone
)

// global reports whether the conditions name neither a provider nor a connection (use_global_rules).
func (k *conditions) global() bool { return k.provider == nil && k.conn == nil }

// given reports whether anything at all is asked.
func (k *conditions) given() bool {
	return k.provider != nil || k.conn != nil || k.class != nil || k.status.some || k.text != nil || k.headerName != "" ||
		k.structured() || k.namesModel || k.hintMin != 0 || k.hintMax != 0
}

// structured reports whether a code or type decides: the strongest evidence.
func (k *conditions) structured() bool { return k.codes != nil || k.types != nil }

// misses returns the first condition that does not hold, or holds. local: this provider takes no global rule.
func (k *conditions) misses(c *reading, local bool) field {
	switch {
	case !k.statusHolds(c):
		return byStatus
	case local && k.global():
		return byGlobal
	case k.provider != nil && !k.providerHolds(c):
		return byProvider
	case k.conn != nil && !k.conn.match(c.connection):
		return byConnection
	case k.class != nil && (c.provider == nil || *k.class != c.provider.Class):
		return byClass
	case !k.hintHolds(c):
		return byHint
	case k.codes != nil && !c.hasCode(k.codes):
		return byCode
	case k.types != nil && !k.types.match(c.typ):
		return byErrorType
	case k.headerName != "" && !k.headerHolds(c):
		return byHeader
	case k.namesModel && (c.wire.html || !c.prose.names()):
		return byNamesModel
	case k.text != nil && !k.textHolds(c):
		return byText
	case k.none != nil && slices.ContainsFunc(k.none, func(m matcher) bool { return m.occurs(c.prose.text) }):
		return byTextNone
	}
	return holds
}

func (k *conditions) statusHolds(c *reading) bool {
	return !k.status.some || k.status.has(c.status) || c.inside && k.status.has(200)
}

// providerHolds compares with the id that the operator chose. A built-in rule also knows its provider by the labels of
// the host name, so it holds whatever the operator calls it: "agentrouter" is agentrouter.org, "aliyuncs" is
// dashscope.aliyuncs.com.
func (k *conditions) providerHolds(c *reading) bool {
	if c.provider == nil {
		return false
	}
	if k.provider.match(c.providerName) {
		return true
	}
	return k.builtin && slices.ContainsFunc(c.labels, k.provider.match)
}

func (k *conditions) hintHolds(c *reading) bool {
	return (k.hintMin <= 0 || c.hint >= k.hintMin) && (k.hintMax <= 0 || c.hint > 0 && c.hint <= k.hintMax)
}

func (k *conditions) headerHolds(c *reading) bool {
	for _, v := range c.header.Values(k.headerName) {
		if k.header == nil || k.header.MatchString(v) {
			return true
		}
	}
	return false
}

// textHolds asks for a proof. To a built-in rule a page says nothing: it is an edge's or a host's, not the provider's word.
func (k *conditions) textHolds(c *reading) bool {
	return !(k.builtin && c.wire.html) && slices.ContainsFunc(k.text, func(m matcher) bool { return m.proves(c.prose) })
}

func (c *reading) hasCode(g globs) bool {
	return slices.ContainsFunc(c.wire.codes, g.match)
}

// hostLabels are the labels of the host in a base URL, in lower case.
func hostLabels(base string) []string {
	if _, rest, ok := strings.Cut(base, "://"); ok {
		base = rest
	}
	if end := strings.IndexAny(base, "/:?"); end >= 0 {
		base = base[:end]
	}
	return strings.Split(strings.ToLower(base), ".")
}
