package families

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/sse"
)

func each(t *testing.T, run func(t *testing.T, f protocol.Family)) {
	for p := range gateway.NumProtocols {
		t.Run(p.String(), func(t *testing.T) { run(t, For(p)) })
	}
}

func TestFor(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		if f == nil {
			t.Fatal("no family")
		}
	})
	for p := range gateway.NumProtocols {
		if For(p).Protocol() != p {
			t.Errorf("%s gives %s", p, For(p).Protocol())
		}
	}
	if For(gateway.NumProtocols) != nil {
		t.Error("a family for no protocol")
	}
}

// play reads a stream the way an attempt does and returns the sum of its signals, the state, and what was malformed.
func play(t testing.TB, f protocol.Family, src io.Reader) (sum protocol.Signal, st protocol.StreamState, malformed int) {
	t.Helper()
	r := sse.NewReader(src, 0)
	for {
		_, ferr := r.Fill()
		for {
			ev, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if ev.Comment && !ev.Stray {
				continue
			}
			data := ev.Data
			if ev.Stray {
				data = ev.Raw
			}
			var s protocol.Signal
			if f.Event(ev.Name, data, &s); s.Flags.Has(protocol.Malformed) {
				malformed++
				continue
			}
			st.Observe(&s)
			sum.Add(&s)
		}
		if ferr != nil {
			return sum, st, malformed
		}
	}
}

// heads are a stream of each family up to and including its first text.
var heads = map[gateway.Protocol]string{
	gateway.OpenAI: ": OPENROUTER PROCESSING\n\ndata: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n",
	gateway.Responses: "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"c\",\"model\":\"m\",\"status\":\"in_progress\",\"output\":[]}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"hi\"}\n\n",
	gateway.Anthropic: "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"c\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3}}}\r\n\r\n" +
		"event: content_block_start\r\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\r\n\r\n" +
		"event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\r\n\r\n",
	gateway.Gemini: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"index\":0}],\"responseId\":\"c\",\"modelVersion\":\"m\"}\n\n",
}

var tails = map[gateway.Protocol]string{
	gateway.OpenAI:    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
	gateway.Responses: "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
	gateway.Anthropic: "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	gateway.Gemini:    "data: {\"candidates\":[{\"content\":{\"parts\":[]},\"finishReason\":\"STOP\",\"index\":0}]}\n\n",
}

// TestO13NoTerminalEvidence: a stream that just ends is not complete (also P3, P22); with its tail it is, however it was cut
// into reads.
func TestO13NoTerminalEvidence(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		head, tail := heads[f.Protocol()], tails[f.Protocol()]
		sum, st, _ := play(t, f, strings.NewReader(head))
		if st.Complete() || !sum.Flags.Has(protocol.Content|protocol.Text) || st.ID != "c" || st.Model != "m" {
			t.Errorf("cut: %s %+v", sum.Flags, st)
		}
		sum, st, _ = play(t, f, iotest.OneByteReader(strings.NewReader(head+tail)))
		if !st.Complete() || sum.Flags.Any(protocol.Error|protocol.Malformed) || sum.Finish == "" {
			t.Errorf("whole: %s %+v", sum.Flags, st)
		}
		_, st, _ = play(t, f, strings.NewReader(""))
		if st.Complete() || st.Begun {
			t.Errorf("nothing: %+v", st)
		}
	})
}

// TestP1OneBadEvent: one event that is no JSON is counted and changes nothing.
func TestP1OneBadEvent(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		in := heads[f.Protocol()] + "data: {\"broken\n\n" + tails[f.Protocol()]
		if sum, st, bad := play(t, f, strings.NewReader(in)); bad != 1 || !st.Complete() || sum.Flags.Has(protocol.Error) {
			t.Errorf("%d malformed, %s", bad, sum.Flags)
		}
	})
}

// TestP2HoldLifecycle: before the first text there is nothing that would commit a stream.
func TestP2HoldLifecycle(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		head := heads[f.Protocol()]
		parts := strings.SplitAfter(strings.ReplaceAll(head, "\r\n", "\n"), "\n\n")
		sum, _, _ := play(t, f, strings.NewReader(strings.Join(parts[:len(parts)-2], "")))
		if sum.Flags.Any(protocol.Content | protocol.Terminal | protocol.Error) {
			t.Errorf("%s", sum.Flags)
		}
	})
	sum, _, _ := play(t, For(gateway.Responses), strings.NewReader("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"code\":\"insufficient_quota\"}}\n\n"))
	if !sum.Flags.Has(protocol.Error) || sum.Flags.Has(protocol.Content) || sum.ErrStatus != 429 || sum.Code != "insufficient_quota" {
		t.Errorf("%s %d", sum.Flags, sum.ErrStatus)
	}
}

