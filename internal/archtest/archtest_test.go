// Package archtest holds the house to its plan: which package may import which, which names are banned, how large a
// file may be. docs/ARCHITECTURE.md tells the same story for people.
package archtest

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "spillway"

// tiers are the floors of the house, from the ground up. A prefix that ends in / names a folder of rooms.
var tiers = [][]string{
	{"internal/gateway", "internal/golden"},
	{"internal/resilience", "internal/resilience/", "internal/state", "internal/protocol", "internal/protocol/", "internal/sse",
		"internal/config", "internal/catalog"},
	{"internal/auth", "internal/envelope", "internal/route", "internal/route/", "internal/plan", "internal/attempt",
		"internal/attempt/", "internal/cache", "internal/commit", "internal/account", "internal/view", "internal/journal", "internal/store"},
	{"internal/httpapi", "internal/admin", "internal/upstream", "internal/store/", "internal/lab", "internal/lab/"},
	{"", "internal/app", "internal/simulate", "internal/simulate/"},
	{"cmd/", "bench", "bench/", "docs"},
}

// sideways are the allowed imports inside one tier, each with its reason.
var sideways = map[[2]string]string{
	{"internal/resilience/", "internal/resilience"}: "rooms share words",
	{"internal/resilience/", "internal/state"}:      "rooms keep their cells alike",
	{"internal/state", "internal/resilience"}:       "durable records and lines of status are words of the rooms",
	{"internal/protocol/", "internal/protocol"}:     "families share contracts",
	{"internal/protocol/", "internal/protocol/"}:    "families share the JSON walker; families is their table",
	{"internal/protocol", "internal/protocol/"}:     "the contracts use the JSON walker",
	{"internal/protocol/", "internal/sse"}:          "in-band errors are events",
	{"internal/config", "internal/resilience/"}:     "settings hold the rooms' Config types",
	{"internal/catalog", "internal/config"}:         "a snapshot is compiled from a configuration",
	{"internal/plan", "internal/route/"}:            "a plan ranks by strategy",
	{"internal/plan", "internal/attempt/"}:          "a plan is the walk's input",
	{"internal/attempt", "internal/attempt/"}:       "the loop asks the walk",
	{"internal/attempt", "internal/plan"}:           "the loop runs a plan",
	{"internal/attempt", "internal/envelope"}:       "each attempt is built from the untouched envelope",
	{"internal/account", "internal/journal"}:        "the ledger writes through the journal",
	{"internal/account", "internal/store"}:          "the ledger moves rows into the store",
	{"", "internal/app"}:                            "the embedding API wraps the app",
	{"internal/simulate", "internal/app"}:           "the simulator is the gateway in virtual time",
	{"internal/lab", "internal/lab/"}:               "the lab's parts",
	{"internal/lab/", "internal/lab/"}:              "the lab's parts",
}

// forbidden imports, each with its reason: third-party weight that must not creep down.
var forbidden = []struct{ from, path, why string }{
	{"internal/gateway", ".", "nouns import the standard library only"},
	{"internal/resilience", ".", "decisions are plain Go"},
	{"internal/state", ".", "rooms are built on it"},
	{"internal/attempt", "net/http/httputil", "the proxy loop is ours"},
}

var banned = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "manager", "service", "base", "core", "misc"}

type pkg struct {
	ImportPath string
	Name       string
	Imports    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// place finds the tier of a package and the name under which the tables know it.
func place(path string) (tier int, name string) {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	for i, names := range tiers {
		for _, n := range names {
			if rel == n {
				return i, n
			}
		}
	}
	for i, names := range tiers {
		for _, n := range names {
			if strings.HasSuffix(n, "/") && strings.HasPrefix(rel, n) {
				return i, n
			}
		}
	}
	return -1, rel
}

// dataOnly tiers nobody imports from tests: archtest itself.
func skipped(path string) bool { return strings.HasSuffix(path, "/archtest") }

func TestImportsGoDown(t *testing.T) {
	used := map[[2]string]bool{}
	for _, p := range list(t) {
		if skipped(p.ImportPath) {
			continue
		}
		tier, name := place(p.ImportPath)
		if tier < 0 {
			t.Errorf("%s has no place in the house: add it to a tier", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			to, toName := place(imp)
			switch {
			case to < 0:
				t.Errorf("%s imports %s, which has no place in the house", p.ImportPath, imp)
			case to > tier:
				t.Errorf("%s (tier %d) imports %s (tier %d): imports go down only", p.ImportPath, tier, imp, to)
			case to == tier:
				edge := [2]string{name, toName}
				if sideways[edge] == "" {
					t.Errorf("%s imports %s: not an allowed edge inside tier %d", p.ImportPath, imp, tier)
				}
				used[edge] = true
				if name == toName && name == "internal/resilience/" {
					t.Errorf("%s imports %s: rooms never import each other", p.ImportPath, imp)
				}
			}
		}
	}
	for edge := range sideways {
		if !used[edge] {
			t.Errorf("the edge %s -> %s is allowed but nobody uses it: take it out", edge[0], edge[1])
		}
	}
}

func TestNoForbiddenImports(t *testing.T) {
	for _, p := range list(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, f := range forbidden {
			if rel != f.from && !strings.HasPrefix(rel, f.from+"/") {
				continue
			}
			for _, imp := range p.Imports {
				third := strings.Contains(strings.SplitN(imp, "/", 2)[0], ".")
				if f.path == "." && third || imp == f.path {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, f.why)
				}
			}
		}
	}
}

func TestNoBannedNames(t *testing.T) {
	for _, p := range list(t) {
		if slices.Contains(banned, p.Name) {
			t.Errorf("%s: the name %q says nothing", p.ImportPath, p.Name)
		}
	}
}

// pure are files that hold decisions: they read no clock, start nothing, lock nothing.
var pure = []string{"internal/resilience/*/machine.go", "internal/cache/machine.go", "internal/attempt/next/*.go", "internal/route/strategy/health.go",
	"internal/route/strategy/weighted.go", "internal/route/strategy/roundrobin.go"}

func TestDecisionsArePure(t *testing.T) {
	for _, pattern := range pure {
		files, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("%s matches no file: the list is stale (%v)", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"time.Now()", "time.Sleep", "time.AfterFunc", "time.NewTimer", "sync.Mutex", "go func"} {
				if bytes.Contains(src, []byte(word)) {
					t.Errorf("%s uses %s: a decision is a function of (config, state, event, now)", file, word)
				}
			}
		}
	}
}

func TestFileSizes(t *testing.T) {
	const refuse = 600
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "e2e") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_gen.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(src, []byte("\n")); n > refuse {
			t.Errorf("%s has %d lines: nobody reads more than %d at once", path, n, refuse)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestExportedThingsAreDocumented: every exported type and function says what it is.
func TestExportedThingsAreDocumented(t *testing.T) {
	fset := token.NewFileSet()
	for _, p := range list(t) {
		dir := filepath.Join(root(t), strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/"))
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		documented := len(files) == 0
		for _, file := range files {
			f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				documented = documented || f.Doc != nil && skipped(p.ImportPath)
				continue
			}
			documented = documented || f.Doc != nil
			for _, name := range undocumented(f) {
				t.Errorf("%s: %s has no comment", file, name)
			}
		}
		if !documented {
			t.Errorf("%s has no package comment: which question does it answer?", p.ImportPath)
		}
	}
}
