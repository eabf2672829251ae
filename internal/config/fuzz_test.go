package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad: no input makes Load panic or hang, and neither what the environment holds nor a key in its place is shown.
func FuzzLoad(f *testing.F) {
	f.Add(normative(f))
	f.Add(leaky)
	files, _ := filepath.Glob("testdata/bad/*.txt")
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			input, _, _ := strings.Cut(string(data), "-----\n")
			f.Add(input)
		}
	}
	const secret = "zq9-Secret-In-Env"
	lookup := func(name string) (string, bool) {
		if strings.HasPrefix(name, "SPILLWAY_") || name == "" {
			return "", false
		}
		return secret, true
	}
	f.Fuzz(func(t *testing.T, doc string) {
		cfg, err := Load(Source{Bytes: []byte(doc), Env: lookup, ReadFile: noFile,
			RunCommand: func(context.Context, string) ([]byte, error) { return nil, errors.New("no commands here") }})
		if err != nil {
			var problems *Problems
			if !errors.As(err, &problems) || len(problems.List) == 0 || cfg != nil {
				t.Fatalf("%T: %v", err, err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Fatalf("shown: %s", err)
			}
			return
		}
		for _, w := range cfg.Warnings {
			if strings.Contains(w.String(), secret) {
				t.Fatalf("shown: %s", w)
			}
		}
		for _, c := range cfg.Connections {
			if cfg.Settings(c.ID) == nil || c.Credential == nil || cfg.Providers[c.Provider] == nil {
				t.Fatalf("connection %s is not complete", c.ID)
			}
		}
		if cfg.Keyless() && !Loopback(cfg.Listen) {
			t.Fatalf("listens on %s without keys", cfg.Listen)
		}
	})
}

// FuzzTree fuzzes the part that meets the YAML library: no panic, no endless loop, every node has a place.
func FuzzTree(f *testing.F) {
	f.Add("a: &x {b: [1, \"${E}\"]}\nc: *x\n<<: *x\n")
	f.Add("a: |\n  x\n  y\n? b\n: !!str c\n--- \n")
	f.Fuzz(func(t *testing.T, doc string) {
		root, problems := parseTree("f", []byte(doc))
		if root == nil {
			if len(problems) == 0 {
				t.Fatal("neither a tree nor a problem")
			}
			return
		}
		x := &expander{env: func(string) (string, bool) { return "v", true }, seen: map[*node]bool{}}
		x.walk(root, "")
	})
}
