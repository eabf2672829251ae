// Command anthropic2 makes the calls of a plan with generation 2 of the Anthropic SDK and reports what it saw, one JSON
// line per call. It judges nothing.
package main

import (
	"context"
	"errors"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"spillway/e2e/golang/frame"
)

func main() {
	frame.Run(do, func(err error) *frame.Failure {
		var api *anthropic.Error
		if !errors.As(err, &api) {
			return nil
		}
		return frame.Status(api.StatusCode, string(api.Type()), api.Error())
	})
}

type session struct {
	ctx    context.Context
	client anthropic.Client
	call   frame.Call
	seen   *frame.Seen
}

func do(ctx context.Context, c frame.Call, seen *frame.Seen) error {
	s := &session{ctx: ctx, call: c, seen: seen,
		client: anthropic.NewClient(option.WithAPIKey(c.Key), option.WithBaseURL(c.Base), option.WithMaxRetries(0))}
	switch c.Do {
	case "list":
		pager := s.client.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
		for pager.Next() {
			seen.Models = append(seen.Models, string(pager.Current().ID))
		}
		return pager.Err()
	case "model":
		m, err := s.client.Models.Get(ctx, c.Model, anthropic.ModelGetParams{})
		if err == nil {
			seen.Models = []string{string(m.ID)}
		}
		return err
	case "count":
		n, err := s.client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: anthropic.Model(c.Model),
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(c.Prompt))}})
		if err == nil {
			seen.Prompt = n.InputTokens
		}
		return err
	}
	return s.generate()
}

func (s *session) generate() error {
	p := anthropic.MessageNewParams{Model: anthropic.Model(s.call.Model), MaxTokens: 1000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(s.call.Prompt))},
		Tools: []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: frame.Weather["properties"], Required: []string{"city"}}, "weather")}}
	one := s.whole
	if s.call.Stream {
		one = s.stream
	}
	said, err := one(p)
	if err != nil {
		return err
	}
	var uses, results []anthropic.ContentBlockParamUnion
	for _, b := range said.Content {
		if b.Type == "tool_use" {
			s.seen.Tools = append(s.seen.Tools, frame.Tool{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
			uses = append(uses, anthropic.NewToolUseBlock(b.ID, b.Input, b.Name))
			results = append(results, anthropic.NewToolResultBlock(b.ID, frame.ToolText, false))
		}
	}
	if len(uses) == 0 {
		return nil
	}
	p.Messages = append(p.Messages, anthropic.NewAssistantMessage(uses...), anthropic.NewUserMessage(results...))
	_, err = one(p)
	return err
}

func (s *session) whole(p anthropic.MessageNewParams) (*anthropic.Message, error) {
	got, err := s.client.Messages.New(s.ctx, p)
	if err != nil {
		return nil, err
	}
	for _, b := range got.Content {
		if b.Type == "text" {
			s.seen.Text += b.Text
		}
	}
	s.seen.IDs++
	s.seen.End(string(got.StopReason))
	s.seen.Tally(got.Usage.InputTokens, got.Usage.OutputTokens, got.Usage.InputTokens+got.Usage.OutputTokens)
	return got, nil
}

func (s *session) stream(p anthropic.MessageNewParams) (*anthropic.Message, error) {
	stream := s.client.Messages.NewStreaming(s.ctx, p)
	defer stream.Close()
	var all anthropic.Message
	ids, over := map[string]bool{}, false
	for stream.Next() {
		event := stream.Current()
		if err := all.Accumulate(event); err != nil {
			return nil, err
		}
		if over {
			s.seen.Late++
		}
		switch event.Type {
		case "message_start":
			ids[event.Message.ID] = true
		case "content_block_delta":
			s.seen.Text += event.Delta.Text
		case "message_delta":
			s.seen.Finish = append(s.seen.Finish, string(event.Delta.StopReason))
			s.seen.Tally(event.Usage.InputTokens, event.Usage.OutputTokens, event.Usage.InputTokens+event.Usage.OutputTokens)
		case "message_stop":
			over = true
			s.seen.Ended++
		}
	}
	s.seen.IDs += len(ids)
	return &all, stream.Err()
}