// TestP63ErrorThenDone is an error, not an empty answer.
func TestP63ErrorThenDone(t *testing.T) {
	sum, st, _ := play(t, For(gateway.OpenAI), strings.NewReader("data: {\"error\":{\"message\":\"m\",\"code\":500}}\n\ndata: [DONE]\n\n"))
	if !sum.Flags.Has(protocol.Error) || st.Complete() || sum.ErrStatus != 500 || sum.Empty() {
		t.Errorf("%s %+v", sum.Flags, st)
	}
}

// TestBareErrorInStream: an error body written into an event stream without any framing is found.
func TestBareErrorInStream(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		in := heads[f.Protocol()] + "{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"m\"\n  }\n}\n\n"
		if sum, _, _ := play(t, f, strings.NewReader(in)); !sum.Flags.Has(protocol.Error) || sum.ErrStatus != 503 {
			t.Errorf("%s %d", sum.Flags, sum.ErrStatus)
		}
	})
}

// TestP3P74StreamError: behind a cut stream the error event is found by the family's own reader, keeps its status, and the
// stream does not look complete.
func TestP3P74StreamError(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		for code := range gateway.Codes() {
			head := heads[f.Protocol()]
			_, st, _ := play(t, f, strings.NewReader(head))
			e := &gateway.Error{Code: code, Message: "it\n\"broke\"", Diagnostics: diagnostics()}
			out := f.StreamError([]byte(head), e, &st)
			sum, after, bad := play(t, f, strings.NewReader(string(out)))
			if !sum.Flags.Has(protocol.Error) || after.Complete() || bad != 0 || !st.Closed || after.Open != 0 {
				t.Fatalf("%s: %s %+v\n%s", code, sum.Flags, after, out)
			}
			if sum.ErrStatus != e.HTTPStatus() || sum.Message != e.Message {
				t.Errorf("%s: %d %q", code, sum.ErrStatus, sum.Message)
			}
		}
		if out := f.StreamError(nil, &gateway.Error{Code: gateway.Draining}, nil); len(out) == 0 {
			t.Error("nothing")
		}
	})
}

func diagnostics() *gateway.Diagnostics {
	return &gateway.Diagnostics{PoolSize: 2, Attempted: 1, AttemptOrder: []string{"a/m"}, Next: "wait",
		Excluded: []gateway.Exclusion{{Target: gateway.Target{Provider: "a", Model: "m"}, Layer: gateway.LayerBreaker, Reason: gateway.CircuitOpen, Until: time.Unix(1e9, 0).UTC()}}}
}

// TestErrorBodies: every code gives a JSON body in the form that SDKs of the family read, with what Spillway adds.
func TestErrorBodies(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		for code, want := range gateway.Codes() {
			e := &gateway.Error{Code: code, Message: "bad \xff <tag>", Param: "messages[0]", Next: "Do that.", RetryAfter: 1500 * time.Millisecond, Diagnostics: diagnostics()}
			status, body := f.Error(e)
			var got struct {
				Type  string
				Error struct {
					Message, Type, Param, Status, Next string
					Code                               any
					RetryAfter                         int `json:"retry_after"`
					Diagnostics                        struct {
						PoolSize int `json:"pool_size"`
						Excluded []struct{ Target, Layer, Reason string }
					}
					Details json.RawMessage
				}
			}
			if err := json.Unmarshal(body, &got); err != nil || status != want {
				t.Fatalf("%s: status %d, %v\n%s", code, status, err, body)
			}
			o := got.Error
			if o.Message != "bad \uFFFD <tag>. Do that." || o.Next != "Do that." || o.RetryAfter != 2 || o.Diagnostics.PoolSize != 2 || o.Diagnostics.Excluded[0].Reason != "circuit_open" || o.Diagnostics.Excluded[0].Target != "a/m" {
				t.Errorf("%s: %+v", code, o)
			}
			switch f.Protocol() {
			case gateway.Gemini:
				var details []struct{ Reason, RetryDelay string }
				if json.Unmarshal(o.Details, &details) != nil || o.Code != float64(want) || o.Status == "" || details[0].Reason != string(code) || details[1].RetryDelay != "2s" {
					t.Errorf("%s: %s", code, body)
				}
			case gateway.Anthropic:
				var details struct { // where the SDKs of the second version look
					Code string `json:"error_code"`
				}
				if json.Unmarshal(o.Details, &details) != nil || details.Code != string(code) || got.Type != "error" ||
					!strings.HasSuffix(o.Type, "error") && o.Type != "request_too_large" || o.Code != string(code) {
					t.Errorf("%s: %s", code, body)
				}
			default:
				if o.Type == "" || o.Code != string(code) || o.Param != "messages[0]" {
					t.Errorf("%s: %s", code, body)
				}
			}
			var s protocol.Signal
			if f.Body("application/json", body, &s); !s.Flags.Has(protocol.Error) {
				t.Errorf("%s: our own error body reads as %s", code, s.Flags)
			}
		}
	})
}

