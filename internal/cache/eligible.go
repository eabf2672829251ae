package cache

import (
	"bytes"

	"spillway/internal/gateway"
	"spillway/internal/protocol/jsonscan"
)

// Eligible reports whether a request's answer depends on nothing but the request, and does nothing beside being
// answered: only then may it be kept or shared. Out are
//
//   - requests that refer to something stored (a response, a conversation, a file, a container, cached content, a
//     stored prompt) or ask for their answer to be stored: Responses stores unless store is false;
//   - requests that run in the background;
//   - tools that run at the provider (search, code, MCP servers): their result is of the moment, or has effects;
//   - images, sound, forms and compacted conversations: what they answer is large, expires, or belongs to one account.
func Eligible(e *gateway.Envelope) bool {
	switch {
	case e.FormType != "" || !kept[e.Operation]:
		return false
	case len(e.Refs) > 0 || e.Needs.Has(gateway.NeedStateful):
		return false
	case e.Protocol == gateway.Responses && e.Operation == gateway.Generate && !e.Unstored:
		return false
	}
	return plain(e.Raw, e.Protocol)
}

// kept are the operations whose answers are texts that stay true.
var kept = [gateway.NumOperations]bool{gateway.Generate: true, gateway.Complete: true, gateway.CountTokens: true, gateway.Embed: true,
	gateway.BatchEmbed: true, gateway.Moderate: true, gateway.Rerank: true}

// outside are top-level members that make an answer depend on more than the request, unless they are null, false or
// empty.
var outside = map[string]bool{
	"store": true, "background": true, "previous_response_id": true, "conversation": true, "container": true,
	"cachedContent": true, "cached_content": true, "file_ids": true, "mcp_servers": true, "plugins": true,
	"web_search": true, "web_search_options": true, "search_parameters": true, "enable_search": true,
}

// plain walks the top level of a body. A body that cannot be read is not plain.
func plain(body []byte, p gateway.Protocol) bool {
	c := jsonscan.New(body)
	if !c.Object() {
		return false
	}
	for {
		key, ok := c.Member()
		if !ok {
			return c.Done()
		}
		name := string(key)
		if bytes.IndexByte(key, '\\') >= 0 {
			name = jsonscan.Unquote(key)
		}
		switch {
		case name == "tools":
			if !toolsAtClient(&c, p) {
				return false
			}
		case name == "prompt" && p == gateway.Responses: // a template that is stored at the provider
			if c.Kind() != jsonscan.Null {
				return false
			}
			c.Skip()
		case outside[name]:
			if set(&c) {
				return false
			}
		default:
			c.Skip()
		}
	}
}

// set consumes a value and reports whether it asks for anything.
func set(c *jsonscan.Cursor) bool {
	raw := bytes.TrimSpace(c.Raw())
	switch string(raw) {
	case "null", "false", `""`, "[]":
		return false
	}
	return true // also {}: an empty object of options asks for the defaults
}

// toolsAtClient consumes a list of tools and reports whether all of them are run by the client.
func toolsAtClient(c *jsonscan.Cursor, p gateway.Protocol) bool {
	if c.Kind() == jsonscan.Null {
		c.Skip()
		return true
	}
	if !c.Array() {
		return false
	}
	all := true
	for c.Element() {
		all = clientTool(c, p) && all
	}
	return all
}

// clientTool consumes one tool. In Gemini a tool is what its members say; elsewhere its type does, and one without a
// type is the client's when it brings its own schema.
func clientTool(c *jsonscan.Cursor, p gateway.Protocol) bool {
	if !c.Object() {
		return false
	}
	ok, typed, schema := true, false, false
	for {
		key, more := c.Member()
		if !more {
			break
		}
		switch name := string(key); {
		case p == gateway.Gemini:
			ok = ok && (name == "functionDeclarations" || name == "function_declarations")
			c.Skip()
		case name == "type":
			typed = true
			kind := string(c.Text())
			ok = ok && (kind == "function" || kind == "custom")
		default:
			schema = schema || name == "input_schema" || name == "function" || name == "parameters"
			c.Skip()
		}
	}
	return ok && (p == gateway.Gemini || typed || schema)
}
