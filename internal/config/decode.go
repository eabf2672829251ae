package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decoder fills Go values from nodes. It never stops at a problem: it notes it, leaves the field at what it was filled
// with before, and goes on.
type decoder struct {
	problems []Problem
	secrets  []string
	marks    map[string]Pos             // where each field that was written stands
	onLeaf   func(path string, pos Pos) // told of every setting that is written; may be nil
	quiet    bool                       // problems were reported by an earlier pass over the same nodes
}

// nodeDecoder is a type that reads itself.
type nodeDecoder interface {
	decodeNode(d *decoder, n *node, path string)
}

// prefiller is a type whose defaults depend on its name or on its own fields; it is called before a new element of a
// map or a list is decoded.
type prefiller interface {
	prefill(key string, n *node)
}

func newDecoder() *decoder { return &decoder{marks: map[string]Pos{}} }

func (d *decoder) problem(pos Pos, path, format string, args ...any) {
	if d.quiet {
		return
	}
	d.problems = append(d.problems, Problem{pos.File, pos.Line, pos.Col, path, fmt.Sprintf(format, args...)})
}

// shown is the scalar for a message: as written, so that nothing from the environment is ever quoted.
func shown(n *node) string { return quote(n.raw) }

// decode fills v, which must be settable, from n.
func (d *decoder) decode(n *node, v reflect.Value, path string) {
	if n == nil || n.bad {
		return
	}
	d.marks[path] = n.pos
	if nd, ok := v.Addr().Interface().(nodeDecoder); ok {
		nd.decodeNode(d, n, path)
		return
	}
	if n.kind == nullNode { // "field:" with nothing behind it keeps the default
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.decode(n, v.Elem(), path)
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() && !isText(v):
		d.decodeStruct(n, v, path)
	case v.Kind() == reflect.Map:
		d.decodeMap(n, v, path)
	case v.Kind() == reflect.Slice && !isText(v):
		d.decodeList(n, v, path)
	default:
		d.decodeScalar(n, v, path)
	}
}

func isText(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	return ok
}

func (d *decoder) want(n *node, kind nodeKind, path, example string) bool {
	if n.kind == kind {
		return true
	}
	msg := "expected " + nodeKindNames[kind] + ", found " + nodeKindNames[n.kind]
	if example != "" {
		msg += "; write " + example
	}
	d.problem(n.pos, path, "%s", msg)
	return false
}

func (d *decoder) decodeStruct(n *node, v reflect.Value, path string) {
	if !d.want(n, mapNode, path, "its fields below it, one per line, indented") {
		return
	}
	fields := fieldsOf(v.Type())
	for i, k := range n.keys {
		sub := join(path, k.raw)
		found := false
		for _, f := range fields {
			if f.name == k.raw {
				found = true
				d.field(n.vals[i], v.FieldByIndex(f.index), f, sub)
			}
		}
		if !found {
			d.problem(k.pos, sub, "unknown field%s", didYouMean(k.raw, names(fields)))
		}
	}
}

func (d *decoder) field(n *node, v reflect.Value, f field, path string) {
	if d.onLeaf != nil && n.kind != nullNode && !(v.Kind() == reflect.Struct && len(fieldsOf(v.Type())) > 0) {
		d.onLeaf(path, n.pos)
	}
	d.decode(n, v, path)
	if f.enum != nil && n.kind == scalarNode && !n.bad && n.text != "" && !slices.Contains(f.enum, n.text) {
		d.problem(n.pos, path, "%s is not known here; use %s", shown(n), strings.Join(f.enum, ", "))
	}
}

func (d *decoder) decodeMap(n *node, v reflect.Value, path string) {
	if !d.want(n, mapNode, path, "name: value pairs, one per line, indented") {
		return
	}
	t := v.Type()
	out := reflect.MakeMap(t)
	for it := v.MapRange(); it.Next(); { // what a preset or a lower layer says stays, key by key
		out.SetMapIndex(it.Key(), it.Value())
	}
	for i, k := range n.keys {
		sub := join(path, k.raw)
		key := reflect.New(t.Key()).Elem()
		d.decode(k, key, sub)
		elem := reflect.New(t.Elem()).Elem()
		if old := out.MapIndex(key); old.IsValid() && old.Kind() == reflect.Struct {
			elem.Set(old)
		}
		d.element(elem, k.raw, n.vals[i])
		d.decode(n.vals[i], elem, sub)
		out.SetMapIndex(key, elem)
	}
	v.Set(out)
}

func (d *decoder) decodeList(n *node, v reflect.Value, path string) {
	if v.Type() == patternsType && n.kind == scalarNode { // one pattern needs no list
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		d.decode(n, v.Index(0), path)
		return
	}
	if !d.want(n, listNode, path, "[a, b] or one \"- item\" per line") {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.vals), len(n.vals))
	for i, item := range n.vals {
		sub := fmt.Sprintf("%s[%d]", path, i)
		d.element(out.Index(i), "", item)
		if item.kind == nullNode && !item.bad {
			d.problem(item.pos, sub, "an empty item; remove the dash")
		}
		d.decode(item, out.Index(i), sub)
	}
	v.Set(out)
}

// element fills a new element with its defaults.
func (d *decoder) element(v reflect.Value, key string, n *node) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if p, ok := v.Addr().Interface().(prefiller); ok {
		p.prefill(key, n)
	}
}

// decodeInto decodes a mapping into the struct that p points to, whatever methods its type has.
func (d *decoder) decodeInto(n *node, p any, path string) {
	d.decodeStruct(n, reflect.ValueOf(p).Elem(), path)
}
