package verdict

import (
	"bytes"
	"strings"
	"unicode"
)

// echoLength is the length, in characters, from which a text that also stands in the request counts as the client's.
const echoLength = 16

// modelMark stands for the candidate's model id in the text that rules see, so that a model's name can never be read
// as a phrase.
const modelMark = "{model}"

// prose is what the provider wrote, told apart from what it merely repeated of the request.
type prose struct {
	shown   []rune // one space between words, no control characters
	lower   []rune // the same in lower case, position by position
	echo    []bool // the character belongs to an echo of the request
	model   []rune
	request []byte
	text    string // what rules see, in lower case
}

// newProse reads the message, code and type of an error. ask may be nil.
func newProse(message, code, typ, model string, ask func() []byte) *prose {
	p := &prose{model: []rune(strings.ToLower(model))}
	p.add(message)
	for _, s := range []string{code, typ} {
		if s != "" {
			p.shown, p.lower = append(p.shown, '\n'), append(p.lower, '\n')
			p.add(s)
		}
	}
	p.echo = make([]bool, len(p.lower))
	if ask != nil && len(p.lower) > 0 {
		p.request = ask()
		p.mark()
	}
	p.text = p.build()
	return p
}

func (p *prose) add(text string) {
	c := scan([]byte(text), false, false)
	for r := c.next(); r >= 0; r = c.next() {
		p.shown = append(p.shown, r)
		p.lower = append(p.lower, unicode.ToLower(r))
	}
}

// forms calls look with the two ways in which a request's text may have been repeated: as it stands, and with its
// escapes undone.
func (p *prose) forms(look func(c scanner)) {
	look(scan(p.request, true, false))
	if bytes.IndexByte(p.request, '\\') >= 0 {
		look(scan(p.request, true, true))
	}
}

// mark finds every run of echoLength characters or more that also stands in the request, in one pass over it: all
// windows of the (short) text are hashed, then a window of the same length rolls through the request.
func (p *prose) mark() {
	if len(p.lower) < echoLength {
		return
	}
	windows := make(map[uint64][]int, len(p.lower))
	var filter [1 << 10]uint64 // answers "surely not" without touching the map
	var roll roller
	for i, r := range p.lower {
		if h := roll.push(r); i >= echoLength-1 {
			windows[h] = append(windows[h], i-echoLength+1)
			filter[h>>54] |= 1 << (h >> 48 & 63)
		}
	}
	p.forms(func(c scanner) {
		var roll roller
		for i := 0; ; i++ {
			r := c.next()
			if r < 0 {
				return
			}
			h := roll.push(r)
			if filter[h>>54]&(1<<(h>>48&63)) == 0 || i < echoLength-1 {
				continue
			}
			for _, at := range windows[h] {
				for k := range echoLength {
					p.echo[at+k] = true
				}
			}
		}
	})
	p.spareModel()
}

// spareModel takes the model's own id out of the echo: a provider that names the model says something, though every
// request holds that name. A longer echo that merely contains the id stays one.
func (p *prose) spareModel() {
	for at := range p.models() {
		from, to := at, at+len(p.model)
		for from > 0 && p.echo[from-1] {
			from--
		}
		for to < len(p.echo) && p.echo[to] {
			to++
		}
		if to-from <= len(p.model)+4 {
			for i := from; i < to; i++ {
				p.echo[i] = false
			}
		}
	}
}

// models yields where the model's id stands as a word of its own.
func (p *prose) models() func(yield func(int) bool) {
	return func(yield func(int) bool) {
		n := len(p.model)
		if n == 0 {
			return
		}
		for at := 0; at+n <= len(p.lower); at++ {
			if string(p.lower[at:at+n]) != string(p.model) || at > 0 && wordy(p.lower[at-1]) || at+n < len(p.lower) && wordy(p.lower[at+n]) {
				continue
			}
			if !yield(at) {
				return
			}
		}
	}
}

func wordy(r rune) bool {
	return r == '-' || r == '_' || unicode.IsLetter(r) && r < 0x2e80 || unicode.IsDigit(r)
}

// build writes the text for rules: echoes become line breaks, which no pattern crosses, the model's id becomes a mark.
func (p *prose) build() string {
	var b strings.Builder
	at := 0
	write := func(to int) {
		for ; at < to; at++ {
			switch {
			case !p.echo[at]:
				b.WriteRune(p.lower[at])
			case at == 0 || !p.echo[at-1]:
				b.WriteByte('\n')
			}
		}
	}
	for m := range p.models() {
		if m < at || p.echo[m] {
			continue
		}
		write(m)
		b.WriteString(modelMark)
		at = m + len(p.model)
	}
	write(len(p.lower))
	return b.String()
}

// names reports whether the provider named the candidate's model.
func (p *prose) names() bool { return strings.Contains(p.text, modelMark) }

// forPeople is the message to show: as written, echoes replaced by an ellipsis.
func (p *prose) forPeople() string {
	var b strings.Builder
	for i, r := range p.shown {
		switch {
		case r == '\n': // code and type follow, they have fields of their own
			return b.String()
		case !p.echo[i]:
			b.WriteRune(r)
		case i == 0 || !p.echo[i-1]:
			b.WriteString("[…]")
		}
	}
	return b.String()
}

// inRequest reports whether a text that a rule matched also stands in the request; then it proves nothing, however
// short it is.
func (p *prose) inRequest(match string) bool {
	if len(p.request) == 0 || match == "" {
		return false
	}
	want := []rune(match)
	if len(want) >= echoLength {
		return false // it would have been taken out of the text
	}
	back := failures(want)
	found := false
	p.forms(func(c scanner) {
		k := 0
		for r := c.next(); r >= 0 && !found; r = c.next() {
			for k > 0 && want[k] != r {
				k = back[k-1]
			}
			if want[k] == r {
				k++
			}
			found = k == len(want)
		}
	})
	return found
}
