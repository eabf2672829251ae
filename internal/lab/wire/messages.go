package wire

// messages is Anthropic messages.
type messages struct{}

var messagesFinish = [...]string{Stop: "end_turn", Length: "max_tokens", ToolUse: "tool_use", Filtered: "refusal"}

func (messages) resource(a *Answer, content []any, stop any, u Usage) object {
	return object{"id": "msg_" + a.ID, "type": "message", "role": "assistant", "model": a.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil,
		"usage": object{"input_tokens": u.Input, "output_tokens": u.Output, "cache_creation_input_tokens": 0,
			"cache_read_input_tokens": 0, "service_tier": "standard"}}
}

func (m messages) open(a *Answer) []Event {
	u := Usage{Input: a.Call.InputTokens, Output: 1}
	return []Event{
		event("message_start", object{"type": "message_start", "message": m.resource(a, []any{}, nil, u)}),
		event("ping", object{"type": "ping"}),
	}
}

func (messages) start(block object) Event {
	return event("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": block})
}

func (messages) delta(d object) Event {
	return event("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": d})
}

func (messages) stop() Event {
	return event("content_block_stop", object{"type": "content_block_stop", "index": 0})
}

func (m messages) openText(*Answer) []Event {
	return []Event{m.start(object{"type": "text", "text": ""})}
}

func (m messages) token(_ *Answer, text string) []Event {
	return []Event{m.delta(object{"type": "text_delta", "text": text})}
}

func (m messages) tool(a *Answer) []Event {
	one, two := half(a.ToolArg)
	return []Event{
		m.start(object{"type": "tool_use", "id": "toolu_" + a.ID, "name": a.Call.Tools[0].Name, "input": object{}}),
		m.delta(object{"type": "input_json_delta", "partial_json": one}),
		m.delta(object{"type": "input_json_delta", "partial_json": two}),
		m.stop(),
	}
}

func (m messages) end(a *Answer, f Finish, u Usage) []Event {
	var out []Event
	if a.text.Len() > 0 {
		out = append(out, m.stop())
	}
	return append(out, event("message_delta", object{"type": "message_delta",
		"delta": object{"stop_reason": messagesFinish[f], "stop_sequence": nil},
		"usage": object{"input_tokens": u.Input, "output_tokens": u.Output, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}))
}

func (messages) done(*Answer) []Event {
	return []Event{event("message_stop", object{"type": "message_stop"})}
}

func (messages) ping(*Answer) (Event, bool) { return event("ping", object{"type": "ping"}), true }

func (m messages) failed(_ *Answer, f Failure) []Event { return []Event{event("error", m.failure(f))} }

func (m messages) whole(a *Answer, text string, f Finish, u Usage) any {
	content := []any{}
	switch {
	case f == ToolUse:
		content = append(content, object{"type": "tool_use", "id": "toolu_" + a.ID, "name": a.Call.Tools[0].Name, "input": rawObject(a.ToolArg)})
	case text != "":
		content = append(content, object{"type": "text", "text": text})
	}
	return m.resource(a, content, messagesFinish[f], u)
}

func (messages) failure(f Failure) any {
	return object{"type": "error", "error": object{"type": anthropicType(f), "message": f.Message}, "request_id": "req_lab"}
}

// anthropicType is the error type that goes with a status.
func anthropicType(f Failure) string {
	if f.Type != "" {
		return f.Type
	}
	switch f.Status {
	case 400:
		return "invalid_request_error"
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503, 529:
		return "overloaded_error"
	}
	return "api_error"
}
