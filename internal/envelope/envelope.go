// Package envelope reads a request from the outside: the few facts that routing needs (model, stream, size, needs) are
// taken from the raw JSON in one pass, without decoding it, and the client's bytes are kept as they came.
//
// It refuses what two JSON readers could read differently: a top-level name that appears twice (one parser takes the
// first model, another the last, so a key could be checked for one and billed for the other) and text that is not
// UTF-8.
package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"spillway/internal/gateway"
)

// Options are facts about a request that stand outside its body.
type Options struct {
	Protocol  gateway.Protocol
	Operation gateway.Operation
	Model     string // from the path (Gemini); "" = the body names it
	Stream    bool   // from the path (Gemini); otherwise the body says
}

// moderator is the model that OpenAI's API takes for a moderation that names none.
const moderator = "omni-moderation-latest"

// Decode reads body. It keeps body as Raw and does not copy it. The error is for the client: it names the place.
func Decode(body []byte, o Options) (*gateway.Envelope, *gateway.Error) {
	e := &gateway.Envelope{Protocol: o.Protocol, Operation: o.Operation, Raw: body, Model: o.Model, Stream: o.Stream, Tokens: len(body) / 4}
	d := decoder{env: e, scanner: scanner{b: body}, modelInPath: o.Model != ""}
	if err := d.run(); err != nil {
		return nil, err
	}
	if d.high && !utf8.Valid(body) {
		return nil, invalid("", "the body is not valid UTF-8 (first bad byte at %s)", place(body, firstInvalid(body)))
	}
	if e.Model == "" && o.Operation == gateway.Moderate {
		e.Model = moderator
	}
	if e.Model == "" {
		return nil, invalid("model", "the request names no model; set \"model\" to one that GET /v1/models lists")
	}
	return e, nil
}

type decoder struct {
	scanner
	env         *gateway.Envelope
	modelInPath bool
	seen        uint64   // known top-level names already met, as bits
	others      [][]byte // the other names
	begun       bool     // the first turn of a user is over
	fieldRank   int      // how clear the session field is
}

func (d *decoder) run() *gateway.Error {
	i := d.space(0)
	if i >= len(d.b) {
		return invalid("", "the body is empty; send a JSON object")
	}
	if d.b[i] != '{' {
		return invalid("", "the body must be a JSON object, not %s", kindOf(d.b[i]))
	}
	d.env.InsertAt = i + 1
	i = d.space(i + 1)
	if i < len(d.b) && d.b[i] == '}' {
		d.env.Empty = true
		return d.tail(i + 1)
	}
	for {
		start := i
		name, next, gerr := d.name(i)
		if gerr != nil {
			return gerr
		}
		i = next
		which, isKnown := known[string(name)]
		end, err := d.top(which, isKnown, i)
		if err != nil {
			return d.syntax(err)
		}
		if gerr := d.member(name, which, isKnown, gateway.Span{Start: start, End: end}, i); gerr != nil {
			return gerr
		}
		var more bool
		if i, more, err = d.separator(end, '}'); err != nil {
			return d.syntax(err)
		}
		if !more {
			return d.tail(i)
		}
	}
}

// name reads a member name and the colon; it returns the offset of the value.
func (d *decoder) name(i int) ([]byte, int, *gateway.Error) {
	if i >= len(d.b) || d.b[i] != '"' {
		return nil, i, d.syntax(d.fail(i, "expected a member name in double quotes"))
	}
	end, err := d.str(i)
	if err != nil {
		return nil, i, d.syntax(err)
	}
	raw := d.b[i+1 : end-1]
	colon := d.space(end)
	if colon >= len(d.b) || d.b[colon] != ':' {
		return nil, i, d.syntax(d.fail(colon, "expected ':' after a member name"))
	}
	if bytes.IndexByte(raw, '\\') >= 0 { // "mod\u0065l" is "model"
		var name string
		if err := json.Unmarshal(d.b[i:end], &name); err != nil {
			return nil, i, d.syntax(d.fail(i, "unreadable member name"))
		}
		raw = []byte(name)
	}
	return raw, d.space(colon + 1), nil
}

// tail checks that nothing but space follows the object.
func (d *decoder) tail(i int) *gateway.Error {
	if i = d.space(i); i < len(d.b) {
		return invalid("", "unexpected %q after the JSON object, at %s", d.b[i], place(d.b, i))
	}
	return nil
}

func (d *decoder) syntax(err error) *gateway.Error {
	se, ok := err.(*syntaxError)
	if !ok {
		return invalid("", "the body is not valid JSON: %s", err)
	}
	return invalid("", "the body is not valid JSON at %s: %s", place(d.b, se.at), se.what)
}

func invalid(param, format string, args ...any) *gateway.Error {
	return &gateway.Error{Code: gateway.InvalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

func kindOf(c byte) string {
	switch {
	case c == '[':
		return "an array"
	case c == '{':
		return "an object"
	case c == '"':
		return "a string"
	case c == '-' || (c >= '0' && c <= '9'):
		return "a number"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	}
	return fmt.Sprintf("something that begins with %q", c)
}

// place names an offset as people count: line and column from 1, and the byte.
func place(b []byte, at int) string {
	at = min(at, len(b))
	line := 1 + bytes.Count(b[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(b[:at], '\n')
	return "line " + strconv.Itoa(line) + " column " + strconv.Itoa(column) + " (byte " + strconv.Itoa(at) + ")"
}

func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// text returns the string that the value at v holds, or false when it is no string.
func text(v []byte) (string, bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", false
	}
	return strings.ToValidUTF8(s, "\uFFFD"), true
}