// TestP70KeepStatus: a status, type and text of the upstream are kept (also P72).
func TestP70KeepStatus(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		status, body := f.Error(&gateway.Error{Code: gateway.UpstreamError, Status: 401, Type: "their_type", Message: "their words", Next: "ours", Upstream: true})
		if status != 401 || !strings.Contains(string(body), `"message":"their words"`) || !strings.Contains(string(body), "their_type") {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestErrorNeverFails: diagnostics that cannot be encoded do not keep the error from the client.
func TestErrorNeverFails(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		_, body := f.Error(&gateway.Error{Code: gateway.Internal, Diagnostics: &gateway.Diagnostics{Earliest: time.Unix(1<<40, 0)}})
		if !json.Valid(body) || !strings.Contains(string(body), "internal_error") {
			t.Errorf("%s", body)
		}
	})
}

func candidate(header string) gateway.Candidate {
	return gateway.Candidate{Model: "m", Connection: &gateway.Connection{Provider: &gateway.Provider{AuthHeader: header}}}
}

// TestUpstreamOfOperations: each operation has its path, and a base URL that ends in a version keeps it once.
func TestUpstreamOfOperations(t *testing.T) {
	for _, tc := range []struct {
		p    gateway.Protocol
		op   gateway.Operation
		base string
		want string
	}{
		{gateway.OpenAI, gateway.Complete, "https://x/v1", "https://x/v1/completions"},
		{gateway.OpenAI, gateway.Embed, "https://x/v1/?a=1", "https://x/v1/embeddings?a=1"},
		{gateway.OpenAI, gateway.Moderate, "https://x/v1", "https://x/v1/moderations"},
		{gateway.OpenAI, gateway.Rerank, "https://x/v1", "https://x/v1/rerank"},
		{gateway.OpenAI, gateway.MakeImage, "https://x/v1", "https://x/v1/images/generations"},
		{gateway.OpenAI, gateway.EditImage, "https://x/v1", "https://x/v1/images/edits"},
		{gateway.OpenAI, gateway.VaryImage, "https://x/v1", "https://x/v1/images/variations"},
		{gateway.OpenAI, gateway.Speak, "https://x/v1", "https://x/v1/audio/speech"},
		{gateway.OpenAI, gateway.Transcribe, "https://x/v1", "https://x/v1/audio/transcriptions"},
		{gateway.OpenAI, gateway.TranslateAudio, "https://x/v1", "https://x/v1/audio/translations"},
		{gateway.Anthropic, gateway.CountTokens, "https://x", "https://x/v1/messages/count_tokens"},
		{gateway.Anthropic, gateway.CountTokens, "https://x/v1/", "https://x/v1/messages/count_tokens"},
		{gateway.Gemini, gateway.CountTokens, "https://x", "https://x/v1beta/models/m:countTokens"},
		{gateway.Gemini, gateway.Embed, "https://x/v1", "https://x/v1/models/m:embedContent"},
		{gateway.Gemini, gateway.BatchEmbed, "https://x", "https://x/v1beta/models/m:batchEmbedContents"},
	} {
		if got := For(tc.p).Upstream(tc.base, candidate(""), &gateway.Envelope{Operation: tc.op}); got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.p, tc.op, got, tc.want)
		}
	}
}

