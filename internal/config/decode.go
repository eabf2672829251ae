package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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

func (d *decoder) decodeScalar(n *node, v reflect.Value, path string) {
	if !d.want(n, scalarNode, path, "") {
		return
	}
	if v.Type() == secretType {
		d.secrets = append(d.secrets, n.text)
		v.SetString(n.text)
		return
	}
	if tu, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := tu.UnmarshalText([]byte(n.text)); err != nil {
			d.unreadable(n, path, err)
		}
		return
	}
	switch {
	case v.Type() == durationType:
		d.duration(n, v, path)
	case v.Type() == sizeType:
		d.size(n, v, path)
	case v.Kind() == reflect.String:
		v.SetString(n.text)
	case v.Kind() == reflect.Bool:
		d.boolean(n, v, path)
	case v.CanInt() || v.CanUint() || v.CanFloat():
		d.number(n, v, path)
	default:
		d.problem(n.pos, path, "this field cannot be set here")
	}
}

// unreadable reports a value that a type refused, in the type's own words unless they could show a secret.
func (d *decoder) unreadable(n *node, path string, err error) {
	msg := err.Error()
	if n.expanded() {
		msg = "the value of " + shown(n) + " is not valid here"
	}
	d.problem(n.pos, path, "%s", mask(msg))
}

func (d *decoder) duration(n *node, v reflect.Value, path string) {
	dur, err := time.ParseDuration(n.text)
	switch {
	case err != nil && isNumber(n.text):
		d.problem(n.pos, path, "%s is a duration without a unit; write %ss, %sms or the like", shown(n), plainNumber(n), plainNumber(n))
	case err != nil:
		d.problem(n.pos, path, "%s is not a duration; write one like 500ms, 30s, 5m or 1h30m", shown(n))
	case dur < 0:
		d.problem(n.pos, path, "%s is negative; a duration is 0s or more", shown(n))
	default:
		v.SetInt(int64(dur))
	}
}

func (d *decoder) size(n *node, v reflect.Value, path string) {
	s, err := ParseSize(n.text)
	if err != nil {
		d.problem(n.pos, path, "%s is not a size; write one like 64MiB, 512KiB or 1GiB", shown(n))
		return
	}
	v.SetInt(int64(s))
}

func (d *decoder) boolean(n *node, v reflect.Value, path string) {
	if !n.quoted || n.expanded() {
		switch strings.ToLower(n.text) {
		case "true", "on":
			v.SetBool(true)
			return
		case "false", "off":
			v.SetBool(false)
			return
		}
	}
	d.problem(n.pos, path, "%s is not a switch; write true or false (on and off are read, too)", shown(n))
}

func (d *decoder) number(n *node, v reflect.Value, path string) {
	text := strings.ReplaceAll(n.text, "_", "")
	if n.quoted && !n.expanded() {
		d.problem(n.pos, path, "%s is text; write the number without quotes", shown(n))
		return
	}
	var err error
	switch {
	case v.CanFloat():
		var f float64
		if f, err = strconv.ParseFloat(text, 64); err == nil && f-f == 0 {
			v.SetFloat(f)
			return
		}
	case v.CanUint():
		var u uint64
		if u, err = strconv.ParseUint(text, 10, v.Type().Bits()); err == nil {
			v.SetUint(u)
			return
		}
	default:
		var i int64
		if i, err = strconv.ParseInt(text, 10, v.Type().Bits()); err == nil {
			v.SetInt(i)
			return
		}
	}
	what := "a whole number"
	if v.CanFloat() {
		what = "a number"
	}
	d.problem(n.pos, path, "%s is not %s", shown(n), what)
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// plainNumber is the number for an example in a message; a fixed one when it came from the environment.
func plainNumber(n *node) string {
	if n.expanded() || len(n.raw) > 12 {
		return "30"
	}
	return n.raw
}

// Size is a number of bytes, written as 64MiB, 512KiB, 1GiB or a plain number.
type Size int64

// ParseSize reads a size; units are B, KiB, MiB, GiB and TiB.
func ParseSize(s string) (Size, error) {
	text, mult := strings.TrimSpace(s), int64(1)
	for unit, m := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40} {
		if cut, ok := strings.CutSuffix(text, unit); ok {
			text, mult = strings.TrimSpace(cut), m
		}
	}
	text = strings.TrimSuffix(text, "B")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/mult {
		return 0, fmt.Errorf("%q is not a size", s)
	}
	return Size(n * mult), nil
}

// String is the shortest exact form.
func (s Size) String() string {
	for _, u := range []struct {
		name string
		n    Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s != 0 && s%u.n == 0 {
			return strconv.FormatInt(int64(s/u.n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// decodeInto decodes a mapping into the struct that p points to, whatever methods its type has.
func (d *decoder) decodeInto(n *node, p any, path string) {
	d.decodeStruct(n, reflect.ValueOf(p).Elem(), path)
}
