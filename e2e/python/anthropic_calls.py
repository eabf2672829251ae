"""Makes the calls of a plan with the Anthropic SDK and reports what it saw, one JSON line per call. It judges nothing.

usage: python anthropic_calls.py PLAN.json
"""

import json

import anthropic

from frame import ABOUT, PARAMETERS, RESULT, run, tally

TOOLS = [{"name": ABOUT["name"], "description": ABOUT["description"], "input_schema": PARAMETERS}]


def count(seen, usage):
    tally(seen, usage.input_tokens, usage.output_tokens, usage.input_tokens + usage.output_tokens)


def whole(client, params, seen):
    got = client.messages.create(**params)
    seen["text"] += "".join(b.text for b in got.content if b.type == "text")
    seen["finish"].append(got.stop_reason)
    seen["ended"] += 1
    seen["ids"] += 1
    count(seen, got.usage)
    return got.content


def stream(client, params, seen):
    ids, over = set(), False
    with client.messages.stream(**params) as events:
        for event in events:
            if event.type in ("text", "input_json"):  # the helper's own, made of the event before
                continue
            if over:
                seen["late"] += 1
            if event.type == "message_start":
                ids.add(event.message.id)
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                seen["text"] += event.delta.text
            elif event.type == "message_delta":
                seen["finish"].append(event.delta.stop_reason)
                count(seen, event.usage)
            elif event.type == "message_stop":
                over = True
                seen["ended"] += 1
        message = events.get_final_message()
    seen["ids"] += len(ids)
    return message.content


def generate(client, call, seen):
    one = stream if call.get("stream") else whole
    params = {"model": call["model"], "max_tokens": 1000, "tools": TOOLS}
    messages = [{"role": "user", "content": call["prompt"]}]
    said = one(client, {**params, "messages": messages}, seen)
    uses = [b for b in said if b.type == "tool_use"]
    if not uses:
        return
    seen["tools"] = [{"id": b.id, "name": b.name, "arguments": json.dumps(b.input)} for b in uses]
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": RESULT} for b in uses]
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": results}]
    one(client, {**params, "messages": messages}, seen)


def make(call, seen):
    with anthropic.Anthropic(
        api_key=call["key"], base_url=call["base"], max_retries=0, timeout=call["timeout_ms"] / 1000
    ) as client:
        if call["do"] == "list":
            seen["models"] = [m.id for m in client.models.list()]
        elif call["do"] == "model":
            seen["models"] = [client.models.retrieve(call["model"]).id]
        elif call["do"] == "count":
            messages = [{"role": "user", "content": call["prompt"]}]
            seen["prompt_tokens"] = client.messages.count_tokens(model=call["model"], messages=messages).input_tokens
        else:
            generate(client, call, seen)


run(make)
