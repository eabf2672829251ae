// Package client answers one question: what did a gateway make a client see? It holds strict clients of the four
// protocols, keyed by protocol. They read an answer byte by byte, by rules stricter than those of the public SDKs: one
// terminal event, nothing behind it, every event well formed, errors in the protocol's own shape. They never retry,
// never repair, and share no code with the gateway that they judge.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/gateway"
)

// Request is one call to a gateway.
type Request struct {
	URL       string // root URL, without /v1
	Key       string
	Protocol  gateway.Protocol
	Model     string
	Prompt    string
	Stream    bool
	MaxTokens int           // 0 = 1024 where the protocol demands a number, else not sent
	Patience  time.Duration // the client hangs up after this; 0 = 3 minutes
	Header    map[string]string
}

// End is how an answer ended, as the client can tell.
type End uint8

// The ends.
const (
	Complete  End = iota + 1 // a terminal event, everything well formed
	Failed                   // one error in the protocol's own form, before or inside the stream
	Truncated                // it looks like a success, but the terminal event is missing: shown as a whole answer
	Broken                   // transport error, malformed event, or an error in a foreign form
	Hung                     // no end within the client's patience
)

var endNames = [...]string{"", "complete", "failed", "truncated", "broken", "hung"}

func (e End) String() string { return endNames[e] }

// Usage is what the answer said that it cost.
type Usage struct {
	Input, Output int
	Reports       int // how often a final usage was told
}

// Result is what the client saw.
type Result struct {
	End    End
	Status int // HTTP status; 0 when none came
	Header http.Header
	Text   string
	Model  string // as the answer names it
	Finish string
	Usage  Usage
	Tool   string // arguments of a tool call
	Note   string // why the end is what it is

	ErrorType, ErrorCode, ErrorMessage string // of an error in the protocol's form
	InStream                           bool   // the error came behind a 200

	BeganAt     time.Time
	FirstAfter  time.Duration // until the first content; 0 = none came
	LastAfter   time.Duration // until the last content
	EndedAfter  time.Duration
	Terminal    time.Duration // until the terminal event; 0 = none came
	Events      int
	ContentSeen int // content events
}

// Client makes calls. It is safe for concurrent use.
type Client struct {
	rt       http.RoundTripper
	now      func() time.Time
	readings sync.Pool // of *reading, for their memory
	targets  [gateway.NumProtocols]atomic.Pointer[target]
}

// New returns a client over a transport; nil is a transport of its own.
func New(rt http.RoundTripper) *Client {
	if rt == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy, t.MaxIdleConnsPerHost, t.DisableCompression = nil, 256, true
		rt = t
	}
	return &Client{rt: rt, now: time.Now}
}

// Close drops idle connections.
func (c *Client) Close() {
	if t, ok := c.rt.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// dialect is one protocol seen from the client.
type dialect interface {
	path(Request) string
	body(Request) any
	auth(http.Header, string)
	event(*reading, frame) error // one event of a stream; an error is a breach of the protocol
	whole(*reading, []byte) error
	failure(*reading, []byte) bool // an error body in the protocol's form
}

var dialects = [gateway.NumProtocols]dialect{
	gateway.OpenAI: chat{}, gateway.Responses: responses{}, gateway.Anthropic: messages{}, gateway.Gemini: gemini{},
}

// reading is an answer being read. Its memory serves one answer after the other.
type reading struct {
	Result
	began    time.Time
	now      func() time.Time
	text     []byte
	terminal int  // terminal events seen
	closed   bool // the closing mark came
	failed   bool
	seq      int
	block    int // anthropic: open block + 1
	like     pattern
	events   frames
	body     bytes.Buffer
	words    words
	kind     mediaType
}

// begin makes r ready for the next answer.
func (r *reading) begin(now func() time.Time) {
	r.like.forget()
	r.body.Reset()
	*r = reading{now: now, began: now(), text: r.text[:0], like: r.like, events: r.events, body: r.body, words: r.words, kind: r.kind}
	r.BeganAt = r.began
}

// most bounds what a reading keeps for the next answer, in bytes of each kind.
const most = 64 << 10

// small reports whether the memory is worth keeping.
func (r *reading) small() bool {
	return cap(r.text) <= most && r.body.Cap() <= most && cap(r.events.data) <= most && cap(r.events.text) <= most
}

func (r *reading) content(s string) {
	r.text = append(r.text, s...)
	r.mark()
}

// piece is content that lies in memory which is used again.
func (r *reading) piece(b []byte) {
	r.text = append(r.text, b...)
	r.mark()
}

func (r *reading) mark() {
	d := r.now().Sub(r.began)
	r.ContentSeen++
	if r.FirstAfter == 0 {
		r.FirstAfter = max(d, 1)
	}
	r.LastAfter = max(d, 1)
}

func (r *reading) ended(finish string) {
	r.terminal++
	r.Finish = finish
	if r.Terminal == 0 {
		r.Terminal = max(r.now().Sub(r.began), 1)
	}
}

func (r *reading) fail(typ, code, message string) {
	r.failed = true
	r.ErrorType, r.ErrorCode, r.ErrorMessage = typ, code, message
}

// Call makes one call and reads it to its end.
func (c *Client) Call(ctx context.Context, q Request) Result {
	b, err := json.Marshal(dialects[q.Protocol].body(q))
	if err != nil {
		return Result{End: Broken, Note: err.Error()}
	}
	return c.Replay(ctx, q, b)
}

// Replay is Call with a body of the caller's own.
func (c *Client) Replay(ctx context.Context, q Request, body []byte) Result {
	if q.Patience == 0 {
		q.Patience = 3 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, q.Patience)
	defer cancel()
	r, _ := c.readings.Get().(*reading)
	if r == nil {
		r = &reading{events: newFrames(nil)}
	}
	r.begin(c.now)
	d := dialects[q.Protocol]
	resp, err := c.send(ctx, d, q, body)
	if err != nil {
		r.broken(ctx, "no response: "+err.Error())
	} else {
		r.Status, r.Header = resp.StatusCode, resp.Header
		r.read(ctx, d, q, resp)
		resp.Body.Close()
	}
	r.Text = string(r.text)
	r.EndedAfter = c.now().Sub(r.BeganAt)
	res := r.Result
	if r.small() {
		c.readings.Put(r)
	}
	return res
}

// broken ends a reading that went wrong below the protocol.
func (r *reading) broken(ctx context.Context, note string) {
	r.End, r.Note = Broken, note
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.End, r.Note = Hung, "no end within the client's patience"
	}
}

