package wire

import "net/http"

// chat is OpenAI chat completions.
type chat struct{}

var chatFinish = [...]string{Stop: "stop", Length: "length", ToolUse: "tool_calls", Filtered: "content_filter"}

// chunk adds one event of a stream; delta writes the members of its delta.
func (c chat) chunk(a *Answer, finish string, delta func(*writer)) {
	a.event("", func(w *writer) {
		w.list("choices", func() {
			w.object("", func() {
				w.object("delta", func() { delta(w) })
				w.textOrNull("finish_reason", finish)
				w.number("index", 0)
				w.null("logprobs")
			})
		})
		c.base(w, a, "chatcmpl-", "chat.completion.chunk")
		if a.Call.IncludeUsage {
			w.null("usage")
		}
	})
}

// base is what all bodies and chunks have between their choices and their usage.
func (chat) base(w *writer, a *Answer, prefix, kind string) {
	w.number("created", a.At.Unix())
	w.joined("id", prefix, a.ID)
	w.text("model", a.Model)
	w.text("object", kind)
	w.text("service_tier", "default")
	w.text("system_fingerprint", "fp_lab")
}

func (c chat) open(a *Answer) {
	c.chunk(a, "", func(w *writer) {
		w.text("content", "")
		w.null("refusal")
		w.text("role", "assistant")
	})
}

func (c chat) token(a *Answer, text string, _ bool) {
	field := "content"
	if a.refuses {
		field = "refusal"
	}
	c.chunk(a, "", func(w *writer) { w.text(field, text) })
}

func (c chat) tool(a *Answer) {
	part := func(first bool, args string) {
		c.chunk(a, "", func(w *writer) { w.list("tool_calls", func() { c.call(w, a, first, true, args) }) })
	}
	one, two := half(a.ToolArg)
	part(true, "")
	part(false, one)
	part(false, two)
}

// call is a tool call, or a piece of one: only the first is named, and all pieces are numbered.
func (chat) call(w *writer, a *Answer, named, numbered bool, args string) {
	w.object("", func() {
		w.object("function", func() {
			w.text("arguments", args)
			if named {
				w.text("name", a.Call.Tools[0].Name)
			}
		})
		if named {
			w.joined("id", "call_", a.ID)
		}
		if numbered {
			w.number("index", 0)
		}
		if named {
			w.text("type", "function")
		}
	})
}

func (c chat) end(a *Answer, f Finish, u Usage) {
	c.chunk(a, chatFinish[f], func(*writer) {})
	if a.Call.IncludeUsage {
		c.last(a, u, "chatcmpl-", "chat.completion.chunk")
	}
}

// last is the event without choices that tells the usage.
func (c chat) last(a *Answer, u Usage, prefix, kind string) {
	a.event("", func(w *writer) {
		w.list("choices", nil)
		c.base(w, a, prefix, kind)
		chatUsage(w, u)
	})
}

func (chat) done(a *Answer) { a.mark("[DONE]") }
func (chat) ping(*Answer)   {}
func (c chat) failed(a *Answer, f Failure) {
	a.event("", func(w *writer) { c.failure(w, f) })
}

func chatUsage(w *writer, u Usage) {
	w.object("usage", func() {
		w.number("completion_tokens", int64(u.Output))
		w.literal("completion_tokens_details", `{"audio_tokens":0,"reasoning_tokens":0}`)
		w.number("prompt_tokens", int64(u.Input))
		w.literal("prompt_tokens_details", `{"audio_tokens":0,"cached_tokens":0}`)
		w.number("total_tokens", int64(u.Input+u.Output))
	})
}

func (c chat) whole(w *writer, a *Answer, text string, f Finish, u Usage) {
	w.list("choices", func() {
		w.object("", func() {
			w.text("finish_reason", chatFinish[f])
			w.number("index", 0)
			w.null("logprobs")
			w.object("message", func() { c.message(w, a, text, f) })
		})
	})
	c.base(w, a, "chatcmpl-", "chat.completion")
	chatUsage(w, u)
}

func (c chat) message(w *writer, a *Answer, text string, f Finish) {
	w.list("annotations", nil)
	if a.refuses || f == ToolUse {
		w.null("content")
	} else {
		w.text("content", text)
	}
	if a.refuses {
		w.text("refusal", text)
	} else {
		w.null("refusal")
	}
	w.text("role", "assistant")
	if f == ToolUse {
		w.list("tool_calls", func() { c.call(w, a, true, false, a.ToolArg) })
	}
}

func (chat) failure(w *writer, f Failure) {
	w.object("error", func() {
		w.textOrNull("code", f.Code)
		w.text("message", f.Message)
		w.textOrNull("param", f.Param)
		w.text("type", openAIType(f))
	})
}

// openAIType names an error by its status when the script does not.
func openAIType(f Failure) string {
	if f.Type != "" {
		return f.Type
	}
	switch {
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusNotFound, f.Status == http.StatusBadRequest:
		return "invalid_request_error"
	case f.Status == http.StatusTooManyRequests:
		return "requests"
	case f.Status == http.StatusForbidden:
		return "permission_error"
	}
	return "server_error"
}
