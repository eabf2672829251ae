package lab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/lab/wire"
)

const prompt = "why is the sky blue?"

// call asks a source that has these faults, over a real socket.
func call(t *testing.T, cfg SourceConfig, q client.Request) (client.Result, *Source) {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "s"
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	src := NewSource(cfg)
	srv := httptest.NewServer(src)
	t.Cleanup(srv.Close)
	c := client.New(nil)
	t.Cleanup(c.Close)
	q.URL, q.Prompt = srv.URL, prompt
	if q.Model == "" {
		q.Model = "m1"
	}
	if q.Patience == 0 {
		q.Patience = time.Minute
	}
	return c.Call(context.Background(), q), src
}

// faultCase says what a strict client sees of a fault, streamed and not.
type faultCase struct {
	f               fault.Fault
	stream, whole   client.End
	status          int // of both; 0 = do not look
	text            int // tokens of text that must have come, streamed; -1 = all
	anthropicStream client.End
}

var ms = time.Millisecond

var faultCases = []faultCase{
	{f: fault.Fault{Kind: fault.Status, Status: 418}, stream: client.Failed, whole: client.Failed, status: 418},
	{f: fault.Fault{Kind: fault.Status, Status: 502, Body: "<html>bad gateway</html>"}, stream: client.Broken, whole: client.Broken, status: 502},
	{f: fault.Fault{Kind: fault.RateLimit, RetryAfter: 2 * time.Second}, stream: client.Failed, whole: client.Failed, status: 429},
	{f: fault.Fault{Kind: fault.RateLimit}, stream: client.Failed, whole: client.Failed, status: 429},
	{f: fault.Fault{Kind: fault.ResetBeforeHeaders}, stream: client.Broken, whole: client.Broken},
	{f: fault.Fault{Kind: fault.ResetAfterHeaders}, stream: client.Broken, whole: client.Broken, status: 200},
	{f: fault.Fault{Kind: fault.ResetMidStream, Tokens: 40}, stream: client.Broken, whole: client.Broken, status: 200},
	{f: fault.Fault{Kind: fault.Silence}, stream: client.Hung, whole: client.Hung},
	{f: fault.Fault{Kind: fault.Silence, Delay: 20 * ms}, stream: client.Broken, whole: client.Broken},
	{f: fault.Fault{Kind: fault.SlowFirstToken, Delay: 50 * ms}, stream: client.Complete, whole: client.Complete, text: -1},
	{f: fault.Fault{Kind: fault.SlowFirstToken, Delay: 50 * ms, HoldHeaders: true}, stream: client.Complete, whole: client.Complete, text: -1},
	{f: fault.Fault{Kind: fault.Stall, Tokens: 40}, stream: client.Hung, whole: client.Hung, status: 200, text: 40},
	{f: fault.Fault{Kind: fault.Stall, Tokens: 40, Delay: 30 * ms}, stream: client.Broken, whole: client.Broken, status: 200, text: 40},
	{f: fault.Fault{Kind: fault.Trickle, Tokens: 55, Interval: 10 * ms}, stream: client.Complete, whole: client.Complete, text: -1},
	{f: fault.Fault{Kind: fault.Heartbeats, Interval: 5 * ms}, stream: client.Hung, whole: client.Hung, status: 200},
	{f: fault.Fault{Kind: fault.Heartbeats, Interval: 5 * ms, Delay: 20 * ms}, stream: client.Broken, whole: client.Broken, status: 200, anthropicStream: client.Broken},
	{f: fault.Fault{Kind: fault.Cut, Tokens: 40}, stream: client.Broken, whole: client.Broken, status: 200, text: 40},
	{f: fault.Fault{Kind: fault.Cut}, stream: client.Broken, whole: client.Broken, status: 200},
	{f: fault.Fault{Kind: fault.EndEarly, Tokens: 40}, stream: client.Truncated, whole: client.Broken, status: 200, text: 40},
	{f: fault.Fault{Kind: fault.ErrorFirst}, stream: client.Failed, whole: client.Failed, status: 200},
	{f: fault.Fault{Kind: fault.ErrorMid, Tokens: 40}, stream: client.Failed, whole: client.Failed, status: 200, text: 40},
	{f: fault.Fault{Kind: fault.Malformed, Event: 10}, stream: client.Broken, whole: client.Broken, status: 200},
	{f: fault.Fault{Kind: fault.NoDone, Delay: 20 * ms}, stream: client.Complete, whole: client.Complete, text: -1, anthropicStream: client.Truncated},
	{f: fault.Fault{Kind: fault.Empty}, stream: client.Complete, whole: client.Complete, status: 200},
	{f: fault.Fault{Kind: fault.MetadataOnly}, stream: client.Truncated, whole: client.Broken, status: 200},
	{f: fault.Fault{Kind: fault.WrongContentType}, stream: client.Broken, whole: client.Complete, status: 200},
	{f: fault.Fault{Kind: fault.HTML}, stream: client.Broken, whole: client.Broken, status: 200},
	{f: fault.Fault{Kind: fault.HTML, Status: 503}, stream: client.Broken, whole: client.Broken, status: 503},
	{f: fault.Fault{Kind: fault.CRLF}, stream: client.Complete, whole: client.Complete, text: -1},
	{f: fault.Fault{Kind: fault.ByteSplit}, stream: client.Complete, whole: client.Complete, text: -1},
	{f: fault.Fault{Kind: fault.HugeEvent, Event: 3}, stream: client.Complete, whole: client.Complete, text: -1},
	{f: fault.Fault{Kind: fault.ContentFilter}, stream: client.Failed, whole: client.Failed, status: 400},
	{f: fault.Fault{Kind: fault.ContextLength}, stream: client.Failed, whole: client.Failed, status: 400},
	{f: fault.Fault{Kind: fault.PrefillRefused}, stream: client.Complete, whole: client.Complete, text: -1},
	{f: fault.Fault{Kind: fault.Flap, For: time.Minute, Every: time.Hour}, stream: client.Failed, whole: client.Failed, status: 503},
	{f: fault.Fault{Kind: fault.Quota, For: time.Hour}, stream: client.Failed, whole: client.Failed, status: 429},
	{f: fault.Fault{Kind: fault.Unauthorized}, stream: client.Failed, whole: client.Failed, status: 401},
	{f: fault.Fault{Kind: fault.LyingQuota}, stream: client.Failed, whole: client.Failed, status: 403},
	{f: fault.Fault{Kind: fault.ModelMissing}, stream: client.Failed, whole: client.Failed, status: 404},
	{f: fault.Fault{Kind: fault.Short}, stream: client.Complete, whole: client.Complete},
}

