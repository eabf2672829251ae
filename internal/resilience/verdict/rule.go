package verdict

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// Rule classifies an upstream error. All conditions that are given must hold; at least one condition and one effect are
// needed. Provider, Connection, Code and ErrorType take one value or several separated by "|", and * and ? match as in
// file names, whatever the case. Text patterns are RE2, whatever the case, over the text that the provider wrote.
type Rule struct {
	// Unique name, shown in decision logs. Default: its place in the list. The id of a built-in rule replaces that
	// rule; with enabled: false it removes it.
	ID string `yaml:"id" json:"id"`
	// Default true.
	Enabled *bool `yaml:"enabled" json:"enabled,omitempty"`
	// Lower first; equal ones in the order written. Default 0.
	Priority int `yaml:"priority" json:"priority,omitempty"`

	// Condition: id of the provider. A rule without provider and connection is global (use_global_rules).
	Provider string `yaml:"provider" json:"provider,omitempty"`
	// Condition: id of the connection.
	Connection string `yaml:"connection" json:"connection,omitempty"`
	// Condition: class of the provider: oauth, apikey, local.
	Class *gateway.Class `yaml:"class" json:"class,omitempty"`
	// Condition: status after restatement, as in [429, 500-504, 5xx]; 200 also means any error inside a 200.
	Status []StatusRange `yaml:"status" json:"status,omitempty"`
	// Condition: pattern over message, code and type.
	Text string `yaml:"text" json:"text,omitempty"`
	// Condition: patterns of which at least one must be found there; beside text, they are further alternatives.
	TextAny Patterns `yaml:"text_any" json:"text_any,omitempty"`
	// Condition: a pattern, or several, of which none may be found there.
	TextNone Patterns `yaml:"text_none" json:"text_none,omitempty"`
	// Condition: a response header whose value matches.
	Header HeaderMatch `yaml:"header" json:"header,omitzero"`
	// Condition: any structured code, status or reason in the body, as in "insufficient_quota|billing_*".
	Code string `yaml:"code" json:"code,omitempty"`
	// Condition: the error's type.
	ErrorType string `yaml:"error_type" json:"error_type,omitempty"`
	// Condition: the provider named the model that was asked for. Default false: not asked.
	NamesModel bool `yaml:"names_model" json:"names_model,omitempty"`
	// Condition: there is a retry hint of at least this. Default 0s: not asked.
	HintMin time.Duration `yaml:"hint_min" json:"hint_min,omitempty"`
	// Condition: there is a retry hint of at most this. Default 0s: not asked.
	HintMax time.Duration `yaml:"hint_max" json:"hint_max,omitempty"`

	// Effect: what the error is. Default: what the status says.
	Kind *gateway.Kind `yaml:"kind" json:"kind,omitempty"`
	// Effect: its blast radius. Default: the kind's own.
	Scope *gateway.Scope `yaml:"scope" json:"scope,omitempty"`
	// Effect: the reason that is shown. Default: the kind's own.
	Reason *gateway.Reason `yaml:"reason" json:"reason,omitempty"`
	// Effect: how long to stay away when the upstream gives no hint. Range 0s-24h.
	Cooldown time.Duration `yaml:"cooldown" json:"cooldown,omitempty"`
	// Effect: a shorter hint than this is not believed. Default 0s: every hint is.
	IgnoreHintBelow time.Duration `yaml:"ignore_hint_below" json:"ignore_hint_below,omitempty"`
	// Effect: false = the walk goes on, and nothing learns from it. Default true.
	Count *bool `yaml:"count" json:"count,omitempty"`
	// Effect: the feature that was refused, with kind alive.
	Quirk string `yaml:"quirk" json:"quirk,omitempty"`
	// Effect: the model is gone for good, with kind model_unavailable.
	Retired bool `yaml:"retired" json:"retired,omitempty"`
}

