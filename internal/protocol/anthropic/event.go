package anthropic

import (
	"spillway/internal/protocol"
	"spillway/internal/protocol/jsonscan"
)

// event is one pass over an event: the members that matter are noted, then read once the type is known, which may stand
// anywhere.
type event struct {
	typ            []byte
	index          int
	delta          []byte // raw; anything else once a content delta was read on the way
	block, message []byte // raw
	fault          protocol.Fault
}

func (e *event) read(name, data []byte, s *protocol.Signal) {
	data, wrapped := protocol.Unwrap(data)
	c := jsonscan.New(data)
	if !c.Object() {
		s.Settle(false)
		return
	}
	var u usage
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "type":
			e.typ = c.Text()
		case "index":
			e.index, _ = c.Int()
		case "delta":
			if string(e.typ) == "content_block_delta" { // the common order: no second look is needed
				contentDelta(&c, s)
				e.delta = e.typ
				continue
			}
			e.delta = c.Raw()
		case "content_block":
			e.block = c.Raw()
		case "message":
			e.messageMember(&c)
		case "usage":
			u.read(&c)
		default:
			e.fault.Member(key, &c)
		}
	}
	if !c.Done() {
		s.Settle(false)
		return
	}
	u.report(s)
	if e.typ == nil {
		e.typ = name
	}
	if string(e.typ) == "error" || string(name) == "error" {
		e.fault.Named()
	}
	found := e.fault.Found(e.delta != nil || e.block != nil || e.message != nil)
	switch {
	case wrapped && !found:
		s.Settle(false)
		return
	case found:
		e.fault.Report(data, s)
		s.Flags |= protocol.Last
	default:
		e.judge(s)
	}
	s.Settle(true)
}

// messageMember: an object in message_start, a text in the errors of other services.
func (e *event) messageMember(c *jsonscan.Cursor) {
	if c.Kind() == jsonscan.Object {
		e.message = c.Raw()
		return
	}
	e.fault.Member([]byte("message"), c)
}

func (e *event) judge(s *protocol.Signal) {
	switch string(e.typ) {
	case "content_block_delta":
		if len(e.delta) > 0 && e.delta[0] == '{' {
			c := jsonscan.New(e.delta)
			contentDelta(&c, s)
		}
	case "content_block_start":
		c := jsonscan.New(e.block)
		var b block
		b.read(&c)
		b.report(s, true)
		s.Flags |= protocol.BlockOpen
		s.Block = e.index
	case "content_block_stop":
		s.Flags |= protocol.BlockClosed
		s.Block = e.index
	case "message_start":
		var m message
		m.read(e.message, s)
		s.Mark(0, false)
	case "message_delta":
		e.messageDelta(s)
	case "message_stop":
		s.Flags |= protocol.Terminal | protocol.Last
		s.Mark(0, true)
	}
}

// contentDelta reads the delta of a content block. Its members tell what it is, whatever its type is called.
func contentDelta(c *jsonscan.Cursor, s *protocol.Signal) {
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "text":
			if c.Filled() {
				s.Flags |= protocol.Content | protocol.Text
			}
		case "thinking":
			s.Flags |= protocol.Reasoning
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		case "signature":
			s.Flags |= protocol.Reasoning
			s.Made(protocol.SealedText, c.Text())
		case "partial_json":
			s.Flags |= protocol.Tool
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		default:
			c.Skip()
		}
	}
}

func (e *event) messageDelta(s *protocol.Signal) {
	c := jsonscan.New(e.delta)
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "stop_reason":
			stopReason(c.Text(), s)
		case "container":
			s.Made(protocol.KeptObject, protocol.ReadID(&c))
		default:
			c.Skip()
		}
	}
}

// stopReason notes why the message ended; null is no reason.
func stopReason(reason []byte, s *protocol.Signal) {
	if len(reason) == 0 {
		return
	}
	s.Flags |= protocol.Terminal
	s.Mark(0, true)
	switch string(reason) {
	case "end_turn":
		s.Finish = "end_turn"
		return
	case "tool_use":
		s.Finish = "tool_use"
		return
	case "max_tokens", "model_context_window_exceeded":
		s.Flags |= protocol.Length
	case "refusal", "content_filter", "content_filtered", "sensitive":
		s.Flags |= protocol.Refused
	case "stop_sequence":
	default: // pause_turn: the turn is not over
		s.Flags |= protocol.Odd
	}
	s.Finish = jsonscan.Unquote(reason)
}