func TestEachFaultInEachProtocol(t *testing.T) {
	for i, c := range faultCases {
		for p := range gateway.NumProtocols {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%02d-%s/%s/stream=%v", i, c.f.Kind, p, stream), func(t *testing.T) {
					t.Parallel()
					want := c.whole
					if stream {
						want = c.stream
						if p == gateway.Anthropic && c.anthropicStream != 0 {
							want = c.anthropicStream
						}
					}
					q := client.Request{Protocol: p, Stream: stream}
					if want == client.Hung { // in virtual time, where patience costs nothing
						bubble(t, SourceConfig{Faults: []fault.Fault{c.f}}, func(t *testing.T, ask func(client.Request) client.Result, src *Source) {
							c.check(t, ask(q), src, want, stream)
						})
						return
					}
					res, src := call(t, SourceConfig{Faults: []fault.Fault{c.f}}, q)
					c.check(t, res, src, want, stream)
				})
			}
		}
	}
}

func (c faultCase) check(t *testing.T, res client.Result, src *Source, want client.End, stream bool) {
	t.Helper()
	if res.End != want {
		t.Fatalf("end %s, want %s (%s, status %d, text %d bytes)", res.End, want, res.Note, res.Status, len(res.Text))
	}
	if c.status != 0 && res.Status != c.status {
		t.Errorf("status %d, want %d", res.Status, c.status)
	}
	if stream && c.text != 0 {
		n := c.text
		if n < 0 {
			n = 60
		}
		if text := wire.Say(prompt, 0, 60).Piece(0, n); res.Text != text {
			t.Errorf("text %q\nwant %q", res.Text, text)
		}
	}
	if n := len(src.Attempts(time.Now())); n != 1 {
		t.Errorf("%d attempts in the log", n)
	}
}

func TestRateLimitHeaders(t *testing.T) {
	res, _ := call(t, SourceConfig{Faults: []fault.Fault{{Kind: fault.RateLimit, RetryAfter: 2 * time.Second}}}, client.Request{})
	if got := res.Header.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After %q", got)
	}
	res, _ = call(t, SourceConfig{Faults: []fault.Fault{{Kind: fault.RateLimit}}}, client.Request{})
	if got := res.Header.Get("Retry-After"); got != "" {
		t.Errorf("Retry-After %q without a hint", got)
	}
}

