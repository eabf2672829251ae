package wire

// responses is OpenAI responses.
type responses struct{}

// thought is what a thinking answer says of its thoughts, and thoughtTokens what they cost.
const (
	thought       = "The lab weighs the question before it answers."
	thoughtTokens = 9
)

// The members of an event that say which part of an item it is about; there is never more than one part.
const (
	ofContent = "content_index"
	ofSummary = "summary_index"
)

// report is an event about an item of the output, or about a part of it. What is empty is left out.
type report struct {
	index    int    // of the item
	id       string // prefix of the item's id
	part     string // ofContent or ofSummary
	as, said string // a text, and the member that it is: arguments, delta, refusal or text
	logprobs bool   // an empty list of them is there
	named    bool   // the function's name is there
	body     string // item or part: an object, whose members write writes
	write    func(*writer)
}

// tell adds the event. The members of all reports are here, in the order of their names.
func (responses) tell(a *Answer, kind string, e report) {
	a.event(kind, func(w *writer) {
		e.text(w, "arguments")
		e.place(w, ofContent)
		e.text(w, "delta")
		e.object(w, "item")
		if e.id != "" {
			w.joined("item_id", e.id, a.ID)
		}
		if e.logprobs {
			w.list("logprobs", nil)
		}
		if e.named {
			w.text("name", a.Call.Tools[0].Name)
		}
		w.number("output_index", int64(e.index))
		e.object(w, "part")
		e.text(w, "refusal")
		w.number("sequence_number", a.next())
		e.place(w, ofSummary)
		e.text(w, "text")
		w.text("type", kind)
	})
}

func (e *report) text(w *writer, name string) {
	if e.as == name {
		w.text(name, e.said)
	}
}

func (e *report) place(w *writer, name string) {
	if e.part == name {
		w.number(name, 0)
	}
}

func (e *report) object(w *writer, name string) {
	if e.body == name {
		w.object(name, func() { e.write(w) })
	}
}

// state adds an event that carries the whole response object.
func (responses) state(a *Answer, kind string, write func(*writer)) {
	a.event(kind, func(w *writer) {
		w.object("response", func() { write(w) })
		w.number("sequence_number", a.next())
		w.text("type", kind)
	})
}

func (r responses) open(a *Answer) {
	begun := func(w *writer) { r.resource(w, a, result{status: "in_progress"}) }
	r.state(a, "response.created", begun)
	r.state(a, "response.in_progress", begun)
}

// messageItem writes the message; content writes its parts, nil = none.
func (responses) messageItem(w *writer, a *Answer, status string, content func()) {
	w.list("content", content)
	w.joined("id", "msg_", a.ID)
	w.text("role", "assistant")
	w.text("status", status)
	w.text("type", "message")
}

// thoughtItem writes the item of the thoughts, which are in it when it is done.
func (r responses) thoughtItem(w *writer, a *Answer, done bool) {
	w.joined("id", "rs_", a.ID)
	w.list("summary", func() {
		if done {
			w.object("", func() { r.thoughtPart(w, thought) })
		}
	})
	w.text("type", "reasoning")
}

func (responses) thoughtPart(w *writer, said string) {
	w.text("text", said)
	w.text("type", "summary_text")
}

func (responses) callItem(w *writer, a *Answer, status, args string) {
	w.text("arguments", args)
	w.joined("call_id", "call_", a.ID)
	w.joined("id", "fc_", a.ID)
	w.text("name", a.Call.Tools[0].Name)
	w.text("status", status)
	w.text("type", "function_call")
}

// part writes a part of the message.
func (responses) part(w *writer, a *Answer, s string) {
	if a.refuses {
		w.text("refusal", s)
		w.text("type", "refusal")
		return
	}
	w.list("annotations", nil)
	w.list("logprobs", nil)
	w.text("text", s)
	w.text("type", "output_text")
}

// index is the place of the item behind the thoughts.
func (responses) index(a *Answer) int {
	if a.Call.Thinks() {
		return 1
	}
	return 0
}

