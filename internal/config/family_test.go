package config

import (
	"strings"
	"testing"

	"spillway/internal/gateway"
)

func TestQuotaFamily(t *testing.T) {
	p := &Provider{QuotaFamilies: map[string][]string{"codex": {"gpt-*", "o?"}, "spark": {"gpt-*-spark"}, "b": {"same*"}, "a": {"same*"}}}
	for model, want := range map[gateway.ModelID]string{"gpt-5": "codex", "gpt-5-spark": "spark", "o3": "codex", "o33": "", "glm": "", "same": "a"} {
		if got := p.QuotaFamily(model); got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
}

func TestQuotaFamiliesAreChecked(t *testing.T) {
	load := func(provider string) (*Config, error) {
		return Load(Source{Path: "x.yaml", Env: func(string) (string, bool) { return "", false }, Bytes: []byte(
			"providers:\n  a: {protocols: [openai], base_url: 'http://127.0.0.1:1/v1', " + provider + "}\nconnections:\n  - {id: a1, provider: a, key: k}\n")})
	}
	for provider, want := range map[string]string{
		"quota_families: {f: []}":   "lists no model",
		"quota_families: {f: ['']}": "an empty pattern",
		"quota_families: {f: 3}":    "quota_families",
	} {
		if _, err := load(provider); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", provider, err)
		}
	}
	for provider, warns := range map[string]bool{"quota_families: {f: ['m*']}": true, "per_model_quota: true, quota_families: {f: ['m*']}": false} {
		cfg, err := load(provider)
		if err != nil {
			t.Fatal(err)
		}
		warned := false
		for _, w := range cfg.Warnings {
			warned = warned || strings.Contains(w.Message, "per_model_quota")
		}
		if warned != warns {
			t.Errorf("%s: warned %t: %v", provider, warned, cfg.Warnings)
		}
	}
}
