package envelope

import (
	"bytes"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"spillway/internal/gateway"
)

// maxPartHeader bounds the headers of one part of a form, in bytes.
const maxPartHeader = 8 << 10

// DecodeForm reads a body of type multipart/form-data: the field "model" is found, the files are passed over unread. Like
// Decode it keeps body as Raw. contentType is the request's, with the boundary.
func DecodeForm(body []byte, contentType string, o Options) (*gateway.Envelope, *gateway.Error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, invalid("", "the content type of a form must be multipart/form-data with a boundary")
	}
	e := &gateway.Envelope{Protocol: o.Protocol, Operation: o.Operation, Raw: body, FormType: contentType}
	f := form{b: body, mark: []byte("\r\n--" + params["boundary"]), env: e}
	if gerr := f.run(); gerr != nil {
		return nil, gerr
	}
	if e.Model == "" {
		return nil, invalid("model", "the form has no field \"model\"; set it to one that GET /v1/models lists")
	}
	return e, nil
}

// form walks over the parts of RFC 2046.
type form struct {
	b    []byte
	mark []byte // what stands before each part but the first, which may lack the line break
	env  *gateway.Envelope
}

func (f *form) run() *gateway.Error {
	if bytes.Count(f.b, f.mark[1:]) != bytes.Count(f.b, f.mark) {
		return invalid("", "a boundary of the form stands behind a line feed alone; readers disagree on whether it is one")
	}
	at := 0
	if first := f.mark[2:]; bytes.HasPrefix(f.b, first) && f.delimits(len(first)) {
		at = len(first)
	} else if _, at = f.next(0); at < 0 {
		return invalid("", "the form has no part with the boundary that its content type names")
	}
	for !bytes.HasPrefix(f.b[at:], []byte("--")) {
		line := at + bytes.IndexByte(f.b[at:], '\n') - 1 // the line break behind the boundary
		head := bytes.Index(f.b[line:min(len(f.b), line+maxPartHeader)], []byte("\r\n\r\n"))
		if head < 0 {
			return invalid("", "the headers of a part of the form have no end, from byte %d", line)
		}
		from := line + head + 4
		to, after := f.next(from - 2) // an empty part's mark begins with the line break of its headers
		if to < 0 {
			return invalid("", "the form ends in the middle of a part (truncated?)")
		}
		if gerr := f.part(f.b[line:line+head], gateway.Span{Start: from, End: max(to, from)}); gerr != nil {
			return gerr
		}
		at = after
	}
	return nil
}

// next finds the next mark at or behind from: where it begins and ends, -1 when there is none.
func (f *form) next(from int) (start, after int) {
	for {
		i := bytes.Index(f.b[from:], f.mark)
		if i < 0 {
			return -1, -1
		}
		start, after = from+i, from+i+len(f.mark)
		if f.delimits(after) {
			return start, after
		}
		from = start + 2
	}
}

// delimits reports whether what follows a boundary's text makes it one: the end of the line, or of the form.
func (f *form) delimits(after int) bool {
	rest := bytes.TrimLeft(f.b[after:min(len(f.b), after+64)], " \t")
	return bytes.HasPrefix(rest, []byte("\r\n")) || bytes.HasPrefix(f.b[after:], []byte("--"))
}

// part takes in one part: its headers and where its content is.
func (f *form) part(head []byte, content gateway.Span) *gateway.Error {
	name, file, ok := disposition(head)
	switch {
	case !ok:
		return invalid("", "the headers of the part of the form that begins at byte %d cannot be read without doubt", content.Start)
	case name != "model" || file:
		return nil
	}
	if f.env.Model != "" {
		return invalid("model", "the field \"model\" appears twice in the form; readers disagree on which one counts, so send it once")
	}
	value := f.b[content.Start:content.End]
	if len(value) == 0 || !utf8.Valid(value) || bytes.ContainsFunc(value, unicode.IsControl) {
		return invalid("model", "the field \"model\" of the form must be a non-empty line of text")
	}
	f.env.Model, f.env.ModelSpan = string(value), content
	return nil
}

// disposition reads the name of a part, and whether it is a file. It is not ok where another reader could find another
// name: the field "model" of a form decides what its sender may use.
func disposition(head []byte) (name string, file, ok bool) {
	seen := false
	for line := range strings.SplitSeq(strings.TrimPrefix(string(head), "\r\n"), "\r\n") {
		if strings.ContainsAny(line, "\r\n\x00") || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			return "", false, false // a line that goes on, or ends in another way
		}
		key, value, _ := strings.Cut(line, ":")
		if !strings.EqualFold(strings.TrimSpace(key), "content-disposition") {
			continue
		}
		_, params, err := mime.ParseMediaType(value)
		if err != nil && !strings.Contains(strings.ToLower(value), "model") && !strings.Contains(value, "*=") {
			params = nil // a file with a careless name, most likely; whatever it is called, it is no model
		} else if err != nil || seen {
			return "", false, false
		}
		seen = true
		name = params["name"]
		_, file = params["filename"]
	}
	return name, file, true
}