// think is the reasoning item, where the call wants one.
func (r responses) think(a *Answer) {
	if !a.Call.Thinks() {
		return
	}
	tell := func(kind string, e report) {
		e.id, e.part = "rs_", ofSummary
		r.tell(a, "response.reasoning_summary_"+kind, e)
	}
	item := func(kind string, done bool) {
		r.tell(a, kind, report{body: "item", write: func(w *writer) { r.thoughtItem(w, a, done) }})
	}
	part := func(kind, said string) {
		tell(kind, report{body: "part", write: func(w *writer) { r.thoughtPart(w, said) }})
	}
	one, two := half(thought)
	item("response.output_item.added", false)
	part("part.added", "")
	tell("text.delta", report{as: "delta", said: one})
	tell("text.delta", report{as: "delta", said: two})
	tell("text.done", report{as: "text", said: thought})
	part("part.done", thought)
	item("response.output_item.done", true)
}

// about adds an event about the message's one part.
func (r responses) about(a *Answer, kind string, e report) {
	e.index, e.id, e.part = r.index(a), "msg_", ofContent
	r.tell(a, kind, e)
}

// parted adds the event that the message's part begins or ends with.
func (r responses) parted(a *Answer, kind, text string) {
	r.about(a, kind, report{body: "part", write: func(w *writer) { r.part(w, a, text) }})
}

func (r responses) token(a *Answer, text string, first bool) {
	if first {
		r.think(a)
		r.tell(a, "response.output_item.added", report{index: r.index(a), body: "item",
			write: func(w *writer) { r.messageItem(w, a, "in_progress", nil) }})
		r.parted(a, "response.content_part.added", "")
	}
	if a.refuses {
		r.about(a, "response.refusal.delta", report{as: "delta", said: text})
		return
	}
	r.about(a, "response.output_text.delta", report{as: "delta", said: text, logprobs: true})
}

func (r responses) tool(a *Answer) {
	r.think(a)
	tell := func(kind string, e report) {
		e.index = r.index(a)
		r.tell(a, kind, e)
	}
	item := func(kind, status, args string) {
		tell(kind, report{body: "item", write: func(w *writer) { r.callItem(w, a, status, args) }})
	}
	one, two := half(a.ToolArg)
	item("response.output_item.added", "in_progress", "")
	tell("response.function_call_arguments.delta", report{id: "fc_", as: "delta", said: one})
	tell("response.function_call_arguments.delta", report{id: "fc_", as: "delta", said: two})
	tell("response.function_call_arguments.done", report{id: "fc_", as: "arguments", said: a.ToolArg, named: true})
	item("response.output_item.done", "completed", a.ToolArg)
}

func (r responses) end(a *Answer, f Finish, u Usage) {
	text := string(a.said)
	if f != ToolUse && text != "" {
		if a.refuses {
			r.about(a, "response.refusal.done", report{as: "refusal", said: text})
		} else {
			r.about(a, "response.output_text.done", report{as: "text", said: text, logprobs: true})
		}
		r.parted(a, "response.content_part.done", text)
		r.tell(a, "response.output_item.done", report{index: r.index(a), body: "item",
			write: func(w *writer) { r.message(w, a, text, f) }})
	}
	kind := "response.completed"
	if cutShort(f) != "" {
		kind = "response.incomplete"
	}
	r.state(a, kind, func(w *writer) { r.whole(w, a, text, f, u) })
}

// message writes the message as it is when it ends.
func (r responses) message(w *writer, a *Answer, text string, f Finish) {
	r.messageItem(w, a, itemStatus(f), func() { w.object("", func() { r.part(w, a, text) }) })
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

func (responses) done(*Answer) {}
func (responses) ping(*Answer) {}

func (r responses) failed(a *Answer, f Failure) {
	r.state(a, "response.failed", func(w *writer) { r.resource(w, a, result{status: "failed", failure: &f}) })
}

func (r responses) whole(w *writer, a *Answer, text string, f Finish, u Usage) {
	x := result{status: itemStatus(f), reason: cutShort(f), usage: &u}
	if x.reason == "" {
		x.completedAt = a.At.Unix() + 1
	}
	thinks := a.Call.Thinks() && (f == ToolUse || text != "")
	if thinks {
		x.thoughts = thoughtTokens
	}
	x.output = func() {
		if thinks {
			w.object("", func() { r.thoughtItem(w, a, true) })
		}
		switch {
		case f == ToolUse:
			w.object("", func() { r.callItem(w, a, "completed", a.ToolArg) })
		case text != "":
			w.object("", func() { r.message(w, a, text, f) })
		}
	}
	r.resource(w, a, x)
}

func (responses) failure(w *writer, f Failure) { chat{}.failure(w, f) }
