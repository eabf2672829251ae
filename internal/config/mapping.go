package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

func (b *treeBuilder) mapping(entries []*ast.MappingValueNode, pos Pos, path string, depth int) *node {
	out := &node{kind: mapNode, pos: pos}
	first := map[string]Pos{}
	var merges []*node
	for _, e := range entries {
		if e.Key.IsMergeKey() {
			merges = append(merges, b.build(e.Value, path, depth+1))
			continue
		}
		kpos := b.pos(e.Key)
		name, plain := keyText(e.Key)
		sub := join(path, name)
		if !plain {
			b.problem(kpos, path, "a key must be a single word or quoted text")
			continue
		}
		if at, dup := first[name]; dup {
			b.problem(kpos, sub, fmt.Sprintf("this key is written twice, first at line %d; keep one", at.Line))
			continue
		}
		first[name] = kpos
		out.keys = append(out.keys, &node{kind: scalarNode, text: name, raw: name, pos: kpos})
		val := b.build(e.Value, sub, depth+1)
		if val.pos.Line == 0 {
			val.pos = kpos
		}
		out.vals = append(out.vals, val)
	}
	for _, m := range merges {
		b.merge(out, m, path)
	}
	return out
}

// merge adds what a << key brings; what the mapping says itself wins.
func (b *treeBuilder) merge(out, m *node, path string) {
	switch m.kind {
	case listNode:
		for _, one := range m.vals {
			b.merge(out, one, path)
		}
	case mapNode:
		for i, k := range m.keys {
			if out.field(k.raw) == nil {
				out.keys, out.vals = append(out.keys, k), append(out.vals, m.vals[i])
			}
		}
	case nullNode:
	default:
		b.problem(m.pos, path, "<< takes a mapping or a list of mappings")
	}
}

func keyText(k ast.MapKeyNode) (string, bool) {
	switch v := k.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.MappingKeyNode:
		if s, ok := v.Value.(ast.MapKeyNode); ok {
			return keyText(s)
		}
		return "", false
	case *ast.NullNode:
		return "", false
	case ast.ScalarNode:
		return v.GetToken().Value, true
	}
	return "", false
}

// join appends a key to a field path; a key that is not a plain word is put in brackets.
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ". []\"\n") {
		key = strings.ReplaceAll(quote(key), `"`, "")
		return path + "[" + key + "]"
	}
	key = strings.Trim(quote(key), `"`)
	if path == "" {
		return key
	}
	return path + "." + key
}
