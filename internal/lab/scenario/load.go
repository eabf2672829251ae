package scenario

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

//go:embed data
var shipped embed.FS

const suiteFile = "data/failover.yaml"

// Names lists the shipped scenarios.
func Names() []string {
	files, _ := shipped.ReadDir("data")
	var out []string
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".yaml"); "data/"+f.Name() != suiteFile {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Load returns a shipped scenario by its name, or one from a file by its path.
func Load(name string) (Scenario, error) {
	b, err := shipped.ReadFile("data/" + path.Base(name) + ".yaml")
	if err == nil && !strings.ContainsAny(name, "/.") {
		return Decode(name+".yaml", b)
	}
	b, err = os.ReadFile(name)
	if err != nil {
		return Scenario{}, fmt.Errorf("no shipped scenario and no file %q; shipped are: %s", name, strings.Join(Names(), ", "))
	}
	return Decode(name, b)
}

// Decode reads a scenario. Each error begins with file:line:column.
func Decode(file string, b []byte) (Scenario, error) {
	s := Scenario{File: file}
	if err := decode(file, b, &s); err != nil {
		return Scenario{}, err
	}
	return s, locate(file, b, s.Validate())
}

func decode(file string, b []byte, v any) error {
	err := yaml.UnmarshalWithOptions(b, v, yaml.Strict())
	if err == nil {
		return nil
	}
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p := at.GetToken().Position
		return fmt.Errorf("%s:%d:%d: %s", file, p.Line, p.Column, at.GetMessage())
	}
	return fmt.Errorf("%s:%d: %w", file, lineOfQuoted(b, err.Error()), err)
}

// lineOfQuoted finds the value that an error quotes. Values that read themselves from text cannot tell where they
// stand, but they say what they did not like.
func lineOfQuoted(b []byte, message string) int {
	quoted := regexp.MustCompile(`"([^"]*)"`).FindStringSubmatch(message)
	doc, err := parser.ParseBytes(b, 0)
	if err != nil || quoted == nil {
		return 1
	}
	line := 1
	ast.Walk(visitor(func(n ast.Node) {
		if t := n.GetToken(); line == 1 && t != nil && t.Value == quoted[1] {
			line = t.Position.Line
		}
	}), doc.Docs[0].Body)
	return line
}

type visitor func(ast.Node)

// Visit implements ast.Visitor.
func (v visitor) Visit(n ast.Node) ast.Visitor { v(n); return v }

var pathOf = regexp.MustCompile(`^[a-z_]+(?:\[\d+\]|\.[A-Za-z0-9_-]+)*`)

// locate puts file and line before each problem, found by the path that the problem begins with.
func locate(file string, b []byte, err error) error {
	if err == nil {
		return nil
	}
	doc, _ := parser.ParseBytes(b, 0)
	var out []error
	for _, e := range Split(err) {
		line := 1
		for p := pathOf.FindString(e.Error()); p != "" && doc != nil; p = parent(p) {
			if n := nodeAt(doc, p); n != nil && n.GetToken() != nil {
				line = n.GetToken().Position.Line
				break
			}
		}
		out = append(out, fmt.Errorf("%s:%d: %w", file, line, e))
	}
	return errors.Join(out...)
}

func parent(p string) string {
	return p[:max(0, strings.LastIndexAny(p, ".["))]
}

func nodeAt(doc *ast.File, p string) ast.Node {
	yp, err := yaml.PathString("$." + p)
	if err != nil {
		return nil
	}
	n, err := yp.FilterFile(doc)
	if err != nil {
		return nil
	}
	return n
}
