package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"spillway/internal/gateway"
)

// canned answers every request with one body.
type canned struct {
	status int
	kind   string
	body   io.Reader
}

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(c.body)}, nil
}

func read(p gateway.Protocol, status int, kind, body string, whole bool) Result {
	return New(canned{status, kind, strings.NewReader(body)}).Call(context.Background(),
		Request{URL: "http://x", Protocol: p, Model: "m", Prompt: "q", Stream: !whole})
}

const (
	chunk  = `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	finish = `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done   = "data: [DONE]\n\n"
	fault  = `data: {"error":{"message":"boom","type":"server_error"}}` + "\n\n"

	start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":3}}}\n\n"
	open  = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n"
	delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"
	shut  = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	last  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n"
	stop  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	over  = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"

	created   = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{}}\n\n"
	rdelta    = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"a\"}\n\n"
	completed = "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"text\":\"a\"}]}]}}\n\n"
	rfailed   = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"boom\"}}}\n\n"

	gpart = `data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}` + "\n\n"
	gend  = `data: {"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}` + "\n\n"
	gerr  = `data: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}` + "\n\n"
)

func TestStreams(t *testing.T) {
	const sse = "text/event-stream"
	for name, c := range map[string]struct {
		p    gateway.Protocol
		body string
		want End
		note string
	}{
		"chat":                         {gateway.OpenAI, chunk + finish + done, Complete, ""},
		"chat, no DONE":                {gateway.OpenAI, chunk + finish, Complete, ""},
		"chat, comments, CRLF, BOM":    {gateway.OpenAI, "\ufeff: hi\r\n\r\n" + strings.ReplaceAll(chunk+finish+done, "\n", "\r\n"), Complete, ""},
		"chat, CR":                     {gateway.OpenAI, strings.ReplaceAll(chunk+finish+done, "\n", "\r"), Complete, ""},
		"chat, cut":                    {gateway.OpenAI, chunk, Truncated, ""},
		"chat, cut but DONE":           {gateway.OpenAI, chunk + done, Truncated, ""},
		"chat, nothing":                {gateway.OpenAI, "", Truncated, ""},
		"chat, half an event":          {gateway.OpenAI, chunk + finish[:20], Truncated, ""},
		"chat, two ends":               {gateway.OpenAI, chunk + finish + finish, Broken, "2 terminal"},
		"chat, text behind the end":    {gateway.OpenAI, finish + chunk, Broken, "behind the finish"},
		"chat, event behind DONE":      {gateway.OpenAI, finish + done + chunk, Broken, "behind [DONE]"},
		"chat, bad JSON":               {gateway.OpenAI, chunk + "data: {\"broken\n\n" + finish, Broken, "malformed"},
		"chat, error":                  {gateway.OpenAI, chunk + fault + done, Failed, ""},
		"chat, error and an end":       {gateway.OpenAI, finish + fault, Broken, "both"},
		"chat, event behind the error": {gateway.OpenAI, fault + chunk, Broken, "behind the error"},
		"chat, error without words":    {gateway.OpenAI, `data: {"error":{}}` + "\n\n", Broken, "without a message"},
		"chat, another's error":        {gateway.OpenAI, chunk + over, Failed, ""},

		"messages":                     {gateway.Anthropic, start + open + delta + shut + last + stop, Complete, ""},
		"messages, error":              {gateway.Anthropic, start + open + delta + over, Failed, ""},
		"messages, cut":                {gateway.Anthropic, start + open + delta, Truncated, ""},
		"messages, no stop":            {gateway.Anthropic, start + open + delta + shut + last, Truncated, ""},
		"messages, block left open":    {gateway.Anthropic, start + open + delta + last + stop, Broken, "block is open"},
		"messages, two blocks open":    {gateway.Anthropic, start + open + open, Broken, "two content blocks"},
		"messages, delta without":      {gateway.Anthropic, start + delta, Broken, "not open"},
		"messages, no start":           {gateway.Anthropic, open, Broken, "before message_start"},
		"messages, P74 foreign error":  {gateway.Anthropic, start + open + delta + fault, Broken, ""},
		"messages, error and an end":   {gateway.Anthropic, start + open + delta + shut + last + stop + over, Broken, "behind the end"},
		"responses":                    {gateway.Responses, created + rdelta + completed, Complete, ""},
		"responses, failed":            {gateway.Responses, created + rdelta + rfailed, Failed, ""},
		"responses, error event":       {gateway.Responses, created + "event: error\ndata: {\"type\":\"error\",\"code\":\"x\",\"message\":\"boom\"}\n\n", Failed, ""},
		"responses, cut":               {gateway.Responses, created + rdelta, Truncated, ""},
		"responses, text disagrees":    {gateway.Responses, created + completed, Broken, "differs"},
		"responses, numbers fall back": {gateway.Responses, rdelta + created, Broken, "sequence number"},
		"responses, behind the end":    {gateway.Responses, created + rdelta + completed + rdelta, Broken, "behind the end"},
		"gemini":                       {gateway.Gemini, gpart + gend, Complete, ""},
		"gemini, error":                {gateway.Gemini, gpart + gerr, Failed, ""},
		"gemini, cut":                  {gateway.Gemini, gpart, Truncated, ""},
		"gemini, behind the end":       {gateway.Gemini, gend + gpart, Broken, "behind the finish"},
	} {
		res := read(c.p, 200, sse, c.body, false)
		if res.End != c.want || !strings.Contains(res.Note, c.note) {
			t.Errorf("%s: %s (%s), want %s (%s)", name, res.End, res.Note, c.want, c.note)
		}
		if c.want == Failed && (res.ErrorMessage == "" || !res.InStream) {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func TestBodies(t *testing.T) {
	for name, c := range map[string]struct {
		p      gateway.Protocol
		status int
		kind   string
		body   string
		whole  bool
		want   End
	}{
		"chat":                    {gateway.OpenAI, 200, "application/json", `{"object":"chat.completion","choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, true, Complete},
		"chat, no finish":         {gateway.OpenAI, 200, "application/json", `{"object":"chat.completion","choices":[{"message":{"content":"a"}}]}`, true, Truncated},
		"chat, an error with 200": {gateway.OpenAI, 200, "application/json", `{"error":{"message":"boom"}}`, true, Failed},
		"chat, 502":               {gateway.OpenAI, 502, "application/json", `{"error":{"message":"boom"}}`, false, Failed},
		"chat, 502 page":          {gateway.OpenAI, 502, "text/html", `<html>`, false, Broken},
		"chat, page with 200":     {gateway.OpenAI, 200, "text/html", `<html>`, false, Broken},
		"chat, JSON for a stream": {gateway.OpenAI, 200, "application/json", `{"object":"chat.completion","choices":[]}`, false, Broken},
		"messages":                {gateway.Anthropic, 200, "application/json", `{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}`, true, Complete},
		"messages, chat's error":  {gateway.Anthropic, 500, "application/json", `{"error":{"message":"boom"}}`, true, Broken},
		"messages, error":         {gateway.Anthropic, 529, "application/json", `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`, true, Failed},
		"responses":               {gateway.Responses, 200, "application/json", `{"object":"response","status":"completed","output":[{"content":[{"text":"a"}]}]}`, true, Complete},
		"responses, failed":       {gateway.Responses, 200, "application/json", `{"object":"response","status":"failed","error":{"message":"boom","code":"x"}}`, true, Failed},
		"gemini":                  {gateway.Gemini, 200, "application/json", `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, true, Complete},
		"gemini, error":           {gateway.Gemini, 503, "application/json", `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`, true, Failed},
	} {
		res := read(c.p, c.status, c.kind, c.body, c.whole)
		if res.End != c.want {
			t.Errorf("%s: %s (%s), want %s", name, res.End, res.Note, c.want)
		}
		if c.want == Complete && res.Text != "a" {
			t.Errorf("%s: text %q", name, res.Text)
		}
	}
}

func TestBrokenSocket(t *testing.T) {
	call := func(body string) Result {
		r := io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF))
		return New(canned{200, "text/event-stream", r}).Call(context.Background(), Request{URL: "http://x", Model: "m", Stream: true})
	}
	if res := call(chunk); res.End != Broken {
		t.Errorf("%s", res.End)
	}
	if res := call(chunk + finish); res.End != Complete {
		t.Errorf("whole before the socket failed: %s (%s)", res.End, res.Note)
	}
}

func TestSplitAnywhere(t *testing.T) {
	r := iotest.OneByteReader(strings.NewReader(strings.ReplaceAll(chunk+finish+done, "\n", "\r\n")))
	res := New(canned{200, "text/event-stream", r}).Call(context.Background(), Request{URL: "http://x", Model: "m", Stream: true})
	if res.End != Complete || res.Text != "a" || res.Events != 3 {
		t.Errorf("%+v", res)
	}
}
