package wire

import (
	"strconv"
	"strings"
)

// ShortSeed is mixed into the seed of an answer that is short by intent, so that it cannot be taken for the cut-off
// beginning of the long one.
const ShortSeed = 0x73686f7274

// Line is the text of an answer and knows where its tokens end. They are a function of prompt and seed, each is numbered
// and unlike its neighbours, and all but the first begin with the space that divides them: a lost, doubled or foreign
// piece shows.
type Line struct {
	text string // of all tokens
	n    int    // of the tokens in text
	past int    // tokens that are said already
	cut  int    // bytes of text that are said already; they may end inside a token
}

// Say returns the n tokens of the answer to a prompt.
func Say(prompt string, seed uint64, n int) Line {
	var room [1 << 10]byte
	b, first := room[:0], base(prompt, seed)
	for i := range n {
		mark := (first ^ uint32(i)*2654435761) & 0xffff
		b = padded(append(b, token...), i+1)
		b = append(b, '-', digits[mark>>12], digits[mark>>8&15], digits[mark>>4&15], digits[mark&15])
	}
	return Line{text: string(b[min(1, n):]), n: n}
}

// Text is the whole answer to a prompt.
func Text(prompt string, seed uint64, n int) string { return Say(prompt, seed, n).text }

// base is what all marks of an answer come from: the 32 bits of FNV-1a of the seed and the prompt.
func base(prompt string, seed uint64) uint32 {
	var room [24]byte
	h := sum32(offset32, append(strconv.AppendUint(room[:0], seed, 10), '|'))
	return sum32(h, strings.TrimSpace(prompt))
}

const (
	token = " token-"
	least = len(token) + len("001-0000") // the bytes of a token with the space before it, up to number 999
)

// padded appends a number with three digits at least.
func padded(b []byte, n int) []byte {
	if n < 1000 {
		return append(b, byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10))
	}
	return strconv.AppendInt(b, int64(n), 10)
}

// end is where the first k tokens end: each is as long as the others but for the digits of its number, and the first has
// no space before it.
func end(k int) int {
	if k == 0 {
		return 0
	}
	bytes := k*least - 1
	for more := 1000; k >= more; more *= 10 {
		bytes += k - more + 1
	}
	return bytes
}

// Len is the number of tokens that are left to say.
func (l Line) Len() int { return l.n - l.past }

// Piece is the text of the tokens from i up to and without j, counted from the first that is left.
func (l Line) Piece(i, j int) string {
	from, to := l.cut, l.cut
	if i > 0 {
		from = end(l.past + i)
	}
	if j > 0 {
		to = end(l.past + j)
	}
	return l.text[from:to]
}

// First is the line up to its n-th token.
func (l Line) First(n int) Line {
	l.n = l.past + n
	return l
}

// After returns what is left of a line behind a prefill. A prefill that is not the beginning of the answer is not
// continued: then all tokens come, as a model that thinks otherwise would write.
func (l Line) After(prefill string) Line {
	if !strings.HasPrefix(l.text[:end(l.n)], prefill) {
		return l
	}
	l.past, l.cut = 0, len(prefill)
	for l.past < l.n && end(l.past+1) <= l.cut {
		l.past++
	}
	return l
}
