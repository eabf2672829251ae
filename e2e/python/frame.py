"""What the scripts of all SDKs share: the plan is the last argument, each call is made in one of its lanes, and what was
seen goes out as one JSON line per call. Nothing is judged here.
"""

import json
import queue
import sys
import threading

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ABOUT = {"name": "weather", "description": "The weather in a city", "parameters": PARAMETERS}

with open(sys.argv[-1], encoding="utf-8") as f:
    PLAN = json.load(f)

RESULT = PLAN["tool_result"]


def fresh(check):
    seen = dict.fromkeys(
        ("ended", "late", "usages", "prompt_tokens", "completion_tokens", "total_tokens", "ids"), 0
    )
    return {"check": check, "text": "", "finish": [], **seen}


def tally(seen, prompt, completion, total):
    """Adds one answer's usage."""
    seen["usages"] += 1
    seen["prompt_tokens"] += prompt or 0
    seen["completion_tokens"] += completion or 0
    seen["total_tokens"] += total or 0


def failure(e, status):
    return {
        "class": type(e).__name__, "status": status or 0, "code": str(getattr(e, "code", "") or ""), "message": str(e)
    }


def run(make, status="status_code"):
    """Makes all calls with make(call, seen), which fills in what it sees. An exception's HTTP status stands in the
    attribute status."""
    left, out = queue.SimpleQueue(), threading.Lock()
    for call in PLAN["calls"]:
        left.put(call)

    def lane():
        while True:
            try:
                call = left.get_nowait()
            except queue.Empty:
                return
            seen = fresh(call["check"])
            try:
                make(call, seen)
            except Exception as e:  # whatever it is, the judge wants to know
                seen["error"] = failure(e, getattr(e, status, 0))
            line = json.dumps(seen)
            with out:
                print(line, flush=True)

    lanes = [threading.Thread(target=lane) for _ in range(PLAN["lanes"])]
    for t in lanes:
        t.start()
    for t in lanes:
        t.join()
