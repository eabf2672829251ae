package wire

import "strings"

// A test asks for a kind of answer in the words of its prompt. Every other prompt is answered with text.
const (
	callTool     = "call the tool"     // with tools on offer: a tool call
	thinkFirst   = "think first"       // responses with reasoning: a reasoning item before the text
	refuse       = "refuse this"       // OpenAI's protocols: the text is a refusal
	filterAnswer = "filter the answer" // half the text, then the content filter
)

func (c *Call) wishes(phrase string) bool {
	return strings.Contains(strings.ToLower(c.Prompt), phrase)
}

// WantsTool reports whether the answer is a tool call: tools are offered, the prompt or tool_choice asks for it, and no
// result is there yet.
func (c *Call) WantsTool() bool {
	return len(c.Tools) > 0 && !c.ToolResult && !c.ToolBarred && (c.ToolForced || c.wishes(callTool))
}

// Thinks reports whether reasoning comes before the answer.
func (c *Call) Thinks() bool { return c.Reasons && c.wishes(thinkFirst) }

// Refuses reports whether the model declines, in a text that is marked as a refusal.
func (c *Call) Refuses() bool { return c.wishes(refuse) }

// Filters reports whether a content filter cuts the answer short.
func (c *Call) Filters() bool { return c.wishes(filterAnswer) }

// choose reads tool_choice: a word, or an object that names a tool.
func (c *Call) choose(choice any) {
	switch v := choice.(type) {
	case string:
		c.ToolForced, c.ToolBarred = v == "required", v == "none"
	case object:
		c.ToolForced = v["type"] == "function" || v["type"] == "tool" || v["type"] == "any"
		c.ToolBarred = v["type"] == "none"
	}
}
