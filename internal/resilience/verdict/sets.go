package verdict

import "strings"

// statusSet has one bit per status from 0 to 639; empty means any.
type statusSet struct {
	bits [10]uint64
	some bool
}

func (s *statusSet) add(r StatusRange) {
	for n := r.From; n <= r.To; n++ {
		s.bits[n>>6] |= 1 << (n & 63)
	}
	s.some = true
}

func (s *statusSet) has(n int) bool { return n >= 0 && n < 640 && s.bits[n>>6]&(1<<(n&63)) != 0 }

// globs are alternatives of a pattern with * and ?, in lower case; nil matches anything.
type globs []globPattern

type globPattern struct {
	text string
	wild bool
}

func newGlobs(s string) globs {
	var out globs
	for part := range strings.SplitSeq(s, "|") {
		if part = strings.ToLower(strings.TrimSpace(part)); part != "" {
			out = append(out, globPattern{part, strings.ContainsAny(part, "*?")})
		}
	}
	return out
}

// match expects s in lower case.
func (g globs) match(s string) bool {
	for i := range g {
		if p := &g[i]; p.text == s || p.wild && glob(p.text, s) {
			return true
		}
	}
	return false
}

// glob matches * and ? (one byte) without backtracking over more than the last *.
func glob(p, s string) bool {
	pi, si, star, mark := 0, 0, -1, 0
	for si < len(s) {
		switch {
		case pi < len(p) && p[pi] == '*':
			star, mark = pi, si
			pi++
		case pi < len(p) && (p[pi] == '?' || p[pi] == s[si]):
			pi++
			si++
		case star >= 0:
			mark++
			pi, si = star+1, mark
		default:
			return false
		}
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}
