package anthropic

import (
	"bytes"

	"spillway/internal/protocol"
	"spillway/internal/protocol/jsonscan"
)

// message is a message object: a whole answer, or the empty one of message_start.
type message struct {
	typ     []byte
	content bool // the list is there
	fault   protocol.Fault
}

func (m *message) looksLikeOne() bool { return string(m.typ) == "message" || m.content }

// run reads a body.
func (m *message) run(body []byte, s *protocol.Signal) {
	body, wrapped := protocol.Unwrap(body)
	if !m.read(body, s) {
		s.Settle(false)
		return
	}
	if string(m.typ) == "error" {
		m.fault.Named()
	}
	switch found := m.fault.Found(m.looksLikeOne()); {
	case wrapped && !found:
		s.Settle(false)
		return
	case found:
		m.fault.Report(body, s)
		s.Flags &^= protocol.Terminal
	}
	s.Settle(true)
}

// read walks the object; false when it is no well-formed object.
func (m *message) read(raw []byte, s *protocol.Signal) bool {
	c := jsonscan.New(raw)
	if !c.Object() {
		return false
	}
	var u usage
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "id":
			s.ID = c.Text()
		case "model":
			s.Model = c.Text()
		case "type":
			m.typ = c.Text()
		case "content":
			m.blocks(&c, s)
		case "stop_reason":
			stopReason(c.Text(), s)
		case "usage":
			u.read(&c)
		case "container":
			s.Made(protocol.KeptObject, protocol.ReadID(&c))
		case "role", "stop_sequence":
			c.Skip()
		default:
			m.fault.Member(key, &c)
		}
	}
	u.report(s)
	return c.Done()
}

func (m *message) blocks(c *jsonscan.Cursor, s *protocol.Signal) {
	m.content = c.Kind() == jsonscan.Array
	if !c.Array() {
		return
	}
	for c.Element() {
		var b block
		b.read(c)
		b.report(s, false)
	}
}

// block is one content block.
type block struct {
	typ                   []byte
	text, thinking, named bool
	other                 bool // holds something else

	sealed  []byte // signature of thinking, or thinking that is not to be read
	content []byte // of a tool's result
}

func (b *block) read(c *jsonscan.Cursor) {
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "type":
			b.typ = c.Text()
		case "text":
			b.text = c.Filled()
		case "thinking":
			b.thinking = c.Filled()
		case "name":
			b.named = c.Filled()
		case "signature", "data":
			b.sealed = c.Text()
		case "content":
			b.content = c.Raw()
			inner := jsonscan.New(b.content)
			b.other = inner.Filled() || b.other
		case "source", "file_id":
			b.other = c.Filled() || b.other
		default:
			c.Skip()
		}
	}
}

// report says what the block is. In a stream, tools that run at the server open with their call and close with the
// block that holds their result; in a whole answer nothing is open any more.
func (b *block) report(s *protocol.Signal, stream bool) {
	switch string(b.typ) {
	case "text":
		if b.text {
			s.Flags |= protocol.Content | protocol.Text
		}
		return
	case "thinking", "redacted_thinking":
		s.Flags |= protocol.Reasoning
		s.Made(protocol.SealedText, b.sealed)
		if b.thinking {
			s.Flags |= protocol.Content
		}
		return
	case "tool_use":
		s.Flags |= protocol.Tool
		if b.named {
			s.Flags |= protocol.Content
		}
		return
	}
	var edge protocol.Flags
	switch {
	case bytes.HasSuffix(b.typ, []byte("tool_use")): // server_tool_use, mcp_tool_use
		edge = protocol.ToolOpen
	case bytes.HasSuffix(b.typ, []byte("tool_result")):
		edge = protocol.ToolClosed
		if bytes.Contains(b.content, []byte(`"file_id"`)) {
			c := jsonscan.New(b.content)
			files(&c, s)
		}
	default:
		if b.text || b.other {
			s.Flags |= protocol.Content
		}
		return
	}
	s.Flags |= protocol.Content
	if stream {
		s.Flags |= edge
	}
}

// files notes the files that a tool at the server has made, wherever its result has them.
func files(c *jsonscan.Cursor, s *protocol.Signal) {
	switch c.Kind() {
	case jsonscan.Array:
		c.Array()
		for c.Element() {
			files(c, s)
		}
	case jsonscan.Object:
		c.Object()
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			if string(key) == "file_id" {
				s.Made(protocol.KeptObject, c.Text())
			} else {
				files(c, s)
			}
		}
	default:
		c.Skip()
	}
}

// usage is Anthropic's way of counting: cached and cache-making input stands beside input_tokens, not in it.
type usage struct {
	seen                             bool
	input, cached, made, out, reason int
}

func (u *usage) read(c *jsonscan.Cursor) {
	if !c.Object() {
		return
	}
	u.seen = true
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "input_tokens":
			u.input, _ = c.Int()
		case "cache_read_input_tokens":
			u.cached, _ = c.Int()
		case "cache_creation_input_tokens":
			u.made, _ = c.Int()
		case "output_tokens":
			u.out, _ = c.Int()
		case "output_tokens_details":
			u.details(c)
		default:
			c.Skip()
		}
	}
}

func (u *usage) details(c *jsonscan.Cursor) {
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "reasoning_tokens", "thinking_tokens":
			u.reason, _ = c.Int()
		default:
			c.Skip()
		}
	}
}

func (u *usage) report(s *protocol.Signal) {
	if !u.seen {
		return
	}
	s.Flags |= protocol.UsageSeen
	s.Usage.Input = max(u.input, 0) + max(u.cached, 0) + max(u.made, 0)
	s.Usage.CachedInput = max(u.cached, 0)
	s.Usage.Output = max(u.out, 0)
	s.Usage.Reasoning = max(u.reason, 0)
}
