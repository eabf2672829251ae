package gemini

import (
	"bytes"

	"spillway/internal/protocol"
	"spillway/internal/protocol/jsonscan"
)

// walk is one pass over a chunk or an answer.
type walk struct {
	c       jsonscan.Cursor
	s       *protocol.Signal
	fault   protocol.Fault
	answer  bool // candidates or promptFeedback are there
	blocked bool
	tools   int // server tools begun less those done
}

func (w *walk) run(data []byte, s *protocol.Signal) {
	w.c, w.s = jsonscan.New(data), s
	c := &w.c
	objects := 0
	switch c.Kind() {
	case jsonscan.Object:
		objects++
		w.object()
	case jsonscan.Array:
		c.Array()
		for c.Element() {
			if c.Kind() == jsonscan.Object {
				objects++
			}
			w.object()
		}
	}
	if objects == 0 || !c.Done() {
		s.Settle(false)
		return
	}
	switch {
	case w.tools > 0:
		s.Flags |= protocol.ToolOpen
	case w.tools < 0:
		s.Flags |= protocol.ToolClosed
	}
	if w.blocked && s.Choices == 0 {
		s.Flags |= protocol.Refused | protocol.Terminal
		s.Mark(0, true)
	}
	if w.fault.Found(w.answer) {
		w.fault.Report(data, s)
		s.Flags &^= protocol.Terminal
	}
	s.Settle(true)
}

func (w *walk) object() {
	c, s := &w.c, w.s
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "candidates":
			if c.Kind() == jsonscan.Array {
				w.answer = true
			}
			if c.Array() {
				for c.Element() {
					w.candidate()
				}
			}
		case "usageMetadata":
			w.usage()
		case "promptFeedback":
			w.feedback()
		case "responseId":
			s.ID = c.Text()
		case "modelVersion":
			s.Model = c.Text()
		case "response": // the envelope of Google's code assist
			w.object()
		default:
			w.fault.Member(key, c)
		}
	}
}

func (w *walk) candidate() {
	c := &w.c
	if !c.Object() {
		return
	}
	index, ended := 0, false
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "content":
			w.content()
		case "index":
			index, _ = c.Int()
		case "finishReason":
			ended = w.finish(c.Text()) || ended
		default:
			c.Skip()
		}
	}
	w.s.Mark(index, ended)
}

func (w *walk) content() {
	c := &w.c
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) != "parts" || c.Kind() != jsonscan.Array {
			c.Skip()
			continue
		}
		c.Array()
		for c.Element() {
			w.part()
		}
	}
}

func (w *walk) part() {
	c, s := &w.c, w.s
	if !c.Object() {
		return
	}
	text, thought := false, false
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "text":
			text = c.Filled()
		case "thought":
			thought = c.Bool()
		case "thoughtSignature":
			if sealed := c.Text(); len(sealed) > 0 {
				s.Flags |= protocol.Reasoning
				s.Made(protocol.SealedText, sealed)
			}
		case "functionCall":
			s.Flags |= protocol.Tool
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		case "inlineData", "fileData":
			if c.Filled() {
				s.Flags |= protocol.Content
			}
		case "executableCode", "toolCall":
			w.edge(1)
		case "codeExecutionResult", "toolResponse":
			w.edge(-1)
		default:
			c.Skip()
		}
	}
	switch {
	case thought && text:
		s.Flags |= protocol.Reasoning | protocol.Content
	case thought:
		s.Flags |= protocol.Reasoning
	case text:
		s.Flags |= protocol.Content | protocol.Text
	}
}

// edge notes a tool that runs at the server, begun or done. A call and its result in one chunk leave nothing open.
func (w *walk) edge(n int) {
	if w.c.Filled() {
		w.s.Flags |= protocol.Content
		w.tools += n
	}
}

// finish reads a finish reason.
func (w *walk) finish(reason []byte) bool {
	s := w.s
	switch string(reason) {
	case "", "FINISH_REASON_UNSPECIFIED":
		return false
	case "STOP":
		s.Flags |= protocol.Terminal
		s.Finish = "STOP"
		return true
	case "MAX_TOKENS":
		s.Flags |= protocol.Length
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE":
		s.Flags |= protocol.Refused
	default:
		if bytes.HasPrefix(reason, []byte("IMAGE_")) && !bytes.Equal(reason, []byte("IMAGE_OTHER")) {
			s.Flags |= protocol.Refused
		} else { // OTHER, MALFORMED_FUNCTION_CALL and the like
			s.Flags |= protocol.Odd
		}
	}
	s.Flags |= protocol.Terminal
	s.Finish = jsonscan.Unquote(reason)
	return true
}

// feedback reads promptFeedback: a prompt that was blocked gets no candidate at all.
func (w *walk) feedback() {
	c := &w.c
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) != "blockReason" {
			c.Skip()
			continue
		}
		reason := c.Text()
		if len(reason) > 0 && string(reason) != "BLOCK_REASON_UNSPECIFIED" {
			w.answer, w.blocked = true, true
			w.s.Finish = jsonscan.Unquote(reason)
		}
	}
}

// usage reads usageMetadata. Thoughts stand beside the candidates' tokens, tool results beside the prompt's.
func (w *walk) usage() {
	c := &w.c
	if !c.Object() {
		return
	}
	var prompt, tool, cached, candidates, thoughts int
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "promptTokenCount":
			prompt, _ = c.Int()
		case "toolUsePromptTokenCount":
			tool, _ = c.Int()
		case "cachedContentTokenCount":
			cached, _ = c.Int()
		case "candidatesTokenCount", "responseTokenCount":
			candidates, _ = c.Int()
		case "thoughtsTokenCount":
			thoughts, _ = c.Int()
		default:
			c.Skip()
		}
	}
	u := &w.s.Usage
	u.Input = max(u.Input, prompt+tool)
	u.CachedInput = max(u.CachedInput, cached)
	u.Output = max(u.Output, candidates+thoughts)
	u.Reasoning = max(u.Reasoning, thoughts)
	w.s.Flags |= protocol.UsageSeen
}
