package app

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
)

// want is how a request must end.
type want struct {
	right    bool // with the whole right answer
	status   int  // else with one error in the protocol's form: its HTTP status, or
	inStream bool // inside a 200
	within   time.Duration
}

var (
	rightAnswer = want{right: true, within: 3 * time.Minute}
	inBand      = want{inStream: true, status: 200, within: 3 * time.Minute}
)

// anyOwn stands for the status that the words of an error in the protocol's form mean: 500, 503 or 529.
const anyOwn = -1

// refusedWith is an error that asking again cannot help: it comes at once.
func refusedWith(status int) want { return want{status: status, within: 5 * time.Second} }

// down is a row whose primary is down. Alone it is tried again until the budgets are spent: a client that does not
// stream then gets the status, one that streams was kept alive from second 45 on and gets the error inside its stream.
func down(name string, status int, f lab.Fault) row {
	return row{name: name, fault: f, alone: want{status: status, within: 3 * time.Minute}, stream: inBand}
}

// breaks is a row that is down for those who do not stream and breaks committed streams.
func breaks(name string, status int, f lab.Fault) row {
	r := down(name, status, f)
	r.finalStream = true
	return r
}

// row is one way for the primary to fail and how the request must end without and with a healthy fallback.
type row struct {
	name   string
	fault  lab.Fault
	alone  want
	stream want // alone, streamed; zero = as alone
	// What a fallback cannot help against: the end is that of alone.
	final       bool // in both forms
	finalStream bool // when streamed
}

// matrix is every class of fault of the lab that can strike one request.
func matrix() []row {
	late := func(status int) want { return want{status: status, within: 11 * time.Minute} }
	lateInBand := want{inStream: true, status: 200, within: 11 * time.Minute}
	status := func(n int) row { return down(fmt.Sprintf("status %d", n), n, lab.Fault{Kind: fault.Status, Status: n}) }
	refusal := func(n int) row {
		return row{name: fmt.Sprintf("status %d", n), fault: lab.Fault{Kind: fault.Status, Status: n}, alone: refusedWith(n)}
	}
	rows := []row{
		status(500), status(502), status(503), status(504), status(520), status(529), status(408),
		refusal(401), refusal(403), refusal(402),
		{name: "rate limit", fault: lab.Fault{Kind: fault.RateLimit}, alone: want{status: 429, within: 3 * time.Minute},
			stream: lateInBand},
		{name: "rate limit for an hour", fault: lab.Fault{Kind: fault.RateLimit, RetryAfter: time.Hour}, alone: refusedWith(429)},
		{name: "quota", fault: lab.Fault{Kind: fault.Quota}, alone: refusedWith(429)},
		{name: "lying quota", fault: lab.Fault{Kind: fault.LyingQuota}, alone: refusedWith(403)},
		{name: "model missing", fault: lab.Fault{Kind: fault.ModelMissing}, alone: refusedWith(404)},
		{name: "flap", fault: lab.Fault{Kind: fault.Flap, For: time.Minute, Every: 2 * time.Minute}, alone: rightAnswer},
		{name: "content filter", fault: lab.Fault{Kind: fault.ContentFilter}, alone: refusedWith(400), final: true},
		{name: "context length", fault: lab.Fault{Kind: fault.ContextLength}, alone: refusedWith(400), final: true},
		{name: "unknown 4xx", fault: lab.Fault{Kind: fault.Status, Status: 422}, alone: refusedWith(422), final: true},
		down("reset before headers", 502, always(fault.ResetBeforeHeaders)),
		down("reset after headers", 502, always(fault.ResetAfterHeaders)),
		down("reset before content", 502, lab.Fault{Kind: fault.ResetMidStream}),
		breaks("reset mid-stream", 502, lab.Fault{Kind: fault.ResetMidStream, Tokens: 20}),
		{name: "silence", fault: always(fault.Silence), alone: late(504), stream: lateInBand},
		{name: "late first token", fault: always(fault.SlowFirstToken), alone: rightAnswer},
		{name: "late headers", fault: lab.Fault{Kind: fault.SlowFirstToken, HoldHeaders: true}, alone: rightAnswer},
		{name: "stall before content", fault: lab.Fault{Kind: fault.Stall}, alone: late(504), stream: lateInBand},
		{name: "stall mid-stream", fault: lab.Fault{Kind: fault.Stall, Tokens: 20}, alone: late(504), stream: inBand, finalStream: true},
		{name: "trickle", fault: lab.Fault{Kind: fault.Trickle, Tokens: 5}, alone: rightAnswer},
		{name: "heartbeats only", fault: always(fault.Heartbeats), alone: late(504), stream: lateInBand},
		down("cut before content", 502, always(fault.Cut)),
		breaks("cut mid-stream", 502, lab.Fault{Kind: fault.Cut, Tokens: 40}),
		down("end without content", 502, always(fault.EndEarly)),
		breaks("end without terminal event", 502, lab.Fault{Kind: fault.EndEarly, Tokens: 20}),
		down("error first", anyOwn, always(fault.ErrorFirst)),
		{name: "429 first", fault: lab.Fault{Kind: fault.ErrorFirst, Status: 429, Code: "insufficient_quota", Type: "insufficient_quota"}, alone: refusedWith(429)},
		breaks("error mid-stream", anyOwn, lab.Fault{Kind: fault.ErrorMid, Tokens: 20}),
		{name: "malformed event", fault: lab.Fault{Kind: fault.Malformed, Event: 3}, alone: want{status: 502, within: 3 * time.Minute}, stream: rightAnswer},
		{name: "no done", fault: lab.Fault{Kind: fault.NoDone, Delay: time.Minute}, alone: rightAnswer},
		down("empty", 502, always(fault.Empty)),
		down("metadata only", 502, always(fault.MetadataOnly)),
		down("html", 502, always(fault.HTML)),
		down("html error", 503, lab.Fault{Kind: fault.HTML, Status: 503}),
		{name: "wrong content type", fault: always(fault.WrongContentType), alone: rightAnswer},
		{name: "gzip", fault: always(fault.Gzip), alone: rightAnswer},
		{name: "crlf", fault: always(fault.CRLF), alone: rightAnswer},
		{name: "byte split", fault: always(fault.ByteSplit), alone: rightAnswer},
		{name: "5 MB line", fault: always(fault.HugeEvent), alone: rightAnswer},
		{name: "5 MB line mid-stream", fault: lab.Fault{Kind: fault.HugeEvent, Event: 9}, alone: rightAnswer},
	}
	return rows
}

