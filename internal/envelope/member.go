package envelope

import (
	"bytes"
	"encoding/json"
	"strconv"

	"spillway/internal/gateway"
)

// The top-level members that routing looks at; everything else is passed on unread.
const (
	mModel = iota
	mStream
	mStreamOptions
	mMaxTokens
	mMaxCompletionTokens
	mMaxOutputTokens
	mTemperature
	mTools
	mResponseFormat
	mReasoningEffort
	mReasoning
	mThinking
	mGenerationConfig
	mPreviousResponse
	mConversation
	mText
	mMessages
	mInput
	mContents
	mSystem
	mSystemInstruction
	mSystemInstructionSnake
	mInstructions
	mStore
	mCacheKey
	mMetadata
	mClientMetadata
	mSessionID
	mConversationID
	mThreadID
	mContainer
	mCachedContent
	mCachedContentSnake
	mBackground
)

var known = map[string]int{
	"model": mModel, "stream": mStream, "stream_options": mStreamOptions, "max_tokens": mMaxTokens,
	"max_completion_tokens": mMaxCompletionTokens, "max_output_tokens": mMaxOutputTokens,
	"temperature": mTemperature, "tools": mTools, "response_format": mResponseFormat,
	"reasoning_effort": mReasoningEffort, "reasoning": mReasoning, "thinking": mThinking,
	"generationConfig": mGenerationConfig, "previous_response_id": mPreviousResponse, "conversation": mConversation,
	"text": mText, "messages": mMessages, "input": mInput, "contents": mContents, "system": mSystem,
	"systemInstruction": mSystemInstruction, "system_instruction": mSystemInstructionSnake, "instructions": mInstructions,
	"store": mStore, "prompt_cache_key": mCacheKey, "metadata": mMetadata, "client_metadata": mClientMetadata,
	"session_id": mSessionID, "conversation_id": mConversationID, "thread_id": mThreadID, "container": mContainer,
	"cachedContent": mCachedContent, "cached_content": mCachedContentSnake, "background": mBackground,
}

// maxOthers bounds the top-level members that are passed on unread: each is compared with all before it, and no API has
// nearly as many.
const maxOthers = 1024

// member notes one top-level member: span covers name and value, the value begins at v.
func (d *decoder) member(name []byte, which int, isKnown bool, span gateway.Span, v int) *gateway.Error {
	if !isKnown {
		if len(name) == len("model") && bytes.EqualFold(name, []byte("model")) { // some readers, Go's among them, take it for the same
			return invalid("model", "%q (at %s) differs from \"model\" in case only; JSON readers disagree on whether it is the same, "+
				"so send \"model\" alone", name, place(d.b, span.Start))
		}
		for _, other := range d.others {
			if bytes.Equal(other, name) {
				return d.twice(string(name), span.Start)
			}
		}
		if len(d.others) >= maxOthers {
			return invalid("", "the body has more than %d members that this gateway does not know, at %s", maxOthers, place(d.b, span.Start))
		}
		if d.others == nil {
			d.others = make([][]byte, 0, 8)
		}
		d.others = append(d.others, name)
		if d.modelInPath && d.env.Operation != gateway.Generate {
			d.repeats(name, v)
		}
		return nil
	}
	if d.seen&(1<<which) != 0 {
		return d.twice(string(name), span.Start)
	}
	d.seen |= 1 << which
	value := d.b[v:span.End]
	if string(value) == "null" && which != mModel {
		if which == mStreamOptions {
			d.env.StreamSpan = span
		}
		return nil
	}
	return d.note(which, value, span)
}

func (d *decoder) twice(name string, at int) *gateway.Error {
	return invalid(name, "%q appears twice in the body (again at %s); JSON readers disagree on which one counts, "+
		"so send it once", name, place(d.b, at))
}

// includeUsage reads stream_options.include_usage. The usual spellings need no reflection.
func includeUsage(options []byte) (on, ok bool) {
	switch string(options) {
	case `{"include_usage":true}`, `{"include_usage": true}`:
		return true, true
	}
	var o struct {
		IncludeUsage bool `json:"include_usage"`
	}
	err := json.Unmarshal(options, &o)
	return o.IncludeUsage, err == nil
}

