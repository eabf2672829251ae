package config

import (
	"strings"
	"testing"
)

const base = "providers: {openai: {}}\nconnections: [{id: a, provider: openai, key: k, models: [m1, m2]}]\n"

// P17: a policy that is attached to nothing never fires, and nobody is told.
func TestP17PoliciesThatMatchNothing(t *testing.T) {
	hash := "'sha256:" + strings.Repeat("ab", 32) + "'"
	for _, c := range []struct{ name, doc, want string }{
		{"rule for providers that are not there", base + "rules: [{id: r, provider: 'lab-*', status: [500], kind: rate_limited}]", `rules[0].provider: "lab-*" matches no provider, so the rule never applies`},
		{"key for models that are not there", base + "keys: [{name: k, hash: " + hash + ", allowed_models: [m1, 'gpt-*']}]", `keys[0].allowed_models[1]: "gpt-*" matches no combo, alias or model that is configured`},
		{"cap for a model that is not served", strings.Replace(base, "models:", "model_concurrency: {m3: 1}, models:", 1), "connections[0].model_concurrency.m3: matches nothing"},
		{"target that no connection lists", base + "combos: [{name: c, targets: [openai/m3]}]", "combos[0].targets[0]: no connection lists this model"},
		{"alias behind a combo", base + "combos: [{name: c, targets: [openai/m1]}]\naliases: {c: openai/m2}", "aliases.c: is never used"},
		{"provider without a key", "providers: {openai: {}}", "providers.openai: has no connection, so nothing is ever sent to it; set OPENAI_API_KEY"},
		{"connection without a key", "providers: {openai: {}}\nconnections: [{id: a, provider: openai}]", "connections[0]: has no key"},
		{"key over plain http", "providers: {p: {protocols: [openai], base_url: 'http://api.example.com/v1'}}\nconnections: [{id: a, provider: p, key: k}]", "providers.p.base_url: sends the key unencrypted"},
		{"lease of everything", base + "keys: [{name: k, hash: " + hash + ", scopes: ['lease:exclusive']}]", "keys[0]: has scope lease:exclusive without allowed_connections"},
		{"alias that may be served", "providers: {openai: {}}\nconnections: [{id: a, provider: openai, key: k}]\naliases: {x: some-model}", "aliases.x: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := load(t, c.doc)
			var lines []string
			for _, w := range cfg.Warnings {
				lines = append(lines, w.String())
			}
			if all := strings.Join(lines, "\n"); !strings.Contains(all, c.want) || !strings.HasPrefix(all, "spillway.yaml:") {
				t.Errorf("have %s\nwant %s", all, c.want)
			}
		})
	}
}

func TestNothingToWarnAbout(t *testing.T) {
	doc := base + `
combos: [{name: c, targets: [openai/m1, {target: openai/m2, connection: a}]}]
aliases: {"gpt-*": c, x: openai/m1, y: m2, z: auto}
keys: [{name: k, hash: "sha256:` + strings.Repeat("ab", 32) + `", allowed_models: [c, "openai/*", "gpt-4o"]}]
rules: [{id: r, provider: "open*|openai", status: [500-502], kind: rate_limited, cooldown: 5s}]
`
	if cfg := load(t, doc); len(cfg.Warnings) > 0 {
		t.Error(cfg.Warnings)
	}
}

func TestStoredSettings(t *testing.T) {
	stored := `{"providers": {"groq": {}}, "connections": [{"id": "g", "provider": "groq", "key": "k2"}],
	  "combos": [{"name": "both", "targets": ["openai/m1", "groq/x"]}], "aliases": {"x": "both"},
	  "rules": [{"id": "r2", "status": [418], "kind": "rate_limited"}]}`
	c, err := Load(Source{Bytes: []byte(base), Stored: []byte(stored), Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Providers) != 2 || len(c.Connections) != 2 || c.Combos[0].Name != "both" || c.Aliases["x"] != "both" || c.Settings("g") == nil || len(c.Rules) != 1 {
		t.Errorf("%+v", c)
	}
	for _, clash := range []struct{ stored, want string }{
		{`{"providers": {"openai": {}}}`, "stored settings:1:"},
		{`{"connections": [{"id": "a", "provider": "openai", "key": "k"}]}`, "stored settings:1:25: connections[1].id"},
		{`{"combos": [{"name": "c", "targets": ["nope/m"]}]}`, "combos[0].targets[0]: unknown provider"},
	} {
		if _, err := Load(Source{Bytes: []byte(base), Stored: []byte(clash.stored), Env: env()}); err == nil || !strings.Contains(err.Error(), clash.want) {
			t.Errorf("%s: %v", clash.stored, err)
		}
	}
}

func TestUseGlobalRules(t *testing.T) {
	if c := load(t, "providers: {openai: {use_global_rules: false}}"); c.RuleSet() == nil || c.Providers["openai"].UseGlobalRules {
		t.Error("no rules")
	}
	if c := load(t, "rules: [{id: a, from: [500], to: 429, text_any: [busy]}, {id: b, status: [500], kind: rate_limited}]"); c.Rules[0].Restatement == nil || c.Rules[0].Restatement.To != 429 || c.Rules[1].ID != "b" {
		t.Errorf("%+v", c.Rules)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"a", "a", true}, {"a", "A", false},
		{"claude-*", "claude-", true}, {"claude-*", "claude", false}, {"*-mini", "gpt-mini", true}, {"*-mini", "gpt-mini-2", false},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"**", "x", true},
		{"*a*a*a*a*a*a*a*b", strings.Repeat("a", 200), false},
	} {
		if got := Glob(c.pattern, c.name); got != c.want {
			t.Errorf("Glob(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]Size{"0": 0, "1": 1, "10B": 10, "512KiB": 512 << 10, "64 MiB": 64 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40} {
		got, err := ParseSize(in)
		if err != nil || got != want {
			t.Errorf("%s = %d, %v", in, got, err)
		}
		if back, err := ParseSize(got.String()); err != nil || back != want {
			t.Errorf("%s does not read back: %s", in, got)
		}
	}
	for _, in := range []string{"", "MiB", "-1", "1.5MiB", "64MB", "64M", "9999999999TiB", "99999999999999999999"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%s = %d", in, got)
		}
	}
}

func TestNearest(t *testing.T) {
	for in, want := range map[string]string{"opneai": "openai", "OpenAI": "openai", "base-url": "base_url", "xx": "", "mine": "", "wieght": "weight"} {
		if got := nearest(in, []string{"openai", "base_url", "weight", "jina", "x"}); got != want {
			t.Errorf("nearest(%q) = %q, want %q", in, got, want)
		}
	}
}
