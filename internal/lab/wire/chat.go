package wire

import "net/http"

// chat is OpenAI chat completions.
type chat struct{}

var chatFinish = [...]string{Stop: "stop", Length: "length", ToolUse: "tool_calls", Filtered: "content_filter"}

// chunk is one event of a stream. Most of a load's events are chunks, so what is the same in all of an answer's is
// encoded once; the bytes are those that the encoder makes of the whole.
func (c chat) chunk(a *Answer, delta object, finish any) Event {
	return c.around(a, encode(delta), encode(finish))
}

// said is chunk with a text as the delta's only field.
func (c chat) said(a *Answer, field, text string) Event {
	delta := make([]byte, 0, len(field)+len(text)+8)
	delta = append(append(append(delta, `{"`...), field...), `":`...)
	return c.around(a, append(quoted(delta, text), '}'), []byte("null"))
}

// around puts the chunk around its delta.
func (c chat) around(a *Answer, delta, finish []byte) Event {
	if a.rest == nil {
		b := encode(c.base(a))
		b = append([]byte(`,"index":0,"logprobs":null}],`), b[1:len(b)-1]...)
		if a.Call.IncludeUsage {
			b = append(b, `,"usage":null`...)
		}
		a.rest = append(b, '}')
	}
	const head, middle = `{"choices":[{"delta":`, `,"finish_reason":`
	b := make([]byte, 0, len(head)+len(delta)+len(middle)+len(finish)+len(a.rest))
	b = append(append(append(append(b, head...), delta...), middle...), finish...)
	return Event{Data: append(b, a.rest...)}
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
