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
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text string `json:"text"`
				Call *struct {
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	Model string `json:"modelVersion"`
	Usage *struct {
		Prompt int `json:"promptTokenCount"`
		Output int `json:"candidatesTokenCount"`
	} `json:"usageMetadata"`
	Error json.RawMessage `json:"error"`
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
	var g geminiBody
	if err := json.Unmarshal(f.data, &g); err != nil {
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
	var g geminiBody
	if err := json.Unmarshal(b, &g); err != nil {
		return fmt.Errorf("a malformed body: %w", err)
	}
	if len(g.Candidates) == 0 {
		return errors.New("an answer without candidates")
	}
	g.take(r)
	return nil
}
