package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

// other is a good call beside generation: a request, where it goes upstream, and an answer.
type other struct {
	path, kind, body string
	upstream         string
	answer, answered string // body and content type
	protocol         string
}

// form is a form with a file whose bytes are no text, and its content type.
func form(model string) (body, kind string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary("------------------------spillway0test")
	f, _ := w.CreateFormFile("file", "täst.wav")
	_, _ = f.Write([]byte("RIFF\x00\xff\r\n--no boundary\r\n"))
	_ = w.WriteField("model", model)
	_ = w.WriteField("response_format", "json")
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

func others(model string) map[string]other {
	const js = "application/json"
	upload, multi := form(model)
	list := map[string]other{
		"embeddings":    {"/v1/embeddings", js, `{"model":"%s","input":["a"],"encoding_format":"base64"}`, "/embeddings", `{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAAA"}],"model":"%s","usage":{"prompt_tokens":3,"total_tokens":3}}`, js, "openai"},
		"completions":   {"/v1/completions", js, `{"model":"%s","prompt":"x"}`, "/completions", `{"id":"c","object":"text_completion","model":"%s","choices":[{"index":0,"text":"hi","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, js, "openai"},
		"moderations":   {"/v1/moderations", js, `{"model":"%s","input":"x"}`, "/moderations", `{"id":"r","model":"%s","results":[{"flagged":false}]}`, js, "openai"},
		"rerank":        {"/v1/rerank", js, `{"model":"%s","query":"q","documents":["a"]}`, "/rerank", `[{"index":0,"score":0.5}]`, js, "openai"},
		"image":         {"/v1/images/generations", js, `{"model":"%s","prompt":"x","stream":true}`, "/images/generations", "event: image_generation.completed\ndata: {}\n\n", "text/event-stream", "openai"},
		"edit":          {"/v1/images/edits", multi, upload, "/images/edits", `{"created":1,"data":[{"b64_json":"AAAA"}]}`, js, "openai"},
		"edit as JSON":  {"/v1/images/edits", js, `{"model":"%s","prompt":"x"}`, "/images/edits", `{"created":1,"data":[]}`, js, "openai"},
		"variation":     {"/v1/images/variations", multi, upload, "/images/variations", `{"created":1,"data":[{"url":"u"}]}`, js, "openai"},
		"speech":        {"/v1/audio/speech", js, `{"model":"%s","input":"x","voice":"v"}`, "/audio/speech", "ID3\x00\xff\xfb{", "audio/mpeg", "openai"},
		"transcription": {"/v1/audio/transcriptions", multi, upload, "/audio/transcriptions", "1\n00:00:00,000 --> 00:00:01,000\n[music]\n", "text/plain; charset=utf-8", "openai"},
		"translation":   {"/v1/audio/translations", multi, upload, "/audio/translations", `{"text":"hi"}`, js, "openai"},
		"compact":       {"/v1/responses/compact", js, `{"model":"%s","input":[{"role":"user","content":"x"}],"instructions":""}`, "/responses/compact", `{"id":"resp_1","object":"response.compaction","created_at":1,"output":[{"id":"cmp_1","type":"compaction","encrypted_content":"AAAA"}],"usage":{"input_tokens":3,"output_tokens":1,"total_tokens":4}}`, js, "responses"},
		"count":         {"/v1/messages/count_tokens", js, `{"model":"%s","messages":[]}`, "/v1/messages/count_tokens", `{"input_tokens":7}`, js, "anthropic"},
		"Gemini count":  {"/v1beta/models/%s:countTokens", js, `{"contents":[]}`, "/v1beta/models/%s:countTokens", `{"totalTokens":7}`, js, "gemini"},
		"Gemini embed":  {"/v1/models/%s:embedContent", js, `{"content":{}}`, "/v1beta/models/%s:embedContent", `{"embedding":{"values":[0.1]}}`, js, "gemini"},
		"Gemini batch":  {"/v1beta/models/%s:batchEmbedContents", js, `{"requests":[{"model":"models/%s"}]}`, "/v1beta/models/%s:batchEmbedContents", `{"embeddings":[{"values":[0.1]}]}`, js, "gemini"},
	}
	for name, o := range list {
		for _, s := range []*string{&o.path, &o.body, &o.upstream, &o.answer} {
			if strings.Contains(*s, "%s") {
				*s = fmt.Sprintf(*s, model)
			}
		}
		list[name] = o
	}
	return list
}

// answers is an upstream's answer to every call beside generation, for the model m.
func answers(w http.ResponseWriter, r *http.Request) {
	for _, o := range others("m") {
		if o.upstream == r.URL.Path {
			w.Header().Set("Content-Type", o.answered)
			_, _ = io.WriteString(w, o.answer)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, sound(r.URL.Path))
}

// TestEveryOperation: request and answer go through byte for byte, with their content types, under both roots.
func TestEveryOperation(t *testing.T) {
	for name, o := range others("m") {
		u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", o.answered)
			_, _ = io.WriteString(w, o.answer)
		})
		h, a := serve(t, provider(u))
		for _, root := range []string{"", "/api"} {
			r := ask(h, "POST", root+o.path, o.body, "Content-Type", o.kind)
			if body := bodyOf(t, r); r.StatusCode != 200 || body != o.answer || r.Header.Get("Content-Type") != o.answered ||
				r.Header.Get("X-Spillway-Source") != "upstream" || r.Header.Get("X-Spillway-Estimated") != "" {
				t.Errorf("%s: %d %q %v", name, r.StatusCode, body, r.Header)
			}
			got := u.last(t)
			if got.URL.Path != o.upstream || u.bodies[len(u.bodies)-1] != o.body || got.Header.Get("Content-Type") != o.kind {
				t.Errorf("%s: the upstream got %s %q %v", name, got.URL.Path, u.bodies[len(u.bodies)-1], got.Header)
			}
		}
		if a.Buffered() != 0 || a.InFlight() != 0 {
			t.Errorf("%s: %d bytes, %d in flight", name, a.Buffered(), a.InFlight())
		}
		if r := ask(h, "GET", o.path, ""); r.StatusCode != 405 || r.Header.Get("Allow") != "POST" {
			t.Errorf("%s: GET: %d", name, r.StatusCode)
		}
	}
}

// TestOperationOfAnAlias: only the model's name changes on the way up, wherever the call has it; in the answer the name that
// was asked for is put back where the answer is a JSON text with it.
func TestOperationOfAnAlias(t *testing.T) {
	u := newUpstream(t, answers)
	h, _ := serve(t, provider(u)+"aliases: {mine: up/m}\n")
	up := others("m")
	for name, o := range others("mine") {
		r := ask(h, "POST", o.path, o.body, "Content-Type", o.kind)
		body := bodyOf(t, r)
		if r.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, r.StatusCode, body)
			continue
		}
		want := o.answer
		if !strings.Contains(o.answer, `"mine"`) {
			want = up[name].answer
		}
		if name != "edit" && name != "edit as JSON" && body != want { // both have one path, so the answer is either's
			t.Errorf("%s: %q, want %q", name, body, want)
		}
		if got := u.bodies[len(u.bodies)-1]; got != up[name].body {
			t.Errorf("%s: the upstream got %q", name, got)
		}
	}
}

// pair is a combo of two upstreams, the first preferred.
func pair(first, second *upstream) string {
	return "providers:\n  one: {protocols: [openai, responses, anthropic, gemini], base_url: " + first.URL +
		"}\n  two: {protocols: [openai, responses, anthropic, gemini], base_url: " + second.URL +
		"}\nconnections:\n  - {id: c1, provider: one, key: k1, models: [m]}\n  - {id: c2, provider: two, key: k2, models: [m]}\n" +
		"combos:\n  - {name: duo, strategy: priority, targets: [one/m, two/m]}\n"
}

// TestP4OperationsFailOver: one code for all surfaces. What ends a chat attempt ends these as well, and the next candidate answers.
func TestP4OperationsFailOver(t *testing.T) {
	for fault, bad := range map[string]http.HandlerFunc{
		"503":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"429":  func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "30"); w.WriteHeader(429) },
		"401":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"404":  func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"none": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"nothing": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
		},
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>sorry</html>")
		},
		"an error inside": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"error":{"code":"server_error","message":"overloaded"}}`)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "5000")
			_, _ = io.WriteString(w, `{"data":[`)
			panic(http.ErrAbortHandler)
		},
		"half of a JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"data":[`)
		},
	} {
		first, second := newUpstream(t, bad), newUpstream(t, answers)
		for _, name := range []string{"embeddings", "completions", "speech", "transcription", "count", "Gemini batch"} {
			t.Run(fault+"/"+name, func(t *testing.T) {
				t.Parallel() // mostly waits for the second try of the first
				o := others("duo")[name]
				h, _ := serve(t, pair(first, second))
				r := ask(h, "POST", o.path, o.body, "Content-Type", o.kind)
				if body := bodyOf(t, r); r.StatusCode != 200 || r.Header.Get("X-Spillway-Provider") != "two" {
					t.Errorf("%d %s %v", r.StatusCode, body, r.Header)
				}
			})
		}
	}
}

