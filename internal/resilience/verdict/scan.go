package verdict

import (
	"unicode"
	"unicode/utf8"
)

// scanner reads the normal form of a text: white space and control characters folded to one space, broken UTF-8 left
// out. With unescape, JSON escapes are undone, so that a text can be compared with the way it stands in a JSON string.
type scanner struct {
	s        []byte
	plain    *[256]byte // what a byte stands for; 0 = look closer
	fold     bool       // lower case
	unescape bool
	space    bool
}

var asIs, folded = plainBytes(false), plainBytes(true)

func plainBytes(fold bool) *[256]byte {
	var t [256]byte
	for c := byte('!'); c < 0x7f; c++ {
		t[c] = c
		if fold && c >= 'A' && c <= 'Z' {
			t[c] = c | 0x20
		}
	}
	t['\\'] = 0
	return &t
}

func scan(s []byte, fold, unescape bool) scanner {
	c := scanner{s: s, plain: asIs, fold: fold, unescape: unescape, space: true}
	if fold {
		c.plain = folded
	}
	return c
}

// next returns -1 at the end. The fast path is the whole point: requests are long and mostly ASCII.
func (c *scanner) next() rune {
	if len(c.s) > 0 {
		if b := c.plain[c.s[0]]; b != 0 {
			c.s, c.space = c.s[1:], false
			return rune(b)
		}
	}
	return c.slow()
}

func (c *scanner) slow() rune {
	for len(c.s) > 0 {
		r, n := utf8.DecodeRune(c.s)
		if r == '\\' && c.unescape {
			r, n = escape(c.s)
		}
		c.s = c.s[n:]
		if r == utf8.RuneError {
			continue
		}
		if r <= ' ' || r >= 0x7f && (unicode.IsSpace(r) || unicode.Is(unicode.C, r)) {
			if !c.space {
				c.space = true
				return ' '
			}
			continue
		}
		c.space = false
		if c.fold {
			r = unicode.ToLower(r)
		}
		return r
	}
	return -1
}

// escape reads one JSON escape at the head of s.
func escape(s []byte) (rune, int) {
	if len(s) < 2 {
		return '\\', 1
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'n', 'r', 't', 'b', 'f':
		return ' ', 2
	case 'u':
		r, ok := hex4(s)
		if !ok {
			return '\\', 1
		}
		if r >= 0xd800 && r < 0xdc00 && len(s) >= 12 && s[6] == '\\' {
			if low, ok := hex4(s[6:]); ok && low >= 0xdc00 && low < 0xe000 {
				return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, 12
			}
		}
		return r, 6
	}
	return '\\', 1
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// hashBase is an odd multiplier of a rolling polynomial hash; the value has no meaning.
const hashBase uint64 = 0x9e3779b97f4a7c15

// roller hashes the last echoLength characters, as a polynomial.
type roller struct {
	ring [echoLength]uint64
	n    uint
	hash uint64
}

// hashTop is hashBase to the power of echoLength.
var hashTop = func() uint64 {
	top := uint64(1)
	for range echoLength {
		top *= hashBase
	}
	return top
}()

func (r *roller) push(c rune) uint64 {
	at := r.n % echoLength
	r.n++
	r.hash = r.hash*hashBase + uint64(c) + 1 - r.ring[at]
	r.ring[at] = (uint64(c) + 1) * hashTop
	return r.hash
}

// failures is the failure function of Knuth, Morris and Pratt.
func failures(want []rune) []int {
	back := make([]int, len(want))
	for i, k := 1, 0; i < len(want); i++ {
		for k > 0 && want[k] != want[i] {
			k = back[k-1]
		}
		if want[k] == want[i] {
			k++
		}
		back[i] = k
	}
	return back
}
