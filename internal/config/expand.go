package config

import (
	"fmt"
	"strings"
)

// expander replaces ${NAME} and ${NAME:-default} in scalar values. The result is text: it is never read as YAML again,
// so a value cannot add fields. $${ stands for a literal ${.
type expander struct {
	env      func(string) (string, bool)
	seen     map[*node]bool // nodes reached twice through aliases are expanded once
	preset   bool           // the text stands in a preset, not in the file
	problems []Problem
	secrets  []string // every value that came from the environment
}

func (x *expander) walk(n *node, path string) {
	if n == nil || x.seen[n] {
		return
	}
	x.seen[n] = true
	switch n.kind {
	case scalarNode:
		if strings.Contains(n.raw, "${") {
			n.text = x.expand(n, path)
		}
	case mapNode:
		for i, k := range n.keys {
			x.walk(n.vals[i], join(path, k.raw))
		}
	case listNode:
		for i, v := range n.vals {
			x.walk(v, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (x *expander) expand(n *node, path string) string {
	var out strings.Builder
	rest := n.raw
	fail := func(format string, args ...any) {
		n.bad = true
		x.problems = append(x.problems, Problem{n.pos.File, n.pos.Line, n.pos.Col, path, fmt.Sprintf(format, args...)})
	}
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			out.WriteString(rest)
			return out.String()
		}
		if i > 0 && rest[i-1] == '$' { // $${
			out.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		out.WriteString(rest[:i])
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 {
			fail("${ without a closing brace; write $${ for a literal ${")
			return out.String()
		}
		name, def, hasDef := strings.Cut(rest[i+2:i+end], ":-")
		rest = rest[i+end+1:]
		if !validEnvName(name) {
			fail("%s is not the name of an environment variable; use letters, digits and _", quote("${"+name+"}"))
			continue
		}
		value, ok := x.env(name)
		switch {
		case ok && (value != "" || !hasDef):
			x.secrets = append(x.secrets, value)
			out.WriteString(value)
		case hasDef:
			out.WriteString(def)
		case x.preset:
			fail("is needed here, or the environment variable %s", name)
		default:
			fail("the environment variable %s is not set; set it, or write ${%s:-default}", name, name)
		}
	}
}

func validEnvName(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
