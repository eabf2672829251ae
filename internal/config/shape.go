package config

import (
	"reflect"
	"strings"
	"sync"
	"time"

	"spillway/internal/gateway"
)

// field is one YAML field of a struct.
type field struct {
	name   string // as in the file
	index  []int
	typ    reflect.Type
	owner  reflect.Type // the struct that declares it, for its documentation
	goName string
	enum   []string // allowed values, from the enum tag
}

// fieldsOf lists the fields of a struct that carry a yaml tag, embedded and inline ones flattened, in order.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, opts, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if strings.Contains(opts, "inline") || sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct {
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				out = append(out, f)
			}
			continue
		}
		if name == "" || name == "-" || !sf.IsExported() {
			continue
		}
		f := field{name: name, index: []int{i}, typ: sf.Type, owner: t, goName: sf.Name}
		if e := sf.Tag.Get("enum"); e != "" {
			f.enum = strings.Split(e, ",")
		}
		out = append(out, f)
	}
	return out
}

func names(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[gateway.Secret]()
	sizeType     = reflect.TypeFor[Size]()
)

// leaf is one setting of a struct tree: a field that holds a value, a list or a map, not a struct of settings.
type leaf struct {
	path     string
	index    []int
	typ      reflect.Type
	variable string // its environment variable; only of those in variables
}

// settings are the leaves of everything that is layered.
var settings = sync.OnceValue(func() []leaf { return leavesOf(reflect.TypeFor[tree](), "") })

// leavesOf lists the settings of a struct, depth first.
func leavesOf(t reflect.Type, path string) []leaf {
	var out []leaf
	for _, f := range fieldsOf(t) {
		p := join(path, f.name)
		if f.typ.Kind() == reflect.Struct && len(fieldsOf(f.typ)) > 0 {
			for _, l := range leavesOf(f.typ, p) {
				l.index = append(append([]int{}, f.index...), l.index...)
				out = append(out, l)
			}
			continue
		}
		out = append(out, leaf{path: p, index: f.index, typ: f.typ})
	}
	return out
}
