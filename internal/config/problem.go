package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pos is a place in a source; the zero Pos means "no place is known". Lines and columns count from 1.
type Pos struct {
	File      string
	Line, Col int
}

// Problem is one thing that is wrong (or, in [Config.Warnings], one that is probably not meant).
type Problem struct {
	File    string `json:"file,omitzero"`
	Line    int    `json:"line,omitzero"`
	Column  int    `json:"column,omitzero"`
	Path    string `json:"path,omitzero"` // of the field, as in connections[2].key; empty = the whole file
	Message string `json:"message"`       // what is wrong and what to write instead
}

// String is the form "file:line:column: path: message", without the parts that are not known.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is every problem of a configuration, in the order of the file.
type Problems struct{ List []Problem }

// Error prints one problem per line.
func (p *Problems) Error() string {
	lines := make([]string, len(p.List))
	for i, one := range p.List {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

func sortProblems(list []Problem) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return slices.Compact(list)
}

// What looks like a key even where none belongs: a known prefix, or a long run of letters with a digit in it.
var (
	keyLike = regexp.MustCompile(`(?i)\b(sk|pk|rk|gsk|xai|hf|ghp|github_pat|nvapi|csk|spw|r8|pplx|tgp|fw|AIza)[-_A-Za-z0-9]{8,}|Bearer +\S+|//[^/\s@]+@`)
	longRun = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)
)

// mask hides what looks like a key.
func mask(s string) string {
	s = keyLike.ReplaceAllString(s, redacted)
	return longRun.ReplaceAllStringFunc(s, func(run string) string {
		if strings.ContainsAny(run, "0123456789") {
			return redacted
		}
		return run
	})
}

const redacted = "[redacted]"

// quote shows a piece of the file in a message: short, printable, and without anything that looks like a key.
func quote(s string) string {
	s = mask(s)
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	return fmt.Sprintf("%q", s)
}

// scrub removes the secrets that were seen while reading from a message. Very short ones are left alone: they would
// blacken ordinary words, and they are never quoted in the first place.
func scrub(msg string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= 6 && strings.Contains(msg, s) {
			msg = strings.ReplaceAll(msg, s, redacted)
		}
	}
	return msg
}

// nearest returns the known name closest to got, or "" when none is close.
func nearest(got string, known []string) string {
	best, bestDist := "", max(len(got)/3, 1)+1
	if len(got) < 3 { // anything is close to a name this short
		return ""
	}
	fold := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(got))
	for _, k := range known {
		if d := distance(fold, strings.ToLower(k)); d < bestDist {
			best, bestDist = k, d
		}
	}
	return best
}

// distance is the number of single-letter edits between two names; a swap of neighbours counts once.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}

// didYouMean is the tail of a message about an unknown name.
func didYouMean(got string, known []string) string {
	if n := nearest(got, known); n != "" {
		return "; did you mean " + n + "?"
	}
	if len(known) == 0 {
		return ""
	}
	shown := slices.Sorted(slices.Values(known))
	if len(shown) > 12 {
		shown = append(shown[:12:12], "...")
	}
	return "; known: " + strings.Join(shown, ", ")
}
