package envelope

import (
	"spillway/internal/gateway"
)

// maxPrefix bounds how many texts a fingerprint looks at; more say nothing that these do not.
const maxPrefix = 256

// top reads the value of a top-level member. The conversation is walked item by item, with the scanner's own rules:
// where its turns begin, who speaks, and which stored objects they refer to is found out while the bytes are checked
// anyway.
func (d *decoder) top(which int, isKnown bool, v int) (int, error) {
	if !isKnown || v >= len(d.b) || !d.env.Operation.Converses() && d.env.Operation != gateway.CountTokens {
		return d.value(v, 1)
	}
	switch which {
	case mMessages, mInput, mContents:
		d.env.Session.Begins = true
		switch d.b[v] {
		case '[':
			end, err := d.list(v, 1, d.turn)
			d.begun = false // system and tools may come behind the conversation
			return end, err
		case '"': // Responses: the text alone
			end, err := d.value(v, 1)
			if err == nil && end > v+2 {
				d.speaks(v, end)
				d.env.Session.User = true
			}
			return end, err
		}
	case mSystem, mSystemInstruction, mSystemInstructionSnake, mInstructions:
		return d.content(v, 1)
	case mTools:
		end, err := d.list(v, 1, d.tool)
		if err == nil {
			d.speaks(v, end)
		}
		return end, err
	}
	return d.value(v, 1)
}

// list walks an array whose bracket is at i; what is none is read as any value.
func (d *decoder) list(i, depth int, item func(i, depth int) (int, error)) (int, error) {
	if i >= len(d.b) || d.b[i] != '[' || depth > maxDepth {
		return d.value(i, depth)
	}
	i = d.space(i + 1)
	if i < len(d.b) && d.b[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := item(i, depth+1)
		if err != nil {
			return end, err
		}
		var more bool
		if i, more, err = d.separator(end, ']'); err != nil || !more {
			return i, err
		}
	}
}

// each walks an object whose brace is at i; value reads the value of one member. What is no object is read as any value.
func (d *decoder) each(i, depth int, value func(name []byte, i, depth int) (int, error)) (int, error) {
	if i >= len(d.b) || d.b[i] != '{' || depth > maxDepth {
		return d.value(i, depth)
	}
	i = d.space(i + 1)
	if i < len(d.b) && d.b[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(d.b) || d.b[i] != '"' {
			return i, d.fail(i, "expected a member name in double quotes")
		}
		end, err := d.str(i)
		if err != nil {
			return end, err
		}
		name := d.b[i+1 : end-1]
		if i = d.space(end); i >= len(d.b) || d.b[i] != ':' {
			return i, d.fail(i, "expected ':' after a member name")
		}
		if i, err = value(name, d.space(i+1), depth+1); err != nil {
			return i, err
		}
		var more bool
		if i, more, err = d.separator(i, '}'); err != nil || !more {
			return i, err
		}
	}
}

// turn reads one turn of a conversation: a message, or an item of another kind. The prefix of the conversation ends with
// the first turn of a user.
func (d *decoder) turn(i, depth int) (int, error) {
	var role, kind, id, sealed []byte
	said := false
	end, err := d.each(i, depth, func(name []byte, v, depth int) (int, error) {
		switch string(name) {
		case "id", "encrypted_content":
			end, err := d.value(v, depth)
			if err == nil && string(name) == "id" {
				id = d.b[v:end]
			} else if err == nil {
				sealed = d.b[v:end]
			}
			return end, err
		case "role", "type":
			end, err := d.value(v, depth)
			if word := d.word(v, end); err == nil && string(name) == "role" {
				role = word
			} else if err == nil {
				kind = word
			}
			return end, err
		case "content", "parts":
			said = true
			return d.content(v, depth)
		}
		return d.value(v, depth)
	})
	if err != nil {
		return end, err
	}
	if d.env.Protocol == gateway.Responses {
		if len(role)+len(kind) == 0 && len(id) > 0 && !said {
			kind = itemReference // the one item whose type may be left out
		}
		d.item(kind, id, sealed)
	}
	switch string(role) {
	case "user":
		d.env.Session.User, d.begun = true, true
	case "system", "developer":
	case "":
		if len(kind) > 0 && string(kind) != "message" { // a tool's call or result, reasoning, a reference
			d.env.Session.Begins = false
		} else {
			d.env.Session.User, d.begun = true, true
		}
	default:
		d.env.Session.Begins = false
	}
	return end, nil
}

var itemReference = []byte("item_reference")

