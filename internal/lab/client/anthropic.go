package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// messages is Anthropic messages.
type messages struct{}

func (messages) path(Request) string { return "/v1/messages" }
func (messages) auth(h http.Header, key string) {
	h.Set("anthropic-version", "2023-06-01")
	if key != "" {
		h.Set("x-api-key", key)
	}
}

func (messages) body(q Request) any {
	if q.MaxTokens == 0 {
		q.MaxTokens = 1024
	}
	return &chatAsk{MaxTokens: q.MaxTokens, Messages: [1]turn{{q.Prompt, "user"}}, Model: q.Model, Stream: q.Stream}
}

type messagesError struct {
	Type  string `json:"type"`
	Error *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    any    `json:"code"`
	} `json:"error"`
}

func (e messagesError) take(r *reading) bool {
	if e.Type != "error" || e.Error == nil || e.Error.Type == "" || e.Error.Message == "" {
		return false
	}
	r.fail(e.Error.Type, text(e.Error.Code), e.Error.Message)
	return true
}

func (messages) failure(r *reading, b []byte) bool {
	var in messagesError
	return json.Unmarshal(b, &in) == nil && in.take(r)
}

type tokenUsage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

func (u *tokenUsage) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "input_tokens":
			s.count(&u.Input)
		case "output_tokens":
			s.count(&u.Output)
		default:
			s.skip()
		}
	}
}

type messagesEvent struct {
	Type    string         `json:"type"`
	Index   int            `json:"index"`
	Message *messagesStart `json:"message"`
	Delta   messagesDelta  `json:"delta"`
	Usage   *tokenUsage    `json:"usage"`
}

type messagesStart struct {
	Model string     `json:"model"`
	Usage tokenUsage `json:"usage"`
}

type messagesDelta struct {
	Type        string  `json:"type"`
	Text        string  `json:"text"`
	PartialJSON string  `json:"partial_json"`
	StopReason  *string `json:"stop_reason"`
}

func readMessagesEvent(b []byte, w *words) (e messagesEvent, err error) {
	s := scan{b: b, words: w}
	if e.scan(&s); !s.whole() {
		return decode[messagesEvent](b)
	}
	return e, nil
}

func (e *messagesEvent) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "type":
			s.word(&e.Type)
		case "index":
			s.count(&e.Index)
		case "message":
			if s.must(e.Message == nil); !s.null() {
				e.Message = new(messagesStart)
				e.Message.scan(s)
			}
		case "delta":
			e.Delta.scan(s)
		case "usage":
			if s.must(e.Usage == nil); !s.null() {
				e.Usage = new(tokenUsage)
				e.Usage.scan(s)
			}
		default:
			s.skip()
		}
	}
}

func (m *messagesStart) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "model":
			s.word(&m.Model)
		case "usage":
			m.Usage.scan(s)
		default:
			s.skip()
		}
	}
}

func (d *messagesDelta) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "type":
			s.word(&d.Type)
		case "text":
			s.plain(&d.Text)
		case "partial_json":
			s.plain(&d.PartialJSON)
		case "stop_reason":
			s.maybe(&d.StopReason)
		default:
			s.skip()
		}
	}
}

func (messages) event(r *reading, f frame) error {
	e, err := readMessagesEvent(f.data, &r.words)
	if err != nil {
		return fmt.Errorf("a malformed event: %w", err)
	}
	if e.Type == "" {
		return errors.New("an event without a type")
	}
	if f.name != e.Type {
		return fmt.Errorf("event %q carries type %q", f.name, e.Type)
	}
	if (r.terminal > 0 || r.failed) && e.Type != "ping" {
		return fmt.Errorf("event %s behind the end", e.Type)
	}
	if e.Type != "message_start" && e.Type != "ping" && e.Type != "error" && r.seq == 0 {
		return fmt.Errorf("event %s before message_start", e.Type)
	}
	switch e.Type {
	case "error":
		if !(messages{}).failure(r, f.data) {
			return errors.New("an error event without type or message")
		}
	case "message_start":
		if e.Message == nil || r.seq > 0 {
			return errors.New("a second message_start, or one without a message")
		}
		r.seq = 1
		r.Model, r.Usage.Input = e.Message.Model, e.Message.Usage.Input
	case "content_block_start":
		if r.block != 0 {
			return errors.New("two content blocks open at once")
		}
		r.block = e.Index + 1
	case "content_block_stop":
		if r.block != e.Index+1 {
			return errors.New("a content block is closed that is not open")
		}
		r.block = 0
	case "content_block_delta":
		return e.delta(r)
	case "message_delta":
		e.close(r)
	case "message_stop":
		if r.block != 0 {
			return errors.New("message_stop while a content block is open")
		}
		r.ended(r.Finish)
	}
	return nil
}

func (e *messagesEvent) delta(r *reading) error {
	if r.block != e.Index+1 {
		return errors.New("a delta for a content block that is not open")
	}
	switch e.Delta.Type {
	case "text_delta":
		if e.Delta.Text != "" {
			r.content(e.Delta.Text)
		}
	case "input_json_delta":
		r.Tool += e.Delta.PartialJSON
		r.mark()
	}
	return nil
}

func (e *messagesEvent) close(r *reading) {
	if e.Delta.StopReason != nil {
		r.Finish = *e.Delta.StopReason
	}
	if e.Usage != nil {
		r.Usage.Output = e.Usage.Output
		r.Usage.Reports++
		if e.Usage.Input > 0 {
			r.Usage.Input = e.Usage.Input
		}
	}
}

type messagesBody struct {
	Type       string          `json:"type"`
	Model      string          `json:"model"`
	Content    []messagesBlock `json:"content"`
	StopReason *string         `json:"stop_reason"`
	Usage      tokenUsage      `json:"usage"`
}

type messagesBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Input json.RawMessage `json:"input"`
}

func readMessages(b []byte, w *words) (m messagesBody, err error) {
	s := scan{b: b, words: w}
	if m.scan(&s); !s.whole() {
		return decode[messagesBody](b)
	}
	return m, nil
}

func (m *messagesBody) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "type":
			s.word(&m.Type)
		case "model":
			s.word(&m.Model)
		case "content":
			s.must(m.Content == nil)
			m.Content = make([]messagesBlock, 0, 1)
			for s.open('['); s.more(']'); {
				m.Content = append(m.Content, messagesBlock{})
				m.Content[len(m.Content)-1].scan(s)
			}
		case "stop_reason":
			s.maybe(&m.StopReason)
		case "usage":
			m.Usage.scan(s)
		default:
			s.skip()
		}
	}
}

func (c *messagesBlock) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "type":
			s.word(&c.Type)
		case "text":
			s.plain(&c.Text)
		case "input":
			s.must(false) // a tool call
		default:
			s.skip()
		}
	}
}

func (messages) whole(r *reading, b []byte) error {
	in, err := readMessages(b, &r.words)
	if err != nil {
		return fmt.Errorf("a malformed body: %w", err)
	}
	if in.Type != "message" {
		return errors.New("not a message")
	}
	r.Model, r.Usage = in.Model, Usage{Input: in.Usage.Input, Output: in.Usage.Output, Reports: 1}
	for _, c := range in.Content {
		r.Tool += string(c.Input)
		r.content(c.Text)
	}
	if in.StopReason != nil {
		r.ended(*in.StopReason)
	}
	return nil
}
