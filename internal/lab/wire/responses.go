package wire

import (
	"encoding/json"
	"maps"
)

// responses is OpenAI responses.
type responses struct{}

// thought is what a thinking answer says of its thoughts, and thoughtTokens what they cost.
const (
	thought       = "The lab weighs the question before it answers."
	thoughtTokens = 9
)

// echoed are the members of a request that its answer repeats as they are; the others have values of their own there.
var echoed = []string{"instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", "previous_response_id",
	"prompt_cache_key", "safety_identifier", "store", "temperature", "tool_choice", "top_logprobs", "top_p", "presence_penalty",
	"frequency_penalty", "truncation", "user"}

// resource is the response object; every field is there, as strict clients demand.
func (responses) resource(a *Answer, status string) object {
	tools := []any{}
	for _, t := range a.Call.Tools {
		tools = append(tools, object{"type": "function", "name": t.Name, "description": orNil(t.Description), "parameters": t.Schema, "strict": t.Strict})
	}
	out := object{"id": "resp_" + a.ID, "object": "response", "created_at": a.At.Unix(), "completed_at": nil,
		"status": status, "background": false, "error": nil, "incomplete_details": nil, "instructions": nil,
		"max_output_tokens": nil, "max_tool_calls": nil, "model": a.Model, "output": []any{},
		"parallel_tool_calls": true, "previous_response_id": nil, "prompt_cache_key": nil,
		"reasoning":         a.Call.over("reasoning", object{"effort": nil, "summary": nil}),
		"safety_identifier": nil, "service_tier": "default", "store": false, "temperature": 1,
		"text": a.Call.over("text", object{"format": object{"type": "text"}}), "tool_choice": "auto",
		"tools": tools, "top_logprobs": 0, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
		"truncation": "disabled", "usage": nil, "user": nil, "metadata": object{}}
	for _, name := range echoed {
		if raw := a.Call.Echo[name]; len(raw) > 0 && string(raw) != "null" {
			out[name] = raw
		}
	}
	return out
}

