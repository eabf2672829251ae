package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

type nodeKind uint8

const (
	nullNode nodeKind = iota
	scalarNode
	mapNode
	listNode
)

var nodeKindNames = [...]string{"nothing", "a single value", "a mapping", "a list"}

// node is a YAML value with its place: what the decoder reads. Anchors, aliases and merge keys are already resolved, so
// nothing behind it knows the YAML library.
type node struct {
	kind   nodeKind
	text   string  // of a scalar, after expansion of ${NAME}
	raw    string  // of a scalar, as written
	quoted bool    // the scalar was quoted or a block: it is text, not a number or a bool
	bad    bool    // already reported: the decoder leaves the field alone
	keys   []*node // of a mapping, in order
	vals   []*node // of a mapping or a list
	pos    Pos
}

// expanded reports whether the scalar's text came, at least in part, from the environment: it is never shown.
func (n *node) expanded() bool { return n.text != n.raw }

// field returns the value of a key of a mapping.
func (n *node) field(name string) *node {
	if n == nil || n.kind != mapNode {
		return nil
	}
	for i, k := range n.keys {
		if k.raw == name {
			return n.vals[i]
		}
	}
	return nil
}

// Bounds of a document, so that a hostile or broken file ends with a message instead of with all memory in use.
const (
	maxDepth = 64
	maxNodes = 200_000
	maxBytes = 8 << 20
)

type treeBuilder struct {
	file     string
	anchors  map[string]ast.Node
	open     map[string]bool // anchors being resolved, to refuse loops
	nodes    int
	problems []Problem
}

func (b *treeBuilder) problem(pos Pos, path, msg string) {
	b.problems = append(b.problems, Problem{File: pos.File, Line: pos.Line, Column: pos.Col, Path: path, Message: msg})
}

// parseTree reads one YAML document. Syntax errors end the reading: there is one, with its place.
func parseTree(file string, data []byte) (root *node, problems []Problem) {
	b := &treeBuilder{file: file, anchors: map[string]ast.Node{}, open: map[string]bool{}}
	defer func() {
		if recover() != nil { // the YAML library met an input that it was not written for
			root, problems = nil, []Problem{{File: file, Message: "this is not YAML that can be read"}}
		}
	}()
	if len(data) > maxBytes {
		return nil, []Problem{{File: file, Message: fmt.Sprintf("the file is larger than %d MiB", maxBytes>>20)}}
	}
	if pos, deep := tooDeep(data); deep {
		return nil, []Problem{{File: file, Line: pos.Line, Column: pos.Col, Message: "nested too deeply"}}
	}
	doc, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, []Problem{syntaxProblem(file, err)}
	}
	var bodies []ast.Node
	for _, d := range doc.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.DirectiveType {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return &node{kind: nullNode, pos: Pos{file, 1, 1}}, nil
	case 1:
	default:
		b.problem(b.pos(bodies[1]), "", "a second YAML document begins here; write one document only")
	}
	b.collect(bodies[0], 0)
	root = b.build(bodies[0], "", 0)
	return root, b.problems
}

// tooDeep finds flow nesting that would exhaust the parser's stack before its own limits are asked.
func tooDeep(data []byte) (Pos, bool) {
	depth, line, col := 0, 1, 0
	for _, c := range data {
		col++
		switch c {
		case '[', '{':
			if depth++; depth > 4*maxDepth {
				return Pos{Line: line, Col: col}, true
			}
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			line, col = line+1, 0
		}
	}
	return Pos{}, false
}

var quotedPart = regexp.MustCompile(`"[^"]*"|'[^']*'`)

func syntaxProblem(file string, err error) Problem {
	p := Problem{File: file, Message: "this is not valid YAML"}
	var se yaml.Error
	if !errors.As(err, &se) {
		return p
	}
	if tk := se.GetToken(); tk != nil && tk.Position != nil {
		p.Line, p.Column = tk.Position.Line, tk.Position.Column
	}
	// The library quotes the source in some messages; the source may hold a key.
	p.Message += ": " + quotedPart.ReplaceAllStringFunc(se.GetMessage(), func(s string) string {
		if len(s) <= 3 {
			return s
		}
		return "..."
	})
	p.Message = strings.ReplaceAll(p.Message, "character '\t'", "a tab")
	if strings.Contains(p.Message, "a tab") {
		p.Message += "; indent with spaces"
	} else if strings.Contains(p.Message, "reserved character") {
		p.Message += "; put the value in quotes"
	}
	return p
}

