package config

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/gateway"
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

func load(t testing.TB, doc string, pairs ...string) *Config {
	t.Helper()
	cfg, err := Load(Source{Bytes: []byte(doc), Env: env(pairs...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestNormativeExample(t *testing.T) {
	c := load(t, normative(t), "A1_KEY", "sk-secret-1234567", "OPENAI_API_KEY", "sk-openai-123")
	lab := c.Providers["lab-a"]
	if lab.BaseURL != "http://127.0.0.1:18081/v1" || lab.Headers["x-team"] != "blue" || lab.Strategy != "health-aware" {
		t.Errorf("lab-a: %+v", lab)
	}
	if got := c.Providers["openai"]; got.BaseURL != "https://api.openai.com/v1" || len(got.Protocols) != 2 {
		t.Errorf("the preset openai: %+v", got)
	}
	a1 := c.Connections[1]
	if a1.ID != "a1" || a1.Credential.Value() != "sk-secret-1234567" || a1.MaxConcurrent != 8 || a1.ModelConcurrency["glm-5"] != 1 ||
		a1.RateLimits != (RateLimits{RPM: 600, TPM: 100000}) || a1.Weight != 1 {
		t.Errorf("a1: %+v", a1)
	}
	smart := c.Combos[1]
	want := []Target{{Target: "lab-a/m1", Weight: 1, Provider: "lab-a", Model: "m1"},
		{Target: "openai/gpt-5.1", Weight: 2, Provider: "openai", Model: "gpt-5.1"},
		{Target: "lab-b/m1", Connection: "b1", Weight: 1, Provider: "lab-b", Model: "m1"}, {Combo: "other", Weight: 1}}
	if diff := cmp.Diff(want, smart.Targets); diff != "" {
		t.Error(diff)
	}
	if s := c.Settings("a1"); s.Breaker.ConsecThreshold != 5 || s.Timeouts.LastChance != 5*time.Minute || s.Profile != "recommended" {
		t.Errorf("settings of a1: %+v", s)
	}
	if c.Settings("openai") == nil || !c.Connections[len(c.Connections)-1].Implied {
		t.Error("openai has no implied connection")
	}
}

func TestEmptyFilesAreFine(t *testing.T) {
	for _, doc := range []string{"", "\n", "# nothing\n", "---\n", "{}", "null", "---\n# c\n"} {
		if c := load(t, doc); !c.LabOnly || c.Listen != "127.0.0.1:4000" || !c.SQLite() || !c.Memory() || c.Limits.Attempts != 10 {
			t.Errorf("%q: %+v", doc, c)
		}
	}
}

func TestProcessSettingsPrecedence(t *testing.T) {
	file := "listen: 127.0.0.1:1\ndata: /file\ndatabase: sqlite\nstate: memory\n"
	for _, c := range []struct {
		name, doc  string
		env        []string
		flags      Flags
		want, data string
	}{
		{"default", "", []string{"HOME", "/h"}, Flags{}, "127.0.0.1:4000", "/h/.local/share/spillway"},
		{"file", file, nil, Flags{}, "127.0.0.1:1", "/file"},
		{"environment", file, []string{"SPILLWAY_LISTEN", "127.0.0.1:2", "SPILLWAY_DATA", "/env"}, Flags{}, "127.0.0.1:2", "/env"},
		{"flag", file, []string{"SPILLWAY_LISTEN", "127.0.0.1:2"}, Flags{Listen: "127.0.0.1:3", Data: "/flag"}, "127.0.0.1:3", "/flag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Load(Source{Bytes: []byte(c.doc), Env: env(c.env...), Flags: c.flags})
			if err != nil || got.Listen != c.want || got.Data != c.data {
				t.Errorf("listen %v data %v, %v", got.Listen, got.Data, err)
			}
		})
	}
	_, err := Load(Source{Env: env("SPILLWAY_LISTEN", "0.0.0.0:1"), ReadFile: noFile})
	if err == nil || !strings.HasPrefix(err.Error(), "SPILLWAY_LISTEN: listen: ") {
		t.Errorf("the variable is not named: %v", err)
	}
	_, err = Load(Source{Env: env(), ReadFile: noFile, Flags: Flags{Listen: ":80"}})
	if err == nil || !strings.HasPrefix(err.Error(), "--listen: listen: ") {
		t.Errorf("the flag is not named: %v", err)
	}
}

func TestFileLookup(t *testing.T) {
	files := map[string]string{"flag.yaml": "data: /flag", "env.yaml": "data: /env", "spillway.yaml": "data: /cwd"}
	for _, c := range []struct {
		name, flag, env string
		without         string
		want            string
	}{
		{"flag first", "flag.yaml", "env.yaml", "", "/flag"},
		{"then the variable", "", "env.yaml", "", "/env"},
		{"then the directory", "", "", "", "/cwd"},
		{"and none is fine", "", "", "spillway.yaml", "/h/.local/share/spillway"},
		{"but a named one must exist", "gone.yaml", "", "", "error: gone.yaml: cannot be read (named by --config): file does not exist"},
		{"by the variable, too", "", "gone.yaml", "", "error: gone.yaml: cannot be read (named by SPILLWAY_CONFIG): file does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := func(name string) ([]byte, error) {
				if s, ok := files[name]; ok && name != c.without {
					return []byte(s), nil
				}
				return noFile(name)
			}
			e := env("HOME", "/h")
			if c.env != "" {
				e = env("HOME", "/h", "SPILLWAY_CONFIG", c.env)
			}
			cfg, err := Load(Source{Path: c.flag, Env: e, ReadFile: read})
			got := ""
			if err != nil {
				got = "error: " + err.Error()
			} else {
				got = cfg.Data
			}
			if got != c.want {
				t.Errorf("have %q, want %q", got, c.want)
			}
		})
	}
}

func TestWellKnownVariables(t *testing.T) {
	for _, c := range []struct {
		name string
		doc  string
		env  []string
		want map[string]string // provider -> base URL
	}{
		{"nothing", "", nil, map[string]string{}},
		{"keys", "", []string{"OPENAI_API_KEY", "k", "ANTHROPIC_API_KEY", "k", "GOOGLE_API_KEY", "k", "OPENROUTER_API_KEY", "k"},
			map[string]string{"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com",
				"gemini": "https://generativelanguage.googleapis.com", "openrouter": "https://openrouter.ai/api/v1"}},
		{"an empty variable is none", "", []string{"OPENAI_API_KEY", " "}, map[string]string{}},
		{"one service, one provider", "", []string{"DEEPSEEK_API_KEY", "k", "ZHIPU_API_KEY", "k"},
			map[string]string{"deepseek": "https://api.deepseek.com/v1", "glm": "https://open.bigmodel.cn/api/paas/v4"}},
		{"a file without providers", "log: {level: debug}", []string{"XAI_API_KEY", "k"}, map[string]string{"xai": "https://api.x.ai/v1"}},
		{"ollama by host and port", "", []string{"OLLAMA_HOST", "box:11434"}, map[string]string{"ollama": "http://box:11434/v1"}},
		{"ollama by listen address", "", []string{"OLLAMA_HOST", "0.0.0.0"}, map[string]string{"ollama": "http://127.0.0.1:11434/v1"}},
		{"ollama by URL", "", []string{"OLLAMA_HOST", "https://o.example/"}, map[string]string{"ollama": "https://o.example/v1"}},
		{"ollama by IPv6", "", []string{"OLLAMA_HOST", "http://[::1]:9"}, map[string]string{"ollama": "http://[::1]:9/v1"}},
		{"a file with providers has the last word", "providers: {groq: {}}", []string{"OPENAI_API_KEY", "k"},
			map[string]string{"groq": "https://api.groq.com/openai/v1"}},
		{"a part from the environment", "providers: {azure: {}}", []string{"AZURE_OPENAI_RESOURCE", "mine", "AZURE_OPENAI_API_KEY", "k"},
			map[string]string{"azure": "https://mine.openai.azure.com/openai/v1"}},
		{"a preset under another name", "providers: {work: {preset: openai, base_url: 'https://proxy.example/v1/'}}", nil,
			map[string]string{"work": "https://proxy.example/v1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := load(t, c.doc, c.env...)
			have := map[string]string{}
			for id, p := range cfg.Providers {
				have[string(id)] = p.BaseURL
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Error(diff)
			}
			if cfg.LabOnly != (len(c.want) == 0) {
				t.Errorf("LabOnly = %v", cfg.LabOnly)
			}
			for _, conn := range cfg.Connections {
				if cfg.Settings(conn.ID) == nil || conn.Credential == nil {
					t.Errorf("connection %s is not complete", conn.ID)
				}
			}
		})
	}
}

func TestPresetsAreSound(t *testing.T) {
	seen, auto := map[string]bool{}, map[string]string{}
	for _, p := range Presets() {
		if seen[p.Name] {
			t.Errorf("%s is there twice", p.Name)
		}
		seen[p.Name] = true
		var filled Provider
		p.fill(&filled)
		if len(filled.Protocols) != len(strings.Fields(p.Protocols)) || len(filled.Protocols) == 0 {
			t.Errorf("%s: protocols %q", p.Name, p.Protocols)
		}
		if p.Class != "" {
			if _, err := gateway.ParseClass(p.Class); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
		x := &expander{env: func(string) (string, bool) { return "x", true }, preset: true}
		u, err := url.Parse(x.expand(&node{raw: p.BaseURL}, ""))
		if err != nil || u.Host == "" || strings.HasSuffix(p.BaseURL, "/") || u.Scheme != "https" && p.Class != "local" {
			t.Errorf("%s: base URL %q", p.Name, p.BaseURL)
		}
		if !validName(p.Name) || p.Auto && len(p.Env) == 0 && p.BaseEnv == "" {
			t.Errorf("%s: name or variables", p.Name)
		}
		for _, v := range p.Env {
			if other := auto[v]; p.Auto && other != "" {
				t.Errorf("%s starts %s and %s", v, other, p.Name)
			} else if p.Auto {
				auto[v] = p.Name
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d presets", len(seen))
	}
	for alias, want := range map[string]string{"google": "gemini", "kimi": "moonshot", "zhipu": "glm"} {
		if p, ok := PresetByName(alias); !ok || p.Name != want {
			t.Errorf("%s = %s", alias, p.Name)
		}
	}
}

// The value of a variable is text: it cannot add fields or become another type by itself.
func TestExpansionIsNotYAML(t *testing.T) {
	c := load(t, "providers: {openai: {}}\nconnections:\n- {id: a, provider: openai, key: \"${K}\", meta: {m: 'x${N:-d}y$${Z}', e: '${EMPTY:-full}'}}\ndata: ${D}/x\n",
		"K", "a\", weight: 9, b: {c: ]", "D", "/d: [", "EMPTY", "")
	a := c.Connections[0]
	if a.Key != "a\", weight: 9, b: {c: ]" || a.Weight != 1 || a.Meta["m"] != "xdy${Z}" || a.Meta["e"] != "full" || c.Data != "/d: [/x" {
		t.Errorf("%q %v %v %q", a.Key.Reveal(), a.Weight, a.Meta, c.Data)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	c := load(t, `
providers:
  a: &base {protocols: [openai], base_url: "http://127.0.0.1:1", headers: &h {x: "1"}}
  b: {<<: *base, base_url: "http://127.0.0.1:2"}
  c: {protocols: [anthropic], base_url: "http://127.0.0.1:3", headers: *h}
`)
	if b := c.Providers["b"]; b.BaseURL != "http://127.0.0.1:2" || b.Headers["x"] != "1" || b.ID != "b" {
		t.Errorf("%+v", b)
	}
	if c.Providers["c"].Headers["x"] != "1" {
		t.Error("the alias is lost")
	}
}

func TestHostileFilesEnd(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a: &a [x, x, x, x, x, x, x, x, x]\n")
	for c := 'b'; c <= 'k'; c++ {
		bomb.WriteString(fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", ")))
	}
	for name, doc := range map[string]string{
		"aliases": bomb.String(), "brackets": strings.Repeat("[", 100_000), "braces": strings.Repeat("{a: ", 100_000),
		"indentation": deepMap(3000), "binary": "\x00\xff\xfe", "long": "data: " + strings.Repeat("x", 9<<20),
	} {
		start := time.Now()
		if _, err := Load(Source{Bytes: []byte(doc), Env: env()}); err == nil {
			t.Errorf("%s: no problem", name)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

func deepMap(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}
