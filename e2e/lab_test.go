package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The models that the lab is asked for; its sources take any name.
const (
	labModel  = "m1"
	toolModel = "m1-tools" // for questions that end in a tool call
)

// sources are running fake upstreams, root URL by name.
type sources map[string]string

var sourceLine = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*)\s+(http://\S+)\s`)

// startLab runs the sources of testdata/NAME.yaml.
func startLab(t *testing.T, name string) sources {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "lab "+name, "lab", "serve", "--scenario", file)
	p.expect(t, regexp.MustCompile(`All speak openai`))
	found := sources{}
	for _, m := range sourceLine.FindAllStringSubmatch(p.out.String(), -1) {
		found[m[1]] = m[2]
	}
	return found
}

// labAttempt is what a source saw of one request.
type labAttempt struct {
	Source, Protocol, Path, Fault string
	Stream, Cancelled             bool
}

// log asks the lab what was attempted. Any source of a lab answers for all.
func (s sources) log(t *testing.T, of string) []labAttempt {
	t.Helper()
	res, err := http.Get(s[of] + "/lab/log")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var list []labAttempt
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// answer asks a source without any gateway for the text that belongs to a prompt.
func (s sources) answer(ctx context.Context, of, prompt string) (string, error) {
	body, err := json.Marshal(map[string]any{"model": labModel, "messages": []any{map[string]string{"role": "user", "content": prompt}}})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s[of]+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var out struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return "", err
	}
	if len(out.Choices) != 1 || out.Choices[0].Message.Content == "" {
		return "", fmt.Errorf("the lab answered %q with nothing", prompt)
	}
	return out.Choices[0].Message.Content, nil
}

var listenLine = regexp.MustCompile(`listens on (http://\S+)`)

// startGateway runs the gateway with a configuration and returns its root URL.
func startGateway(t *testing.T, name, yaml string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "spillway.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "gateway "+name, "serve", "--config", file, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	url := p.expect(t, listenLine)[1]
	ready(t, url)
	return url
}

func ready(t *testing.T, url string) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			continue
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatalf("the gateway at %s does not become ready", url)
}

// stubborn switches off what would keep the gateway away from a source that fails, so that every call meets a failure.
const stubborn = `disable_cooling: true, resilience: {breaker: {consec_threshold: 1000, rate_threshold: 0, evidence_mode: "off"}, pacing: {unproven_cap: 0, aimd: {mode: "off"}}}`

// providerYAML are a provider and its one connection per source. extra are further fields of the connections.
func providerYAML(s sources, extra string, names ...string) string {
	var providers, connections strings.Builder
	for _, name := range names {
		fmt.Fprintf(&providers, "  %s: {protocols: [openai, responses, anthropic, gemini], base_url: %s/v1, class: apikey}\n", name, s[name])
		fields := ""
		if extra != "" {
			fields = ", " + extra
		}
		fmt.Fprintf(&connections, "  - {id: %[1]s, provider: %[1]s, key: key-%[1]s, models: [%[3]s, %[4]s]%[2]s}\n", name, fields, labModel, toolModel)
	}
	return "providers:\n" + providers.String() + "connections:\n" + connections.String()
}

// comboYAML is a priority combo over sources, one line of the list of combos.
func comboYAML(name, model string, sources ...string) string {
	for i, s := range sources {
		sources[i] = s + "/" + model
	}
	return fmt.Sprintf("  - {name: %s, strategy: priority, targets: [%s]}\n", name, strings.Join(sources, ", "))
}
