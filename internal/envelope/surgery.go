package envelope

import (
	"encoding/json"
	"io"
	"slices"
	"sync/atomic"

	"spillway/internal/gateway"
)

// Edit says what changes in the body on its way upstream. Everything else stays byte for byte: unknown members, their
// order, the spelling of numbers, escapes, white space.
type Edit struct {
	Model        string // the upstream's model; "" = unchanged
	IncludeUsage bool   // ask for usage in the stream (chat only)
	Cuts         []Cut  // what the account cannot read; in order, apart from each other
}

// Cut replaces a range of the body.
type Cut struct {
	gateway.Span
	With []byte // nil = nothing comes in its place
}

// Body is an edited request body as pieces of the original: nothing is copied. The zero Body is empty.
type Body struct {
	parts [5][]byte
	more  [][]byte // the pieces behind those
	n     int
	size  int
}

func (b *Body) part(i int) []byte {
	if i < len(b.parts) {
		return b.parts[i]
	}
	return b.more[i-len(b.parts)]
}

// Apply returns the body with the edit made. The pieces alias e.Raw.
func Apply(e *gateway.Envelope, edit Edit) Body {
	var b Body
	if len(edit.Cuts) > 0 || len(e.Repeats) > 0 || e.Background.Set() {
		return applyAll(e, edit)
	}
	from := 0
	cut := func(s gateway.Span, with []byte) {
		b.add(e.Raw[from:s.Start])
		b.add(with)
		from = s.End
	}
	model, modelAt := modelEdit(e, edit)
	options, optionsAt := usageEdit(e, edit)
	switch {
	case model == nil:
		if options != nil {
			cut(optionsAt, options)
		}
	case options == nil:
		cut(modelAt, model)
	case optionsAt.Start <= modelAt.Start:
		cut(optionsAt, options)
		cut(modelAt, model)
	default:
		cut(modelAt, model)
		cut(optionsAt, options)
	}
	b.add(e.Raw[from:])
	return b
}

// applyAll makes any number of edits.
func applyAll(e *gateway.Envelope, edit Edit) (b Body) {
	cuts := slices.Clone(edit.Cuts)
	if with, at := modelEdit(e, edit); with != nil {
		cuts = append(cuts, Cut{at, with})
	}
	if with, at := usageEdit(e, edit); with != nil {
		cuts = append(cuts, Cut{at, with})
	}
	if with, at := backgroundEdit(e); with != nil {
		cuts = append(cuts, Cut{at, with})
	}
	if edit.Model != "" && edit.Model != e.Model {
		cuts = append(cuts, renamed(e, edit.Model)...)
	}
	slices.SortStableFunc(cuts, func(a, b Cut) int { return a.Start - b.Start })
	from := 0
	for _, c := range cuts {
		b.add(e.Raw[from:c.Start])
		b.add(c.With)
		from = c.End
	}
	b.add(e.Raw[from:])
	return b
}

// modelEdit is the upstream's name of the model and where it goes. A JSON body that names none gets it as its first
// member, unless the path names it.
func modelEdit(e *gateway.Envelope, edit Edit) ([]byte, gateway.Span) {
	switch {
	case edit.Model == "" || edit.Model == e.Model || e.Protocol == gateway.Gemini:
		return nil, gateway.Span{}
	case e.FormType != "":
		return []byte(edit.Model), e.ModelSpan
	case e.ModelSpan.Set():
		return quote(edit.Model), e.ModelSpan
	}
	member := append([]byte(`"model":`), quote(edit.Model)...)
	if !e.Empty {
		member = append(member, ',')
	}
	return member, gateway.Span{Start: e.InsertAt, End: e.InsertAt}
}

// usageEdit adds stream_options.include_usage: as a new first member, or inside the options that the client sent.
func usageEdit(e *gateway.Envelope, edit Edit) ([]byte, gateway.Span) {
	if !edit.IncludeUsage || !e.Stream || e.IncludeUsage || e.Protocol != gateway.OpenAI {
		return nil, gateway.Span{}
	}
	if !e.StreamSpan.Set() {
		return []byte(`"stream_options":{"include_usage":true},`), gateway.Span{Start: e.InsertAt, End: e.InsertAt}
	}
	var members map[string]json.RawMessage
	old := e.Raw[e.StreamSpan.Start:e.StreamSpan.End]
	if json.Unmarshal([]byte("{"+string(old)+"}"), &members) != nil {
		return nil, gateway.Span{}
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(members["stream_options"], &inner) != nil {
		return nil, gateway.Span{}
	}
	if inner == nil { // stream_options: null
		inner = map[string]json.RawMessage{}
	}
	inner["include_usage"] = json.RawMessage("true")
	value, err := json.Marshal(inner)
	if err != nil {
		return nil, gateway.Span{}
	}
	return append([]byte(`"stream_options":`), value...), e.StreamSpan
}

// quote writes s as a JSON string.
func quote(s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			b, _ := json.Marshal(s) // a string always marshals
			return b
		}
	}
	b := make([]byte, 0, len(s)+2)
	return append(append(append(b, '"'), s...), '"')
}

func (b *Body) add(p []byte) {
	if len(p) == 0 {
		return
	}
	if b.n < len(b.parts) {
		b.parts[b.n] = p
	} else {
		b.more = append(b.more, p)
	}
	b.n++
	b.size += len(p)
}

// Len is the size in bytes.
func (b *Body) Len() int { return b.size }

// Bytes returns the body in one piece; it copies unless there is only one.
func (b *Body) Bytes() []byte {
	if b.n == 1 {
		return b.parts[0]
	}
	out := make([]byte, 0, b.size)
	for i := range b.n {
		out = append(out, b.part(i)...)
	}
	return out
}

// Reader reads a Body once, for one attempt.
type Reader struct {
	body    Body
	part    int
	at      int
	readers *Readers
	closed  atomic.Bool
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	n := 0
	for r.part < r.body.n && n < len(p) {
		piece := r.body.part(r.part)
		c := copy(p[n:], piece[r.at:])
		n += c
		if r.at += c; r.at == len(piece) {
			r.part, r.at = r.part+1, 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo implements io.WriterTo: the pieces are written as they are.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for ; r.part < r.body.n; r.part, r.at = r.part+1, 0 {
		n, err := w.Write(r.body.part(r.part)[r.at:])
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Close implements io.Closer. It may be called more than once.
func (r *Reader) Close() error {
	if !r.closed.Swap(true) {
		r.readers.open.Add(-1)
	}
	return nil
}
