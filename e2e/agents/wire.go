//go:build agents

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// answer is a text, or a call of a tool.
type answer struct {
	id, text, tool, arguments string
}

type event struct {
	name string
	data []byte
}

type object = map[string]any

func named(name string, v any) event {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only maps, texts and numbers are written
	}
	return event{name, b}
}

// pieces are the text, cut before every blank.
func (a answer) pieces() []string {
	var out []string
	for rest := a.text; rest != ""; {
		i := strings.IndexByte(rest[1:], ' ') + 1
		if i == 0 {
			i = len(rest)
		}
		out, rest = append(out, rest[:i]), rest[i:]
	}
	return out
}

func (a answer) chat() ([]event, any) {
	usage := object{"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
	chunk := func(delta object, finish any) event {
		return named("", object{"id": a.id, "object": "chat.completion.chunk", "created": 1, "model": "m",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	events := []event{chunk(object{"role": "assistant", "content": ""}, nil)}
	message, finish := object{"role": "assistant", "content": a.text}, "stop"
	if a.tool != "" {
		call := object{"id": "call_" + a.id, "type": "function", "function": object{"name": a.tool, "arguments": a.arguments}}
		message, finish = object{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
		events = append(events, chunk(object{"tool_calls": []any{object{"index": 0, "id": "call_" + a.id, "type": "function",
			"function": object{"name": a.tool, "arguments": ""}}}}, nil),
			chunk(object{"tool_calls": []any{object{"index": 0, "function": object{"arguments": a.arguments}}}}, nil))
	} else {
		for _, p := range a.pieces() {
			events = append(events, chunk(object{"content": p}, nil))
		}
	}
	events = append(events, chunk(object{}, finish),
		named("", object{"id": a.id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{}, "usage": usage}),
		event{"", []byte("[DONE]")})
	return events, object{"id": a.id, "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
		"choices": []any{object{"index": 0, "message": message, "finish_reason": finish}}}
}

func (a answer) messages() ([]event, any) {
	message := func(content []any, stop any) object {
		return object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop,
			"stop_sequence": nil, "usage": object{"input_tokens": 100, "output_tokens": 10}}
	}
	events := []event{named("message_start", object{"type": "message_start", "message": message([]any{}, nil)})}
	var content []any
	block := func(start, full object, deltas ...object) {
		at := len(content)
		content = append(content, full)
		events = append(events, named("content_block_start", object{"type": "content_block_start", "index": at, "content_block": start}))
		for _, d := range deltas {
			events = append(events, named("content_block_delta", object{"type": "content_block_delta", "index": at, "delta": d}))
		}
		events = append(events, named("content_block_stop", object{"type": "content_block_stop", "index": at}))
	}
	stop := "end_turn"
	if a.tool != "" {
		stop = "tool_use"
		block(object{"type": "thinking", "thinking": "", "signature": ""}, object{"type": "thinking", "thinking": "It has to be read.", "signature": sealed},
			object{"type": "thinking_delta", "thinking": "It has to be read."}, object{"type": "signature_delta", "signature": sealed})
		block(object{"type": "tool_use", "id": "toolu_" + a.id, "name": a.tool, "input": object{}},
			object{"type": "tool_use", "id": "toolu_" + a.id, "name": a.tool, "input": json.RawMessage(a.arguments)},
			object{"type": "input_json_delta", "partial_json": a.arguments})
	} else {
		var deltas []object
		for _, p := range a.pieces() {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
		block(object{"type": "text", "text": ""}, object{"type": "text", "text": a.text}, deltas...)
	}
	events = append(events,
		named("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 10}}),
		named("message_stop", object{"type": "message_stop"}))
	return events, message(content, stop)
}

func (a answer) gemini() ([]event, any) {
	frame := func(part object, finish string) object {
		c := object{"index": 0, "content": object{"role": "model", "parts": []any{part}}}
		if finish != "" {
			c["finishReason"] = finish
		}
		return object{"candidates": []any{c}, "modelVersion": "m", "responseId": a.id,
			"usageMetadata": object{"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}}
	}
	if a.tool != "" {
		call := frame(object{"functionCall": object{"name": a.tool, "args": json.RawMessage(a.arguments)}, "thoughtSignature": sealed}, "STOP")
		return []event{named("", call)}, call
	}
	var events []event
	for _, p := range a.pieces() {
		events = append(events, named("", frame(object{"text": p}, "")))
	}
	return append(events, named("", frame(object{"text": ""}, "STOP"))), frame(object{"text": a.text}, "STOP")
}

// flow numbers the events of the Responses API.
type flow struct{ events []event }

func (f *flow) add(name string, v object) {
	v["type"], v["sequence_number"] = name, len(f.events)
	f.events = append(f.events, named(name, v))
}

func (a answer) resource(status string, output []any) object {
	r := object{"id": "resp_" + a.id, "object": "response", "created_at": 1, "status": status, "model": "m", "output": output, "error": nil,
		"incomplete_details": nil, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}}
	if status == "completed" {
		r["usage"] = object{"input_tokens": 100, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 10,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 110}
	}
	return r
}

func (a answer) responses() ([]event, any) {
	var f flow
	f.add("response.created", object{"response": a.resource("in_progress", []any{})})
	var output []any
	if a.tool != "" {
		thought := object{"id": "rs_" + a.id, "type": "reasoning", "summary": []any{}, "encrypted_content": sealed}
		f.add("response.output_item.added", object{"output_index": 0, "item": object{"id": "rs_" + a.id, "type": "reasoning", "summary": []any{}}})
		f.add("response.output_item.done", object{"output_index": 0, "item": thought})
		output = append(output, thought)
	}
	index, item := len(output), a.item("completed", a.text, a.arguments)
	f.add("response.output_item.added", object{"output_index": index, "item": a.item("in_progress", "", "")})
	at := object{"output_index": index, "item_id": item["id"]}
	with := func(more object) object {
		maps.Copy(more, at)
		return more
	}
	if a.tool != "" {
		f.add("response.function_call_arguments.delta", with(object{"delta": a.arguments}))
		f.add("response.function_call_arguments.done", with(object{"arguments": a.arguments}))
	} else {
		at["content_index"] = 0
		f.add("response.content_part.added", with(object{"part": text("")}))
		for _, p := range a.pieces() {
			f.add("response.output_text.delta", with(object{"delta": p}))
		}
		f.add("response.output_text.done", with(object{"text": a.text}))
		f.add("response.content_part.done", with(object{"part": text(a.text)}))
	}
	f.add("response.output_item.done", object{"output_index": index, "item": item})
	done := a.resource("completed", append(output, item))
	f.add("response.completed", object{"response": done})
	return f.events, done
}

func text(s string) object { return object{"type": "output_text", "text": s, "annotations": []any{}} }

func (a answer) item(status, said, arguments string) object {
	if a.tool != "" {
		return object{"id": "fc_" + a.id, "type": "function_call", "status": status, "call_id": fmt.Sprintf("call_%s", a.id), "name": a.tool, "arguments": arguments}
	}
	content := []any{}
	if said != "" {
		content = append(content, text(said))
	}
	return object{"id": "msg_" + a.id, "type": "message", "status": status, "role": "assistant", "content": content}
}
