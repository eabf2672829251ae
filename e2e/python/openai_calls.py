"""Makes the calls of a plan with the OpenAI SDK and reports what it saw, one JSON line per call. It judges nothing.

usage: python openai_calls.py PLAN.json
"""

import openai

from frame import ABOUT, RESULT, run

CHAT_TOOLS = [{"type": "function", "function": ABOUT}]
RESPONSE_TOOLS = [{"type": "function", "strict": False, **ABOUT}]
ENDS = ("response.completed", "response.incomplete", "response.failed")


def count(seen, usage):
    if usage is None:
        return
    old = hasattr(usage, "prompt_tokens")
    seen["usages"] += 1
    seen["prompt_tokens"] += usage.prompt_tokens if old else usage.input_tokens
    seen["completion_tokens"] += usage.completion_tokens if old else usage.output_tokens
    seen["total_tokens"] += usage.total_tokens


def chat_whole(client, call, messages, seen):
    got = client.chat.completions.create(model=call["model"], messages=messages, tools=CHAT_TOOLS)
    choice = got.choices[0]
    seen["text"] += choice.message.content or ""
    seen["finish"].append(choice.finish_reason)
    seen["ended"] += 1
    seen["ids"] += 1
    count(seen, got.usage)
    tools = [
        {"id": t.id, "name": t.function.name, "arguments": t.function.arguments}
        for t in choice.message.tool_calls or []
    ]
    return tools, [choice.message.model_dump(exclude_none=True)]


def chat_stream(client, call, messages, seen):
    options = {"stream_options": {"include_usage": True}} if call.get("usage") else {}
    stream = client.chat.completions.create(
        model=call["model"], messages=messages, tools=CHAT_TOOLS, stream=True, **options
    )
    ids, tools, over = set(), {}, False
    for chunk in stream:
        ids.add(chunk.id)
        count(seen, chunk.usage)
        for choice in chunk.choices:
            delta = choice.delta
            if over and (delta.content or delta.tool_calls):
                seen["late"] += 1
            seen["text"] += delta.content or ""
            for t in delta.tool_calls or []:
                at = tools.setdefault(t.index, {"id": "", "name": "", "arguments": ""})
                at["id"] = at["id"] or t.id
                at["name"] = at["name"] or t.function.name
                at["arguments"] += t.function.arguments or ""
            if choice.finish_reason:
                over = True
                seen["ended"] += 1
                seen["finish"].append(choice.finish_reason)
    seen["ids"] += len(ids)
    made = [tools[i] for i in sorted(tools)]
    calls = [
        {"id": t["id"], "type": "function", "function": {"name": t["name"], "arguments": t["arguments"]}}
        for t in made
    ]
    return made, [{"role": "assistant", "content": None, "tool_calls": calls}]


def function_calls(output):
    return [
        {"id": o.call_id, "name": o.name, "arguments": o.arguments} for o in output if o.type == "function_call"
    ]


def response_whole(client, call, items, seen):
    got = client.responses.create(model=call["model"], input=items, tools=RESPONSE_TOOLS)
    seen["text"] += got.output_text
    seen["finish"].append(got.status)
    seen["ended"] += 1
    seen["ids"] += 1
    count(seen, got.usage)
    return function_calls(got.output), [o.model_dump(exclude_none=True) for o in got.output]


def response_stream(client, call, items, seen):
    ids, last = set(), None
    for event in client.responses.create(model=call["model"], input=items, tools=RESPONSE_TOOLS, stream=True):
        if last is not None:
            seen["late"] += 1
        if getattr(event, "response", None) is not None:
            ids.add(event.response.id)
        if event.type == "response.output_text.delta":
            seen["text"] += event.delta
        if event.type in ENDS:
            last = event.response
            seen["ended"] += 1
            seen["finish"].append(last.status)
    seen["ids"] += len(ids)
    if last is None:
        return [], []
    if last.status == "failed":
        e = last.error
        seen["error"] = {"class": "response.failed", "status": 0, "code": e.code or "", "message": e.message}
    count(seen, last.usage)
    return function_calls(last.output), [o.model_dump(exclude_none=True) for o in last.output]


def generate(client, call, seen):
    if call["api"] == "chat":
        one = chat_stream if call.get("stream") else chat_whole
        answer = lambda t: {"role": "tool", "tool_call_id": t["id"], "content": RESULT}
    else:
        one = response_stream if call.get("stream") else response_whole
        answer = lambda t: {"type": "function_call_output", "call_id": t["id"], "output": RESULT}
    messages = [{"role": "user", "content": call["prompt"]}]
    tools, said = one(client, call, messages, seen)
    if tools:
        seen["tools"] = tools
        one(client, call, [*messages, *said, *map(answer, tools)], seen)


def make(call, seen):
    with openai.OpenAI(
        api_key=call["key"], base_url=call["base"], max_retries=0, timeout=call["timeout_ms"] / 1000
    ) as client:
        if call["do"] == "list":
            seen["models"] = [m.id for m in client.models.list()]
        elif call["do"] == "model":
            seen["models"] = [client.models.retrieve(call["model"]).id]
        elif call["do"] == "embed":
            got = client.embeddings.create(model=call["model"], input=[call["prompt"], "two"])
            seen["vectors"] = [len(e.embedding) for e in got.data]
        else:
            generate(client, call, seen)


run(make)
