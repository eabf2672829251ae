package config

import (
	"slices"
	"strings"

	"spillway/internal/gateway"
)

// Preset is what is known about a public service: data, never code. A new service is one line in the table.
type Preset struct {
	Name      string
	Protocols string   // space separated, the preferred one first
	BaseURL   string   // may hold ${NAME}: a part that differs per user, taken from the environment
	Class     string   // "" = apikey
	Env       []string // well-known variables of the key, the first that is set wins
	BaseEnv   string   // well-known variable of the base URL
	// Auto presets become providers by themselves when their variable is set and there is no file. Second entrances to
	// the same service (another protocol, another region) are not: they would double every connection.
	Auto            bool
	AuthHeader      string
	PerModelQuota   bool
	NoStreamOptions bool
	Models          string // a short catalogue, space separated; the upstream's own list completes it
}

// Presets lists every preset, by name.
func Presets() []Preset {
	out := slices.Concat(presetTable(), regionalTable(), localTable())
	slices.SortFunc(out, func(a, b Preset) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// PresetByName finds a preset; a few services are known under a second name.
func PresetByName(name string) (Preset, bool) {
	if other, ok := map[string]string{"google": "gemini", "zhipu": "glm", "kimi": "moonshot", "grok": "xai",
		"dashscope": "qwen", "doubao": "volcengine", "claude": "anthropic", "llama.cpp": "llamacpp",
		"github": "github-models", "cloudflare-ai": "cloudflare", "opencode": "opencode-zen", "lm-studio": "lmstudio"}[name]; ok {
		name = other
	}
	for _, table := range [][]Preset{presetTable(), regionalTable(), localTable()} {
		for _, p := range table {
			if p.Name == name {
				return p, true
			}
		}
	}
	return Preset{}, false
}

func presetNames() []string {
	var out []string
	for _, p := range Presets() {
		out = append(out, p.Name)
	}
	return out
}

// fill sets the fields of a provider that the preset knows.
func (s Preset) fill(p *Provider) {
	for name := range strings.FieldsSeq(s.Protocols) {
		if proto, err := gateway.ParseProtocol(name); err == nil {
			p.Protocols = append(p.Protocols, proto)
		}
	}
	if s.Class != "" {
		p.Class, _ = gateway.ParseClass(s.Class)
	}
	for m := range strings.FieldsSeq(s.Models) {
		p.Models = append(p.Models, gateway.ModelID(m))
	}
	p.Preset, p.BaseURL, p.Env, p.AuthHeader = s.Name, s.BaseURL, s.Env, s.AuthHeader
	p.PerModelQuota, p.NoStreamOptions = s.PerModelQuota, s.NoStreamOptions
	p.NoKey = p.Class == gateway.Local
}
