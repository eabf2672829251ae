package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"spillway/internal/protocol/jsonscan"
)

// members walks over the members of a request, so that the few that an answer depends on are read without building the
// others. As encoding/json does, it takes null for a member that is not there and the last of two that are alike; it
// knows names only as they are written.
type members struct {
	jsonscan.Cursor
	err error // the first value that is not of its kind
}

// scan walks over a body that must be one object.
func scan(body []byte) *members { return &members{Cursor: jsonscan.New(body)} }

// wrong notes a value that is not what it must be, and passes it.
func (m *members) wrong(name, must string) {
	m.Skip()
	if m.err == nil {
		m.err = fmt.Errorf("%s: must be %s", name, must)
	}
}

// null passes a null.
func (m *members) null() bool {
	if m.Kind() != jsonscan.Null {
		return false
	}
	m.Skip()
	return true
}

func (m *members) text(name string, into *string) {
	switch {
	case m.Kind() == jsonscan.String:
		*into = jsonscan.Unquote(m.Text())
	case !m.null():
		m.wrong(name, "a string")
	}
}

func (m *members) flag(name string, into *bool) {
	switch {
	case m.Kind() == jsonscan.Bool:
		*into = m.Bool()
	case !m.null():
		m.wrong(name, "true or false")
	}
}

func (m *members) count(name string, into *int) {
	if m.null() {
		return
	}
	if m.Kind() == jsonscan.Number {
		if n, err := strconv.Atoi(string(m.Raw())); err == nil {
			*into = n
			return
		}
	}
	m.wrong(name, "a whole number")
}

// object enters an object; it passes null.
func (m *members) object(name string) bool {
	switch {
	case m.Kind() == jsonscan.Object:
		return m.Object()
	case !m.null():
		m.wrong(name, "an object")
	}
	return false
}

// list enters a list; it passes null.
func (m *members) list(name string) bool {
	switch {
	case m.Kind() == jsonscan.Array:
		return m.Array()
	case !m.null():
		m.wrong(name, "a list")
	}
	return false
}

// over is called at the end of the body. It returns what is wrong with it.
func (m *members) over(body []byte) error {
	if m.Done() {
		return m.err
	}
	var v any
	return errors.Join(json.Unmarshal(body, &v), m.err) // says where the JSON is broken
}

// decodeChat reads chat completions and messages, whose fields have the same names.
func (c *Call) decodeChat(body []byte) error {
	var tools, choice json.RawMessage
	turns, completion := 0, 0
	in := scan(body)
	if in.object("the body") {
		for name, ok := in.Member(); ok; name, ok = in.Member() {
			switch string(name) {
			case "model":
				in.text("model", &c.Model)
			case "stream":
				in.flag("stream", &c.Stream)
			case "messages":
				turns = c.decodeMessages(in)
			case "tools":
				tools = in.Raw()
			case "tool_choice":
				choice = in.Raw()
			case "max_tokens":
				in.count("max_tokens", &c.MaxTokens)
			case "max_completion_tokens":
				in.count("max_completion_tokens", &completion)
			case "stream_options":
				c.decodeOptions(in)
			default:
				in.Skip()
			}
		}
	}
	if err := in.over(body); err != nil {
		return err
	}
	c.MaxTokens = max(c.MaxTokens, completion)
	if tools != nil || choice != nil {
		if err := c.decodeTools(tools, choice); err != nil {
			return err
		}
	}
	if turns == 0 {
		return errors.New("messages: at least one message is required")
	}
	return nil
}

func (c *Call) decodeOptions(in *members) {
	if !in.object("stream_options") {
		return
	}
	for name, ok := in.Member(); ok; name, ok = in.Member() {
		if string(name) == "include_usage" {
			in.flag("include_usage", &c.IncludeUsage)
		} else {
			in.Skip()
		}
	}
}

// decodeMessages reads the turns of a conversation and returns their number.
func (c *Call) decodeMessages(in *members) (turns int) {
	if !in.list("messages") {
		return 0
	}
	for in.Element() {
		turns++
		var kind, role string
		var content []byte
		if in.object("messages") {
			for name, ok := in.Member(); ok; name, ok = in.Member() {
				switch string(name) {
				case "type":
					in.word("type", &kind)
				case "role":
					in.word("role", &role)
				case "content":
					content = in.Raw()
				default:
					in.Skip()
				}
			}
		}
		c.turn(message{kind, role, content})
	}
	return turns
}

// word reads a text that is likely one of a few.
func (m *members) word(name string, into *string) {
	from := *m
	switch word := m.Text(); string(word) {
	case "user":
		*into = "user"
	case "assistant":
		*into = "assistant"
	case "system":
		*into = "system"
	default:
		*m = from
		m.text(name, into)
	}
}

// decodeTools reads what few requests have.
func (c *Call) decodeTools(tools, choice json.RawMessage) error {
	var specs []toolSpec
	if tools != nil {
		if err := json.Unmarshal(tools, &specs); err != nil {
			return err
		}
		c.offer(specs)
	}
	if choice != nil {
		var v any
		if err := json.Unmarshal(choice, &v); err != nil {
			return err
		}
		c.choose(v)
	}
	return nil
}
