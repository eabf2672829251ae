package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

// runGo makes the calls of a plan with the Go SDK.
func runGo(t *testing.T, p plan, saw func(seen)) {
	left := make(chan call, len(p.Calls))
	for _, c := range p.Calls {
		left <- c
	}
	close(left)
	ctx := deadline(t)
	var wg sync.WaitGroup
	for range p.Lanes {
		wg.Go(func() {
			for c := range left {
				saw(makeGo(ctx, c))
			}
		})
	}
	wg.Wait()
}

type goCall struct {
	call
	ctx    context.Context
	client openai.Client
	seen   seen
}

func makeGo(ctx context.Context, c call) seen {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Timeout)*time.Millisecond)
	defer cancel()
	g := &goCall{call: c, ctx: ctx, seen: seen{Check: c.Check},
		client: openai.NewClient(option.WithAPIKey(c.Key), option.WithBaseURL(c.Base), option.WithMaxRetries(0))}
	var err error
	switch c.Do {
	case "list":
		pager := g.client.Models.ListAutoPaging(ctx)
		for pager.Next() {
			g.seen.Models = append(g.seen.Models, pager.Current().ID)
		}
		err = pager.Err()
	case "model":
		var m *openai.Model
		if m, err = g.client.Models.Get(ctx, c.Model); err == nil {
			g.seen.Models = []string{m.ID}
		}
	case "embed":
		err = g.embed()
	default:
		err = g.generate()
	}
	if err != nil {
		g.seen.Error = goFailure(err)
	}
	return g.seen
}

func (g *goCall) embed() error {
	got, err := g.client.Embeddings.New(g.ctx, openai.EmbeddingNewParams{Model: g.Model,
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{g.Prompt, "two"}}})
	if err != nil {
		return err
	}
	for _, e := range got.Data {
		g.seen.Vectors = append(g.seen.Vectors, len(e.Embedding))
	}
	return nil
}

func goFailure(err error) *failure {
	f := &failure{Message: err.Error()}
	var api *openai.Error
	var network net.Error
	var inStream *ssestream.StreamError
	switch {
	case errors.As(err, &api) && api.StatusCode >= 500:
		f.Class, f.Status, f.Code, f.Message = "status 5xx", api.StatusCode, api.Code, api.Message
	case errors.As(err, &api):
		f.Class, f.Status, f.Code, f.Message = fmt.Sprintf("status %d", api.StatusCode), api.StatusCode, api.Code, api.Message
	case errors.Is(err, context.DeadlineExceeded):
		f.Class = "deadline"
	case errors.As(err, &network):
		f.Class = "connection"
	case errors.As(err, &inStream):
		f.Class = "in stream"
	default:
		f.Class = fmt.Sprintf("%T", err)
	}
	return f
}

var weather = openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}, "required": []string{"city"}}

