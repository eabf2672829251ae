// Package wire answers one question: what does a provider of each of the four protocols write on the wire? It reads
// the requests that a fake upstream gets and builds the answers, event by event, as the real ones are shaped, so that
// the public SDKs parse them. It is keyed by the protocol. It never decides to fail and never touches a socket.
package wire

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"spillway/internal/gateway"
	"spillway/internal/protocol/jsonscan"
)

// Op is what a request asks for.
type Op uint8

// The operations.
const (
	Generate Op = iota + 1
	CountTokens
	Embed
	EmbedBatch // Gemini's batchEmbedContents
	ListModels
	GetModel
	Complete // legacy completions
	Moderate
	Rerank
	Image // made, edited or varied
	Speak
	Transcribe // or translate
	Compact    // responses/compact
)

// Call is a request to a fake upstream, read.
type Call struct {
	Op       Op
	Protocol gateway.Protocol
	Model    string
	Stream   bool
	JSONList bool // Gemini without alt=sse: the stream is one JSON array

	Prompt       string // the last text of the user
	Prefill      string // text of a trailing assistant message
	HasPrefill   bool
	Tools        []Tool
	ToolForced   bool // tool_choice demands a call
	ToolBarred   bool // tool_choice forbids one
	Reasons      bool // reasoning is asked for (responses)
	ToolResult   bool // the last message is a tool's result
	IncludeUsage bool
	MaxTokens    int // 0 = not given
	InputTokens  int // of the whole body, estimated
	Inputs       []string
	Base64       bool   // embeddings as base64
	Form         string // content type of a body that is a form; "" = JSON

	Echo map[string]json.RawMessage // members of a responses request that its answer repeats
}

// Completes reports whether the answer is a text in tokens.
func (c *Call) Completes() bool { return c.Op == Generate || c.Op == Complete }

// Tool is a tool that the client offers.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
	Strict      bool
}

// ErrNotFound says that no operation lives at a path.
var ErrNotFound = errors.New("no such path")

// Route finds out what a path asks for. Anything may stand before the known end of the path, so one source can be
// given with any prefix.
func Route(method, path string, query url.Values, anthropicHeader bool) (Call, error) {
	p := strings.TrimSuffix(path, "/")
	last := p[strings.LastIndexByte(p, '/')+1:]
	if method == "GET" || method == "HEAD" {
		return routeList(p, last, anthropicHeader)
	}
	if method != "POST" {
		return Call{}, ErrNotFound
	}
	if _, after, ok := strings.Cut(p, "/models/"); ok {
		return routeGemini(after, query)
	}
	switch {
	case strings.HasSuffix(p, "/chat/completions"):
		return Call{Op: Generate, Protocol: gateway.OpenAI}, nil
	case strings.HasSuffix(p, "/messages/count_tokens"):
		return Call{Op: CountTokens, Protocol: gateway.Anthropic}, nil
	case last == "responses":
		return Call{Op: Generate, Protocol: gateway.Responses}, nil
	case strings.HasSuffix(p, "/responses/compact"):
		return Call{Op: Compact, Protocol: gateway.Responses}, nil
	case last == "messages":
		return Call{Op: Generate, Protocol: gateway.Anthropic}, nil
	}
	for path, op := range others {
		if strings.HasSuffix(p, path) {
			return Call{Op: op, Protocol: gateway.OpenAI}, nil
		}
	}
	return Call{}, ErrNotFound
}

func routeList(p, last string, anthropic bool) (Call, error) {
	c := Call{Op: ListModels, Protocol: gateway.OpenAI}
	if anthropic {
		c.Protocol = gateway.Anthropic
	}
	if strings.Contains(p, "/v1beta/") {
		c.Protocol = gateway.Gemini
	}
	if last == "models" {
		return c, nil
	}
	if _, after, ok := strings.Cut(p, "/models/"); ok {
		c.Op, c.Model = GetModel, after
		return c, nil
	}
	return c, ErrNotFound
}

func routeGemini(rest string, query url.Values) (Call, error) {
	model, verb, ok := strings.Cut(rest, ":")
	if !ok {
		return Call{}, ErrNotFound
	}
	c := Call{Protocol: gateway.Gemini, Model: model}
	switch verb {
	case "generateContent":
		c.Op = Generate
	case "streamGenerateContent":
		c.Op, c.Stream, c.JSONList = Generate, true, query.Get("alt") != "sse"
	case "countTokens":
		c.Op = CountTokens
	case "embedContent":
		c.Op = Embed
	case "batchEmbedContents":
		c.Op = EmbedBatch
	default:
		return Call{}, ErrNotFound
	}
	return c, nil
}

// Decode reads the body into the call. An error is the client's fault (400).
func (c *Call) Decode(body []byte) error {
	c.InputTokens = len(body)/4 + 1
	var err error
	switch {
	case c.Op == ListModels || c.Op == GetModel:
		return nil
	case c.Protocol == gateway.Gemini:
		err = c.decodeGemini(body)
	case c.Op == Embed:
		err = c.decodeEmbed(body)
	case c.Op >= Complete && c.Op != Compact:
		err = c.decodeOther(body)
	case c.Protocol == gateway.Responses:
		err = c.decodeResponses(body)
	default:
		err = c.decodeChat(body)
	}
	if err == nil && c.Model == "" {
		err = errors.New("you must provide a model parameter")
	}
	return err
}

