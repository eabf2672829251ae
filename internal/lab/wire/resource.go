package wire

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// result is what of a response object changes while the answer is made.
type result struct {
	status      string
	completedAt int64 // 0 = not
	failure     *Failure
	reason      string // why it is incomplete
	output      func() // writes the items; nil = none
	usage       *Usage // nil = not known yet
	thoughts    int    // tokens of the output that are thoughts
}

// resource writes the response object; every field is there, as strict clients demand.
func (r responses) resource(w *writer, a *Answer, x result) {
	w.literal("background", "false")
	if x.completedAt == 0 {
		w.null("completed_at")
	} else {
		w.number("completed_at", x.completedAt)
	}
	w.number("created_at", a.At.Unix())
	r.wrong(w, x.failure)
	a.echo(w, "frequency_penalty", "0")
	w.joined("id", "resp_", a.ID)
	if x.reason == "" {
		w.null("incomplete_details")
	} else {
		w.object("incomplete_details", func() { w.text("reason", x.reason) })
	}
	a.echo(w, "instructions", "null")
	a.echo(w, "max_output_tokens", "null")
	a.echo(w, "max_tool_calls", "null")
	a.echo(w, "metadata", "{}")
	w.text("model", a.Model)
	w.text("object", "response")
	w.list("output", x.output)
	a.echo(w, "parallel_tool_calls", "true")
	a.echo(w, "presence_penalty", "0")
	a.echo(w, "previous_response_id", "null")
	a.echo(w, "prompt_cache_key", "null")
	a.over(w, "reasoning", `{"effort":null,"summary":null}`)
	a.echo(w, "safety_identifier", "null")
	w.text("service_tier", "default")
	w.text("status", x.status)
	a.echo(w, "store", "false")
	a.echo(w, "temperature", "1")
	a.over(w, "text", `{"format":{"type":"text"}}`)
	a.echo(w, "tool_choice", `"auto"`)
	w.list("tools", func() { r.tools(w, a) })
	a.echo(w, "top_logprobs", "0")
	a.echo(w, "top_p", "1")
	a.echo(w, "truncation", `"disabled"`)
	r.usage(w, x)
	a.echo(w, "user", "null")
}

// echo writes a member of the request as it is, or what stands for it where the request has none.
func (a *Answer) echo(w *writer, name, instead string) {
	if raw := a.Call.Echo[name]; len(raw) > 0 && string(raw) != "null" {
		w.raw(name, raw)
		return
	}
	w.literal(name, instead)
}

// over writes an object of the request laid over its defaults.
func (a *Answer) over(w *writer, name, defaults string) {
	raw := a.Call.Echo[name]
	if len(raw) == 0 {
		w.literal(name, defaults)
		return
	}
	var out object
	_ = json.Unmarshal([]byte(defaults), &out)
	_ = json.Unmarshal(raw, &out) // what is no object changes nothing
	w.literal(name, string(encode(out)))
}

func (responses) tools(w *writer, a *Answer) {
	for _, t := range a.Call.Tools {
		w.object("", func() {
			w.textOrNull("description", t.Description)
			w.text("name", t.Name)
			w.raw("parameters", t.Schema)
			w.literal("strict", strconv.FormatBool(t.Strict))
			w.text("type", "function")
		})
	}
}

func (responses) wrong(w *writer, f *Failure) {
	if f == nil {
		w.null("error")
		return
	}
	w.object("error", func() {
		w.text("code", cmp.Or(f.Code, "server_error"))
		w.text("message", f.Message)
	})
}

func (responses) usage(w *writer, x result) {
	if x.usage == nil {
		w.null("usage")
		return
	}
	w.object("usage", func() {
		input, output := int64(x.usage.Input), int64(x.usage.Output+x.thoughts)
		w.number("input_tokens", input)
		w.literal("input_tokens_details", `{"cached_tokens":0}`)
		w.number("output_tokens", output)
		w.object("output_tokens_details", func() { w.number("reasoning_tokens", int64(x.thoughts)) })
		w.number("total_tokens", input+output)
	})
}
