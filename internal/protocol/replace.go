package protocol

import "spillway/internal/protocol/jsonscan"

// ReplaceString appends data with the string at path replaced by text, every other byte as it was. Where the path does
// not lead to a string, data is appended unchanged. It reports whether it replaced.
func ReplaceString(dst, data []byte, text string, path ...string) ([]byte, bool) {
	c := jsonscan.New(data)
	from, end, ok := find(&c, path)
	if !ok {
		return append(dst, data...), false
	}
	dst = append(dst, data[:from]...)
	dst = jsonscan.AppendString(dst, text)
	return append(dst, data[end:]...), true
}

// find returns the place of the string value at path, quotes included.
func find(c *jsonscan.Cursor, path []string) (from, end int, ok bool) {
	if len(path) == 0 {
		if c.Kind() != jsonscan.String {
			return 0, 0, false
		}
		from = c.Offset()
		raw := c.Raw()
		return from, from + len(raw), !c.Bad()
	}
	if !c.Object() {
		return 0, 0, false
	}
	for key, more := c.Member(); more; key, more = c.Member() {
		if string(key) != path[0] {
			c.Skip()
			continue
		}
		return find(c, path[1:])
	}
	return 0, 0, false
}