// over lays an object of the request over its defaults.
func (c *Call) over(name string, defaults object) object {
	_ = json.Unmarshal(c.Echo[name], &defaults) // what is no object changes nothing
	return defaults
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

func (responses) thoughtItem(a *Answer, summary ...any) object {
	if summary == nil {
		summary = []any{}
	}
	return object{"id": "rs_" + a.ID, "type": "reasoning", "summary": summary}
}

func (responses) part(a *Answer, s string) object {
	if a.Call.Refuses() {
		return object{"type": "refusal", "refusal": s}
	}
	return object{"type": "output_text", "text": s, "annotations": []any{}, "logprobs": []any{}}
}

// index is the place of the item behind the thoughts.
func (responses) index(a *Answer) int {
	if a.Call.Thinks() {
		return 1
	}
	return 0
}

func (r responses) at(a *Answer, o object) object {
	out := object{"item_id": "msg_" + a.ID, "output_index": r.index(a), "content_index": 0}
	maps.Copy(out, o)
	return out
}

// think is the reasoning item, where the call wants one.
func (r responses) think(a *Answer) []Event {
	if !a.Call.Thinks() {
		return nil
	}
	at := func(o object) object {
		o["item_id"], o["output_index"], o["summary_index"] = "rs_"+a.ID, 0, 0
		return o
	}
	part := func(s string) object { return object{"type": "summary_text", "text": s} }
	one, two := half(thought)
	return []Event{
		r.ev(a, "response.output_item.added", object{"output_index": 0, "item": r.thoughtItem(a)}),
		r.ev(a, "response.reasoning_summary_part.added", at(object{"part": part("")})),
		r.ev(a, "response.reasoning_summary_text.delta", at(object{"delta": one})),
		r.ev(a, "response.reasoning_summary_text.delta", at(object{"delta": two})),
		r.ev(a, "response.reasoning_summary_text.done", at(object{"text": thought})),
		r.ev(a, "response.reasoning_summary_part.done", at(object{"part": part(thought)})),
		r.ev(a, "response.output_item.done", object{"output_index": 0, "item": r.thoughtItem(a, part(thought))}),
	}
}

func (r responses) openText(a *Answer) []Event {
	return append(r.think(a),
		r.ev(a, "response.output_item.added", object{"output_index": r.index(a), "item": r.messageItem(a, "in_progress")}),
		r.ev(a, "response.content_part.added", r.at(a, object{"part": r.part(a, "")})))
}

func (r responses) token(a *Answer, text string) []Event {
	if a.Call.Refuses() {
		return []Event{r.ev(a, "response.refusal.delta", r.at(a, object{"delta": text}))}
	}
	return []Event{r.ev(a, "response.output_text.delta", r.at(a, object{"delta": text, "logprobs": []any{}}))}
}

func (responses) callItem(a *Answer, status, args string) object {
	return object{"id": "fc_" + a.ID, "type": "function_call", "status": status, "call_id": "call_" + a.ID,
		"name": a.Call.Tools[0].Name, "arguments": args}
}

func (r responses) tool(a *Answer) []Event {
	out, i := r.think(a), r.index(a)
	one, two := half(a.ToolArg)
	delta := func(s string) Event {
		return r.ev(a, "response.function_call_arguments.delta", object{"item_id": "fc_" + a.ID, "output_index": i, "delta": s})
	}
	return append(out,
		r.ev(a, "response.output_item.added", object{"output_index": i, "item": r.callItem(a, "in_progress", "")}),
		delta(one), delta(two),
		r.ev(a, "response.function_call_arguments.done", object{"item_id": "fc_" + a.ID, "output_index": i,
			"arguments": a.ToolArg, "name": a.Call.Tools[0].Name}),
		r.ev(a, "response.output_item.done", object{"output_index": i, "item": r.callItem(a, "completed", a.ToolArg)}))
}

func (r responses) end(a *Answer, f Finish, u Usage) []Event {
	var out []Event
	text := a.text.String()
	if f != ToolUse && text != "" {
		out = append(out, r.textDone(a, text),
			r.ev(a, "response.content_part.done", r.at(a, object{"part": r.part(a, text)})),
			r.ev(a, "response.output_item.done", object{"output_index": r.index(a), "item": r.messageItem(a, itemStatus(f), r.part(a, text))}))
	}
	kind := "response.completed"
	if cutShort(f) != "" {
		kind = "response.incomplete"
	}
	return append(out, r.ev(a, kind, object{"response": r.whole(a, text, f, u)}))
}

func (r responses) textDone(a *Answer, text string) Event {
	if a.Call.Refuses() {
		return r.ev(a, "response.refusal.done", r.at(a, object{"refusal": text}))
	}
	return r.ev(a, "response.output_text.done", r.at(a, object{"text": text, "logprobs": []any{}}))
}

// cutShort is why an answer is incomplete; empty = it is whole.
func cutShort(f Finish) string {
	switch f {
	case Length:
		return "max_output_tokens"
	case Filtered:
		return "content_filter"
	}
	return ""
}

func itemStatus(f Finish) string {
	if cutShort(f) != "" {
		return "incomplete"
	}
	return "completed"
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
	items, thoughts := []any{}, 0
	if a.Call.Thinks() && (f == ToolUse || text != "") {
		items = append(items, r.thoughtItem(a, object{"type": "summary_text", "text": thought}))
		thoughts = thoughtTokens
	}
	switch {
	case f == ToolUse:
		items = append(items, r.callItem(a, "completed", a.ToolArg))
	case text != "":
		items = append(items, r.messageItem(a, itemStatus(f), r.part(a, text)))
	}
	res["output"] = items
	if why := cutShort(f); why != "" {
		res["status"], res["completed_at"] = "incomplete", nil
		res["incomplete_details"] = object{"reason": why}
	}
	output := u.Output + thoughts
	res["usage"] = object{"input_tokens": u.Input, "output_tokens": output, "total_tokens": u.Input + output,
		"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": thoughts}}
	return res
}

func (responses) failure(f Failure) any { return chat{}.failure(f) }