func TestUpstreamAndAuthorize(t *testing.T) {
	for _, tc := range []struct {
		p          gateway.Protocol
		base, want string
		header     http.Header
	}{
		{gateway.OpenAI, "https://x/v1", "https://x/v1/chat/completions", http.Header{"Authorization": {"Bearer k"}}},
		{gateway.OpenAI, "https://x/openai/v1/?api-version=2", "https://x/openai/v1/chat/completions?api-version=2", http.Header{"Authorization": {"Bearer k"}}},
		{gateway.Responses, "https://x/v1", "https://x/v1/responses", http.Header{"Authorization": {"Bearer k"}}},
		{gateway.Anthropic, "https://x", "https://x/v1/messages", http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}}},
		{gateway.Anthropic, "https://x/v1", "https://x/v1/messages", http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}}},
		{gateway.Gemini, "https://x", "https://x/v1beta/models/m:generateContent", http.Header{"X-Goog-Api-Key": {"k"}}},
	} {
		f := For(tc.p)
		if got := f.Upstream(tc.base, candidate(""), &gateway.Envelope{}); got != tc.want {
			t.Errorf("%s: %s", tc.p, got)
		}
		h := http.Header{}
		f.Authorize(h, candidate(""), "k")
		if d := cmp.Diff(tc.header, h); d != "" {
			t.Error(d)
		}
		own, none := http.Header{}, http.Header{}
		f.Authorize(own, candidate("api-key"), "k")
		f.Authorize(none, candidate(""), "")
		if own.Get("api-key") != "k" || own.Get("Authorization")+own.Get("X-Api-Key")+own.Get("X-Goog-Api-Key") != "" || none.Get("Authorization")+none.Get("X-Api-Key") != "" {
			t.Errorf("%s: own %v, none %v", tc.p, own, none)
		}
	}
}

func TestReplaceModel(t *testing.T) {
	for _, tc := range []struct {
		p        gateway.Protocol
		in, want string
	}{
		{gateway.OpenAI, `{"n":9007199254740993,"model":"up" , "x":1e400}`, `{"n":9007199254740993,"model":"a\"b" , "x":1e400}`},
		{gateway.OpenAI, `{"choices":[{"model":"up"}]}`, `{"choices":[{"model":"up"}]}`},
		{gateway.OpenAI, `[DONE]`, `[DONE]`},
		{gateway.Anthropic, `{"type":"message_start","message":{"model":"up"}}`, `{"type":"message_start","message":{"model":"a\"b"}}`},
		{gateway.Anthropic, `{"type":"message","model":"up"}`, `{"type":"message","model":"a\"b"}`},
		{gateway.Gemini, `{"candidates":[],"modelVersion":"up"}`, `{"candidates":[],"modelVersion":"a\"b"}`},
		{gateway.Gemini, `{"broken`, `{"broken`},
	} {
		if got := string(For(tc.p).ReplaceModel([]byte("#"), []byte(tc.in), `a"b`)); got != "#"+tc.want {
			t.Errorf("%s: %s", tc.p, got)
		}
	}
}

// TestComment: a heartbeat is no event; for Gemini it must be exactly two line feeds, see gemini.Family.Comment.
func TestComment(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		out := string(f.Comment([]byte(heads[f.Protocol()]), "keep-alive"))
		sum, _, bad := play(t, f, strings.NewReader(out+tails[f.Protocol()]))
		if bad != 0 || sum.Flags.Has(protocol.Error) {
			t.Errorf("%s", sum.Flags)
		}
		want := ": keep-alive\n\n"
		if f.Protocol() == gateway.Gemini {
			want = "\n\n"
		}
		if !strings.HasSuffix(out, want) {
			t.Errorf("%q", out)
		}
	})
}

var deltas = map[gateway.Protocol]string{
	gateway.OpenAI:    `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`,
	gateway.Responses: `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"hello","logprobs":[],"sequence_number":7}`,
	gateway.Anthropic: `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`,
	gateway.Gemini:    `{"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":3},"modelVersion":"m"}`,
}

func TestNoAllocation(t *testing.T) {
	each(t, func(t *testing.T, f protocol.Family) {
		data := []byte(deltas[f.Protocol()])
		var s, sum protocol.Signal
		var st protocol.StreamState
		name := []byte("content_block_delta")
		dst := make([]byte, 0, 4096)
		n := testing.AllocsPerRun(100, func() {
			s.Reset()
			f.Event(name, data, &s)
			st.Observe(&s)
			sum.Add(&s)
			dst = f.ReplaceModel(dst[:0], data, "other")
		})
		if n != 0 || !s.Flags.Has(protocol.Content|protocol.Text) {
			t.Errorf("%v allocations, %s", n, s.Flags)
		}
	})
}