// TestCallThatAProviderLacks: 403, 404 or 405 to one call keep the provider from that call, not from chat, and it is not
// asked again at once.
func TestCallThatAProviderLacks(t *testing.T) {
	for _, status := range []int{403, 404, 405, 501} {
		lacks := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
				w.WriteHeader(status)
				return
			}
			answers(w, r)
		})
		second := newUpstream(t, answers)
		h, _ := serve(t, pair(lacks, second))
		embed := others("duo")["embeddings"]
		for i := range 3 {
			if r := ask(h, "POST", embed.path, embed.body); r.StatusCode != 200 || r.Header.Get("X-Spillway-Provider") != "two" {
				t.Fatalf("%d, call %d: %d %v", status, i, r.StatusCode, r.Header)
			}
		}
		if lacks.calls() != 1 {
			t.Errorf("%d: asked %d times for what it lacks", status, lacks.calls())
		}
		chat := ask(h, "POST", "/v1/chat/completions", `{"model":"duo","messages":[]}`)
		if chat.StatusCode != 200 || chat.Header.Get("X-Spillway-Provider") != "one" {
			t.Errorf("%d: chat is out, too: %d %v", status, chat.StatusCode, chat.Header)
		}
		alone, _ := serve(t, provider(lacks))
		for range 2 {
			one := others("m")["embeddings"]
			f := failureOf(t, ask(alone, "POST", one.path, one.body), "openai")
			if f.status != status && f.status != 404 {
				t.Errorf("%d: with nobody left: %s", status, f.body)
			}
		}
	}
}

