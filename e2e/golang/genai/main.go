// Command genai makes the calls of a plan with the Google Gen AI SDK and reports what it saw, one JSON line per call. It
// judges nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"google.golang.org/genai"

	"spillway/e2e/golang/frame"
)

func main() {
	frame.Run(do, func(err error) *frame.Failure {
		var api genai.APIError
		if !errors.As(err, &api) {
			return nil
		}
		return frame.Status(api.Code, api.Status, api.Message)
	})
}

type session struct {
	ctx    context.Context
	client *genai.Client
	call   frame.Call
	seen   *frame.Seen
}

func do(ctx context.Context, c frame.Call, seen *frame.Seen) error {
	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: c.Key, Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: c.Base}})
	if err != nil {
		return err
	}
	s := &session{ctx: ctx, client: client, call: c, seen: seen}
	switch c.Do {
	case "list":
		for m, err := range client.Models.All(ctx) {
			if err != nil {
				return err
			}
			seen.Models = append(seen.Models, strings.TrimPrefix(m.Name, "models/"))
		}
		return nil
	case "model":
		m, err := client.Models.Get(ctx, c.Model, nil)
		if err == nil {
			seen.Models = []string{strings.TrimPrefix(m.Name, "models/")}
		}
		return err
	case "count":
		n, err := client.Models.CountTokens(ctx, c.Model, genai.Text(c.Prompt), nil)
		if err == nil {
			seen.Prompt = int64(n.TotalTokens)
		}
		return err
	case "embed":
		got, err := client.Models.EmbedContent(ctx, c.Model, append(genai.Text(c.Prompt), genai.Text("two")...), nil)
		if err == nil {
			for _, e := range got.Embeddings {
				seen.Vectors = append(seen.Vectors, len(e.Values))
			}
		}
		return err
	}
	return s.generate()
}

func (s *session) generate() error {
	contents := genai.Text(s.call.Prompt)
	said, err := s.one(contents)
	if err != nil {
		return err
	}
	var results []*genai.Part
	for _, p := range said {
		f := p.FunctionCall
		if f == nil {
			continue
		}
		args, err := json.Marshal(f.Args)
		if err != nil {
			return err
		}
		s.seen.Tools = append(s.seen.Tools, frame.Tool{ID: f.ID, Name: f.Name, Arguments: string(args)})
		results = append(results, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: f.ID, Name: f.Name, Response: frame.ToolResult()}})
	}
	if len(results) == 0 {
		return nil
	}
	_, err = s.one(append(contents, genai.NewContentFromParts(said, genai.RoleModel), genai.NewContentFromParts(results, genai.RoleUser)))
	return err
}

func (s *session) answers(contents []*genai.Content) iter.Seq2[*genai.GenerateContentResponse, error] {
	cfg := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
		{Name: "weather", Description: "The weather in a city", ParametersJsonSchema: frame.Weather}}}}}
	if s.call.Stream {
		return s.client.Models.GenerateContentStream(s.ctx, s.call.Model, contents, cfg)
	}
	return func(yield func(*genai.GenerateContentResponse, error) bool) {
		yield(s.client.Models.GenerateContent(s.ctx, s.call.Model, contents, cfg))
	}
}

func (s *session) one(contents []*genai.Content) ([]*genai.Part, error) {
	var said []*genai.Part
	var usage *genai.GenerateContentResponseUsageMetadata
	ids, over := map[string]bool{}, false
	for got, err := range s.answers(contents) {
		if err != nil {
			return nil, err
		}
		if got.ResponseID != "" {
			ids[got.ResponseID] = true
		}
		if got.UsageMetadata != nil {
			usage = got.UsageMetadata
		}
		for _, c := range got.Candidates {
			if c.Content != nil {
				said = append(said, s.parts(c.Content.Parts, over)...)
			}
			if c.FinishReason != "" {
				over = true
				s.seen.End(string(c.FinishReason))
			}
		}
	}
	s.seen.IDs += len(ids)
	if usage != nil {
		s.seen.Tally(int64(usage.PromptTokenCount), int64(usage.CandidatesTokenCount), int64(usage.TotalTokenCount))
	}
	return said, nil
}

func (s *session) parts(list []*genai.Part, over bool) []*genai.Part {
	var said []*genai.Part
	for _, p := range list {
		if p.Text == "" && p.FunctionCall == nil {
			continue
		}
		if over {
			s.seen.Late++
		}
		s.seen.Text += p.Text
		said = append(said, p)
	}
	return said
}
