package wire

import "maps"

// responses is OpenAI responses.
type responses struct{}

// resource is the response object; every field is there, as strict clients demand.
func (responses) resource(a *Answer, status string) object {
	tools := []any{}
	for _, t := range a.Call.Tools {
		tools = append(tools, object{"type": "function", "name": t.Name, "description": nil, "parameters": t.Schema, "strict": false})
	}
	return object{"id": "resp_" + a.ID, "object": "response", "created_at": a.At.Unix(), "completed_at": nil,
		"status": status, "background": false, "error": nil, "incomplete_details": nil, "instructions": nil,
		"max_output_tokens": nil, "max_tool_calls": nil, "model": a.Model, "output": []any{},
		"parallel_tool_calls": true, "previous_response_id": nil, "prompt_cache_key": nil,
		"reasoning": object{"effort": nil, "summary": nil}, "safety_identifier": nil, "service_tier": "default",
		"store": false, "temperature": 1, "text": object{"format": object{"type": "text"}}, "tool_choice": "auto",
		"tools": tools, "top_logprobs": 0, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
		"truncation": "disabled", "usage": nil, "user": nil, "metadata": object{}}
}

func (responses) ev(a *Answer, kind string, o object) Event {
	o["type"], o["sequence_number"] = kind, a.next()
	return event(kind, o)
}

func (r responses) open(a *Answer) []Event {
	return []Event{
		r.ev(a, "response.created", object{"response": r.resource(a, "in_progress")}),
		r.ev(a, "response.in_progress", object{"response": r.resource(a, "in_progress")}),
	}
}

func (responses) messageItem(a *Answer, status string, content ...any) object {
	if content == nil {
		content = []any{}
	}
	return object{"id": "msg_" + a.ID, "type": "message", "role": "assistant", "status": status, "content": content}
}

func textPart(s string) object {
	return object{"type": "output_text", "text": s, "annotations": []any{}, "logprobs": []any{}}
}

func (r responses) at(a *Answer, o object) object {
	out := object{"item_id": "msg_" + a.ID, "output_index": 0, "content_index": 0}
	maps.Copy(out, o)
	return out
}

func (r responses) openText(a *Answer) []Event {
	return []Event{
		r.ev(a, "response.output_item.added", object{"output_index": 0, "item": r.messageItem(a, "in_progress")}),
		r.ev(a, "response.content_part.added", r.at(a, object{"part": textPart("")})),
	}
}

func (r responses) token(a *Answer, text string) []Event {
	return []Event{r.ev(a, "response.output_text.delta", r.at(a, object{"delta": text, "logprobs": []any{}}))}
}

func (responses) callItem(a *Answer, status, args string) object {
	return object{"id": "fc_" + a.ID, "type": "function_call", "status": status, "call_id": "call_" + a.ID,
		"name": a.Call.Tools[0].Name, "arguments": args}
}

func (r responses) tool(a *Answer) []Event {
	one, two := half(a.ToolArg)
	delta := func(s string) Event {
		return r.ev(a, "response.function_call_arguments.delta", object{"item_id": "fc_" + a.ID, "output_index": 0, "delta": s})
	}
	return []Event{
		r.ev(a, "response.output_item.added", object{"output_index": 0, "item": r.callItem(a, "in_progress", "")}),
		delta(one), delta(two),
		r.ev(a, "response.function_call_arguments.done", object{"item_id": "fc_" + a.ID, "output_index": 0,
			"arguments": a.ToolArg, "name": a.Call.Tools[0].Name}),
		r.ev(a, "response.output_item.done", object{"output_index": 0, "item": r.callItem(a, "completed", a.ToolArg)}),
	}
}

func (r responses) end(a *Answer, f Finish, u Usage) []Event {
	var out []Event
	text := a.text.String()
	if f != ToolUse && text != "" {
		out = append(out,
			r.ev(a, "response.output_text.done", r.at(a, object{"text": text, "logprobs": []any{}})),
			r.ev(a, "response.content_part.done", r.at(a, object{"part": textPart(text)})),
			r.ev(a, "response.output_item.done", object{"output_index": 0, "item": r.messageItem(a, "completed", textPart(text))}))
	}
	kind := "response.completed"
	if f == Length {
		kind = "response.incomplete"
	}
	return append(out, r.ev(a, kind, object{"response": r.whole(a, text, f, u)}))
}

func (responses) done(*Answer) []Event       { return nil }
func (responses) ping(*Answer) (Event, bool) { return Event{}, false }

func (r responses) failed(a *Answer, f Failure) []Event {
	res := r.resource(a, "failed")
	code := f.Code
	if code == "" {
		code = "server_error"
	}
	res["error"] = object{"code": code, "message": f.Message}
	return []Event{r.ev(a, "response.failed", object{"response": res})}
}

func (r responses) whole(a *Answer, text string, f Finish, u Usage) any {
	res := r.resource(a, "completed")
	res["completed_at"] = a.At.Unix() + 1
	switch {
	case f == ToolUse:
		res["output"] = []any{r.callItem(a, "completed", a.ToolArg)}
	case text != "":
		res["output"] = []any{r.messageItem(a, "completed", textPart(text))}
	}
	if f == Length {
		res["status"], res["completed_at"] = "incomplete", nil
		res["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	res["usage"] = object{"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}
	return res
}

func (responses) failure(f Failure) any { return chat{}.failure(f) }