// TestLegacyCompletionsStream: streamed like chat, byte for byte, with failing over before the first text.
func TestLegacyCompletionsStream(t *testing.T) {
	const events = "data: {\"id\":\"c\",\"object\":\"text_completion\",\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"text_completion\",\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"b\",\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"text_completion\",\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n" +
		"data: [DONE]\n\n"
	stream := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
		}
	}
	first := newUpstream(t, stream("data: {\"error\":{\"message\":\"overloaded\",\"code\":\"server_error\"}}\n\n"))
	second := newUpstream(t, stream(events))
	h, _ := serve(t, pair(first, second))
	r := ask(h, "POST", "/v1/completions", `{"model":"duo","prompt":"x","stream":true}`)
	if body := bodyOf(t, r); r.StatusCode != 200 || body != events || r.Header.Get("X-Spillway-Provider") != "two" {
		t.Errorf("%d %q %v", r.StatusCode, body, r.Header)
	}
	if got := second.bodies[0]; got != `{"stream_options":{"include_usage":true},"model":"m","prompt":"x","stream":true}` {
		t.Errorf("sent %s", got)
	}
	cut := newUpstream(t, stream(events[:strings.Index(events, "\"b\"")]))
	h, _ = serve(t, provider(cut))
	if body := bodyOf(t, ask(h, "POST", "/v1/completions", `{"model":"m","prompt":"x","stream":true}`)); !strings.Contains(body, "upstream_stream_error") || strings.Contains(body, `"stop"`) {
		t.Errorf("a cut stream ends like a whole one: %q", body)
	}
}

// TestCountTokensEstimate: without anybody who counts there is a count all the same, and it says what it is.
func TestCountTokensEstimate(t *testing.T) {
	none := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "ount") {
			http.NotFound(w, r)
			return
		}
		answers(w, r)
	})
	broken := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	chatOnly := "providers:\n  up: {protocols: [openai], base_url: " + none.URL + "}\nconnections:\n  - {id: u1, provider: up, key: k, models: [m]}\n"
	pad := strings.Repeat("x", 1000)
	calls := []struct{ path, body, field, protocol string }{
		{"/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"` + pad + `"}]}`, "input_tokens", "anthropic"},
		{"/v1beta/models/m:countTokens", `{"contents":[{"parts":[{"text":"` + pad + `"}]}]}`, "totalTokens", "gemini"},
	}
	for name, yaml := range map[string]string{"404": provider(none), "nobody speaks it": chatOnly} {
		h, a := serve(t, yaml)
		before := none.calls()
		for _, c := range calls {
			for range 2 {
				r := ask(h, "POST", c.path, c.body)
				var count map[string]int
				body := bodyOf(t, r)
				if err := json.Unmarshal([]byte(body), &count); err != nil || r.StatusCode != 200 || count[c.field] != (len(c.body)+2)/4 ||
					r.Header.Get("X-Spillway-Estimated") != "true" || r.Header.Get("X-Spillway-Source") != "gateway" || r.Header.Get("X-Spillway-Request-Id") == "" {
					t.Errorf("%s, %s: %d %s %v", name, c.path, r.StatusCode, body, r.Header)
				}
			}
		}
		if n := none.calls() - before; name == "404" && n != len(calls) || name != "404" && n != 0 {
			t.Errorf("%s: %d calls to the upstream", name, n)
		}
		if a.InFlight() != 0 || a.Buffered() != 0 {
			t.Errorf("%s: something is still held", name)
		}
	}
	for _, c := range calls {
		h, _ := serve(t, provider(broken)+"waits: {enabled: false}\nlimits: {attempts: 1}\n")
		if r := ask(h, "POST", c.path, c.body); r.StatusCode < 500 || r.Header.Get("X-Spillway-Estimated") != "" {
			t.Errorf("a broken upstream is covered up: %d %v", r.StatusCode, r.Header)
		}
		missing := strings.Replace(c.path, "/m:", "/nobody:", 1)
		f := failureOf(t, ask(h, "POST", missing, strings.Replace(c.body, `"m"`, `"nobody"`, 1)), c.protocol)
		if f.code != "model_not_found" {
			t.Errorf("an unknown model is counted: %s", f.body)
		}
	}
}

