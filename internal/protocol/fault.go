package protocol

import (
	"spillway/internal/protocol/jsonscan"
)

// maxMessage bounds how much of an upstream's error text is kept.
const maxMessage = 4 << 10

// Fault collects the members of a top-level object by which an upstream may tell an error, in every form seen in
// public: an error object or text, errors, detail, type or object "error", {code, message} alone, base_resp.
type Fault struct {
	object []byte // value of error, errors or detail, when it holds something
	empty  bool   // an error member that holds nothing: {} or ""
	named  bool   // type or object says "error"
	loose  bool   // message, msg, error_msg, error_code: an error only when there is no answer beside it
	status int    // a numeric status beside the error object
	base   []byte // base_resp with a code other than 0
}

// Member consumes the value of one top-level member that the family itself does not know.
func (f *Fault) Member(key []byte, c *jsonscan.Cursor) {
	switch string(key) {
	case "error", "errors", "detail":
		f.Object(c)
	case "type", "object":
		if string(c.Text()) == "error" {
			f.named = true
		}
	case "message", "msg", "error_msg", "error_message":
		f.loose = len(c.Text()) > 0 || f.loose
	case "error_code":
		f.loose = c.Filled() || f.loose
	case "status", "status_code":
		if n, ok := c.Int(); ok {
			f.status = n
		}
	case "base_resp":
		raw := c.Raw()
		if inner := jsonscan.New(raw); baseRespFailed(&inner) {
			f.base = raw
		}
	default:
		c.Skip()
	}
}

// Object consumes the value of an error member.
func (f *Fault) Object(c *jsonscan.Cursor) {
	kind := c.Kind()
	raw := c.Raw()
	inner := jsonscan.New(raw)
	switch {
	case kind == jsonscan.Null || len(raw) == 0:
	case kind == jsonscan.Number:
		if n, _ := jsonscan.ParseInt(raw); n != 0 {
			f.object = raw
		}
	case inner.Filled():
		f.object = raw
	case kind != jsonscan.Bool:
		f.empty = true
	}
}

// Named notes that the event's name says "error".
func (f *Fault) Named() { f.named = true }

// Found reports whether the event is an error, when answer says whether it also carries what an answer would.
func (f *Fault) Found(answer bool) bool {
	return f.object != nil || f.base != nil || f.named || !answer && (f.empty || f.loose)
}

// Report fills s with the error that was found. whole is the text of the event.
func (f *Fault) Report(whole []byte, s *Signal) {
	switch {
	case f.object != nil && (f.object[0] == '{' || f.object[0] == '[' || f.object[0] == '"'):
		ReadError(f.object, f.status, s)
		if f.object[0] != '{' {
			s.ErrBody = whole
		}
	case f.base != nil:
		ReadError(f.base, 0, s)
		s.ErrBody = whole
	default:
		ReadError(whole, f.status, s)
	}
}

// Unwrap returns the element of an array that holds exactly one object, the form in which Google's front ends send
// errors whatever the protocol. Everything else is returned as it is.
func Unwrap(data []byte) (inner []byte, wrapped bool) {
	c := jsonscan.New(data)
	if c.Kind() != jsonscan.Array || !c.Array() || !c.Element() || c.Kind() != jsonscan.Object {
		return data, false
	}
	inner = c.Raw()
	if c.Element() || !c.Done() {
		return data, false
	}
	return inner, true
}

func baseRespFailed(c *jsonscan.Cursor) bool {
	failed := false
	if c.Object() {
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			if string(key) != "status_code" {
				c.Skip()
			} else if n, ok := c.Int(); ok {
				failed = n != 0
			}
		}
	}
	return failed
}

// details are the fields of an error object while it is read.
type details struct {
	code, typ, status, message string
	number                     int  // a numeric code or status
	base                       bool // the number stood in status_code, as in base_resp
}

// ReadError reads an error value (an object, an array of them, or a text) into s and sets its Error flag. status is an
// HTTP status known from elsewhere, 0 when there is none. It may allocate.
func ReadError(raw []byte, status int, s *Signal) {
	var d details
	c := jsonscan.New(raw)
	d.read(&c, 0)
	s.Flags |= Error
	s.ErrBody = raw
	s.Code, s.Type = d.code, d.typ
	if s.Type == "" {
		s.Type = d.status
	}
	if s.Message == "" || d.message != "" {
		s.Message = d.message
	}
	s.ErrStatus = d.httpStatus(status)
}

func (d *details) read(c *jsonscan.Cursor, depth int) {
	switch c.Kind() {
	case jsonscan.String:
		set(&d.message, c)
	case jsonscan.Array:
		if c.Array() {
			for c.Element() {
				d.nested(c, depth)
			}
		}
	case jsonscan.Object:
		c.Object()
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			d.member(key, c, depth)
		}
	case jsonscan.Number:
		d.numeric(c.Raw())
	default:
		c.Skip()
	}
}

func (d *details) member(key []byte, c *jsonscan.Cursor, depth int) {
	switch string(key) {
	case "message", "msg", "error_msg", "error_message", "status_msg", "detail":
		if c.Kind() == jsonscan.String {
			set(&d.message, c)
		} else {
			d.nested(c, depth)
		}
	case "code", "error_code":
		if c.Kind() == jsonscan.Number {
			d.numeric(c.Raw())
		} else {
			set(&d.code, c)
		}
	case "status_code":
		d.base = true
		d.numeric(c.Raw())
	case "http_status", "http_code":
		d.numeric(c.Raw())
	case "type":
		if set(&d.typ, c); d.typ == "error" { // says only what we know
			d.typ = ""
		}
	case "status":
		if c.Kind() == jsonscan.Number {
			d.numeric(c.Raw())
		} else {
			set(&d.status, c)
		}
	case "error", "errors":
		d.nested(c, depth)
	default:
		c.Skip()
	}
}

func (d *details) nested(c *jsonscan.Cursor, depth int) {
	if depth >= 3 {
		c.Skip()
		return
	}
	d.read(c, depth+1)
}

// numeric takes a code given as a number. An HTTP status among several numbers wins.
func (d *details) numeric(raw []byte) {
	n, ok := jsonscan.ParseInt(raw)
	if !ok || n == 0 || isHTTPError(d.number) {
		return
	}
	d.number = n
	if d.code == "" && len(raw) <= 20 {
		d.code = string(raw)
	}
}

// set keeps the first non-empty text.
func set(dst *string, c *jsonscan.Cursor) {
	raw := c.Text()
	if *dst != "" || len(raw) == 0 {
		return
	}
	text := jsonscan.Unquote(raw)
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	*dst = text
}
