package wire

import "net/http"

// chat is OpenAI chat completions.
type chat struct{}

var chatFinish = [...]string{Stop: "stop", Length: "length", ToolUse: "tool_calls", Filtered: "content_filter"}

func (chat) chunk(a *Answer, delta object, finish any) Event {
	c := chat{}.base(a)
	c["choices"] = []any{object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
	if a.Call.IncludeUsage {
		c["usage"] = nil
	}
	return event("", c)
}

// said is chunk with a text as the delta's field and no finish reason. Most events of a load are of this kind, so what is
// the same in all of an answer's is encoded once; the bytes are those of chunk.
func (c chat) said(a *Answer, field, text string) Event {
	if a.chunk == nil {
		b := encode(c.base(a))
		b = append([]byte(`},"finish_reason":null,"index":0,"logprobs":null}],`), b[1:len(b)-1]...)
		if a.Call.IncludeUsage {
			b = append(b, `,"usage":null`...)
		}
		a.chunk = append(b, '}')
	}
	const head = `{"choices":[{"delta":{"`
	b := make([]byte, 0, len(head)+len(field)+len(text)+len(a.chunk)+8)
	b = append(append(append(b, head...), field...), `":`...)
	return Event{Data: append(quoted(b, text), a.chunk...)}
}

// quoted appends a text as a JSON string.
func quoted(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, encode(text)...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

func (chat) base(a *Answer) object {
	return object{"id": "chatcmpl-" + a.ID, "object": "chat.completion.chunk", "created": a.At.Unix(),
		"model": a.Model, "service_tier": "default", "system_fingerprint": "fp_lab"}
}

func (c chat) open(a *Answer) []Event {
	return []Event{c.chunk(a, object{"role": "assistant", "content": "", "refusal": nil}, nil)}
}

func (c chat) token(a *Answer, text string) []Event {
	if a.Call.Refuses() {
		return []Event{c.said(a, "refusal", text)}
	}
	return []Event{c.said(a, "content", text)}
}

func (c chat) tool(a *Answer) []Event {
	part := func(o object) Event { return c.chunk(a, object{"tool_calls": []any{o}}, nil) }
	one, two := half(a.ToolArg)
	return []Event{
		part(object{"index": 0, "id": "call_" + a.ID, "type": "function",
			"function": object{"name": a.Call.Tools[0].Name, "arguments": ""}}),
		part(object{"index": 0, "function": object{"arguments": one}}),
		part(object{"index": 0, "function": object{"arguments": two}}),
	}
}

func (c chat) end(a *Answer, f Finish, u Usage) []Event {
	out := []Event{c.chunk(a, object{}, chatFinish[f])}
	if a.Call.IncludeUsage {
		last := c.base(a)
		last["choices"], last["usage"] = []any{}, chatUsage(u)
		out = append(out, event("", last))
	}
	return out
}

func (chat) done(*Answer) []Event       { return []Event{{Data: []byte("[DONE]")}} }
func (chat) ping(*Answer) (Event, bool) { return Event{}, false }
func (c chat) failed(_ *Answer, f Failure) []Event {
	return []Event{event("", c.failure(f))}
}

func chatUsage(u Usage) object {
	return object{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": 0, "audio_tokens": 0},
		"completion_tokens_details": object{"reasoning_tokens": 0, "audio_tokens": 0}}
}

func (c chat) whole(a *Answer, text string, f Finish, u Usage) any {
	m := object{"role": "assistant", "content": text, "refusal": nil, "annotations": []any{}}
	if a.Call.Refuses() {
		m["content"], m["refusal"] = nil, text
	}
	if f == ToolUse {
		m["content"] = nil
		m["tool_calls"] = []any{object{"id": "call_" + a.ID, "type": "function",
			"function": object{"name": a.Call.Tools[0].Name, "arguments": a.ToolArg}}}
	}
	out := c.base(a)
	out["object"] = "chat.completion"
	out["choices"] = []any{object{"index": 0, "message": m, "logprobs": nil, "finish_reason": chatFinish[f]}}
	out["usage"] = chatUsage(u)
	return out
}

func (chat) failure(f Failure) any {
	return object{"error": object{"message": f.Message, "type": openAIType(f), "param": orNil(f.Param), "code": orNil(f.Code)}}
}

// openAIType names an error by its status when the script does not.
func openAIType(f Failure) string {
	if f.Type != "" {
		return f.Type
	}
	switch {
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusNotFound, f.Status == http.StatusBadRequest:
		return "invalid_request_error"
	case f.Status == http.StatusTooManyRequests:
		return "requests"
	case f.Status == http.StatusForbidden:
		return "permission_error"
	}
	return "server_error"
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}
