package config

import (
	_ "embed"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"

	"spillway/internal/resilience/verdict"
)

// fieldDocs holds the doc comments of every configuration field, by package.Type.Field; go generate writes it.
//
//go:embed fielddocs.json
var fieldDocs []byte

// Schema is the JSON Schema (draft 2020-12) of the configuration file, for editors. It is made of the Go structs, so it
// knows exactly the fields that [Load] knows; what Load checks across fields it cannot say.
func Schema() []byte {
	docs := map[string]string{}
	if err := json.Unmarshal(fieldDocs, &docs); err != nil {
		panic("config: the embedded field documentation is broken: " + err.Error()) // caught by the package's tests
	}
	return schemaWith(docs)
}

type object = map[string]any

type schemaBuilder struct {
	docs map[string]string
	defs object
}

func schemaWith(docs map[string]string) []byte {
	b := &schemaBuilder{docs: docs, defs: object{
		"env": object{"type": "string", "pattern": `\$\{`, "description": "${NAME} or ${NAME:-default}"},
	}}
	root := b.structBody(reflect.TypeFor[Config]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Spillway configuration"
	root["type"] = []string{"object", "null"}
	root["$defs"] = b.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: the schema cannot be written: " + err.Error()) // only strings, lists and maps are in it
	}
	return append(out, '\n')
}

// structBody is the inline schema of a struct's fields.
func (b *schemaBuilder) structBody(t reflect.Type) object {
	props := object{}
	for _, f := range fieldsOf(t) {
		s := b.of(f.typ)
		if f.enum != nil {
			s = anyOf(object{"enum": f.enum}, ref("env"))
		}
		if doc := b.docs[docKey(f.owner, f.goName)]; doc != "" {
			s = withDoc(s, doc)
		}
		props[f.name] = s
	}
	return object{"properties": props, "additionalProperties": false}
}

func docKey(t reflect.Type, field string) string {
	return path.Base(t.PkgPath()) + "." + t.Name() + "." + field
}

func withDoc(s object, doc string) object {
	out := object{"description": doc}
	maps.Copy(out, s)
	return out
}

func ref(name string) object         { return object{"$ref": "#/$defs/" + name} }
func anyOf(of ...object) object      { return object{"anyOf": of} }
func orEnv(s object) object          { return anyOf(s, ref("env")) }
func pattern(kind, re string) object { return object{"type": kind, "pattern": re} }
func typed(kind ...string) object    { return object{"type": kind} }
func enumOf(values []string) object  { return object{"enum": values} }
func isTextType(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// of is the schema of a value of type t.
func (b *schemaBuilder) of(t reflect.Type) object {
	switch t {
	case durationType:
		return orEnv(pattern("string", `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`))
	case sizeType:
		return anyOf(object{"type": "integer", "minimum": 0}, pattern("string", `^[0-9]+ *([KMGT]iB|B)?$`), ref("env"))
	case secretType:
		return typed("string", "number")
	case reflect.TypeFor[ResilienceOverlay]():
		return b.def(reflect.TypeFor[Resilience]())
	case reflect.TypeFor[TimeoutsOverlay]():
		return b.def(reflect.TypeFor[Timeouts]())
	case reflect.TypeFor[Target]():
		return anyOf(pattern("string", "."), b.def(t))
	case reflect.TypeFor[Rule]():
		return anyOf(b.def(reflect.TypeFor[verdict.Rule]()), b.def(reflect.TypeFor[verdict.Restatement]()))
	case patternsType:
		return anyOf(typed("string"), object{"type": []string{"array", "null"}, "items": typed("string")})
	case reflect.TypeFor[verdict.StatusRange]():
		return anyOf(object{"type": "integer", "minimum": 100, "maximum": 599}, pattern("string", `^[1-5]([0-9]{2}(-[1-5][0-9]{2})?|xx)$|\$\{`))
	}
	if isTextType(t) {
		return b.text(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.of(t.Elem())
	case reflect.Struct:
		return b.def(t)
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": b.of(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": b.of(t.Elem())}
	case reflect.Bool:
		return anyOf(typed("boolean"), enumOf([]string{"on", "off"}), ref("env"))
	case reflect.Float64, reflect.Float32:
		return orEnv(typed("number"))
	case reflect.String:
		return typed("string", "number")
	}
	return orEnv(typed("integer"))
}

// def puts a struct among the definitions, once.
func (b *schemaBuilder) def(t reflect.Type) object {
	name := path.Base(t.PkgPath()) + "." + t.Name()
	if _, ok := b.defs[name]; !ok {
		b.defs[name] = object{} // a struct that contains itself ends here
		body := b.structBody(t)
		body["type"] = []string{"object", "null"}
		b.defs[name] = body
	}
	return ref(name)
}

// text lists the names of an enumeration, which are those that it reads back.
func (b *schemaBuilder) text(t reflect.Type) object {
	if t.Kind() != reflect.Uint8 {
		return typed("string")
	}
	var values []string
	for i := range 256 {
		v := reflect.New(t)
		v.Elem().SetUint(uint64(i))
		s, ok := v.Elem().Interface().(fmt.Stringer)
		if !ok || v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s.String())) != nil {
			break
		}
		values = append(values, s.String())
	}
	if len(values) == 0 {
		return typed("string")
	}
	return orEnv(enumOf(values))
}
