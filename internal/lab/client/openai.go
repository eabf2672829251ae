package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// chat is OpenAI chat completions.
type chat struct{}

func bearer(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (chat) path(Request) string            { return "/v1/chat/completions" }
func (chat) auth(h http.Header, key string) { bearer(h, key) }
func (chat) body(q Request) any {
	m := map[string]any{"model": q.Model, "messages": []any{map[string]any{"role": "user", "content": q.Prompt}}}
	if q.Stream {
		m["stream"], m["stream_options"] = true, map[string]any{"include_usage": true}
	}
	if q.MaxTokens > 0 {
		m["max_tokens"] = q.MaxTokens
	}
	return m
}

type chatError struct {
	Message *string `json:"message"`
	Type    any     `json:"type"`
	Code    any     `json:"code"`
}

func (e *chatError) take(r *reading) bool {
	if e == nil || e.Message == nil || *e.Message == "" {
		return false
	}
	r.fail(text(e.Type), text(e.Code), *e.Message)
	return true
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func (chat) failure(r *reading, b []byte) bool {
	var in struct {
		Error *chatError `json:"error"`
	}
	return json.Unmarshal(b, &in) == nil && in.Error.take(r)
}

type chatToolCall struct {
	Index    int `json:"index"`
	Function struct {
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatBody struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Delta, Message struct {
			Content   *string        `json:"content"`
			ToolCalls []chatToolCall `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error *chatError `json:"error"`
}

func (c *chatBody) take(r *reading) {
	if c.Model != "" {
		r.Model = c.Model
	}
	if c.Usage != nil {
		r.Usage = Usage{Input: c.Usage.Prompt, Output: c.Usage.Completion, Reports: r.Usage.Reports + 1}
	}
	for _, ch := range c.Choices {
		for _, t := range append(ch.Delta.ToolCalls, ch.Message.ToolCalls...) {
			r.Tool += t.Function.Arguments
			r.mark()
		}
		for _, s := range []*string{ch.Delta.Content, ch.Message.Content} {
			if s != nil && *s != "" {
				r.content(*s)
			}
		}
		if ch.FinishReason != nil {
			r.ended(*ch.FinishReason)
		}
	}
}

// onlyText is the text of an event that says nothing else.
func (c *chatBody) onlyText() (string, bool) {
	if len(c.Choices) != 1 || c.Usage != nil || c.Error != nil {
		return "", false
	}
	ch := &c.Choices[0]
	if ch.FinishReason != nil || len(ch.Delta.ToolCalls)+len(ch.Message.ToolCalls) > 0 || ch.Message.Content != nil || ch.Delta.Content == nil {
		return "", false
	}
	return *ch.Delta.Content, *ch.Delta.Content != ""
}

func (chat) event(r *reading, f frame) error {
	if r.closed {
		return errors.New("an event behind [DONE]")
	}
	if string(f.data) == "[DONE]" {
		r.closed = true
		return nil
	}
	if text, ok := r.like.match(f.data); ok && !r.failed && r.terminal == 0 {
		r.content(string(text))
		return nil
	}
	var c chatBody
	if err := json.Unmarshal(f.data, &c); err != nil {
		return fmt.Errorf("a malformed event: %w", err)
	}
	if r.failed {
		return errors.New("an event behind the error")
	}
	if c.Error != nil {
		if !c.Error.take(r) {
			return errors.New("an error event without a message")
		}
		return nil
	}
	if c.Object != "chat.completion.chunk" {
		return fmt.Errorf("object is %q", c.Object)
	}
	seen, ended := r.ContentSeen, r.terminal > 0
	c.take(r)
	if ended && r.ContentSeen > seen {
		return errors.New("content behind the finish reason")
	}
	if text, ok := c.onlyText(); ok {
		r.like.learn(f.data, `"content":"`, text)
	}
	return nil
}

func (chat) whole(r *reading, b []byte) error {
	var c chatBody
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("a malformed body: %w", err)
	}
	if c.Object != "chat.completion" || len(c.Choices) == 0 {
		return errors.New("not a chat completion")
	}
	c.take(r)
	return nil
}

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
		if whole, _ := e.Response.text(); whole != r.text.String() {
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
