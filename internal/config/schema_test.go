package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "rewrite golden and generated files")

// docDirs are the packages whose structs make up the configuration.
var docDirs = []string{".", "../resilience/breaker", "../resilience/cooldown", "../resilience/lockout", "../resilience/gate",
	"../resilience/queue", "../resilience/rate", "../resilience/health", "../resilience/watchdog", "../resilience/outage", "../resilience/verdict"}

// readDocs collects the doc comments of every struct field with a yaml tag.
func readDocs(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, dir := range docDirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no sources (%v)", dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				st, ok := spec.Type.(*ast.StructType)
				if !ok {
					return true
				}
				for _, field := range st.Fields.List {
					if field.Tag == nil || !strings.Contains(field.Tag.Value, `yaml:"`) || len(field.Names) == 0 {
						continue
					}
					text := field.Doc.Text()
					if text == "" {
						text = field.Comment.Text()
					}
					if text = plainDoc(text, field.Names[0].Name); text != "" {
						docs[f.Name.Name+"."+spec.Name.Name+"."+field.Names[0].Name] = text
					}
				}
				return true
			})
		}
	}
	return docs
}

// plainDoc puts a comment on one line, without the Go name that it may begin with.
func plainDoc(text, goName string) string {
	var p comment.Parser
	text = strings.Join(strings.Fields(string((&comment.Printer{}).Text(p.Parse(text)))), " ")
	for _, lead := range []string{goName + ": ", goName + " is ", goName + " are "} {
		if rest, ok := strings.CutPrefix(text, lead); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return text
}

const schemaFile = "../../docs/spillway.schema.json"

// TestSchemaFile compares the generated files with what the code says now; go generate rewrites them.
func TestSchemaFile(t *testing.T) {
	docs := readDocs(t)
	wantDocs, err := json.MarshalIndent(docs, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	wantDocs = append(wantDocs, '\n')
	want := schemaWith(docs)
	if *update {
		if err := os.MkdirAll(filepath.Dir(schemaFile), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"fielddocs.json": wantDocs, schemaFile: want} {
			if err := os.WriteFile(name, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	have, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(have, want) || !bytes.Equal(fieldDocs, wantDocs) || !bytes.Equal(Schema(), want) {
		t.Errorf("docs/spillway.schema.json or fielddocs.json is out of date (%v): run go generate ./internal/config", err)
	}
}

// TestEveryFieldDocumented keeps the schema useful: every field has a sentence.
func TestEveryFieldDocumented(t *testing.T) {
	docs := readDocs(t)
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || isTextType(typ) {
			return
		}
		seen[typ] = true
		for _, f := range fieldsOf(typ) {
			if strings.HasPrefix(docKey(f.owner, ""), "config.") && docs[docKey(f.owner, f.goName)] == "" {
				t.Errorf("%s has no doc comment", docKey(f.owner, f.goName))
			}
			walk(f.typ)
		}
	}
	walk(reflect.TypeFor[Config]())
	walk(reflect.TypeFor[Resilience]())
	walk(reflect.TypeFor[Timeouts]())
}

func resolvedSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSchemaAndLoaderAgree(t *testing.T) {
	r := resolvedSchema(t)
	for _, c := range []struct {
		name, doc string
		valid     bool
	}{
		{"the normative example", normative(t), true},
		{"empty", "{}", true},
		{"switches", "log: {decisions: on, bodies: off}\nwaits: {enabled: false}", true},
		{"null sections", "providers: {openai: }\nkeys:\nresilience:\n", true},
		{"a number from the environment", "limits: {attempts: \"${N}\"}", true},
		{"a restatement", "rules: [{id: r, from: [500], to: 429, text_any: [busy]}]", true},
		{"unknown field", "lisen: x", false},
		{"unknown nested field", "resilience: {breaker: {consec: 3}}", false},
		{"duration without unit", "timeouts: {idle: 30}", false},
		{"size with a decimal unit", "limits: {body: 64MB}", false},
		{"unknown class", "providers: {x: {class: magic, base_url: 'http://a', protocols: [openai]}}", false},
		{"list instead of mapping", "providers: []", false},
		{"unknown profile", "resilience: {profile: magic}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var doc any
			if err := yaml.Unmarshal([]byte(c.doc), &doc); err != nil {
				t.Fatal(err)
			}
			err := r.Validate(doc)
			if (err == nil) != c.valid {
				t.Errorf("schema: %v, want valid=%v", err, c.valid)
			}
			_, err = Load(Source{Bytes: []byte(c.doc), Env: env("A1_KEY", "sk-secret-1234567", "N", "5", "OPENAI_API_KEY", "sk-1")})
			if (err == nil) != c.valid {
				t.Errorf("loader: %v, want valid=%v", err, c.valid)
			}
		})
	}
}
