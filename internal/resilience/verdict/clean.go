package verdict

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxMessage = 300 // characters of Outcome.Message
	maxName    = 100 // characters of Outcome.Code and Outcome.Type
	redacted   = "[redacted]"
)

// keyLike matches what looks like a credential, whoever's it is.
var keyLike = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\b(?:sk|pk|rk|ak|gsk|xai|hf|r8|nvapi|pplx|csk|fw|tgp|ghp|gho|ghu|ghs|github_pat|glpat|xox[abp]|spw|vlo)[-_][a-z0-9_*.\-]{5,}[a-z0-9_*\-]`,
	`\bAIza[a-z0-9_\-]{10,}`,
	`\bya29\.[a-z0-9_.\-]{10,}`,
	`\b(?:AKIA|ASIA)[A-Z0-9]{12,}`,
	`\beyJ[a-z0-9_\-]{8,}\.[a-z0-9_\-]{8,}(?:\.[a-z0-9_\-]*)?`,
	`\b(?:bearer|basic)\s+[a-z0-9_.~+/=*\-]{8,}`,
	`\b[a-z0-9+_]{40,}={0,2}`,
}, "|"))

// assigned matches name=value and name: value where the name says that the value is a secret.
var assigned = regexp.MustCompile(`(?i)\b((?:x-)?(?:api[-_ ]?key|apikey|key|access[-_]?token|secret|password|authorization|x-goog-api-key)["']?\s*(?:=|:)\s*["']?)([^\s"'&,;)]{6,})`)

// clean makes a text fit to be logged and shown: one line, no control characters, no secret, at most limit characters.
func clean(s, secret string, limit int) string {
	var b strings.Builder
	c := scan([]byte(head(s, 4*maxText)), false, false)
	for r := c.next(); r >= 0; r = c.next() {
		b.WriteRune(r)
	}
	s = strings.TrimSpace(b.String())
	s = hide(s, secret)
	s = keyLike.ReplaceAllString(s, redacted)
	s = assigned.ReplaceAllString(s, "${1}"+redacted)
	if utf8.RuneCountInString(s) > limit {
		r := []rune(s)
		s = string(r[:limit-1]) + "…"
	}
	if len(secret) >= shortSecret && strings.Contains(s, secret) {
		return "" // a cut or a replacement put it together again
	}
	return s
}

// shortSecret: a shorter key (x, none, test) is a placeholder and would be found inside ordinary words; it is replaced
// only where it is a word of its own.
const shortSecret = 6

func hide(s, secret string) string {
	secret = strings.TrimSpace(secret)
	if secret == "" {
		return s
	}
	if len(secret) >= shortSecret {
		s = strings.ReplaceAll(s, secret, redacted)
		if q := url.QueryEscape(secret); q != secret {
			s = strings.ReplaceAll(s, q, redacted)
		}
		return s
	}
	var b strings.Builder
	for {
		at := strings.Index(s, secret)
		if at < 0 {
			b.WriteString(s)
			return b.String()
		}
		before, _ := utf8.DecodeLastRuneInString(s[:at])
		after, _ := utf8.DecodeRuneInString(s[at+len(secret):])
		b.WriteString(s[:at])
		if letter(before) || letter(after) {
			b.WriteString(secret)
		} else {
			b.WriteString(redacted)
		}
		s = s[at+len(secret):]
	}
}

func letter(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
}
