package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

// turn is what the user says.
type turn struct {
	Content string `json:"content"`
	Role    string `json:"role"`
}

type chatAsk struct {
	MaxTokens int            `json:"max_tokens,omitempty"`
	Messages  [1]turn        `json:"messages"`
	Model     string         `json:"model"`
	Stream    bool           `json:"stream,omitempty"`
	Options   *streamOptions `json:"stream_options,omitempty"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

func (chat) body(q Request) any {
	ask := &chatAsk{MaxTokens: q.MaxTokens, Messages: [1]turn{{q.Prompt, "user"}}, Model: q.Model, Stream: q.Stream}
	if q.Stream {
		ask.Options = &streamOptions{Usage: true}
	}
	return ask
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

type chatSaid struct {
	Content   *string        `json:"content"`
	ToolCalls []chatToolCall `json:"tool_calls"`
}

type chatChoice struct {
	Delta        chatSaid `json:"delta"`
	Message      chatSaid `json:"message"`
	FinishReason *string  `json:"finish_reason"`
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

type chatBody struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage"`
	Error   *chatError   `json:"error"`
}

func readChat(b []byte, w *words) (c chatBody, err error) {
	s := scan{b: b, words: w}
	if c.scan(&s); !s.whole() {
		return decode[chatBody](b)
	}
	return c, nil
}

func (c *chatBody) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "id":
			s.word(&c.ID)
		case "object":
			s.word(&c.Object)
		case "model":
			s.word(&c.Model)
		case "choices":
			s.must(c.Choices == nil)
			c.Choices = make([]chatChoice, 0, 1)
			for s.open('['); s.more(']'); {
				c.Choices = append(c.Choices, chatChoice{})
				c.Choices[len(c.Choices)-1].scan(s)
			}
		case "usage":
			if s.must(c.Usage == nil); !s.null() {
				c.Usage = new(chatUsage)
				c.Usage.scan(s)
			}
		case "error":
			s.must(s.null())
		default:
			s.skip()
		}
	}
}

func (c *chatChoice) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "delta":
			c.Delta.scan(s)
		case "message":
			c.Message.scan(s)
		case "finish_reason":
			s.maybe(&c.FinishReason)
		default:
			s.skip()
		}
	}
}

func (c *chatSaid) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "content":
			s.maybe(&c.Content)
		case "tool_calls":
			s.must(s.null())
		default:
			s.skip()
		}
	}
}

func (u *chatUsage) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "prompt_tokens":
			s.count(&u.Prompt)
		case "completion_tokens":
			s.count(&u.Completion)
		default:
			s.skip()
		}
	}
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
		r.piece(text)
		return nil
	}
	c, err := readChat(f.data, &r.words)
	if err != nil {
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
	c, err := readChat(b, &r.words)
	if err != nil {
		return fmt.Errorf("a malformed body: %w", err)
	}
	if c.Object != "chat.completion" || len(c.Choices) == 0 {
		return errors.New("not a chat completion")
	}
	c.take(r)
	return nil
}