// HeaderMatch is a condition on a response header; an empty Pattern asks only that it is there.
type HeaderMatch struct {
	Name    string `yaml:"name" json:"name,omitempty"`
	Pattern string `yaml:"pattern" json:"pattern,omitempty"`
}

// Patterns are RE2 patterns. One alone may be written without a list.
type Patterns []string

// Restatement corrects a status that lies, before anything is classified. Its conditions mean what those of a rule mean;
// beside from it needs at least one of text, text_any, header, code and error_type.
type Restatement struct {
	// Unique name, shown in decision logs. The id of a built-in restatement replaces that one; with enabled: false it
	// removes it.
	ID string `yaml:"id" json:"id"`
	// Default true.
	Enabled *bool `yaml:"enabled" json:"enabled,omitempty"`
	// Lower first; equal ones in the order written. Default 0.
	Priority int `yaml:"priority" json:"priority,omitempty"`
	// Condition: id of the provider. Without provider and connection it is global (use_global_rules).
	Provider string `yaml:"provider" json:"provider,omitempty"`
	// Condition: id of the connection.
	Connection string `yaml:"connection" json:"connection,omitempty"`
	// Condition: class of the provider: oauth, apikey, local.
	Class *gateway.Class `yaml:"class" json:"class,omitempty"`
	// Condition: statuses that may lie; 200 also means any error inside a 200.
	From []StatusRange `yaml:"from" json:"from"`
	// The status that was meant, 400-599.
	To int `yaml:"to" json:"to"`
	// Condition: pattern over message, code and type.
	Text string `yaml:"text" json:"text,omitempty"`
	// Condition: patterns of which at least one must be found there; beside text, they are further alternatives.
	TextAny Patterns `yaml:"text_any" json:"text_any,omitempty"`
	// Condition: a pattern, or several, of which none may be found there.
	TextNone Patterns `yaml:"text_none" json:"text_none,omitempty"`
	// Condition: a response header whose value matches.
	Header HeaderMatch `yaml:"header" json:"header,omitzero"`
	// Condition: any structured code, status or reason in the body.
	Code string `yaml:"code" json:"code,omitempty"`
	// Condition: the error's type.
	ErrorType string `yaml:"error_type" json:"error_type,omitempty"`
	// Told to the client as Retry-After when the upstream gave no hint; nothing learns from it.
	DefaultRetryAfter time.Duration `yaml:"default_retry_after" json:"default_retry_after,omitempty"`
}

// StatusRange is one HTTP status or a range of them, both ends included.
type StatusRange struct{ From, To int }

// UnmarshalText reads 429, 500-504 or 5xx.
func (s *StatusRange) UnmarshalText(b []byte) error {
	text := strings.ToLower(strings.TrimSpace(string(b)))
	from, to, isRange := strings.Cut(text, "-")
	if c, ok := strings.CutSuffix(text, "xx"); ok {
		from, to, isRange = c+"00", c+"99", true
	}
	lo, err := strconv.Atoi(strings.TrimSpace(from))
	hi := lo
	if err == nil && isRange {
		hi, err = strconv.Atoi(strings.TrimSpace(to))
	}
	r := StatusRange{lo, hi}
	if err != nil || !r.valid() {
		return fmt.Errorf("%q is no status: write 429, 500-504 or 5xx, all within 100-599", text)
	}
	*s = r
	return nil
}

// UnmarshalJSON takes a number as well as the text form.
func (s *StatusRange) UnmarshalJSON(b []byte) error {
	return s.UnmarshalText([]byte(strings.Trim(string(b), `"`)))
}

// MarshalText writes 429 or 500-504.
func (s StatusRange) MarshalText() ([]byte, error) {
	if s.From == s.To {
		return strconv.AppendInt(nil, int64(s.From), 10), nil
	}
	return fmt.Appendf(nil, "%d-%d", s.From, s.To), nil
}

func (s StatusRange) valid() bool { return s.From >= 100 && s.From <= s.To && s.To <= 599 }
