package config

import (
	"reflect"
	"strings"
	"sync"
)

// environment reads SPILLWAY_ variables, one per setting: SPILLWAY_RESILIENCE_BREAKER_CONSEC_THRESHOLD, or
// SPILLWAY_TIMEOUTS_IDLE. Values are text and never read as YAML; lists are separated by commas.
func environment(env func(string) (string, bool)) *node {
	root := &node{kind: mapNode}
	for _, l := range variables() {
		name := l.variable
		value, ok := env(name)
		if !ok {
			continue
		}
		pos := Pos{File: name}
		scalar := func(text string) *node {
			return &node{kind: scalarNode, text: strings.TrimSpace(text), raw: "${" + name + "}", pos: pos}
		}
		leafNode := scalar(value)
		if l.typ.Kind() == reflect.Slice {
			leafNode = &node{kind: listNode, pos: pos}
			for part := range strings.SplitSeq(value, ",") {
				leafNode.vals = append(leafNode.vals, scalar(part))
			}
		}
		root.put(strings.Split(l.path, "."), leafNode)
	}
	return root
}

// variables are the leaves that a variable may set.
var variables = sync.OnceValue(func() []leaf {
	out := leavesOf(reflect.TypeFor[envShape](), "")
	for i := range out {
		out[i].variable = EnvName(out[i].path)
	}
	return out
})

// EnvName is the variable that sets a path, as in resilience.breaker.open_max.
func EnvName(path string) string {
	return "SPILLWAY_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

func (n *node) put(path []string, leaf *node) {
	at := n
	for i, name := range path {
		next := at.field(name)
		if next == nil {
			next = &node{kind: mapNode, pos: leaf.pos}
			if i == len(path)-1 {
				next = leaf
			}
			at.keys = append(at.keys, &node{kind: scalarNode, text: name, raw: name, pos: leaf.pos})
			at.vals = append(at.vals, next)
		}
		at = next
	}
}
