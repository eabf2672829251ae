package responses

import (
	"bytes"

	"spillway/internal/protocol"
	"spillway/internal/protocol/jsonscan"
)

// event is one pass over an event: the members that matter are noted, then read once the type is known, which may stand
// anywhere.
type event struct {
	typ      []byte
	filled   bool   // delta, text, arguments, refusal or a partial image holds something
	response []byte // raw
	item     []byte // raw
	part     []byte // raw
	fault    protocol.Fault
}

func (e *event) read(name, data []byte, s *protocol.Signal) {
	data, wrapped := protocol.Unwrap(data)
	c := jsonscan.New(data)
	if !c.Object() {
		s.Settle(false)
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		e.member(key, &c, s)
	}
	if !c.Done() {
		s.Settle(false)
		return
	}
	if e.typ == nil {
		e.typ = name
	}
	if string(e.typ) == "error" || string(name) == "error" {
		e.fault.Named()
	}
	known := bytes.HasPrefix(e.typ, []byte("response."))
	found := e.fault.Found(known)
	switch {
	case wrapped && !found:
		s.Settle(false)
		return
	case found:
		e.fault.Report(data, s)
		s.Flags |= protocol.Last
		if string(e.typ) == "response.failed" {
			e.lifecycle(s)
		}
	default:
		e.judge(s)
	}
	s.Settle(true)
}

func (e *event) member(key []byte, c *jsonscan.Cursor, s *protocol.Signal) {
	switch string(key) {
	case "type":
		e.typ = c.Text()
	case "sequence_number":
		if n, ok := c.Int(); ok && n >= 0 {
			s.NextSequence = int64(n) + 1
		}
	case "delta", "text", "arguments", "refusal", "input", "code", "partial_image_b64", "transcript":
		e.filled = c.Filled() || e.filled
	case "item_id", "output_index", "content_index", "summary_index", "logprobs", "obfuscation":
		c.Skip()
	case "response":
		e.response = c.Raw()
	case "item":
		e.item = c.Raw()
	case "part":
		e.part = c.Raw()
	default:
		e.fault.Member(key, c)
	}
}

// judge sorts an event that is no error by its type.
func (e *event) judge(s *protocol.Signal) {
	kind := bytes.TrimPrefix(e.typ, []byte("response."))
	switch string(kind) {
	case "output_text.delta":
		if e.filled {
			s.Flags |= protocol.Content | protocol.Text
		}
	case "output_item.added", "output_item.done":
		e.outputItem(string(kind) == "output_item.done", s)
	case "created", "in_progress", "queued", "completed", "incomplete", "failed", "cancelled", "done":
		e.lifecycle(s)
	default:
		e.detail(kind, s)
	}
}

// detail sorts the many events inside an item: <what>.delta, <what>.done, <tool>_call.<state>.
func (e *event) detail(kind []byte, s *protocol.Signal) {
	what, state, _ := bytes.Cut(kind, []byte("."))
	switch {
	case bytes.HasPrefix(what, []byte("reasoning")):
		s.Flags |= protocol.Reasoning
	case bytes.HasPrefix(what, []byte("function_call")), bytes.HasPrefix(what, []byte("custom_tool_call")), bytes.HasPrefix(what, []byte("mcp_call_arguments")),
		bytes.HasPrefix(what, []byte("code_interpreter_call_code")):
		s.Flags |= protocol.Tool
	}
	streamed := string(state) == "delta" || string(state) == "done" || string(state) == "partial_image" || bytes.HasSuffix(state, []byte(".delta"))
	if streamed && e.filled {
		s.Flags |= protocol.Content
	}
}

// outputItem reads the item of output_item.added and .done. Tools of the client carry their name at once, which is
// content; a tool that runs at the server opens with the first and is closed with the second.
func (e *event) outputItem(done bool, s *protocol.Signal) {
	c := jsonscan.New(e.item)
	var it item
	it.read(&c)
	it.report(s)
	if done {
		it.made(s)
	}
	if !serverTool(it.typ) {
		return
	}
	s.Flags |= protocol.Content
	if done {
		s.Flags |= protocol.ToolClosed
	} else {
		s.Flags |= protocol.ToolOpen
	}
}

// serverTool reports whether items of this type are calls that the server itself carries out.
func serverTool(typ []byte) bool {
	switch string(typ) {
	case "function_call", "custom_tool_call", "computer_call", "local_shell_call", "apply_patch_call":
		return false
	case "mcp_list_tools":
		return true
	}
	return bytes.HasSuffix(typ, []byte("_call"))
}

// lifecycle reads the response object that comes with the first and the last events.
func (e *event) lifecycle(s *protocol.Signal) {
	var a answer
	a.read(e.response, s)
	kind := string(bytes.TrimPrefix(e.typ, []byte("response.")))
	failed := a.fault.Found(true) || kind == "failed" || kind == "cancelled" || string(a.status) == "failed"
	switch {
	case s.Flags.Has(protocol.Error): // reported from the top level already
	case failed && a.fault.Found(true):
		a.fault.Report(e.response, s)
	case failed:
		protocol.ReadError([]byte(`{"code":"server_error"}`), 0, s)
		s.Message, s.ErrBody = "the response ended as "+kind, e.response
	}
	switch {
	case s.Flags.Has(protocol.Error):
		s.Flags &^= protocol.Terminal
		s.Flags |= protocol.Last
	case kind == "completed" || kind == "incomplete" || kind == "done":
		s.Flags |= protocol.Terminal | protocol.Last
		s.Mark(0, true)
		a.finish(kind, s)
	default:
		s.Flags &^= protocol.Terminal
		s.Mark(0, false)
	}
}