func (b *treeBuilder) pos(n ast.Node) Pos {
	tk := n.GetToken()
	switch v := n.(type) {
	case *ast.MappingNode:
		if len(v.Values) > 0 && !v.IsFlowStyle {
			tk = v.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		tk = v.Key.GetToken()
	}
	if tk == nil || tk.Position == nil {
		return Pos{File: b.file}
	}
	return Pos{b.file, tk.Position.Line, tk.Position.Column}
}

// collect remembers the anchors of the document.
func (b *treeBuilder) collect(n ast.Node, depth int) {
	if n == nil || depth > maxDepth {
		return
	}
	switch v := n.(type) {
	case *ast.AnchorNode:
		b.anchors[v.Name.GetToken().Value] = v.Value
		b.collect(v.Value, depth+1)
	case *ast.MappingNode:
		for _, e := range v.Values {
			b.collect(e, depth+1)
		}
	case *ast.MappingValueNode:
		b.collect(v.Value, depth+1)
	case *ast.SequenceNode:
		for _, e := range v.Values {
			b.collect(e, depth+1)
		}
	case *ast.TagNode:
		b.collect(v.Value, depth+1)
	}
}

func (b *treeBuilder) build(n ast.Node, path string, depth int) *node {
	if n == nil {
		return &node{kind: nullNode, pos: Pos{File: b.file}}
	}
	pos := b.pos(n)
	if b.nodes++; depth > maxDepth || b.nodes > maxNodes {
		if b.nodes <= maxNodes+1 {
			b.problem(pos, path, "nested or repeated too deeply")
		}
		b.nodes = max(b.nodes, maxNodes+1)
		return &node{kind: nullNode, pos: pos}
	}
	switch v := n.(type) {
	case *ast.AnchorNode:
		return b.build(v.Value, path, depth+1)
	case *ast.AliasNode:
		return b.alias(v, path, depth)
	case *ast.TagNode:
		return b.tagged(v, path, depth)
	case *ast.MappingNode:
		return b.mapping(v.Values, pos, path, depth)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{v}, pos, path, depth)
	case *ast.SequenceNode:
		out := &node{kind: listNode, pos: pos}
		for i, e := range v.Values {
			out.vals = append(out.vals, b.build(e, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
		return out
	case *ast.NullNode:
		return &node{kind: nullNode, pos: pos}
	case *ast.LiteralNode:
		return &node{kind: scalarNode, text: v.Value.Value, raw: v.Value.Value, quoted: true, pos: pos}
	case *ast.StringNode:
		q := v.Token != nil && (v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType)
		return &node{kind: scalarNode, text: v.Value, raw: v.Value, quoted: q, pos: pos}
	case ast.ScalarNode:
		text := v.GetToken().Value
		return &node{kind: scalarNode, text: text, raw: text, pos: pos}
	}
	b.problem(pos, path, "this kind of YAML value is not used here")
	return &node{kind: nullNode, pos: pos}
}

func (b *treeBuilder) alias(v *ast.AliasNode, path string, depth int) *node {
	name := v.Value.GetToken().Value
	target, ok := b.anchors[name]
	if !ok {
		b.problem(b.pos(v), path, "no anchor &"+strings.Trim(quote(name), `"`)+" is defined")
		return &node{kind: nullNode, pos: b.pos(v)}
	}
	if b.open[name] {
		b.problem(b.pos(v), path, "the alias *"+strings.Trim(quote(name), `"`)+" contains itself")
		return &node{kind: nullNode, pos: b.pos(v)}
	}
	b.open[name] = true
	out := b.build(target, path, depth+1)
	delete(b.open, name)
	return out
}

func (b *treeBuilder) tagged(v *ast.TagNode, path string, depth int) *node {
	tag := v.Start.Value
	out := b.build(v.Value, path, depth+1)
	switch tag {
	case "!!str":
		out.quoted = true
	case "!!int", "!!bool", "!!float", "!!null", "!!map", "!!seq":
	default:
		b.problem(b.pos(v), path, "YAML tags are not used here; remove it")
	}
	return out
}
