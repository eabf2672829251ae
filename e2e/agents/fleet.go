//go:build agents

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// agent is one coding agent and how it is pointed at a gateway.
type agent struct {
	name, version, pkg string
	bin                string            // under node_modules
	files              map[string]string // below its home; %s = the gateway's root URL
	project            map[string]string // below its working directory
	env                []string          // %s = the gateway's root URL
	args               []string          // before the prompt
	seals              bool              // its protocol has sealed reasoning, which it sends back with a tool's result
	extra, extraDir    string            // package that it would fetch into a folder below its home, installed ahead
}

// arch is the machine as npm names it. Two agents come as a program for each, which the package's install script would
// put in place; install scripts are not run here.
var arch = map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]

var fleet = []agent{
	{
		name: "claude-code", version: "2.1.332", pkg: "@anthropic-ai/claude-code", bin: "@anthropic-ai/claude-code-linux-" + arch + "/claude",
		env:  []string{"ANTHROPIC_BASE_URL=%s", "ANTHROPIC_API_KEY=sk-x", "ANTHROPIC_MODEL=mock", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
		args: []string{"--output-format", "json", "-p"}, seals: true,
	},
	{
		name: "codex", version: "0.171.0", pkg: "@openai/codex", bin: ".bin/codex",
		files: map[string]string{".codex/config.toml": codexConfig},
		env:   []string{"GW_KEY=sk-x"},
		// Its sandbox wants rights that a container may not have; the scripted upstream asks for nothing but cat.
		args: []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}, seals: true,
	},
	{
		name: "gemini-cli", version: "0.61.0", pkg: "@google/gemini-cli", bin: ".bin/gemini",
		files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"disableAutoUpdate":true}}`},
		env:   []string{"GEMINI_API_KEY=k", "GOOGLE_GEMINI_BASE_URL=%s"},
		args:  []string{"-m", "gemini-2.5-flash", "--skip-trust", "-p"}, seals: true,
	},
	{
		name: "opencode", version: "1.18.33", pkg: "opencode-ai", bin: "opencode-linux-" + arch + "/bin/opencode",
		project: map[string]string{"opencode.json": `{"autoupdate":false,"share":"disabled","model":"gw/mock","small_model":"gw/mock","enabled_providers":["gw"],` +
			`"provider":{"gw":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"%s/v1","apiKey":"sk-x"},"models":{"mock":{"name":"mock"}}}}}`},
		env:  []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"},
		args: []string{"run"},
		// It puts the package that its plugins are written against beside its settings unless it is there. No switch
		// keeps it from that.
		extra: "@opencode-ai/plugin@1.18.33", extraDir: ".config/opencode",
	},
	{
		name: "qwen-code", version: "0.15.10", pkg: "@qwen-code/qwen-code", bin: ".bin/qwen",
		files: map[string]string{".qwen/settings.json": `{"privacy":{"usageStatisticsEnabled":false}}`},
		env:   []string{"OPENAI_API_KEY=k", "OPENAI_BASE_URL=%s/v1", "OPENAI_MODEL=mock"},
		args:  []string{"--auth-type", "openai", "-p"},
	},
	{
		name: "pi", version: "0.73.1", pkg: "@mariozechner/pi-coding-agent", bin: ".bin/pi",
		files: map[string]string{".pi/agent/models.json": `{"providers":{"gw":{"baseUrl":"%s/v1","api":"openai-completions","apiKey":"sk-x","models":[{"id":"mock","name":"mock",` +
			`"reasoning":false,"input":["text"],"contextWindow":100000,"maxTokens":1000,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}}]}}}`},
		env:  []string{"PI_OFFLINE=1"},
		args: []string{"--provider", "gw", "--model", "mock", "-p"},
	},
}

const codexConfig = `model = "mock"
model_provider = "gw"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
remote_plugin = false
[model_providers.gw]
name = "gw"
base_url = "%s/v1"
env_key = "GW_KEY"
wire_api = "responses"
supports_websockets = false
`

// write puts files below dir, with the gateway's root URL in them.
func write(dir, root string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(at(text, root)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// at puts the gateway's root URL into a text that has room for it.
func at(text, root string) string {
	if !hasVerb(text) {
		return text
	}
	return fmt.Sprintf(text, root)
}
