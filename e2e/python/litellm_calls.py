"""Makes the calls of a plan with LiteLLM as a client, through its providers for the four protocols, and reports what it
saw, one JSON line per call. It judges nothing.

usage: python litellm_calls.py PLAN.json
"""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before the import: else it asks a code host for prices

import litellm

from frame import ABOUT, RESULT, run, tally

litellm.telemetry = False
litellm.suppress_debug_info = True
TOOLS = [{"type": "function", "function": ABOUT}]
PROVIDERS = {"chat": "openai/", "messages": "anthropic/", "gemini": "gemini/"}


def count(seen, usage):
    if usage is not None:
        tally(seen, usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)


def whole(params, seen):
    got = litellm.completion(**params)
    choice = got.choices[0]
    seen["text"] += choice.message.content or ""
    seen["finish"].append(choice.finish_reason)
    seen["ended"] += 1
    seen["ids"] += 1
    count(seen, got.usage)
    return choice.message


def stream(params, seen):
    ids, chunks, over = set(), [], False
    for chunk in litellm.completion(**params, stream=True, stream_options={"include_usage": True}):
        chunks.append(chunk)
        ids.add(chunk.id)
        count(seen, getattr(chunk, "usage", None))
        for choice in chunk.choices:
            if over and (choice.delta.content or choice.delta.tool_calls):
                seen["late"] += 1
            seen["text"] += choice.delta.content or ""
            if choice.finish_reason:
                over = True
                seen["ended"] += 1
                seen["finish"].append(choice.finish_reason)
    seen["ids"] += len(ids)
    return litellm.stream_chunk_builder(chunks).choices[0].message


def generate(call, seen):
    one = stream if call.get("stream") else whole
    params = {
        "model": PROVIDERS[call["api"]] + call["model"], "api_base": call["base"], "api_key": call["key"],
        "tools": TOOLS, "num_retries": 0, "max_retries": 0, "timeout": call["timeout_ms"] / 1000,
    }
    messages = [{"role": "user", "content": call["prompt"]}]
    said = one({**params, "messages": messages}, seen)
    if not said.tool_calls:
        return
    seen["tools"] = [
        {"id": t.id, "name": t.function.name, "arguments": t.function.arguments} for t in said.tool_calls
    ]
    results = [{"role": "tool", "tool_call_id": t.id, "name": t.function.name, "content": RESULT} for t in said.tool_calls]
    one({**params, "messages": [*messages, said.model_dump(exclude_none=True), *results]}, seen)


run(lambda call, seen: generate(call, seen))