// item notes what an item of a responses request needs of the account that made it.
func (d *decoder) item(kind, id, sealed []byte) {
	switch string(kind) {
	case "item_reference":
		d.refer("item_reference", id)
	case "reasoning":
		d.env.Sealed = true
	case "compaction", "compaction_summary":
		if s, ok := text(sealed); ok && s != "" {
			d.need(gateway.Ref{Param: "input", ID: gateway.SealOf(s).ObjectID(), Loose: true})
		}
	}
}

// content reads what a turn says: a text, or a list of parts.
func (d *decoder) content(i, depth int) (int, error) {
	if i < len(d.b) && d.b[i] == '[' {
		return d.list(i, depth, d.part)
	}
	end, err := d.value(i, depth)
	if err == nil {
		d.speaks(i, end)
	}
	return end, err
}

// part reads one part of a turn. Marks for prompt caches move from turn to turn, so only what is said counts.
func (d *decoder) part(i, depth int) (int, error) {
	if i < len(d.b) && d.b[i] == '"' {
		return d.content(i, depth)
	}
	return d.each(i, depth, func(name []byte, v, depth int) (int, error) {
		switch string(name) {
		case "text", "image_url", "input_audio", "inlineData", "inline_data":
			return d.content(v, depth)
		case "file_id":
			return d.ref("file_id", v, depth)
		case "file", "source", "fileData", "file_data":
			return d.each(v, depth, d.file)
		case "signature", "data", "thoughtSignature", "thought_signature": // data is that of redacted_thinking
			end, err := d.value(v, depth)
			if err == nil && len(d.word(v, end)) > 0 && d.env.Protocol != gateway.OpenAI {
				d.env.Sealed = true
			}
			return end, err
		}
		return d.value(v, depth)
	})
}

// file reads where a file of a part is.
func (d *decoder) file(name []byte, v, depth int) (int, error) {
	switch string(name) {
	case "file_id":
		return d.ref("file_id", v, depth)
	case "fileUri", "file_uri":
		end, err := d.value(v, depth)
		if err == nil && isStoredFile(d.word(v, end)) {
			d.refer("file_uri", d.b[v:end])
		}
		return end, err
	}
	return d.value(v, depth)
}

// tool reads one tool, which may work on stored objects, or is a list of functions (Gemini).
func (d *decoder) tool(i, depth int) (int, error) {
	d.env.Tools++
	return d.each(i, depth, func(name []byte, v, depth int) (int, error) {
		switch string(name) {
		case "functionDeclarations", "function_declarations":
			if v < len(d.b) && d.b[v] == '[' {
				d.env.Tools-- // each of the list counts, not the list
			}
			return d.list(v, depth, func(i, depth int) (int, error) {
				d.env.Tools++
				return d.value(i, depth)
			})
		case "container":
			if v < len(d.b) && d.b[v] == '{' {
				return d.each(v, depth, d.container)
			}
			return d.ref("container", v, depth)
		case "vector_store_ids":
			return d.refs("vector_store_ids", v, depth)
		case "fileSearch", "file_search":
			return d.each(v, depth, func(name []byte, v, depth int) (int, error) {
				if string(name) == "fileSearchStoreNames" || string(name) == "file_search_store_names" {
					return d.refs("fileSearchStoreNames", v, depth)
				}
				return d.value(v, depth)
			})
		}
		return d.value(v, depth)
	})
}

// container reads the container of a tool where it is described instead of named.
func (d *decoder) container(name []byte, v, depth int) (int, error) {
	switch string(name) {
	case "id":
		return d.ref("container", v, depth)
	case "file_ids":
		return d.refs("file_id", v, depth)
	}
	return d.value(v, depth)
}

// refs reads a list of ids of stored objects.
func (d *decoder) refs(param string, v, depth int) (int, error) {
	return d.list(v, depth, func(i, depth int) (int, error) { return d.ref(param, i, depth) })
}

// ref reads the id of a stored object; what is no string is none.
func (d *decoder) ref(param string, v, depth int) (int, error) {
	end, err := d.value(v, depth)
	if err == nil {
		d.refer(param, d.b[v:end])
	}
	return end, err
}

// speaks notes a text of the prefix, until the first turn of a user is over.
func (d *decoder) speaks(from, to int) {
	s := &d.env.Session
	if d.begun || len(s.Prefix) >= maxPrefix {
		return
	}
	if s.Prefix == nil {
		s.Prefix = make([]gateway.Span, 0, 4)
	}
	s.Prefix = append(s.Prefix, gateway.Span{Start: from, End: to})
}

// word is a string value without its quotes, escapes as they are written; nil for another value.
func (d *decoder) word(from, to int) []byte {
	if to-from < 2 || d.b[from] != '"' {
		return nil
	}
	return d.b[from+1 : to-1]
}
