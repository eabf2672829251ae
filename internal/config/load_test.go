package config

import (
	"io/fs"
	"os"
	"testing"
	"strings"
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

func TestSmoke(t *testing.T) {
	b, _ := os.ReadFile("testdata/normative.yaml")
	s := strings.ReplaceAll(string(b), "HEX", strings.Repeat("ab", 32))
	cfg, err := Load(Source{Bytes: []byte(s), Env: env("A1_KEY", "sk-secret-1234567", "OPENAI_API_KEY","sk-12345678")})
	t.Log(err)
	if cfg != nil {
	for _, w := range cfg.Warnings { t.Log(w)}
	}
}
