package wire

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// ShortSeed is mixed into the seed of an answer that is short by intent, so that it cannot be taken for the cut-off
// beginning of the long one.
const ShortSeed = 0x73686f7274

// Words returns the n tokens of the answer to a prompt. They are a function of prompt and seed, each is numbered and
// unlike its neighbours, and all but the first begin with the space that divides them: a lost, doubled or foreign piece
// shows.
func Words(prompt string, seed uint64, n int) []string {
	ends := make([]int, 0, n)
	text, out, at := string(write(prompt, seed, n, &ends)), make([]string, n), 1 // the first word has no space before it
	for i, end := range ends {
		out[i], at = text[at:end], end
	}
	return out
}

// write writes the words, each with a space before it, and notes where each ends; nil = not.
func write(prompt string, seed uint64, n int, ends *[]int) []byte {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d|%s", seed, strings.TrimSpace(prompt))
	base := h.Sum32()
	const least = len(" token-001-0000")
	buf := make([]byte, 0, n*(least+1))
	for i := range n {
		mark := (base ^ uint32(i)*2654435761) & 0xffff
		buf = append(buf, " token-"...)
		buf = padded(buf, i+1)
		buf = append(buf, '-', hex[mark>>12], hex[mark>>8&15], hex[mark>>4&15], hex[mark&15])
		if ends != nil {
			*ends = append(*ends, len(buf))
		}
	}
	return buf
}

const hex = "0123456789abcdef"

// padded appends a number with three digits at least.
func padded(b []byte, n int) []byte {
	if n < 100 {
		b = append(b, '0')
	}
	if n < 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, int64(n), 10)
}

// Text is the whole answer to a prompt.
func Text(prompt string, seed uint64, n int) string {
	return strings.TrimPrefix(string(write(prompt, seed, n, nil)), " ")
}

// After returns what is left of the words behind a prefill. A prefill that is not the beginning of the answer is not
// continued: then all words come, as a model that thinks otherwise would write.
func After(words []string, prefill string) []string {
	rest := prefill
	for i, w := range words {
		if rest == "" {
			return words[i:]
		}
		if strings.HasPrefix(rest, w) {
			rest = rest[len(w):]
			continue
		}
		if strings.HasPrefix(w, rest) {
			return append([]string{w[len(rest):]}, words[i+1:]...)
		}
		return words
	}
	if rest == "" {
		return nil
	}
	return words
}
