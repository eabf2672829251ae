package catalog

import (
	"strings"

	"spillway/internal/gateway"
)

// autoKinds are the variants of auto that exist without configuration.
var autoKinds = []string{"auto", "auto/coding", "auto/fast", "auto/cheap", "auto/smart", "auto/offline"}

// automatic finds the combo of auto or auto/<category>[:<tier>]; a category that is not known is plain auto.
func (s *Snapshot) automatic(name string) *gateway.Combo {
	kind, _, _ := strings.Cut(name, ":")
	if c, ok := s.auto[kind]; ok {
		return c
	}
	if kind == "auto/offline" { // never leaves the machine, even when nothing local is there
		return nil
	}
	return s.auto["auto"]
}

// compileAuto builds one variant: every connection's own models; of a provider that serves whatever is asked for, the
// model of its catalogue that fits the variant best (catalogues list the strongest first).
func (s *Snapshot) compileAuto(kind string, order []*gateway.Connection) *gateway.Combo {
	out := &gateway.Combo{Name: kind, Strategy: "health-aware"}
	seen := map[gateway.Target]bool{}
	add := func(p gateway.ProviderID, m gateway.ModelID) {
		t := gateway.Target{Provider: p, Model: m, Weight: 1}
		if !seen[t] {
			seen[t] = true
			out.Targets = append(out.Targets, t)
		}
	}
	for _, c := range order {
		if kind == "auto/offline" && c.Provider.Class != gateway.Local {
			continue
		}
		models := chatModels(s.modelsOf(c))
		if len(models) == 0 {
			continue
		}
		if len(c.Models) > 0 {
			for _, m := range models {
				add(c.Provider.ID, m)
			}
			continue
		}
		add(c.Provider.ID, pick(kind, models))
	}
	return out
}

// chatModels leaves out what is known by its name not to chat.
func chatModels(models []gateway.ModelID) []gateway.ModelID {
	var out []gateway.ModelID
	for _, m := range models {
		if !mentions(m, "embed", "tts", "whisper", "dall-e", "image", "moderation", "rerank", "transcribe", "realtime", "voyage", "audio") {
			out = append(out, m)
		}
	}
	return out
}

func pick(kind string, models []gateway.ModelID) gateway.ModelID {
	want := map[string][]string{
		"auto/fast": {"flash", "mini", "haiku", "turbo", "lite", "small"}, "auto/cheap": {"nano", "lite", "mini", "flash", "haiku", "air", "small"},
		"auto/coding": {"codex", "code", "coder", "codestral", "devstral", "opus"},
	}[kind]
	for _, word := range want {
		for _, m := range models {
			if mentions(m, word) {
				return m
			}
		}
	}
	return models[0]
}

func mentions(m gateway.ModelID, words ...string) bool {
	name := strings.ToLower(string(m))
	for _, w := range words {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}