func TestMatrixOpenAI(t *testing.T)    { runMatrix(t, gateway.OpenAI) }
func TestMatrixResponses(t *testing.T) { runMatrix(t, gateway.Responses) }
func TestMatrixAnthropic(t *testing.T) { runMatrix(t, gateway.Anthropic) }
func TestMatrixGemini(t *testing.T)    { runMatrix(t, gateway.Gemini) }

func runMatrix(t *testing.T, p gateway.Protocol) {
	for _, r := range matrix() {
		for _, stream := range []bool{false, true} {
			form := "whole"
			if stream {
				form = "stream"
			}
			w := r.alone
			if stream && r.stream != (want{}) {
				w = r.stream
			}
			q := client.Request{Protocol: p, Model: "smart", Stream: stream}
			t.Run(r.name+"/"+form+"/alone", func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("bad", r.fault)
					b.Open(providers("bad") + combo("bad"))
					judge(t, b.Ask(q), w)
				})
			})
			if w.right && p != gateway.OpenAI {
				continue // a fallback is not needed; that it does no harm is seen with one protocol
			}
			if !r.final && !(stream && r.finalStream) {
				w = rightAnswer
			}
			t.Run(r.name+"/"+form+"/with fallback", func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.Source("bad", r.fault)
					b.Source("good")
					b.Open(providers("bad", "good") + combo("bad", "good"))
					judge(t, b.Ask(q), w)
					if n := len(b.Calls("bad")); n > 2 {
						t.Errorf("%d attempts on the failing primary", n)
					}
				})
			})
		}
	}
}

// judge compares an end with what it must be.
func judge(t *testing.T, r client.Result, w want) {
	t.Helper()
	if r.EndedAfter > w.within {
		t.Errorf("took %s, at most %s: %s", r.EndedAfter, w.within, describe(r))
	}
	if w.right {
		if why := wrong(r, "", 60); why != "" {
			t.Errorf("not the right answer: %s", why)
		}
		return
	}
	if w.status == anyOwn && (r.Status == 500 || r.Status == 503 || r.Status == 529) {
		w.status = r.Status
	}
	if r.End != client.Failed || r.Status != w.status || r.InStream != w.inStream || r.ErrorMessage == "" {
		t.Errorf("want one error with status %d, in stream %t; got %s", w.status, w.inStream, describe(r))
	}
	if r.Status == http.StatusOK && !w.inStream {
		t.Errorf("an error with status 200")
	}
}