// TestP100LargeAnswers: large requests and answers of other calls go through whole.
func TestP100LargeAnswers(t *testing.T) {
	answer := `{"object":"list","model":"m","data":[{"embedding":[` + strings.Repeat("0.123456789,", 250_000) + `0]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer[:1000])
		_ = http.NewResponseController(w).Flush() // P99: it comes in two pieces
		_, _ = io.WriteString(w, answer[1000:])
	})
	h, _ := serve(t, provider(u))
	body := `{"model":"m","input":"` + strings.Repeat("text ", 500_000) + `"}`
	r := ask(h, "POST", "/v1/embeddings", body)
	if got := bodyOf(t, r); r.StatusCode != 200 || got != answer || u.bodies[0] != body {
		t.Errorf("%d: %d bytes of %d", r.StatusCode, len(got), len(answer))
	}
}

// TestFormErrors: a form that cannot be read is refused with the field at fault; JSON is no way around the guard.
func TestFormErrors(t *testing.T) {
	u := newUpstream(t, answers)
	h, a := serve(t, provider(u))
	good, kind := form("m")
	for _, row := range []struct {
		name, body, kind string
		status           int
	}{
		{"cut", good[:len(good)-40], kind, 400},
		{"no model", strings.Replace(good, `name="model"`, `name="modem"`, 1), kind, 400},
		{"unknown model", strings.Replace(good, "\r\nm\r\n", "\r\nnobody\r\n", 1), kind, 404},
		{"another boundary", good, "multipart/form-data; boundary=q", 400},
		{"no boundary", good, "multipart/form-data", 400},
		{"text", good, "text/plain", 415},
		{"a form without files", "model=m", "application/x-www-form-urlencoded", 415},
	} {
		f := failureOf(t, ask(h, "POST", "/v1/audio/transcriptions", row.body, "Content-Type", row.kind), "openai")
		if f.status != row.status {
			t.Errorf("%s: %s", row.name, f.body)
		}
	}
	for _, path := range []string{"/v1/embeddings", "/v1/chat/completions"} {
		if r := ask(h, "POST", path, good, "Content-Type", kind); r.StatusCode != 415 {
			t.Errorf("%s takes a form: %d", path, r.StatusCode)
		}
	}
	if r := ask(h, "POST", "/v1/audio/transcriptions", good, "Content-Type", kind, "Origin", "https://evil.example"); r.StatusCode != 403 {
		t.Errorf("a page's form: %d", r.StatusCode)
	}
	if u.calls() != 0 || a.Buffered() != 0 {
		t.Errorf("%d calls, %d bytes", u.calls(), a.Buffered())
	}
}

// TestUsageOfOperations: what an answer says it cost is accounted; counting tokens costs nothing.
func TestUsageOfOperations(t *testing.T) {
	for name, want := range map[string]gateway.Usage{"embeddings": {Input: 3}, "count": {}, "Gemini embed": {Input: 3, Estimated: true}} {
		u := newUpstream(t, answers)
		h, a := serve(t, provider(u))
		o := others("m")[name]
		r := ask(h, "POST", o.path, o.body)
		if r.StatusCode != 200 {
			t.Fatal(bodyOf(t, r))
		}
		j, err := a.Journey(t.Context(), gateway.RequestID(r.Header.Get("X-Spillway-Request-Id")))
		if err != nil || j.Usage != want || j.Operation == gateway.Generate {
			t.Errorf("%s: %+v, want %+v (%v)", name, j, want, err)
		}
	}
}
