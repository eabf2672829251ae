package verdict

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"spillway/internal/gateway"
)

// Hint reads how long an upstream asked to be left alone, counted from now, and where it said so. Structured fields of
// the body outrank headers, headers outrank prose. A hint lies in the future and is at most 30 days; anything else, and
// any status below 400, gives none. Reset headers of a bucket count only when that bucket is empty.
func Hint(status int, h http.Header, body []byte, now time.Time) (d time.Duration, src gateway.HintSource, ok bool) {
	w := readBody(body)
	return hint(status, h, &w, newProse(w.message, "", "", "", nil), now)
}

func hint(status int, h http.Header, w *wire, p *prose, now time.Time) (time.Duration, gateway.HintSource, bool) {
	if status < 400 {
		return 0, gateway.HintNone, false
	}
	if d, ok := structuredHint(status, w, now); ok {
		return d, gateway.HintStructured, true
	}
	if d, ok := headerHint(status, h, now); ok {
		return d, gateway.HintHeader, true
	}
	if d, ok := p.hint(now); ok {
		return d, gateway.HintProse, true
	}
	return 0, gateway.HintNone, false
}

// hintFields are the names of body fields, without separators and in lower case, and how a bare number in them reads.
var hintFields = map[string]time.Duration{
	"resetsinseconds": time.Second, "resetinseconds": time.Second, "resetseconds": time.Second, "resetsin": time.Second,
	"resetafter": time.Second, "retryafterseconds": time.Second, "retryafter": time.Second, "retryin": time.Second,
	"retrydelay": time.Second, "waitseconds": time.Second, "cooldownseconds": time.Second, "quotaresetdelay": time.Second,
	"retryafterms": time.Millisecond, "resetafterms": time.Millisecond, "resetsinms": time.Millisecond,
	"resetsat": time.Second, "resetat": time.Second, "resettime": time.Second, "retryat": time.Second,
	"nextresettime": time.Second, "quotaresettime": time.Second, "quotaresettimestamp": time.Second,
	"ratelimitresetat": time.Second, "availableat": time.Second,
}

var fieldName = strings.NewReplacer("_", "", "-", "")

// structuredHint takes the longest of all hints in the body: coming back earlier than any of them says is refused.
func structuredHint(status int, w *wire, now time.Time) (best time.Duration, ok bool) {
	for _, o := range w.objects {
		for k, v := range o {
			unit, known := hintFields[fieldName.Replace(strings.ToLower(k))]
			if !known {
				continue
			}
			if d, good := fieldHint(v, unit, now); good {
				best, ok = max(best, d), true
			}
		}
	}
	if d, good := headerHint(status, w.headers, now); good {
		best, ok = max(best, d), true
	}
	return best, ok
}

func fieldHint(v any, unit time.Duration, now time.Time) (time.Duration, bool) {
	switch v := v.(type) {
	case string:
		if unit == time.Millisecond {
			if f, ok := number(strings.TrimSpace(v)); ok {
				return seconds(f / 1000)
			}
		}
		return parseReset(v, now)
	case json.Number:
		f, ok := number(v.String())
		switch {
		case !ok:
			return 0, false
		case unit == time.Millisecond && f < 1e9:
			return seconds(f / 1000)
		}
		return fromNumber(f, now)
	case map[string]any: // google.protobuf.Duration written out
		s, _ := v["seconds"].(json.Number)
		n, _ := v["nanos"].(json.Number)
		sec, _ := number(s.String())
		nano, _ := number(n.String())
		return seconds(sec + nano/1e9)
	}
	return 0, false
}

// headerHint reads response headers. Retry-After is a direct order and outranks the reset of any bucket.
func headerHint(status int, h http.Header, now time.Time) (time.Duration, bool) {
	if len(h) == 0 {
		return 0, false
	}
	for _, name := range []string{"Retry-After-Ms", "X-Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if f, ok := number(strings.TrimSpace(h.Get(name))); ok {
			if d, ok := seconds(f / 1000); ok {
				return d, true
			}
		}
	}
	for _, name := range []string{"Retry-After", "X-Retry-After"} {
		if d, ok := parseReset(h.Get(name), now); ok {
			return d, true
		}
	}
	switch status {
	case 402, 403, 425, 429, 503, 529:
		return bucketHint(h, now)
	}
	return 0, false
}

// bucketHint is the latest reset of an empty bucket. A bucket that does not say what remains counts as empty only if no
// bucket does.
func bucketHint(h http.Header, now time.Time) (best time.Duration, ok bool) {
	var unsaid time.Duration
	said := false
	for name, vs := range h {
		low := strings.ToLower(name)
		if len(vs) == 0 || !strings.Contains(low, "ratelimit") && !strings.Contains(low, "rate-limit") {
			continue
		}
		if low == "ratelimit" {
			if d, empty := draftBucket(vs[0], now); empty {
				best, ok = max(best, d), true
			}
			said = true
			continue
		}
		if !strings.Contains(low, "reset") {
			continue
		}
		d, good := parseReset(vs[0], now)
		switch left, known := remaining(h, low); {
		case known && left:
			said = true
		case known:
			said = true
			if good {
				best, ok = max(best, d), true
			}
		case good:
			unsaid = max(unsaid, d)
		}
	}
	if !ok && !said && unsaid > 0 {
		return unsaid, true
	}
	return best, ok
}