// message is a turn of any of the three JSON APIs that have messages.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// turn reads prompt, prefill and tool result out of the next message. Only the last one can be a prefill or a result.
func (c *Call) turn(m message) {
	text, result := contentText(m.Content)
	c.ToolResult, c.Prefill, c.HasPrefill = false, "", false
	switch {
	case m.Role == "tool" || m.Type == "function_call_output" || result:
		c.ToolResult = true
	case m.Role == "user":
		c.Prompt = text
	case m.Role == "assistant" || m.Role == "model":
		c.Prefill, c.HasPrefill = text, true
	}
}

// contentText joins the text of a content that is a string or a list of parts.
func contentText(raw json.RawMessage) (text string, toolResult bool) {
	if len(raw) > 1 && raw[0] == '"' {
		return jsonscan.Unquote(raw[1 : len(raw)-1]), false
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
		toolResult = toolResult || p.Type == "tool_result"
	}
	return b.String(), toolResult
}

type toolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Strict      bool            `json:"strict"`
	Parameters  json.RawMessage `json:"parameters"`
	InputSchema json.RawMessage `json:"input_schema"`
	JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
	SnakeSchema json.RawMessage `json:"parameters_json_schema"` // as Google's SDK for Python writes it
	Function    *toolSpec       `json:"function"`
}

func (c *Call) offer(specs []toolSpec) {
	for _, s := range specs {
		if s.Function != nil {
			s = *s.Function
		}
		if s.Name == "" {
			continue
		}
		t := Tool{Name: s.Name, Description: s.Description, Strict: s.Strict}
		for _, schema := range []json.RawMessage{s.Parameters, s.InputSchema, s.JSONSchema, s.SnakeSchema} {
			if len(schema) > 0 {
				t.Schema = schema
			}
		}
		c.Tools = append(c.Tools, t)
	}
}

func (c *Call) decodeResponses(body []byte) error {
	var in struct {
		Model     string          `json:"model"`
		Stream    bool            `json:"stream"`
		Input     json.RawMessage `json:"input"`
		Tools     []toolSpec      `json:"tools"`
		Choice    any             `json:"tool_choice"`
		MaxTokens int             `json:"max_output_tokens"`
		Reasoning *struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	if err := json.Unmarshal(body, &c.Echo); err != nil {
		return err
	}
	c.Model, c.Stream, c.MaxTokens = in.Model, in.Stream, in.MaxTokens
	c.Reasons = in.Reasoning != nil && in.Reasoning.Effort != "none"
	c.offer(in.Tools)
	c.choose(in.Choice)
	var items []message
	if json.Unmarshal(in.Input, &c.Prompt) == nil {
		return nil
	}
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return errors.New("input: must be a string or a list of items")
	}
	for _, m := range items {
		c.turn(m)
	}
	return nil
}

type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text             string          `json:"text"`
		FunctionResponse json.RawMessage `json:"functionResponse"`
		SnakeResponse    json.RawMessage `json:"function_response"`
	} `json:"parts"`
}

func (g geminiContent) text() (text string, result bool) {
	var b strings.Builder
	for _, p := range g.Parts {
		b.WriteString(p.Text)
		result = result || len(p.FunctionResponse) > 0 || len(p.SnakeResponse) > 0
	}
	return b.String(), result
}

func (c *Call) decodeGemini(body []byte) error {
	var in struct {
		Contents []geminiContent `json:"contents"`
		Content  geminiContent   `json:"content"`
		Requests []struct {
			Content geminiContent `json:"content"`
		} `json:"requests"`
		Tools []struct {
			Declarations []toolSpec `json:"functionDeclarations"`
			Snake        []toolSpec `json:"function_declarations"` // LiteLLM writes it so; the API takes both
		} `json:"tools"`
		Config struct {
			MaxTokens int `json:"maxOutputTokens"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	c.MaxTokens = in.Config.MaxTokens
	for _, t := range in.Tools {
		c.offer(t.Declarations)
		c.offer(t.Snake)
	}
	for i, m := range in.Contents {
		text, result := m.text()
		switch final := i == len(in.Contents)-1; {
		case result:
			c.ToolResult = final
		case m.Role == "user" || m.Role == "":
			c.Prompt = text
		case final:
			c.Prefill, c.HasPrefill = text, true
		}
	}
	if c.Op == Embed {
		text, _ := in.Content.text()
		c.Inputs = []string{text}
	}
	for _, r := range in.Requests {
		text, _ := r.Content.text()
		c.Inputs = append(c.Inputs, text)
	}
	if c.Op == Generate && len(in.Contents) == 0 {
		return errors.New("contents is not specified")
	}
	return nil
}

func (c *Call) decodeEmbed(body []byte) error {
	var in struct {
		Model  string          `json:"model"`
		Input  json.RawMessage `json:"input"`
		Format string          `json:"encoding_format"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	c.Model, c.Base64 = in.Model, in.Format == "base64"
	var one string
	if json.Unmarshal(in.Input, &one) == nil {
		c.Inputs = []string{one}
		return nil
	}
	if json.Unmarshal(in.Input, &c.Inputs) == nil {
		return nil
	}
	var tokens [][]int // token lists are embedded by their JSON text
	if json.Unmarshal(in.Input, &tokens) == nil {
		for _, t := range tokens {
			b, _ := json.Marshal(t)
			c.Inputs = append(c.Inputs, string(b))
		}
		return nil
	}
	c.Inputs = []string{string(in.Input)}
	return nil
}
