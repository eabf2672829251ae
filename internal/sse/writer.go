package sse

import "bytes"

// AppendEvent appends an event with LF line ends. An empty name writes no event field; line breaks inside data become
// several data lines. name must not contain a line break.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, '\n')
	}
	dst = appendLines(dst, "data: ", data)
	return append(dst, '\n')
}

// AppendComment appends a comment block such as ": keep-alive" and a blank line, the one form that every public SDK
// ignores. Line breaks inside text become several comment lines.
func AppendComment(dst []byte, text string) []byte {
	dst = appendLines(dst, ": ", []byte(text))
	return append(dst, '\n')
}

// AppendWithData appends ev with other data: all its other bytes stay as they were when it has exactly one data line,
// else it is written anew. data must not contain a line break unless ev is written anew.
func AppendWithData(dst []byte, ev Event, data []byte) []byte {
	if at, ok := ev.dataOffset(); ok && bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		dst = append(dst, ev.Raw[:at]...)
		dst = append(dst, data...)
		return append(dst, ev.Raw[at+len(ev.Data):]...)
	}
	return AppendEvent(dst, string(ev.Name), data)
}

// dataOffset is where Data lies in Raw; false when it was joined from several lines. Raw is handed out with its
// capacity cut at its end, Data as a slice of it, so equal distances to that end tell both cases apart.
func (ev Event) dataOffset() (int, bool) {
	if ev.Data == nil || cap(ev.Data) == 0 {
		return 0, false
	}
	at := cap(ev.Raw) - cap(ev.Data)
	if at < 0 || at+len(ev.Data) > len(ev.Raw) || &ev.Raw[:cap(ev.Raw)][at] != &ev.Data[:1][0] {
		return 0, false
	}
	return at, true
}

func appendLines(dst []byte, prefix string, text []byte) []byte {
	for {
		i := bytes.IndexAny(text, "\r\n")
		if i < 0 {
			dst = append(append(dst, prefix...), text...)
			return append(dst, '\n')
		}
		dst = append(append(dst, prefix...), text[:i]...)
		dst = append(dst, '\n')
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}