// generate makes one request, and a second with the tool's result when a tool call came.
func (g *goCall) generate() error {
	if g.API == "responses" {
		return g.responses()
	}
	p := openai.ChatCompletionNewParams{Model: g.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(g.Prompt)},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather", Parameters: weather})}}
	if g.Stream && g.Usage {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	one := g.chatWhole
	if g.Stream {
		one = g.chatStream
	}
	said, err := one(p)
	if err != nil || len(said.ToolCalls) == 0 {
		return err
	}
	p.Messages = append(p.Messages, said.ToParam())
	for _, t := range said.ToolCalls {
		g.seen.Tools = append(g.seen.Tools, tool{ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments})
		p.Messages = append(p.Messages, openai.ToolMessage(toolResult, t.ID))
	}
	_, err = one(p)
	return err
}

func (g *goCall) usage(prompt, completion, total int64) {
	g.seen.Usages++
	g.seen.Prompt += int(prompt)
	g.seen.Completion += int(completion)
	g.seen.Total += int(total)
}

func (g *goCall) end(reason string) {
	g.seen.Ended++
	g.seen.Finish = append(g.seen.Finish, reason)
}

func (g *goCall) chatWhole(p openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
	got, err := g.client.Chat.Completions.New(g.ctx, p)
	if err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	g.seen.IDs++
	g.seen.Text += got.Choices[0].Message.Content
	g.end(got.Choices[0].FinishReason)
	if got.JSON.Usage.Valid() {
		g.usage(got.Usage.PromptTokens, got.Usage.CompletionTokens, got.Usage.TotalTokens)
	}
	return got.Choices[0].Message, nil
}

func (g *goCall) chatStream(p openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
	stream := g.client.Chat.Completions.NewStreaming(g.ctx, p)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	ids, over := map[string]bool{}, false
	for stream.Next() {
		chunk := stream.Current()
		ids[chunk.ID] = true
		all.AddChunk(chunk)
		if chunk.JSON.Usage.Valid() {
			g.usage(chunk.Usage.PromptTokens, chunk.Usage.CompletionTokens, chunk.Usage.TotalTokens)
		}
		for _, c := range chunk.Choices {
			if over && (c.Delta.Content != "" || len(c.Delta.ToolCalls) > 0) {
				g.seen.Late++
			}
			g.seen.Text += c.Delta.Content
			if c.FinishReason != "" {
				over = true
				g.end(c.FinishReason)
			}
		}
	}
	g.seen.IDs += len(ids)
	if err := stream.Err(); err != nil || len(all.Choices) == 0 {
		return openai.ChatCompletionMessage{}, err
	}
	return all.Choices[0].Message, nil
}

func (g *goCall) responses() error {
	p := responses.ResponseNewParams{Model: g.Model,
		Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", weather, false)},
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage(g.Prompt, responses.EasyInputMessageRoleUser)}}}
	one := g.responseWhole
	if g.Stream {
		one = g.responseStream
	}
	got, err := one(p)
	if err != nil || got == nil {
		return err
	}
	var tools []tool
	items := p.Input.OfInputItemList
	for _, o := range got.Output {
		if o.Type != "function_call" {
			continue
		}
		f := o.AsFunctionCall()
		tools = append(tools, tool{ID: f.CallID, Name: f.Name, Arguments: f.Arguments})
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(f.Arguments, f.CallID, f.Name),
			functionOutput(f.CallID))
	}
	if len(tools) == 0 {
		return nil
	}
	g.seen.Tools = tools
	p.Input.OfInputItemList = items
	_, err = one(p)
	return err
}

func functionOutput(id string) responses.ResponseInputItemUnionParam {
	item := responses.ResponseInputItemParamOfFunctionCallOutput(toolResult)
	item.OfFunctionCallOutput.CallID = param.NewOpt(id)
	return item
}

func (g *goCall) responseUsage(r *responses.Response) {
	if r.JSON.Usage.Valid() {
		g.usage(r.Usage.InputTokens, r.Usage.OutputTokens, r.Usage.TotalTokens)
	}
}

func (g *goCall) responseWhole(p responses.ResponseNewParams) (*responses.Response, error) {
	got, err := g.client.Responses.New(g.ctx, p)
	if err != nil {
		return nil, err
	}
	g.seen.IDs++
	g.seen.Text += got.OutputText()
	g.end(string(got.Status))
	g.responseUsage(got)
	return got, nil
}

func (g *goCall) responseStream(p responses.ResponseNewParams) (*responses.Response, error) {
	stream := g.client.Responses.NewStreaming(g.ctx, p)
	defer stream.Close()
	var last *responses.Response
	ids := map[string]bool{}
	for stream.Next() {
		event := stream.Current()
		if last != nil {
			g.seen.Late++
		}
		if event.Response.ID != "" {
			ids[event.Response.ID] = true
		}
		switch event.Type {
		case "response.output_text.delta":
			g.seen.Text += event.Delta
		case "response.completed", "response.incomplete", "response.failed":
			r := event.Response
			last = &r
			g.end(string(r.Status))
		}
	}
	g.seen.IDs += len(ids)
	if err := stream.Err(); err != nil || last == nil {
		return nil, err
	}
	if last.Status == responses.ResponseStatusFailed {
		g.seen.Error = &failure{Class: "response.failed", Code: string(last.Error.Code), Message: last.Error.Message}
		return nil, nil
	}
	g.responseUsage(last)
	return last, nil
}
