package client

import (
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
	ID     string           `json:"id"`
	Object string           `json:"object"`
	Status string           `json:"status"`
	Model  string           `json:"model"`
	Error  *chatError       `json:"error"`
	Output []responseOutput `json:"output"`
	Usage  *tokenUsage      `json:"usage"`
}

type responseOutput struct {
	Type      string         `json:"type"`
	Arguments string         `json:"arguments"`
	Content   []responsePart `json:"content"`
}

type responsePart struct {
	Text string `json:"text"`
}

func readResponse(b []byte, w *words) (body responseBody, err error) {
	s := scan{b: b, words: w}
	if body.scan(&s); !s.whole() {
		return decode[responseBody](b)
	}
	return body, nil
}

func (b *responseBody) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "id":
			s.word(&b.ID)
		case "object":
			s.word(&b.Object)
		case "status":
			s.word(&b.Status)
		case "model":
			s.word(&b.Model)
		case "error":
			s.must(s.null())
		case "output":
			s.must(b.Output == nil)
			b.Output = make([]responseOutput, 0, 1)
			for s.open('['); s.more(']'); {
				b.Output = append(b.Output, responseOutput{})
				b.Output[len(b.Output)-1].scan(s)
			}
		case "usage":
			if s.must(b.Usage == nil); !s.null() {
				b.Usage = new(tokenUsage)
				b.Usage.scan(s)
			}
		default:
			s.skip()
		}
	}
}

func (o *responseOutput) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "type":
			s.word(&o.Type)
		case "arguments":
			s.plain(&o.Arguments)
		case "content":
			s.must(o.Content == nil)
			o.Content = make([]responsePart, 0, 1)
			for s.open('['); s.more(']'); {
				o.Content = append(o.Content, responsePart{})
				o.Content[len(o.Content)-1].scan(s)
			}
		default:
			s.skip()
		}
	}
}

func (p *responsePart) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		if string(s.name()) == "text" {
			s.plain(&p.Text)
		} else {
			s.skip()
		}
	}
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

type responseEvent struct {
	Type     string        `json:"type"`
	Sequence *int          `json:"sequence_number"`
	Delta    string        `json:"delta"`
	Response *responseBody `json:"response"`
	Message  string        `json:"message"`
	Code     any           `json:"code"`
	Error    *chatError    `json:"error"`
}

func readResponseEvent(b []byte, w *words) (e responseEvent, err error) {
	s := scan{b: b, words: w}
	if e.scan(&s); !s.whole() {
		return decode[responseEvent](b)
	}
	return e, nil
}

func (e *responseEvent) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch string(s.name()) {
		case "type":
			s.word(&e.Type)
		case "sequence_number":
			s.maybeCount(&e.Sequence)
		case "delta":
			s.plain(&e.Delta)
		case "response":
			if s.must(e.Response == nil); !s.null() {
				e.Response = new(responseBody)
				e.Response.scan(s)
			}
		case "message":
			s.plain(&e.Message)
		case "code", "error":
			s.must(s.null())
		default:
			s.skip()
		}
	}
}

func (responses) event(r *reading, f frame) error {
	if string(f.data) == "[DONE]" && (r.terminal > 0 || r.failed) && !r.closed {
		r.closed = true // some services close responses like chat completions; the SDKs take it
		return nil
	}
	e, err := readResponseEvent(f.data, &r.words)
	if err != nil {
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
	body, err := readResponse(b, &r.words)
	if err != nil {
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
