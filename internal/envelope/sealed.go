package envelope

import (
	"bytes"
	"slices"
	"strings"

	"spillway/internal/gateway"
	"spillway/internal/protocol/jsonscan"
)

// Unseal finds the encrypted reasoning in a conversation that foreign says another account has made, and returns what to
// change so that a request without it is left, and the names of what is lost. Nothing else changes, and nothing changes
// when nothing is foreign.
//
// What is left must be valid where it goes. A turn that had nothing else goes with it, unless no turn were left. Anthropic
// demands of a request with thinking enabled that the answer whose tools have just run begins with a thinking block, so
// thinking is off for such a request. Gemini demands signatures of function calls from its third generation on, and names
// a text that stands for one which cannot be had.
func Unseal(e *gateway.Envelope, model string, foreign func(gateway.Seal) bool) (cuts []Cut, lost []string) {
	if !e.Sealed {
		return nil, nil
	}
	u := unsealer{raw: e.Raw, foreign: foreign}
	switch e.Protocol {
	case gateway.Responses:
		return u.list("input", u.responsesItem), u.names("input.reasoning")
	case gateway.Anthropic:
		cuts = u.list("messages", u.message)
		if len(cuts) > 0 && u.bare {
			cuts = append(cuts, u.unthink()...)
		}
		return cuts, u.names("messages.thinking")
	case gateway.Gemini:
		u.strict = !strings.Contains(model, "gemini-1") && !strings.Contains(model, "gemini-2")
		return u.list("contents", u.turn), u.names("contents.thoughtSignature")
	}
	return nil, nil
}

type unsealer struct {
	raw     []byte
	foreign func(gateway.Seal) bool
	cuts    []Cut
	lost    []string
	strict  bool // function calls without a signature are refused
	bare    bool // the last answer that called tools does not begin with a thinking block that stays
}

func (u *unsealer) names(what string) []string {
	if len(u.cuts) == 0 {
		return nil
	}
	return append([]string{what}, u.lost...)
}

// list looks at the turns of the member name; turn reads the turn in front of the cursor, cuts inside it, and reports
// whether all of it goes.
func (u *unsealer) list(name string, turn func(c *jsonscan.Cursor) (gone bool)) []Cut {
	c := jsonscan.New(u.raw)
	c.Object()
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) != name || c.Kind() != jsonscan.Array {
			c.Skip()
			continue
		}
		var rest removal
		for c.Array(); c.Element(); {
			inside := len(u.cuts)
			from := c.Offset()
			gone := turn(&c)
			if gone {
				u.cuts = u.cuts[:inside]
			}
			rest.next(u, gateway.Span{Start: from, End: c.Behind()}, gone)
		}
		if !rest.end(u) {
			u.cuts = nil // nothing would be left to answer
		}
	}
	slices.SortFunc(u.cuts, func(a, b Cut) int { return a.Start - b.Start })
	return u.cuts
}

// removal cuts elements of an array, or members of an object, out with their commas while they pass. It remembers no more
// of them than where it is: a body may have millions.
type removal struct {
	run        gateway.Span // of elements that go, up to the present one; zero = the present one stays
	left       bool         // something stays
	leftBehind int          // what stayed last ends here
}

// next takes the element that follows.
func (x *removal) next(u *unsealer, at gateway.Span, gone bool) {
	switch {
	case gone && x.run.Set():
		x.run.End = at.End
	case gone:
		x.run = at
	default:
		if x.run.Set() {
			u.cuts = append(u.cuts, Cut{Span: gateway.Span{Start: x.run.Start, End: at.Start}})
		}
		x.run, x.left, x.leftBehind = gateway.Span{}, true, at.End
	}
}

// end cuts what goes at the end, and reports whether anything is left.
func (x *removal) end(u *unsealer) (left bool) {
	if x.left && x.run.Set() {
		u.cuts = append(u.cuts, Cut{Span: gateway.Span{Start: x.leftBehind, End: x.run.End}})
	}
	return x.left
}

// other reports whether a sealed text, as written between its quotes, is of another account.
func (u *unsealer) other(sealed []byte) bool {
	return len(sealed) > 0 && u.foreign(gateway.SealOf(jsonscan.Unquote(sealed)))
}

// responsesItem reads an item of a responses request. Reasoning goes as a whole: without its text the item would be
// looked up by its id, at an account that does not have it.
func (u *unsealer) responsesItem(c *jsonscan.Cursor) (gone bool) {
	var kind, id, sealed []byte
	content := false
	if !c.Object() {
		return false
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "type":
			kind = c.Text()
		case "id":
			id = c.Text()
		case "encrypted_content":
			sealed = c.Text()
		case "content":
			content = c.Filled()
		default:
			c.Skip()
		}
	}
	switch {
	case string(kind) != "reasoning":
		return false
	case len(sealed) == 0 && !content:
		return u.other(id)
	}
	return u.other(sealed)
}

