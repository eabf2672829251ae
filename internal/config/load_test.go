package config

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

func env(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

func noFile(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// normative is the example of spec product.md with the three things that it leaves to the reader: the provider lab-b
// with its connection, the combo other, and the hash.
func normative(t testing.TB) string {
	b, err := os.ReadFile("testdata/normative.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := strings.ReplaceAll(string(b), "HEX", strings.Repeat("ab", 32))
	s = strings.Replace(s, "connections:\n", "  lab-b: {protocols: [openai], base_url: 'http://127.0.0.1:18082/v1'}\nconnections:\n  - {id: b1, provider: lab-b, key: k}\n", 1)
	return strings.Replace(s, "combos:\n", "combos:\n  - {name: other, targets: [lab-b/m2]}\n", 1)
}
