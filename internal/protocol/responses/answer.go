package responses

import (
	"spillway/internal/protocol"
	"spillway/internal/protocol/jsonscan"
)

// answer is a response object, whole or as part of an event.
type answer struct {
	object, status, reason []byte
	output                 bool
	fault                  protocol.Fault
}

// run reads a body.
func (a *answer) run(body []byte, s *protocol.Signal) {
	body, wrapped := protocol.Unwrap(body)
	if !a.read(body, s) {
		s.Settle(false)
		return
	}
	failed := string(a.status) == "failed"
	found := a.fault.Found(a.looksLikeOne())
	switch {
	case wrapped && !found:
		s.Settle(false)
		return
	case found:
		a.fault.Report(body, s)
	case failed:
		protocol.ReadError([]byte(`{"code":"server_error","message":"the response has status failed"}`), 0, s)
		s.ErrBody = body
	case string(a.status) == "completed" || string(a.status) == "incomplete":
		s.Flags |= protocol.Terminal
		s.Mark(0, true)
		a.finish(string(a.status), s)
	}
	s.Settle(true)
}

func (a *answer) looksLikeOne() bool { return string(a.object) == "response" || a.output }

// read walks the object; false when it is no well-formed object.
func (a *answer) read(raw []byte, s *protocol.Signal) bool {
	c := jsonscan.New(raw)
	if !c.Object() {
		return false
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "id":
			s.ID = c.Text()
		case "model":
			s.Model = c.Text()
		case "object":
			a.object = c.Text()
			if string(a.object) == "error" {
				a.fault.Named()
			}
		case "status":
			a.statusMember(&c)
		case "usage":
			if protocol.ReadUsage(&c, &s.Usage) {
				s.Flags |= protocol.UsageSeen
			}
		case "incomplete_details":
			a.details(&c)
		case "output":
			a.items(&c, s)
		case "conversation":
			s.Made(protocol.KeptObject, protocol.ReadID(&c))
		case "instructions", "tools", "input", "metadata", "text", "reasoning":
			c.Skip()
		default:
			a.fault.Member(key, &c)
		}
	}
	return c.Done()
}

// statusMember: a word in an answer, a number in an error.
func (a *answer) statusMember(c *jsonscan.Cursor) {
	if c.Kind() == jsonscan.String {
		a.status = c.Text()
		return
	}
	a.fault.Member([]byte("status"), c)
}

func (a *answer) details(c *jsonscan.Cursor) {
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) == "reason" {
			a.reason = c.Text()
		} else {
			c.Skip()
		}
	}
}

func (a *answer) items(c *jsonscan.Cursor, s *protocol.Signal) {
	a.output = c.Kind() == jsonscan.Array
	if !c.Array() {
		return
	}
	for c.Element() {
		var it item
		it.read(c)
		it.report(s)
		it.made(s)
		if serverTool(it.typ) {
			s.Flags |= protocol.Content
		}
	}
}

// finish notes why the response ended.
func (a *answer) finish(kind string, s *protocol.Signal) {
	s.Finish = kind
	switch kind {
	case "completed", "done", "":
		return
	}
	if len(a.reason) > 0 {
		s.Finish = jsonscan.Unquote(a.reason)
	}
	switch s.Finish {
	case "max_output_tokens", "max_tokens", "length":
		s.Flags |= protocol.Length
	case "content_filter":
		s.Flags |= protocol.Refused
	default:
		s.Flags |= protocol.Odd
	}
}

// item is one output item.
type item struct {
	typ    []byte
	named  bool // has a name, arguments or input
	filled bool // has text, a refusal or a result in it

	id, sealed, container []byte
}

func (it *item) read(c *jsonscan.Cursor) {
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "type":
			it.typ = c.Text()
		case "name", "arguments", "input", "action", "operation":
			it.named = c.Filled() || it.named
		case "content", "summary":
			it.parts(c)
		case "result", "text":
			it.filled = c.Filled() || it.filled
		case "id":
			it.id = c.Text()
		case "encrypted_content":
			it.sealed = c.Text()
		case "container_id":
			it.container = c.Text()
		default:
			c.Skip()
		}
	}
}

func (it *item) parts(c *jsonscan.Cursor) {
	if !c.Array() {
		return
	}
	for c.Element() {
		if !c.Object() {
			continue
		}
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			switch string(key) {
			case "text", "refusal", "transcript", "data", "audio", "image_url":
				it.filled = c.Filled() || it.filled
			default:
				c.Skip()
			}
		}
	}
}

// made notes what a finished item leaves at its account. Reasoning without an encrypted text is known there by its id.
func (it *item) made(s *protocol.Signal) {
	s.Made(protocol.StoredItem, it.id)
	s.Made(protocol.KeptObject, it.container)
	switch string(it.typ) {
	case "reasoning":
		if len(it.sealed) == 0 {
			it.sealed = it.id
		}
		s.Made(protocol.SealedText, it.sealed)
	case "compaction", "compaction_summary":
		s.Made(protocol.SealedState, it.sealed)
	}
}

// report says what the item is. Text of finished items is no delta, so it never counts as Text.
func (it *item) report(s *protocol.Signal) {
	switch string(it.typ) {
	case "reasoning":
		s.Flags |= protocol.Reasoning
	case "function_call", "custom_tool_call", "computer_call", "local_shell_call", "apply_patch_call":
		s.Flags |= protocol.Tool
		if it.named {
			s.Flags |= protocol.Content
		}
	}
	if it.filled {
		s.Flags |= protocol.Content
	}
}
