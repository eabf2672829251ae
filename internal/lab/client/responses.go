package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// responses is OpenAI responses.
type responses struct{}

func (responses) path(Request) string            { return "/v1/responses" }
func (responses) auth(h http.Header, key string) { bearer(h, key) }
func (responses) body(q Request) any {
	m := map[string]any{"model": q.Model, "input": q.Prompt, "stream": q.Stream}
	if q.MaxTokens > 0 {
		m["max_output_tokens"] = q.MaxTokens
	}
	return m
}

func (responses) failure(r *reading, b []byte) bool { return chat{}.failure(r, b) }

type responseBody struct {
	ID     string     `json:"id"`
	Object string     `json:"object"`
	Status string     `json:"status"`
	Model  string     `json:"model"`
	Error  *chatError `json:"error"`
	Output []struct {
		Type      string `json:"type"`
		Arguments string `json:"arguments"`
		Content   []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"output"`
	Usage *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	} `json:"usage"`
}

func (b *responseBody) text() (text, tool string) {
	var s strings.Builder
	for _, o := range b.Output {
		tool += o.Arguments
		for _, c := range o.Content {
			s.WriteString(c.Text)
		}
	}
	return s.String(), tool
}

// finish takes the final response object in.
func (b *responseBody) finish(r *reading) {
	r.Model = b.Model
	if b.Usage != nil {
		r.Usage = Usage{Input: b.Usage.Input, Output: b.Usage.Output, Reports: r.Usage.Reports + 1}
	}
	r.ended(b.Status)
}

func (responses) event(r *reading, f frame) error {
	var e struct {
		Type     string        `json:"type"`
		Sequence *int          `json:"sequence_number"`
		Delta    string        `json:"delta"`
		Response *responseBody `json:"response"`
		Message  string        `json:"message"`
		Code     any           `json:"code"`
		Error    *chatError    `json:"error"`
	}
	if string(f.data) == "[DONE]" && (r.terminal > 0 || r.failed) && !r.closed {
		r.closed = true // some services close responses like chat completions; the SDKs take it
		return nil
	}
	if err := json.Unmarshal(f.data, &e); err != nil {
		return fmt.Errorf("a malformed event: %w", err)
	}
	if r.terminal > 0 || r.failed || r.closed {
		return fmt.Errorf("event %s behind the end", e.Type)
	}
	if e.Sequence != nil {
		if *e.Sequence < r.seq {
			return fmt.Errorf("sequence number %d after %d", *e.Sequence, r.seq-1)
		}
		r.seq = *e.Sequence + 1
	}
	switch e.Type {
	case "response.output_text.delta":
		if e.Delta != "" {
			r.content(e.Delta)
		}
	case "response.function_call_arguments.delta":
		r.Tool += e.Delta
		r.mark()
	case "response.completed", "response.incomplete":
		if e.Response == nil {
			return errors.New("the terminal event has no response")
		}
		e.Response.finish(r)
		if whole, _ := e.Response.text(); whole != string(r.text) {
			return errors.New("the text of the final response differs from the deltas")
		}
	case "response.failed":
		if e.Response == nil || !e.Response.Error.take(r) {
			return errors.New("response.failed without an error")
		}
	case "error":
		if e.Error.take(r) {
			return nil
		}
		if e.Message == "" {
			return errors.New("an error event without a message")
		}
		r.fail("error", text(e.Code), e.Message)
	case "":
		return errors.New("an event without a type")
	}
	return nil
}

func (responses) whole(r *reading, b []byte) error {
	var body responseBody
	if err := json.Unmarshal(b, &body); err != nil {
		return fmt.Errorf("a malformed body: %w", err)
	}
	if body.Object != "response" {
		return errors.New("not a response object")
	}
	if body.Status == "failed" {
		if !body.Error.take(r) {
			return errors.New("a failed response without an error")
		}
		return nil
	}
	out, tool := body.text()
	r.Tool = tool
	if out != "" || tool != "" {
		r.content(out)
	}
	body.finish(r)
	return nil
}