// TestRawErrorOutlivesNothing: what a signal tells beyond its slices stays valid when the buffer is used again.
func TestSumKeepsNoSlices(t *testing.T) {
	buf := []byte(`{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`)
	var s, sum protocol.Signal
	For(gateway.OpenAI).Event(nil, buf, &s)
	sum.Add(&s)
	for i := range buf {
		buf[i] = 'x'
	}
	if sum.Code != "rate_limit_exceeded" || sum.Message != "slow down" || sum.ErrBody != nil {
		t.Errorf("%+v", sum)
	}
}

func TestEndsWithSourceError(t *testing.T) {
	boom := errors.New("reset")
	for p := range gateway.NumProtocols {
		_, st, _ := play(t, For(p), io.MultiReader(strings.NewReader(heads[p]), iotest.ErrReader(boom)))
		if st.Complete() {
			t.Errorf("%s is complete", p)
		}
	}
}

// FuzzEvent: nothing panics, the same bytes say the same, flags do not contradict each other, and what passes as well
// formed is JSON.
func FuzzEvent(f *testing.F) {
	for p := range gateway.NumProtocols {
		f.Add([]byte(""), []byte(deltas[p]))
		for _, stream := range []string{heads[p], tails[p]} {
			r := sse.NewReader(strings.NewReader(stream), 0)
			r.Fill()
			for ev, ok, _ := r.Next(); ok; ev, ok, _ = r.Next() {
				f.Add(slices.Clone(ev.Name), slices.Clone(ev.Data))
			}
		}
	}
	f.Add([]byte("error"), []byte(`[{"error":{"code":1e3,"error":[{"message":{"error":"x"}}],"status_code":-1}}]`))
	f.Fuzz(func(t *testing.T, name, data []byte) {
		for p := range gateway.NumProtocols {
			fam := For(p)
			var a, b, body protocol.Signal
			fam.Event(name, data, &a)
			fam.Event(name, data, &b)
			fam.Body("", data, &body)
			if d := cmp.Diff(a, b); d != "" {
				t.Fatal(d)
			}
			if !a.Flags.Any(protocol.Malformed|protocol.Last) && !json.Valid(data) && len(data) < 1000 {
				t.Fatalf("%s: %q passes as %s", p, data, a.Flags)
			}
			if a.Flags.Has(protocol.Malformed) && a.Flags != protocol.Malformed || a.Flags == 0 || a.Flags.Has(protocol.Error|protocol.Terminal) {
				t.Fatalf("%s: %q gives %q", p, data, a.Flags)
			}
			if a.Flags.Has(protocol.Error) && (a.ErrStatus < 400 || a.ErrStatus > 599) {
				t.Fatalf("%s: status %d", p, a.ErrStatus)
			}
			var st protocol.StreamState
			st.Observe(&a)
			out := fam.StreamError(nil, &gateway.Error{Code: gateway.UpstreamStreamError}, &st)
			if sum, _, bad := play(t, fam, strings.NewReader(string(out))); bad != 0 || !sum.Flags.Has(protocol.Error) {
				t.Fatalf("%s: %q", p, out)
			}
			if got := fam.ReplaceModel(nil, data, "m"); json.Valid(data) && !json.Valid(got) {
				t.Fatalf("%s: %q", p, got)
			}
		}
	})
}

// BenchmarkStream is one event through reader, family and state.
func BenchmarkStream(b *testing.B) {
	for p := range gateway.NumProtocols {
		b.Run(p.String(), func(b *testing.B) {
			f := For(p)
			in := strings.Repeat("event: x\ndata: "+deltas[p]+"\n\n", 200)
			src := strings.NewReader(in)
			r := sse.NewReader(src, 0)
			var st protocol.StreamState
			var s protocol.Signal
			b.ReportAllocs()
			for b.Loop() {
				ev, ok, _ := r.Next()
				for !ok {
					if _, err := r.Fill(); err != nil {
						src.Reset(in)
						r.Reset(src)
					}
					ev, ok, _ = r.Next()
				}
				s.Reset()
				f.Event(ev.Name, ev.Data, &s)
				st.Observe(&s)
			}
		})
	}
}
