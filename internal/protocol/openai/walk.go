package openai

import (
	"spillway/internal/protocol"
	"spillway/internal/protocol/jsonscan"
)

// walk is one pass over a chunk or an answer.
type walk struct {
	c       jsonscan.Cursor
	s       *protocol.Signal
	fault   protocol.Fault
	choices bool // the member is there
	some    bool // and holds at least one
	delta   bool // a chunk, not a whole answer
	errored bool // a finish reason says "error"
}

func (w *walk) run(data []byte) {
	data, wrapped := protocol.Unwrap(data)
	w.c = jsonscan.New(data)
	c := &w.c
	if !c.Object() {
		w.s.Settle(false)
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		w.member(key)
	}
	if !c.Done() || wrapped && !w.fault.Found(w.some) {
		w.s.Settle(false)
		return
	}
	switch {
	case w.fault.Found(w.some):
		w.fault.Report(data, w.s)
	case w.errored:
		protocol.ReadError([]byte(`{"message":"the stream ended with finish_reason error"}`), 0, w.s)
		w.s.ErrBody = data
	}
	if w.s.Flags.Has(protocol.Error) {
		w.s.Flags &^= protocol.Terminal | protocol.UsageOnly
	}
	w.s.Settle(true)
}

func (w *walk) member(key []byte) {
	c, s := &w.c, w.s
	switch string(key) {
	case "id":
		s.ID = c.Text()
	case "model":
		s.Model = c.Text()
	case "choices":
		w.choices = c.Kind() == jsonscan.Array
		if c.Array() {
			for c.Element() {
				w.some = true
				w.choice()
			}
		}
	case "usage":
		if protocol.ReadUsage(c, &s.Usage) {
			s.Flags |= protocol.UsageSeen
			if w.delta && !w.some {
				s.Flags |= protocol.UsageOnly
			}
		}
	case "x_groq":
		w.groq()
	case "created", "system_fingerprint", "service_tier", "provider":
		c.Skip()
	default:
		w.fault.Member(key, c)
	}
}

// groq reads the extra member in which Groq put usage and errors.
func (w *walk) groq() {
	c := &w.c
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "usage":
			if protocol.ReadUsage(c, &w.s.Usage) {
				w.s.Flags |= protocol.UsageSeen
			}
		case "error":
			w.fault.Object(c)
		default:
			c.Skip()
		}
	}
}

func (w *walk) choice() {
	c, s := &w.c, w.s
	s.Flags &^= protocol.UsageOnly
	if !c.Object() {
		return
	}
	index, ended := 0, false
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "index":
			index, _ = c.Int()
		case "delta", "message":
			w.message()
		case "text":
			if c.Filled() {
				s.Flags |= protocol.Content | protocol.Text
			}
		case "finish_reason":
			ended = w.finish(c.Text()) || ended
		case "error":
			w.fault.Object(c)
		case "usage":
			if protocol.ReadUsage(c, &s.Usage) {
				s.Flags |= protocol.UsageSeen
			}
		default:
			c.Skip()
		}
	}
	s.Mark(index, ended)
}

// finish reads a finish reason; null and "" are none.
func (w *walk) finish(reason []byte) bool {
	if len(reason) == 0 {
		return false
	}
	s := w.s
	s.Flags |= protocol.Terminal
	switch string(reason) {
	case "stop":
		s.Finish = "stop"
		return true
	case "tool_calls":
		s.Finish = "tool_calls"
		return true
	case "length":
		s.Flags |= protocol.Length
	case "content_filter", "sensitive", "refusal":
		s.Flags |= protocol.Refused
	case "error":
		w.errored = true
	case "function_call", "tool_call", "stop_sequence", "end_turn", "tool_use", "eos", "eos_token", "STOP":
	default: // abort, insufficient_system_resource and what else upstreams think of
		s.Flags |= protocol.Odd
	}
	s.Finish = jsonscan.Unquote(reason)
	return true
}

// message reads a delta or a whole message.
func (w *walk) message() {
	c, s := &w.c, w.s
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "content":
			w.content()
		case "role":
			c.Skip()
		case "reasoning_content", "reasoning", "reasoning_text", "thinking":
			if c.Kind() != jsonscan.Null {
				s.Flags |= protocol.Reasoning
			}
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		case "reasoning_details", "thinking_blocks":
			w.reasoningDetails()
		case "tool_calls":
			w.toolCalls()
		case "function_call":
			w.function()
		case "refusal", "images":
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		case "audio":
			w.audio()
		default:
			c.Skip()
		}
	}
}

// content is a text, or a list of parts as Mistral sends it.
func (w *walk) content() {
	c, s := &w.c, w.s
	switch c.Kind() {
	case jsonscan.String:
		if len(c.Text()) > 0 {
			s.Flags |= protocol.Content | protocol.Text
		}
	case jsonscan.Array:
		c.Array()
		for c.Element() {
			w.part()
		}
	default:
		c.Skip()
	}
}

func (w *walk) part() {
	c, s := &w.c, w.s
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "text", "refusal":
			if c.Filled() {
				s.Flags |= protocol.Content | protocol.Text
			}
		case "thinking":
			s.Flags |= protocol.Reasoning
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		case "image_url", "input_audio", "audio":
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		default:
			c.Skip()
		}
	}
}

// reasoningDetails reads the list in which OpenRouter and LiteLLM send reasoning; encrypted data and signatures are
// reasoning without text.
func (w *walk) reasoningDetails() {
	c, s := &w.c, w.s
	if !c.Array() {
		return
	}
	for c.Element() {
		s.Flags |= protocol.Reasoning
		if !c.Object() {
			continue
		}
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			switch string(key) {
			case "text", "summary", "thinking":
				if c.Filled() {
					s.Flags |= protocol.Content
				}
			default:
				c.Skip()
			}
		}
	}
}

func (w *walk) toolCalls() {
	c := &w.c
	if !c.Array() {
		return
	}
	for c.Element() {
		w.s.Flags |= protocol.Tool
		if !c.Object() {
			continue
		}
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			switch string(key) {
			case "function", "custom":
				w.function()
			default:
				c.Skip()
			}
		}
	}
}

func (w *walk) function() {
	c := &w.c
	if !c.Object() {
		return
	}
	w.s.Flags |= protocol.Tool
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "name", "arguments", "input":
			if c.Filled() {
				w.s.Flags |= protocol.Content
			}
		default:
			c.Skip()
		}
	}
}

func (w *walk) audio() {
	c := &w.c
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "data", "transcript":
			if c.Filled() {
				w.s.Flags |= protocol.Content
			}
		default:
			c.Skip()
		}
	}
}