// remaining says whether anything is left in the bucket whose reset header is given. Anthropic's unified buckets have a
// status instead of a number.
func remaining(h http.Header, reset string) (left, known bool) {
	if strings.Contains(reset, "unified") {
		status := h.Get(strings.Replace(reset, "reset", "status", 1))
		return !strings.EqualFold(status, "rejected"), status != ""
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(h.Get(strings.Replace(reset, "reset", "remaining", 1))), 64)
	return f > 0, err == nil
}

// draftBucket reads the IETF drafts of RateLimit: "limit=10, remaining=0, reset=50" and "\"default\";r=0;t=50".
func draftBucket(v string, now time.Time) (d time.Duration, empty bool) {
	for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == ',' || r == ';' || r == ' ' }) {
		key, val, _ := strings.Cut(part, "=")
		switch strings.ToLower(key) {
		case "remaining", "r":
			empty = val == "0"
		case "reset", "t":
			d, _ = parseReset(val, now)
		}
	}
	return d, empty && d > 0
}

const (
	cue  = `(?:try(?:ing)? (?:it )?again|retry(?:ing)?|re-?sets?|available(?: again)?|wait(?:ing)?|refresh(?:es)?|renews?|come back|replenish(?:es|ed)?)`
	unit = `(?:milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)`
	when = `(\d{4}-\d\d-\d\d(?:[t ]+(?:at )?\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: ?utc| ?gmt|z|[+-]\d\d:?\d\d)?)?|\d\d-\d\d \d\d:\d\d:\d\d(?: utc)?)`
)

var (
	spanProse    = regexp.MustCompile(cue + `\b[^.\d\n]{0,32}?((?:\d+(?:\.\d+)? ?` + unit + `(?:,? and |, | )?)+)(?:\W|$)`)
	bareProse    = regexp.MustCompile(`(?:retry|try again)(?:[-_ ]?after|[-_ ]?in)[:= ]*(\d+(?:\.\d+)?)(?:[^\w.]|\.?$|\.\D)`)
	instantProse = regexp.MustCompile(`(?:` + cue + `|until|regain access|access)\b[^\d\n]{0,24}?` + when)
	epochProse   = regexp.MustCompile(`(?:` + cue + `[^\d\n]{0,16}|limit reached\|)(1\d{9}(?:\d{3})?)(?:\D|$)`)
	chineseSpan  = regexp.MustCompile(`((?:\d+(?:\.\d+)? ?(?:毫秒|秒钟?|分钟?|个?小时|天|日) ?)+)(?:之后|以后|后)`)
	chineseWhen  = regexp.MustCompile(when + ` ?(?:后|之后)?(?:重置|恢复|刷新|解除|重试|再试)`)
)

// cueHints are words of which a sentence must hold one before the expressions are tried.
var cueHints = []string{"try", "reset", "re-set", "available", "wait", "refresh", "renew", "come back", "replenish", "until",
	"access", "limit reached|", "后", "重置", "恢复", "刷新", "解除", "重试", "再试"}

// chinaTime is what an instant without a zone means in a Chinese sentence.
var chinaTime = time.FixedZone("UTC+8", 8*3600)

// hint reads a sentence. It needs a cue word next to the time ("5 hour limit" is no wait), and the words must be the
// provider's own.
func (p *prose) hint(now time.Time) (time.Duration, bool) {
	if !strings.ContainsAny(p.text, "0123456789") || !holdsAny(p.text, cueHints) {
		return 0, false
	}
	for _, read := range []struct {
		re    *regexp.Regexp
		value func(string) (time.Duration, bool)
	}{
		{instantProse, func(s string) (time.Duration, bool) { return proseInstant(s, now, time.UTC) }},
		{chineseWhen, func(s string) (time.Duration, bool) { return proseInstant(s, now, chinaTime) }},
		{epochProse, func(s string) (time.Duration, bool) { return parseReset(s, now) }},
		{spanProse, proseSpan},
		{bareProse, func(s string) (time.Duration, bool) { return parseReset(s, now) }},
		{chineseSpan, proseSpan},
	} {
		m := read.re.FindStringSubmatchIndex(p.text)
		if m == nil {
			continue
		}
		words := strings.TrimRightFunc(p.text[m[0]:m[1]], func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if p.inRequest(words) {
			continue
		}
		if d, ok := read.value(p.text[m[2]:m[3]]); ok {
			return d, true
		}
	}
	return 0, false
}

func proseSpan(s string) (time.Duration, bool) {
	d, ok := span(strings.TrimSuffix(strings.TrimSpace(s), " and"))
	if !ok {
		return 0, false
	}
	return bounded(d)
}

func proseInstant(s string, now time.Time, zone *time.Location) (time.Duration, bool) {
	s = strings.Join(strings.Fields(strings.Replace(s, " at ", " ", 1)), " ")
	return fromInstant(strings.ReplaceAll(s, "gmt", "utc"), now, zone)
}
