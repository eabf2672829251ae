"""Makes the calls of a plan with the Google Gen AI SDK and reports what it saw, one JSON line per call. It judges nothing.

usage: python genai_calls.py PLAN.json
"""

import json

from google import genai
from google.genai import types

from frame import ABOUT, PARAMETERS, RESULT, run, tally

WEATHER = types.FunctionDeclaration(
    name=ABOUT["name"], description=ABOUT["description"], parameters_json_schema=PARAMETERS
)
CONFIG = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[WEATHER])])


def one(client, call, contents, seen):
    params = {"model": call["model"], "contents": contents, "config": CONFIG}
    if call.get("stream"):
        chunks = client.models.generate_content_stream(**params)
    else:
        chunks = [client.models.generate_content(**params)]
    ids, over, usage, said = set(), False, None, []
    for chunk in chunks:
        if chunk.response_id:
            ids.add(chunk.response_id)
        usage = chunk.usage_metadata or usage
        for c in chunk.candidates or []:
            parts = [p for p in (c.content and c.content.parts) or [] if p.text != ""]
            if over and parts:
                seen["late"] += 1
            seen["text"] += "".join(p.text or "" for p in parts)
            said += parts
            if c.finish_reason:
                over = True
                seen["ended"] += 1
                seen["finish"].append(c.finish_reason.value)
    seen["ids"] += len(ids)
    if usage is not None:
        tally(seen, usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count)
    return said


def generate(client, call, seen):
    contents = [types.Content(role="user", parts=[types.Part(text=call["prompt"])])]
    said = one(client, call, contents, seen)
    calls = [p.function_call for p in said if p.function_call]
    if not calls:
        return
    seen["tools"] = [{"id": f.id or "", "name": f.name, "arguments": json.dumps(f.args)} for f in calls]
    results = [
        types.Part(function_response=types.FunctionResponse(id=f.id, name=f.name, response=json.loads(RESULT)))
        for f in calls
    ]
    contents += [types.Content(role="model", parts=said), types.Content(role="user", parts=results)]
    one(client, call, contents, seen)


def make(call, seen):
    options = types.HttpOptions(base_url=call["base"], timeout=call["timeout_ms"])
    client = genai.Client(api_key=call["key"], http_options=options)
    if call["do"] == "list":
        seen["models"] = [m.name.removeprefix("models/") for m in client.models.list()]
    elif call["do"] == "model":
        seen["models"] = [client.models.get(model=call["model"]).name.removeprefix("models/")]
    elif call["do"] == "count":
        seen["prompt_tokens"] = client.models.count_tokens(model=call["model"], contents=call["prompt"]).total_tokens
    elif call["do"] == "embed":
        got = client.models.embed_content(model=call["model"], contents=[call["prompt"], "two"])
        seen["vectors"] = [len(e.values) for e in got.embeddings]
    else:
        generate(client, call, seen)


run(make, status="code")
