package config

import (
	"strings"
	"testing"
)

func TestUsageWallSettings(t *testing.T) {
	for _, row := range []struct{ provider, options, want string }{
		{"[anthropic]", "low_priority_mode: true", ""},
		{"[openai, anthropic]", "auto_limit_reset: true, meta: {organization: 6f1c2a9e-0000-4000-8000-000000000000}", ""},
		{"[openai]", "low_priority_mode: false", ""},
		{"[openai]", "low_priority_mode: true", "connections[0].low_priority_mode"},
		{"[openai]", "auto_limit_reset: true, meta: {organization: x}", "connections[0].auto_limit_reset"},
		{"[anthropic]", "auto_limit_reset: true", "meta: {organization: ...}"},
		{"[anthropic]", "auto_limit_reset: true, meta: {organization: ../x}", "meta: {organization: ...}"},
	} {
		_, err := Load(Source{Path: "x.yaml", Bytes: []byte("providers: {p: {protocols: " + row.provider + ", base_url: 'https://p.test'}}\n" +
			"connections:\n  - {id: a, provider: p, key: k, " + row.options + "}\n"), Env: func(string) (string, bool) { return "", false }})
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s %s: %v, want %q", row.provider, row.options, err, row.want)
		}
	}
}
