package verdict

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxHint bounds every hint: a longer one is a mistake of somebody. The rooms cap further, by kind.
const maxHint = 30 * 24 * time.Hour

// parseReset reads the value of a retry or reset field: seconds, an epoch in seconds or milliseconds, a duration
// (1m30s, 6ms, 1d2h), an RFC 3339 instant or an HTTP date. Only what lies in the future is a hint.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	s = strings.Trim(strings.TrimSpace(s), `"`)
	if s == "" || len(s) > 64 {
		return 0, false
	}
	if f, ok := number(s); ok {
		return fromNumber(f, now)
	}
	if d, ok := span(s); ok {
		return bounded(d)
	}
	return fromInstant(s, now, time.UTC)
}

// number reads a plain decimal number; signs, exponents, hexadecimal, NaN and Inf are none.
func number(s string) (float64, bool) {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && s[i] != '.' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func fromNumber(f float64, now time.Time) (time.Duration, bool) {
	switch {
	case f >= 1e10: // milliseconds since 1970
		return until(time.UnixMilli(int64(min(f, 1e15))), now)
	case f >= 1e9: // seconds since 1970
		return until(time.Unix(int64(f), 0), now)
	}
	return seconds(f)
}

func seconds(f float64) (time.Duration, bool) {
	if math.IsNaN(f) || f <= 0 {
		return 0, false
	}
	if f >= maxHint.Seconds() {
		return maxHint, true
	}
	return bounded(time.Duration(f * float64(time.Second)).Round(time.Microsecond))
}

func until(t, now time.Time) (time.Duration, bool) { return bounded(t.Sub(now)) }

func bounded(d time.Duration) (time.Duration, bool) {
	if d <= 0 {
		return 0, false
	}
	return min(d, maxHint), true
}

// units of time as providers write them, longest spelling first where one is the head of another.
var units = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond, "msecs": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	"毫秒": time.Millisecond, "秒": time.Second, "秒钟": time.Second, "分": time.Minute, "分钟": time.Minute,
	"小时": time.Hour, "个小时": time.Hour, "天": 24 * time.Hour, "日": 24 * time.Hour,
}

// span reads a chain of number and unit, as in 1m30s, 2 hours 5 minutes, 1d2h, 2m59.56s.
func span(s string) (time.Duration, bool) {
	s = strings.ToLower(s)
	var total float64
	any := false
	for {
		s = strings.TrimLeft(s, " ,")
		s = strings.TrimPrefix(s, "and ")
		s = strings.TrimLeft(s, " ")
		if s == "" {
			return time.Duration(min(total, float64(maxHint))), any
		}
		digits := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if digits <= 0 {
			return 0, false
		}
		f, ok := number(s[:digits])
		if !ok {
			return 0, false
		}
		s = strings.TrimLeft(s[digits:], " ")
		end := strings.IndexFunc(s, func(r rune) bool { return r == ' ' || r == ',' || r == '.' || r >= '0' && r <= '9' })
		if end < 0 {
			end = len(s)
		}
		unit, ok := units[s[:end]]
		if !ok {
			return 0, false
		}
		total += f * float64(unit)
		any = true
		s = s[end:]
	}
}

var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999 MST", "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02 15:04 MST", "2006-01-02 15:04", "2006-01-02",
}

// fromInstant reads a point in time; zone is what an instant without one means.
func fromInstant(s string, now time.Time, zone *time.Location) (time.Duration, bool) {
	up := strings.ToUpper(s)
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, up, zone); err == nil {
			return until(t, now)
		}
	}
	// Month and day without a year: the next such day.
	if t, err := time.ParseInLocation("01-02 15:04:05", strings.TrimSuffix(up, " UTC"), zone); err == nil {
		t = t.AddDate(now.Year(), 0, 0)
		if t.Before(now) {
			t = t.AddDate(1, 0, 0)
		}
		return until(t, now)
	}
	if t, err := http.ParseTime(s); err == nil {
		return until(t, now)
	}
	return 0, false
}
