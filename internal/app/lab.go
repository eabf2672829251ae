package app

import (
	"context"
	"fmt"

	"spillway/internal/config"
	"spillway/internal/lab"
)

// labName is the provider that stands in when nothing is configured.
const labName = "lab"

// startLab starts a healthy fake upstream in this process and returns the configuration with it as the one provider.
func (a *App) startLab(ctx context.Context) (*config.Config, error) {
	server, err := lab.NewServer(lab.Default())
	if err != nil {
		return nil, err
	}
	if err := server.Open(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	a.onStop("lab", func(context.Context) error { return server.Close() })
	a.labURL = server.URL(lab.Default().Sources[0].Name)
	return a.withLab()
}

// withLab reads the configuration again, with the lab added as if it had been stored.
func (a *App) withLab() (*config.Config, error) {
	src := a.source()
	src.Stored = fmt.Appendf(nil, "providers:\n  %s:\n    protocols: [openai, responses, anthropic, gemini]\n"+
		"    base_url: %s\n    no_key: true\n    models: [%s]\n", labName, a.labURL, labModel)
	cfg, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	cfg.LabOnly = true
	cfg.Providers[labName].Lab = true
	return cfg, nil
}

// labModel is what the lab calls its one model.
const labModel = "lab-model"

// announce tells people on the terminal what runs and how to try it.
func (a *App) announce(cfg *config.Config) {
	if a.listener == nil {
		return
	}
	out := a.options.Out
	addr := a.listener.Addr().String()
	fmt.Fprintf(out, "Spillway %s listens on http://%s\n", Version, addr)
	model := a.example()
	if cfg.LabOnly {
		fmt.Fprintf(out, "\n  *** NO PROVIDER IS CONFIGURED: answers come from the built-in lab, not from a real model. ***\n"+
			"  Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY or OLLAMA_HOST, or write spillway.yaml.\n\n")
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	key := ""
	if !cfg.Keyless() {
		key = ` -H "authorization: Bearer $SPILLWAY_KEY"` // double quotes: the shell puts the key in
	}
	fmt.Fprintf(out, "Try it:\n\n  curl http://%s/v1/chat/completions -H 'content-type: application/json'%s "+
		"-d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'\n\n", addr, key, model)
}

// example is a model that the curl line can ask for: the first that is known to be served, combos before single models.
func (a *App) example() string {
	models := a.live.Load().Board.Snapshot.Models()
	for _, m := range models {
		if m.Kind == "combo" {
			return m.ID
		}
	}
	if m, ok := a.live.Load().Board.Snapshot.Resolve("auto"); ok && len(m.Combo.Targets) > 0 {
		return "auto"
	}
	if len(models) > 0 {
		return models[0].ID
	}
	for _, p := range a.live.Load().Board.Snapshot.Providers() {
		return string(p.ID) + "/MODEL"
	}
	return "auto"
}