func (r *reading) read(ctx context.Context, d dialect, q Request, resp *http.Response) {
	kind := r.kind.of(resp.Header.Get("Content-Type"))
	if resp.StatusCode/100 != 2 || !q.Stream || kind == "application/json" {
		r.readBody(ctx, d, q, resp)
		return
	}
	if kind != "text/event-stream" {
		r.broken(ctx, fmt.Sprintf("a stream with content-type %q", kind))
		return
	}
	r.events.begin(resp.Body)
	for {
		f, err := r.events.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			r.broken(ctx, "the connection broke: "+err.Error())
			if r.End == Broken && r.terminal == 1 && !r.failed {
				r.conclude() // the answer was whole before the socket failed
			}
			return
		}
		r.Events++
		if err := d.event(r, f); err != nil {
			r.broken(ctx, err.Error())
			return
		}
	}
	r.conclude()
}

// mediaType is the content type of the last answer: most have the same.
type mediaType struct{ header, kind string }

// of is a content type without its parameters.
func (m *mediaType) of(header string) string {
	if m.header != header {
		m.header = header
		m.kind, _, _ = mime.ParseMediaType(header)
	}
	return m.kind
}

// conclude judges a stream that was read to its end.
func (r *reading) conclude() {
	switch {
	case r.failed && r.terminal > 0:
		r.End, r.Note = Broken, "both a terminal event and an error"
	case r.failed:
		r.End, r.InStream = Failed, true
	case r.terminal > 1:
		r.End, r.Note = Broken, fmt.Sprintf("%d terminal events", r.terminal)
	case r.terminal == 1:
		r.End = Complete
	default:
		r.End, r.Note = Truncated, "the stream ended without a terminal event and without an error"
	}
}

func (r *reading) readBody(ctx context.Context, d dialect, q Request, resp *http.Response) {
	_, err := r.body.ReadFrom(resp.Body)
	b := r.body.Bytes()
	switch {
	case err != nil:
		r.broken(ctx, "the body broke: "+err.Error())
	case mayFail(b) && d.failure(r, b):
		r.End = Failed
		r.InStream = resp.StatusCode/100 == 2
	case resp.StatusCode/100 != 2:
		r.broken(ctx, fmt.Sprintf("status %d without an error in the protocol's form", resp.StatusCode))
	case q.Stream:
		r.broken(ctx, "a stream was asked for, one JSON object came")
	default:
		if err := d.whole(r, b); err != nil {
			r.broken(ctx, err.Error())
			return
		}
		r.conclude()
		r.InStream = false
	}
}

// mayFail reports whether a body can hold an error, which all protocols put under "error": most hold none and need not
// be parsed for one. An escape may hide the word.
func mayFail(b []byte) bool {
	return bytes.Contains(b, []byte("rror")) || bytes.IndexByte(b, '\\') >= 0
}