// message reads a message of an Anthropic request. The blocks of one answer stay or go together, since the API refuses an
// answer of which a part is missing.
func (u *unsealer) message(c *jsonscan.Cursor) (gone bool) {
	var role []byte
	var blocks content
	lists := 0
	if !c.Object() {
		return false
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch {
		case string(key) == "role":
			role = c.Text()
		case string(key) == "content" && c.Kind() == jsonscan.Array:
			lists++
			blocks.read(c, u)
		default:
			c.Skip()
		}
	}
	if string(role) != "assistant" || lists != 1 { // readers disagree on which of two lists counts
		return false
	}
	u.bare = blocks.tool && (!blocks.begins || blocks.foreign)
	if !blocks.foreign {
		return false
	}
	u.cuts = append(u.cuts, blocks.cuts...)
	return !blocks.left
}

const redactedThinking = "redacted_thinking"

// content is the list of blocks of an Anthropic message.
type content struct {
	cuts    []Cut // of all reasoning, for the case that one is foreign
	left    bool  // there is something else
	foreign bool  // reasoning of another account is among them
	begins  bool  // the first one is reasoning
	tool    bool  // a tool of the client is called
}

func (b *content) read(c *jsonscan.Cursor, u *unsealer) {
	var rest removal
	var inner unsealer
	first := true
	for c.Array(); c.Element(); {
		from := c.Offset()
		var kind, sealed []byte
		if c.Object() {
			for key, ok := c.Member(); ok; key, ok = c.Member() {
				switch string(key) {
				case "type":
					kind = c.Text()
				case "signature", "data":
					sealed = c.Text()
				default:
					c.Skip()
				}
			}
		}
		thinks := string(kind) == "thinking" || string(kind) == redactedThinking
		if thinks {
			b.foreign = u.other(sealed) || b.foreign
		}
		b.begins = b.begins || thinks && first
		b.tool = b.tool || string(kind) == "tool_use"
		rest.next(&inner, gateway.Span{Start: from, End: c.Behind()}, thinks)
		first = false
	}
	b.left = rest.end(&inner)
	b.cuts = inner.cuts
}

// unthink switches thinking off where it is enabled with a budget, and the clearing of thoughts that goes with it.
func (u *unsealer) unthink() (cuts []Cut) {
	var rest removal
	var inner unsealer
	enabled := gateway.Span{}
	c := jsonscan.New(u.raw)
	c.Object()
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		clearing := false
		from := c.Offset()
		value := c.Raw()
		switch string(key) {
		case "thinking":
			if v := jsonscan.New(value); kindOfThinking(&v) == "enabled" {
				enabled = gateway.Span{Start: from, End: c.Behind()}
			}
		case "context_management":
			clearing = bytes.Contains(value, []byte(`"clear_thinking`))
		}
		rest.next(&inner, gateway.Span{Start: u.keyAt(key), End: c.Behind()}, clearing)
	}
	if !enabled.Set() {
		return nil
	}
	u.lost = append(u.lost, "thinking")
	cuts = append(cuts, Cut{enabled, []byte(`{"type":"disabled"}`)})
	if rest.end(&inner); len(inner.cuts) > 0 { // something is left: thinking itself
		u.lost = append(u.lost, "context_management")
		cuts = append(cuts, inner.cuts...)
	}
	return cuts
}

func kindOfThinking(c *jsonscan.Cursor) (kind string) {
	if !c.Object() {
		return ""
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) == "type" {
			kind = string(c.Text())
		} else {
			c.Skip()
		}
	}
	return kind
}

// keyAt is the place of a member's name, quote included: the name is a piece of the raw text.
func (u *unsealer) keyAt(key []byte) int { return cap(u.raw) - cap(key) - 1 }

// skipSignature stands for the signature of a function call that was made elsewhere, as Google's documentation has it.
const skipSignature = `"skip_thought_signature_validator"`

// turn reads a content of a Gemini request.
func (u *unsealer) turn(c *jsonscan.Cursor) (gone bool) {
	if !c.Object() {
		return false
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) != "parts" || c.Kind() != jsonscan.Array {
			c.Skip()
			continue
		}
		var rest removal
		any := false
		for c.Array(); c.Element(); any = true {
			inside := len(u.cuts)
			from := c.Offset()
			gone := u.part(c)
			if gone {
				u.cuts = u.cuts[:inside]
			}
			rest.next(u, gateway.Span{Start: from, End: c.Behind()}, gone)
		}
		gone = !rest.end(u) && any
	}
	return gone
}

// part reads a part: its signature is cut out, or replaced where one must be. A part without anything else goes.
func (u *unsealer) part(c *jsonscan.Cursor) (gone bool) {
	if !c.Object() {
		return false
	}
	var rest removal
	var value gateway.Span
	foreign, call, filled, inside := false, false, false, len(u.cuts)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		from, sealed := u.keyAt(key), false
		switch string(key) {
		case "thoughtSignature", "thought_signature":
			value.Start = c.Offset()
			if text := c.Text(); u.other(text) {
				foreign, sealed = true, true
			}
			value.End = c.Behind()
		case "thought":
			c.Skip()
		case "text":
			filled = c.Filled() || filled
		case "functionCall", "function_call":
			call, filled = true, true
			c.Skip()
		default:
			filled = true
			c.Skip()
		}
		rest.next(u, gateway.Span{Start: from, End: c.Behind()}, sealed)
	}
	switch {
	case !foreign:
		return false
	case call && u.strict:
		u.cuts = append(u.cuts[:inside], Cut{value, []byte(skipSignature)})
		return false
	case !filled:
		return true
	}
	return !rest.end(u)
}
