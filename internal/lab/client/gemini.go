package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// gemini is Google's generateContent.
type gemini struct{}

func (gemini) path(q Request) string {
	if q.Stream {
		return "/v1beta/models/" + q.Model + ":streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + q.Model + ":generateContent"
}

func (gemini) auth(h http.Header, key string) {
	if key != "" {
		h.Set("x-goog-api-key", key)
	}
}

func (gemini) body(q Request) any {
	m := map[string]any{"contents": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": q.Prompt}}}}}
	if q.MaxTokens > 0 {
		m["generationConfig"] = map[string]any{"maxOutputTokens": q.MaxTokens}
	}
	return m
}

func (gemini) failure(r *reading, b []byte) bool {
	var in struct {
		Error *struct {
			Code    int    `json:"code"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(b, &in) != nil || in.Error == nil || in.Error.Message == "" || in.Error.Code == 0 {
		return false
	}
	r.fail(in.Error.Status, fmt.Sprint(in.Error.Code), in.Error.Message)
	return true
}

type geminiBody struct {
	Candidates []geminiCandidate `json:"candidates"`
	Model      string            `json:"modelVersion"`
	Usage      *geminiUsage      `json:"usageMetadata"`
	Error      json.RawMessage   `json:"error"`
}

type geminiCandidate struct {
	Content      geminiContent `json:"content"`
	FinishReason string        `json:"finishReason"`
}

type geminiContent struct {
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text string      `json:"text"`
	Call *geminiCall `json:"functionCall"`
}

type geminiCall struct {
	Args json.RawMessage `json:"args"`
}

type geminiUsage struct {
	Prompt int `json:"promptTokenCount"`
	Output int `json:"candidatesTokenCount"`
}

func readGemini(b []byte, w *words) (g geminiBody, err error) {
	s := scan{b: b, words: w}
	if g.scan(&s); !s.whole() {
		return decode[geminiBody](b)
	}
	return g, nil
}

func (g *geminiBody) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch name := s.mixed(); string(name) {
		case "candidates":
			s.must(g.Candidates == nil)
			g.Candidates = make([]geminiCandidate, 0, 1)
			for s.open('['); s.more(']'); {
				g.Candidates = append(g.Candidates, geminiCandidate{})
				g.Candidates[len(g.Candidates)-1].scan(s)
			}
		case "modelVersion":
			s.word(&g.Model)
		case "usageMetadata":
			if s.must(g.Usage == nil); !s.null() {
				g.Usage = new(geminiUsage)
				g.Usage.scan(s)
			}
		default:
			s.other(name, "candidates", "modelVersion", "usageMetadata", "error")
		}
	}
}

func (c *geminiCandidate) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch name := s.mixed(); string(name) {
		case "content":
			c.Content.scan(s)
		case "finishReason":
			s.word(&c.FinishReason)
		default:
			s.other(name, "content", "finishReason")
		}
	}
}

func (c *geminiContent) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch name := s.mixed(); string(name) {
		case "parts":
			s.must(c.Parts == nil)
			c.Parts = make([]geminiPart, 0, 1)
			for s.open('['); s.more(']'); {
				c.Parts = append(c.Parts, geminiPart{})
				c.Parts[len(c.Parts)-1].scan(s)
			}
		default:
			s.other(name, "parts")
		}
	}
}

func (p *geminiPart) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch name := s.mixed(); string(name) {
		case "text":
			s.plain(&p.Text)
		default:
			s.other(name, "text", "functionCall")
		}
	}
}

func (u *geminiUsage) scan(s *scan) {
	for s.open('{'); s.more('}'); {
		switch name := s.mixed(); string(name) {
		case "promptTokenCount":
			s.count(&u.Prompt)
		case "candidatesTokenCount":
			s.count(&u.Output)
		default:
			s.other(name, "promptTokenCount", "candidatesTokenCount")
		}
	}
}

func (g *geminiBody) take(r *reading) {
	if g.Model != "" {
		r.Model = g.Model
	}
	finished := false
	for _, c := range g.Candidates {
		for _, p := range c.Content.Parts {
			if p.Call != nil {
				r.Tool += string(p.Call.Args)
				r.mark()
			}
			if p.Text != "" {
				r.content(p.Text)
			}
		}
		if c.FinishReason != "" {
			finished = true
			r.ended(c.FinishReason)
		}
	}
	if g.Usage != nil && finished {
		r.Usage = Usage{Input: g.Usage.Prompt, Output: g.Usage.Output, Reports: r.Usage.Reports + 1}
	}
}

func (gemini) event(r *reading, f frame) error {
	g, err := readGemini(f.data, &r.words)
	if err != nil {
		return fmt.Errorf("a malformed event: %w", err)
	}
	if r.failed {
		return errors.New("an event behind the error")
	}
	if len(g.Error) > 0 {
		if !(gemini{}).failure(r, f.data) {
			return errors.New("an error frame without code or message")
		}
		return nil
	}
	seen, ended := r.ContentSeen, r.terminal > 0
	g.take(r)
	if ended && r.ContentSeen > seen {
		return errors.New("content behind the finish reason")
	}
	return nil
}

func (gemini) whole(r *reading, b []byte) error {
	g, err := readGemini(b, &r.words)
	if err != nil {
		return fmt.Errorf("a malformed body: %w", err)
	}
	if len(g.Candidates) == 0 {
		return errors.New("an answer without candidates")
	}
	g.take(r)
	return nil
}
