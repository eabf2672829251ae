package attempt

import (
	"bytes"
	"encoding/json"
	"mime"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/resilience/verdict"
)

// passOn judges the answer of an operation that has no completion: vectors, an image, sound. Whatever is no error and no
// page is an answer, as long as there is something in it.
func (f *flight) passOn(now time.Time) {
	r := f.run
	op := r.job.Envelope.Operation
	kind, _, _ := mime.ParseMediaType(f.response.Header.Get("Content-Type"))
	mustBeJSON := op.JSON() || kind == "application/json"
	s := protocol.Signal{Flags: protocol.Malformed}
	if text := bytes.TrimLeft((*f.whole)[:min(len(*f.whole), 64)], " \t\r\n"); mustBeJSON || len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		s.Reset()
		r.job.Family.Body(kind, *f.whole, &s)
	}
	readable := !s.Flags.Has(protocol.Malformed)
	s.Flags &= protocol.Error | protocol.UsageSeen // its form is its own: other marks mean nothing here
	if op == gateway.CountTokens {
		s.Flags |= protocol.UsageSeen // it costs nothing: no estimate
	}
	f.note(&s)
	e := verdict.Evidence{Status: f.response.StatusCode, Header: f.response.Header}
	switch {
	case s.Flags.Has(protocol.Error):
		f.endInBody(&s)
	case len(*f.whole) == 0 && !r.job.AllowEmpty:
		f.facts.terminal = true
		e.Empty = true
		f.end(e)
	case kind == "text/html", mustBeJSON && !readable && !json.Valid(*f.whole): // a list is an answer, too
		e.NotCompletion, e.Body = true, (*f.whole)[:min(len(*f.whole), maxErrorBody)]
		f.end(e)
	default:
		f.firstContent(now)
		f.facts.terminal = true
		f.ready = true
	}
}
