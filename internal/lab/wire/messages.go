package wire

// messages is Anthropic messages.
type messages struct{}

var messagesFinish = [...]string{Stop: "end_turn", Length: "max_tokens", ToolUse: "tool_use", Filtered: "refusal"}

// resource writes the message object; content writes its blocks, nil = none.
func (m messages) resource(w *writer, a *Answer, stop string, u Usage, content func()) {
	w.list("content", content)
	w.joined("id", "msg_", a.ID)
	w.text("model", a.Model)
	w.text("role", "assistant")
	m.stopped(w, stop)
	w.text("type", "message")
	w.object("usage", func() {
		m.usage(w, u)
		w.text("service_tier", "standard")
	})
}

func (messages) stopped(w *writer, stop string) {
	w.textOrNull("stop_reason", stop)
	w.null("stop_sequence")
}

func (messages) usage(w *writer, u Usage) {
	w.number("cache_creation_input_tokens", 0)
	w.number("cache_read_input_tokens", 0)
	w.number("input_tokens", int64(u.Input))
	w.number("output_tokens", int64(u.Output))
}

func (m messages) open(a *Answer) {
	a.event("message_start", func(w *writer) {
		w.object("message", func() { m.resource(w, a, "", Usage{Input: a.Call.InputTokens, Output: 1}, nil) })
		w.text("type", "message_start")
	})
	m.ping(a)
}

// start adds the beginning of a block, whose members block writes.
func (messages) start(a *Answer, block func(*writer)) {
	a.event("content_block_start", func(w *writer) {
		w.object("content_block", func() { block(w) })
		w.number("index", 0)
		w.text("type", "content_block_start")
	})
}

// delta adds a piece of a block; it is the member field of a delta of a kind.
func (messages) delta(a *Answer, field, piece, kind string) {
	a.event("content_block_delta", func(w *writer) {
		w.object("delta", func() {
			w.text(field, piece)
			w.text("type", kind)
		})
		w.number("index", 0)
		w.text("type", "content_block_delta")
	})
}

func (messages) stop(a *Answer) {
	a.event("content_block_stop", func(w *writer) {
		w.number("index", 0)
		w.text("type", "content_block_stop")
	})
}

func (messages) block(w *writer, text string) {
	w.text("text", text)
	w.text("type", "text")
}

func (messages) call(w *writer, a *Answer, input string) {
	w.joined("id", "toolu_", a.ID)
	w.literal("input", input)
	w.text("name", a.Call.Tools[0].Name)
	w.text("type", "tool_use")
}

func (m messages) token(a *Answer, text string, first bool) {
	if first {
		m.start(a, func(w *writer) { m.block(w, "") })
	}
	m.delta(a, "text", text, "text_delta")
}

func (m messages) tool(a *Answer) {
	one, two := half(a.ToolArg)
	m.start(a, func(w *writer) { m.call(w, a, "{}") })
	m.delta(a, "partial_json", one, "input_json_delta")
	m.delta(a, "partial_json", two, "input_json_delta")
	m.stop(a)
}

func (m messages) end(a *Answer, f Finish, u Usage) {
	if len(a.said) > 0 {
		m.stop(a)
	}
	a.event("message_delta", func(w *writer) {
		w.object("delta", func() { m.stopped(w, messagesFinish[f]) })
		w.text("type", "message_delta")
		w.object("usage", func() { m.usage(w, u) })
	})
}

// bare adds an event that has nothing but its type.
func (messages) bare(a *Answer, kind string) {
	a.event(kind, func(w *writer) { w.text("type", kind) })
}

func (m messages) done(a *Answer) { m.bare(a, "message_stop") }
func (m messages) ping(a *Answer) { m.bare(a, "ping") }

func (m messages) failed(a *Answer, f Failure) {
	a.event("error", func(w *writer) { m.failure(w, f) })
}

func (m messages) whole(w *writer, a *Answer, text string, f Finish, u Usage) {
	m.resource(w, a, messagesFinish[f], u, func() {
		switch {
		case f == ToolUse:
			w.object("", func() { m.call(w, a, a.ToolArg) })
		case text != "":
			w.object("", func() { m.block(w, text) })
		}
	})
}

func (messages) failure(w *writer, f Failure) {
	w.object("error", func() {
		w.text("message", f.Message)
		w.text("type", anthropicType(f))
	})
	w.text("request_id", "req_lab")
	w.text("type", "error")
}

// anthropicType is the error type that goes with a status.
func anthropicType(f Failure) string {
	if f.Type != "" {
		return f.Type
	}
	switch f.Status {
	case 400:
		return "invalid_request_error"
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503, 529:
		return "overloaded_error"
	}
	return "api_error"
}
