package cache

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// Proof is what is known about an answer once it has ended.
type Proof gateway.Proof

// Keep reports whether an answer may be served again: only a whole one, with something in it, which ended by itself.
// One that ran into its token limit is cut short, whoever asked for that limit.
func (p Proof) Keep() bool {
	return p.Kind == gateway.Success && p.Status == http.StatusOK && p.Content && !p.Refused && !p.Length && !p.Mended && !p.Unsure
}

// Wish is what a caller says about caches in its request headers.
type Wish struct {
	NoStore bool // nothing of this request is to be kept, looked up or shared
	NoCache bool // the answer must be a new one; it may be kept
	// MaxAge is how old an answer may be, when Aged is set.
	MaxAge time.Duration
	Aged   bool
}

// WishOf reads Cache-Control, and Pragma where that is missing. What is not understood is as if it were not there.
func WishOf(h http.Header) (w Wish) {
	lines, ok := h["Cache-Control"]
	if !ok {
		for _, v := range h["Pragma"] {
			w.NoCache = w.NoCache || strings.EqualFold(strings.TrimSpace(v), "no-cache")
		}
		return w
	}
	for _, line := range lines {
		for d := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(d), "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "no-store":
				w.NoStore = true
			case "no-cache":
				w.NoCache = true
			case "max-age":
				s, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
				if err == nil {
					w.MaxAge, w.Aged = time.Duration(s)*time.Second, true
				}
			}
		}
	}
	if w.Aged && w.MaxAge == 0 {
		w.NoCache = true
	}
	return w
}

// Limit is the greatest age of an answer for this caller under a time to live.
func (w Wish) Limit(ttl time.Duration) time.Duration {
	if w.Aged {
		return min(ttl, w.MaxAge)
	}
	return ttl
}

// fresh reports whether an answer of instant at may be served at now. The limit itself is too old.
func fresh(at, now time.Time, limit time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age < limit
}

// The rules of a shared answer. Offsets count its bytes from the first: end is how many there are, lead is what the
// fastest reader has taken, pos what one reader has taken, window how far a reader may be behind.

// mustWait reports whether the run has to wait for its fastest reader. So one reader alone holds a run back as a slow
// client without sharing does, and no slow one does while another keeps pace.
func mustWait(window, end, lead int64) bool { return end > lead && end-lead > window }

// lost reports whether a reader has fallen too far behind the others to be waited for.
func lost(window, end, pos int64) bool { return end-pos > window }

// open reports whether a reader may still join: the answer is there from its first byte.
func open(window, base, end int64) bool { return base == 0 && end <= window }