func (d *decoder) note(which int, value []byte, span gateway.Span) *gateway.Error {
	e := d.env
	switch which {
	case mModel:
		if d.modelInPath {
			if value[0] == '"' {
				e.Repeats = append(e.Repeats, gateway.Span{Start: span.End - len(value), End: span.End})
			}
			return nil
		}
		s, ok := text(value)
		if !ok || s == "" {
			return invalid("model", "\"model\" must be a non-empty string, not %s", kindOf(value[0]))
		}
		e.Model, e.ModelSpan = s, gateway.Span{Start: span.End - len(value), End: span.End}
	case mStream:
		if !e.Operation.Completes() {
			return nil // such an answer is passed on whole, whatever is in it
		}
		switch string(value) {
		case "true":
			e.Stream = true
		case "false":
		default:
			return invalid("stream", "\"stream\" must be true or false, not %s", kindOf(value[0]))
		}
	case mStreamOptions:
		if value[0] != '{' {
			return invalid("stream_options", "\"stream_options\" must be an object, not %s", kindOf(value[0]))
		}
		usage, ok := includeUsage(value)
		if !ok {
			return invalid("stream_options.include_usage", "\"include_usage\" must be true or false")
		}
		e.StreamSpan, e.IncludeUsage = span, usage
	case mMaxTokens, mMaxCompletionTokens, mMaxOutputTokens:
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 {
			return nil // the upstream has the last word on its own parameters
		}
		e.MaxTokens = max(e.MaxTokens, n)
	case mTemperature:
		f, err := strconv.ParseFloat(string(value), 64)
		e.Deterministic = err == nil && f == 0
	case mTools:
		if value[0] == '[' && len(bytes.TrimSpace(value[1:len(value)-1])) > 0 {
			e.Needs |= gateway.NeedTools
		}
	case mResponseFormat:
		if bytes.Contains(value, []byte(`"json_schema"`)) {
			e.Needs |= gateway.NeedSchema
		}
	case mPreviousResponse, mConversation, mContainer, mCachedContent, mCachedContentSnake:
		d.stateful(which, value)
	case mBackground:
		if e.Protocol == gateway.Responses && string(value) == "true" {
			e.Background = gateway.Span{Start: span.End - len(value), End: span.End}
		}
	case mStore:
		e.Unstored = string(value) == "false"
	case mCacheKey, mSessionID, mConversationID, mThreadID:
		id, _ := text(value)
		d.field(fieldRanks[which], id)
	case mMetadata, mClientMetadata:
		d.metadata(value)
	case mReasoningEffort, mReasoning, mThinking, mGenerationConfig, mText:
		d.reasoning(which, value)
	}
	return nil
}

// fieldRanks are how clearly the members name a session.
var fieldRanks = map[int]int{mCacheKey: byCacheKey, mConversationID: byConversation, mThreadID: byConversation, mSessionID: bySessionID}

// stateful notes a member that refers to an object stored at one account. A conversation is a session, too.
func (d *decoder) stateful(which int, value []byte) {
	n := len(d.env.Refs)
	d.refer(statefulNames[which], value)
	if which == mPreviousResponse || which == mConversation {
		d.env.Needs |= gateway.NeedStateful // also where the id cannot be read
	}
	if which == mConversation && len(d.env.Refs) > n {
		d.field(byConversation, d.env.Refs[n].ID)
	}
}

var statefulNames = map[int]string{mPreviousResponse: "previous_response_id", mConversation: "conversation",
	mContainer: "container", mCachedContent: "cachedContent", mCachedContentSnake: "cachedContent"}

// reasoning notes whether the request asks the model to think before it answers: such a model is silent for long.
func (d *decoder) reasoning(which int, value []byte) {
	asks := false
	switch which {
	case mReasoningEffort:
		s, _ := text(value)
		asks = s != "" && s != "none" && s != "minimal"
	case mReasoning:
		var o struct {
			Effort  string `json:"effort"`
			Enabled *bool  `json:"enabled"`
		}
		asks = value[0] == '{' && json.Unmarshal(value, &o) == nil && o.Effort != "none" && o.Effort != "minimal" &&
			(o.Enabled == nil || *o.Enabled)
	case mThinking:
		var o struct {
			Type string `json:"type"`
		}
		asks = value[0] == '{' && json.Unmarshal(value, &o) == nil && o.Type != "disabled"
	case mGenerationConfig:
		var o struct {
			MaxOutputTokens int             `json:"maxOutputTokens"`
			Temperature     *float64        `json:"temperature"`
			Schema          json.RawMessage `json:"responseSchema"`
			ThinkingConfig  *struct {
				Budget *int `json:"thinkingBudget"`
			} `json:"thinkingConfig"`
		}
		if json.Unmarshal(value, &o) != nil {
			return
		}
		d.env.MaxTokens = max(d.env.MaxTokens, o.MaxOutputTokens)
		d.env.Deterministic = o.Temperature != nil && *o.Temperature == 0
		if len(o.Schema) > 0 {
			d.env.Needs |= gateway.NeedSchema
		}
		asks = o.ThinkingConfig != nil && (o.ThinkingConfig.Budget == nil || *o.ThinkingConfig.Budget != 0)
	case mText:
		if bytes.Contains(value, []byte(`"json_schema"`)) {
			d.env.Needs |= gateway.NeedSchema
		}
	}
	if asks {
		d.env.Needs |= gateway.NeedReasoning
	}
}
