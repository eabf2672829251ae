package lab

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/wire"
)

// reply writes one response and bends it as the shaping faults want. It is used by one goroutine.
type reply struct {
	w http.ResponseWriter
	r *http.Request
	c *http.ResponseController
	s *Source
	a *Attempt

	crlf, split bool
	zip         *gzip.Writer
	contentType string // instead of the right one
	headers     map[string]string
	broken      int // number of the event before which a malformed one goes; 0 = none
	huge, size  int

	list    bool // Gemini's JSON array instead of events
	started bool
	events  int
}

func newReply(w http.ResponseWriter, r *http.Request, s *Source, a *Attempt) *reply {
	return &reply{w: w, r: r, c: http.NewResponseController(w), s: s, a: a}
}

// shape takes in a fault that changes how a good answer looks.
func (p *reply) shape(f *fault.Fault) {
	switch f.Kind {
	case fault.CRLF:
		p.crlf = true
	case fault.ByteSplit:
		p.split = true
	case fault.Gzip:
		p.zip = gzip.NewWriter(direct{p})
	case fault.WrongContentType:
		p.contentType = "text/plain"
		for k, v := range f.Headers {
			if http.CanonicalHeaderKey(k) == "Content-Type" {
				p.contentType = v
			}
		}
	case fault.Malformed:
		p.broken = max(f.Event, 1)
	case fault.HugeEvent:
		p.huge, p.size = max(f.Event, 1), f.Size
		if p.size == 0 {
			p.size = 5 << 20
		}
	}
}

// head sends the headers at once.
func (p *reply) head(status int, contentType string) {
	h := p.w.Header()
	if p.contentType != "" {
		contentType = p.contentType
	}
	h.Set("Content-Type", contentType)
	if p.zip != nil {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("X-Request-Id", "lab-"+p.a.Body)
	for k, v := range p.headers {
		h.Set(k, v)
	}
	p.w.WriteHeader(status)
	p.started = true
	p.s.log.update(func() { p.a.Status = status })
}

// flushHead makes the client see the headers before any body.
func (p *reply) flushHead() error { return p.c.Flush() }

// direct writes to the client below the compressor.
type direct struct{ p *reply }

func (d direct) Write(b []byte) (int, error) {
	p := d.p
	n := 0
	for len(b) > 0 {
		k := len(b)
		if p.split {
			k = 1
		}
		m, err := p.w.Write(b[:k])
		n += m
		if err != nil {
			return n, errGone
		}
		if p.split {
			if err := p.c.Flush(); err != nil {
				return n, errGone
			}
		}
		b = b[k:]
	}
	p.s.log.update(func() { p.a.Bytes += n })
	return n, nil
}

// raw sends bytes as they are, compressed if that is the fault, and flushes.
func (p *reply) raw(b []byte) error {
	if p.r.Context().Err() != nil {
		return errGone
	}
	if p.zip != nil {
		if _, err := p.zip.Write(b); err != nil {
			return err
		}
		if err := p.zip.Flush(); err != nil {
			return err
		}
	} else if _, err := (direct{p}).Write(b); err != nil {
		return err
	}
	if err := p.c.Flush(); err != nil {
		return errGone
	}
	return nil
}

// send writes events.
func (p *reply) send(events ...wire.Event) error {
	var b bytes.Buffer
	for _, e := range events {
		p.events++
		if p.events == p.broken {
			p.encode(&b, wire.Event{Name: e.Name, Data: []byte(`{"broken`)})
		}
		if p.events == p.huge && bytes.HasPrefix(e.Data, []byte("{")) {
			pad := bytes.Repeat([]byte("x"), p.size)
			e.Data = append(append([]byte(`{"lab_padding":"`), pad...), append([]byte(`",`), e.Data[1:]...)...)
		}
		p.encode(&b, e)
	}
	if b.Len() == 0 {
		return nil
	}
	return p.raw(p.lines(b.Bytes()))
}

func (p *reply) encode(b *bytes.Buffer, e wire.Event) {
	if !p.list {
		b.Write(e.Append(b.AvailableBuffer()))
		return
	}
	if p.events == 1 {
		b.WriteByte('[')
	} else {
		b.WriteString(",\r\n")
	}
	b.Write(e.Data)
}

func (p *reply) lines(b []byte) []byte {
	if p.crlf {
		return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	}
	return b
}

// comment sends a heartbeat that carries nothing.
func (p *reply) comment() error {
	if p.list {
		return p.raw([]byte("\n"))
	}
	return p.raw(p.lines([]byte(": keep-alive\n\n")))
}

// finish ends the body properly.
func (p *reply) finish() error {
	if p.list {
		end := "]"
		if p.events == 0 {
			end = "[]"
		}
		if err := p.raw([]byte(end)); err != nil {
			return err
		}
	}
	if p.zip != nil {
		return p.zip.Close()
	}
	return nil
}

// drop closes the connection under the response: with a reset, or so that the body is cut short. Where the
// connection cannot be had (HTTP/2) the stream is aborted instead.
func (p *reply) drop(reset bool) {
	if p.started {
		p.c.Flush()
	}
	conn, _, err := p.c.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if reset {
		linger(conn)
	}
	conn.Close()
}

// linger makes Close send a reset where the connection is one that can.
func linger(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if l, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		l.SetLinger(0)
	}
}

// beat sends heartbeats for d, or until the client leaves when d is 0.
func (p *reply) beat(gap, d time.Duration, one func() error) error {
	if gap <= 0 {
		gap = time.Second
	}
	for left := d; d == 0 || left > 0; left -= gap {
		if d > 0 {
			gap = min(gap, left)
		}
		if err := pause(p.r.Context(), gap); err != nil {
			return err
		}
		if err := one(); err != nil {
			return err
		}
	}
	return nil
}