func TestGzipIsMarkedAndWhole(t *testing.T) {
	src := NewSource(SourceConfig{Name: "s", Faults: []fault.Fault{{Kind: fault.Gzip}}})
	srv := httptest.NewServer(src)
	defer srv.Close()
	tr := http.DefaultTransport.(*http.Transport).Clone() // this one decodes what it asked for
	c := client.New(tr)
	defer c.Close()
	for p := range gateway.NumProtocols {
		res := c.Call(context.Background(), client.Request{URL: srv.URL, Protocol: p, Model: "m", Prompt: prompt, Stream: true})
		if res.End != client.Complete || res.Text != wire.Text(prompt, 0, 60) {
			t.Errorf("%s: %s %s", p, res.End, res.Note)
		}
	}
	raw := client.New(nil)
	defer raw.Close()
	res := raw.Call(context.Background(), client.Request{URL: srv.URL, Model: "m", Prompt: prompt, Stream: true})
	if res.Header.Get("Content-Encoding") != "gzip" || res.End == client.Complete {
		t.Errorf("encoding %q, end %s", res.Header.Get("Content-Encoding"), res.End)
	}
}

func TestToolCall(t *testing.T) {
	for p := range gateway.NumProtocols {
		for _, stream := range []string{"true", "false"} {
			body := map[gateway.Protocol]string{
				gateway.OpenAI:    `{"model":"m","stream":` + stream + `,"messages":[{"role":"user","content":"call the tool"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n","s"]}}}]}`,
				gateway.Responses: `{"model":"m","stream":` + stream + `,"input":"call the tool","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n","s"]}}]}`,
				gateway.Anthropic: `{"model":"m","stream":` + stream + `,"max_tokens":100,"messages":[{"role":"user","content":[{"type":"text","text":"call the tool"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n","s"]}}]}`,
				gateway.Gemini:    `{"contents":[{"role":"user","parts":[{"text":"call the tool"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"n":{"type":"INTEGER"},"s":{"type":"STRING"}},"required":["n","s"]}}]}]}`,
			}[p]
			res := client.New(handler{NewSource(SourceConfig{Name: "s"})}).Replay(context.Background(), client.Request{Protocol: p, Model: "m", Stream: stream == "true", URL: "http://lab"}, []byte(body))
			if res.End != client.Complete || res.Tool != `{"n":1,"s":"lab"}` {
				t.Errorf("%s stream=%s: %s %q (%s)", p, stream, res.End, res.Tool, res.Note)
			}
		}
	}
}

// handler is a RoundTripper straight into a handler.
type handler struct{ h http.Handler }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	h.h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

func TestPrefillContinues(t *testing.T) {
	line := wire.Say(prompt, 0, 60)
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + prompt + `"},{"role":"assistant","content":"` + line.Piece(0, 40) + `"}]}`
	c := client.New(handler{NewSource(SourceConfig{Name: "s"})})
	res := c.Replay(context.Background(), client.Request{URL: "http://lab", Stream: true}, []byte(body))
	if want := line.Piece(40, 60); res.Text != want {
		t.Errorf("text %q, want %q", res.Text, want)
	}
	c = client.New(handler{NewSource(SourceConfig{Name: "s", NoPrefill: true})})
	if res = c.Replay(context.Background(), client.Request{URL: "http://lab", Stream: true}, []byte(body)); res.Status != 400 {
		t.Errorf("refused prefill: status %d", res.Status)
	}
	c = client.New(handler{NewSource(SourceConfig{Name: "other", Diverges: true})})
	if res = c.Replay(context.Background(), client.Request{URL: "http://lab", Stream: true}, []byte(body)); strings.HasPrefix(wire.Text(prompt, 0, 60), res.Text) || res.End != client.Complete {
		t.Errorf("divergent: %s %q", res.End, res.Text)
	}
}

func TestCancelIsLogged(t *testing.T) {
	src := NewSource(SourceConfig{Name: "s", Interval: scenario.Between(20*ms, 20*ms)})
	srv := httptest.NewServer(src)
	defer srv.Close()
	c := client.New(nil)
	defer c.Close()
	c.Call(context.Background(), client.Request{URL: srv.URL, Model: "m", Prompt: prompt, Stream: true, Patience: 200 * ms})
	deadline := time.Now().Add(5 * time.Second)
	for src.InFlight() > 0 && time.Now().Before(deadline) {
		time.Sleep(ms)
	}
	a := src.Attempts(time.Now())[0]
	if !a.Cancelled || a.Whole || a.Tokens == 0 || a.Tokens > 20 || a.Bytes == 0 || a.Status != 200 {
		t.Errorf("%+v", a)
	}
}

// TestCutAtTokenZeroComesBeforeAToolCall: a cut with 0 tokens strikes before any content, so that a gateway can fail over.
func TestCutAtTokenZeroComesBeforeAToolCall(t *testing.T) {
	srv := httptest.NewServer(NewSource(SourceConfig{Name: "a", Faults: []Fault{{Kind: fault.Cut}}}))
	defer srv.Close()
	res, err := http.Post(srv.URL+"/v1/chat/completions", "application/json", strings.NewReader(
		`{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"messages":[{"role":"user","content":"call the tool"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if strings.Contains(string(body), "tool_calls") {
		t.Fatalf("a call came before the cut: %s", body)
	}
}
