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

// reply writes one response and bends it as the shaping faults want. It is used by one goroutine, for one response after
// another.
type reply struct {
	w http.ResponseWriter
	r *http.Request
	s *Source
	a *Attempt

	id          string // of the response
	crlf, split bool
	zip         *gzip.Writer
	contentType string // instead of the right one
	headers     map[string]string
	broken      int // number of the event before which a malformed one goes; 0 = none
	huge, size  int

	list    bool // Gemini's JSON array instead of events
	started bool
	events  int

	frames []byte // the events that are being sent
	status int    // of headers that are held back; 0 = none are
	held   []byte // of the body, held back
	timer  *time.Timer
}

// begin takes up the next response in the memory of the last one.
func (p *reply) begin(w http.ResponseWriter, r *http.Request, s *Source, a *Attempt) {
	*p = reply{w: w, r: r, s: s, a: a, frames: kept(p.frames), held: kept(p.held), timer: p.timer}
}

// kept is the memory of a buffer for its next use, unless it has become too big to be kept.
func kept(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b[:0]
}

// control reaches what of the connection a plain ResponseWriter does not.
func (p *reply) control() *http.ResponseController { return http.NewResponseController(p.w) }

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
	values := []string{contentType, p.id}
	h["Content-Type"], h["X-Request-Id"] = values[:1:1], values[1:]
	if p.zip != nil {
		h.Set("Content-Encoding", "gzip")
	}
	for k, v := range p.headers {
		h.Set(k, v)
	}
	if p.s.coarse {
		p.status = status
	} else {
		p.w.WriteHeader(status)
	}
	p.started = true
	p.s.log.update(func() { p.a.Status = status })
}

// labID begins the id that a response bears in its headers; the fingerprint of the request's body follows.
const labID = "lab-"

// release lets go what is held back. Where the lab runs in virtual time, what a source writes at one instant reaches the
// client at once: it is held until time passes, so that the client is woken once and not for every piece.
func (p *reply) release() error {
	if p.status != 0 && (p.status != http.StatusOK || len(p.held) == 0) { // else the body brings it
		p.w.WriteHeader(p.status)
	}
	p.status = 0
	if len(p.held) == 0 {
		return nil
	}
	n, err := p.w.Write(p.held)
	p.s.log.update(func() { p.a.Bytes += n })
	p.held = p.held[:0]
	if err != nil {
		return errGone
	}
	return nil
}

// pause waits for d or for the client to leave.
func (p *reply) pause(d time.Duration) error {
	gone := p.r.Context().Done()
	if d <= 0 {
		select {
		case <-gone:
			return errGone
		default:
			return nil
		}
	}
	if err := p.release(); err != nil {
		return err
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-gone:
		p.timer.Stop()
		return errGone
	}
}

// forever waits for d, or without end when d is 0, and for the client to leave in both cases.
func (p *reply) forever(d time.Duration) error {
	if d > 0 {
		return p.pause(d)
	}
	_ = p.release() // a client that is gone ends the wait, too
	<-p.r.Context().Done()
	return errGone
}

// flushHead makes the client see the headers before any body.
func (p *reply) flushHead() error {
	if err := p.release(); err != nil {
		return err
	}
	return p.control().Flush()
}

// direct writes to the client below the compressor.
type direct struct{ p *reply }

func (d direct) Write(b []byte) (int, error) {
	p := d.p
	if p.s.coarse && !p.split {
		p.held = append(p.held, b...)
		return len(b), nil
	}
	if err := p.release(); err != nil {
		return 0, err
	}
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
			if err := p.control().Flush(); err != nil {
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
	if p.s.coarse {
		return nil
	}
	if err := p.control().Flush(); err != nil {
		return errGone
	}
	return nil
}

// send writes events.
func (p *reply) send(events ...wire.Event) error {
	if p.plain() {
		if p.r.Context().Err() != nil {
			return errGone
		}
		for _, e := range events {
			p.held = e.Append(p.held)
		}
		return nil
	}
	b := p.frames[:0]
	for _, e := range events {
		p.events++
		if p.events == p.broken {
			b = p.frame(b, wire.Event{Name: e.Name, Data: []byte(`{"broken`)})
		}
		if p.events == p.huge && bytes.HasPrefix(e.Data, []byte("{")) {
			pad := bytes.Repeat([]byte("x"), p.size)
			e.Data = append(append([]byte(`{"lab_padding":"`), pad...), append([]byte(`",`), e.Data[1:]...)...)
		}
		b = p.frame(b, e)
	}
	p.frames = b
	if len(b) == 0 {
		return nil
	}
	return p.raw(p.lines(b))
}

// plain reports whether events are held back just as they are.
func (p *reply) plain() bool {
	return p.s.coarse && !p.list && !p.crlf && !p.split && p.zip == nil && p.broken == 0 && p.huge == 0
}

// frame writes an event behind b, as it goes over the wire.
func (p *reply) frame(b []byte, e wire.Event) []byte {
	if !p.list {
		return e.Append(b)
	}
	if p.events == 1 {
		b = append(b, '[')
	} else {
		b = append(b, ",\r\n"...)
	}
	return append(b, e.Data...)
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
		if err := p.zip.Close(); err != nil {
			return err
		}
	}
	return p.release()
}

// drop closes the connection under the response: with a reset, or so that the body is cut short. Where the
// connection cannot be had (HTTP/2) the stream is aborted instead.
func (p *reply) drop(reset bool) {
	_ = p.release() // a client that is gone needs no more
	if p.started {
		p.control().Flush()
	}
	conn, _, err := p.control().Hijack()
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
		if err := p.pause(gap); err != nil {
			return err
		}
		if err := one(); err != nil {
			return err
		}
	}
	return nil
}
