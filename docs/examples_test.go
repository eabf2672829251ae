package docs

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/lab/scenario"
	"spillway/internal/route/strategy"
)

// How pages mark what is tested:
//
//	```yaml spillway.yaml    a configuration: it must load; it is also the file that the commands behind it read
//	```yaml part             a part of a configuration: it must load together with the providers of base
//	```yaml bad.yaml         a file of that name, for the commands behind it
//	```yaml scenario NAME    a lab scenario: it must be readable
//	```console               commands behind "$ " and what they print. Those that always print the same are run and
//	                         compared (go test ./docs -run TestExamples -update rewrites the output); of the others
//	                         the flags must exist
//	```go                    a program with package main must compile

// block is one fenced block of a page.
type block struct {
	lang, info string
	text       string
	start, end int // bytes of text within the page
	line       int
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)([^\n]*)\n(.*?)^```$")

func blocks(page string) []block {
	var out []block
	for _, m := range fence.FindAllStringSubmatchIndex(page, -1) {
		out = append(out, block{lang: page[m[2]:m[3]], info: strings.TrimSpace(page[m[4]:m[5]]), text: page[m[6]:m[7]],
			start: m[6], end: m[7], line: 1 + strings.Count(page[:m[0]], "\n")})
	}
	return out
}

// pages lists every page that people read, relative to this folder.
func pages(t *testing.T) []string {
	t.Helper()
	out := []string{"../README.md"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// base makes a part of a configuration whole.
const base = `
providers:
  lab-a: {protocols: [openai], base_url: "http://127.0.0.1:18081/v1"}
  lab-b: {protocols: [openai], base_url: "http://127.0.0.1:18082/v1"}
connections:
  - {id: a1, provider: lab-a, key: sk-example-a1}
  - {id: b1, provider: lab-b, key: sk-example-b1}
combos:
  - {name: smart, targets: [lab-a/m1, lab-b/m1]}
`

// variables are the keys that examples take from the environment.
var variables = []string{"OPENAI_API_KEY", "OPENAI_KEY_2", "OPENROUTER_API_KEY", "A1_KEY", "A2_KEY", "B1_KEY"}

// secrets gives those variables a value; nothing else of the environment is seen.
func secrets(name string) (string, bool) {
	if !slices.Contains(variables, name) {
		return "", false
	}
	return "sk-example-" + strings.ToLower(name), true
}

func TestConfigurationExamplesLoad(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		for _, b := range blocks(read(t, page)) {
			if b.lang != "yaml" || b.info == "bad.yaml" {
				continue
			}
			n++
			t.Run(fmt.Sprintf("%s:%d", page, b.line), func(t *testing.T) { loads(t, b) })
		}
	}
	if n < 10 {
		t.Errorf("only %d examples were found: are the blocks marked?", n)
	}
}

func loads(t *testing.T, b block) {
	name, isScenario := strings.CutPrefix(b.info, "scenario ")
	switch {
	case isScenario:
		if _, err := scenario.Decode(name, []byte(b.text)); err != nil {
			t.Error(err)
		}
		return
	case b.info != "part" && !strings.HasSuffix(b.info, ".yaml"):
		t.Fatalf("mark this block: ```yaml spillway.yaml, part, bad.yaml or scenario NAME; it has %q", b.info)
	}
	src := config.Source{Path: b.info, Bytes: []byte(b.text), Env: secrets, Strategies: strategy.Names(),
		ReadFile:   func(string) ([]byte, error) { return []byte("sk-example-file"), nil },
		RunCommand: func(context.Context, string) ([]byte, error) { return []byte("sk-example-command"), nil }}
	if b.info == "part" {
		src.Bytes = []byte(merge(b.text))
	}
	cfg, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Compile(cfg); err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Warnings {
		t.Errorf("warning: %s", w)
	}
}

// merge puts the sections of base that a part does not have itself behind it.
func merge(part string) string {
	for section := range strings.SplitSeq(strings.TrimSpace(base), "\n") {
		name, _, _ := strings.Cut(section, ":")
		if strings.HasPrefix(section, " ") || regexp.MustCompile(`(?m)^`+name+`:`).MatchString(part) {
			continue
		}
		from := strings.Index(base, "\n"+section) + 1
		rest := base[from+len(section)+1:]
		var body strings.Builder
		body.WriteString(section + "\n")
		for line := range strings.Lines(rest) {
			if !strings.HasPrefix(line, " ") {
				break
			}
			body.WriteString(line)
		}
		part += "\n" + body.String()
	}
	return part
}

// fixed are commands that print the same wherever they run.
var fixed = regexp.MustCompile(`^spillway (version|check|key (new|list)|lab list|help|(.* )?--help)\b|\| spillway (key hash|check --rule)`)

// TestExamples runs the commands of every page against the binary.
func TestExamples(t *testing.T) {
	bin := build(t)
	ran := 0
	for _, page := range pages(t) {
		text := read(t, page)
		out := text
		dir := t.TempDir()
		for _, b := range slices.Backward(blocks(text)) { // backwards, so that offsets stay right
			if b.lang != "console" {
				continue
			}
			files(t, dir, text, b)
			fresh, n := runBlock(t, bin, dir, fmt.Sprintf("%s:%d", page, b.line), b)
			ran += n
			if fresh != b.text && *update {
				out = out[:b.start] + fresh + out[b.end:]
			} else if fresh != b.text {
				t.Errorf("%s:%d is not what the commands print now; go test ./docs -run TestExamples -update rewrites it. Now:\n%s", page, b.line, fresh)
			}
		}
		if out != text {
			if err := os.WriteFile(page, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ran < 5 {
		t.Errorf("only %d commands were run", ran)
	}
}

// build makes the binary that the examples are about.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "spillway")
	cmd := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/spillway") // as make does, so that the cache is shared
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// files writes the named files that stand before a block on its page, and takes away those of another place.
func files(t *testing.T, dir, page string, before block) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range blocks(page) {
		if b.start < before.start && b.lang == "yaml" && strings.HasSuffix(b.info, ".yaml") && !strings.Contains(b.info, " ") {
			if err := os.WriteFile(filepath.Join(dir, b.info), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// runBlock runs the commands of a block and returns the block as it should be; what is not run stays as it is.
func runBlock(t *testing.T, bin, dir, where string, b block) (fresh string, ran int) {
	t.Helper()
	var out strings.Builder
	for _, part := range commands(b.text) {
		out.WriteString("$ " + part.command + "\n")
		checkFlags(t, bin, where, part.command)
		if !fixed.MatchString(part.command) {
			out.WriteString(part.output)
			continue
		}
		ran++
		got := shell(t, bin, dir, part.command)
		if mask(got) == mask(part.output) { // keys are new each time
			got = part.output
		}
		out.WriteString(got)
	}
	return out.String(), ran
}

type command struct{ command, output string }

func commands(text string) []command {
	var out []command
	for line := range strings.Lines(text) {
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, command{command: strings.TrimSuffix(c, "\n")})
		} else if len(out) > 0 {
			out[len(out)-1].output += line
		}
	}
	return out
}

var random = regexp.MustCompile(`sk-spw-[A-Za-z0-9_-]{43}|sha256:[0-9a-f]{64}`)

func mask(s string) string { return random.ReplaceAllString(s, "X") }

func shell(t *testing.T, bin, dir, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + filepath.Dir(bin) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir}
	for _, name := range variables {
		value, _ := secrets(name)
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%s: %v", line, err)
	}
	return both.String()
}

var (
	invoked = regexp.MustCompile(`(?:^|[|;&(] *|[A-Z_]+=\S+ +)(?:bin/)?spillway ((?:[a-z]+ ?){1,2})`)
	flagged = regexp.MustCompile(`(?:^| )(--[a-z-]+)`)
)

// checkFlags compares the flags of a command with those that its help knows.
func checkFlags(t *testing.T, bin, where, line string) {
	t.Helper()
	m := invoked.FindStringSubmatchIndex(line)
	if m == nil {
		return
	}
	words := strings.Fields(line[m[2]:m[3]])
	if words[0] != "lab" && words[0] != "key" {
		words = words[:1]
	}
	help := shell(t, bin, t.TempDir(), "spillway "+strings.Join(words, " ")+" --help")
	if !strings.HasPrefix(help, "Usage:") {
		t.Errorf("%s: %q is no command: %s", where, line, help)
	}
	for _, f := range flagged.FindAllStringSubmatch(line[m[0]:], -1) {
		if f[1] != "--help" && !strings.Contains(help, f[1]) {
			t.Errorf("%s: %q has the flag %s, which does not exist", where, line, f[1])
		}
	}
}

// TestGoExamplesCompile compiles every whole program that needs nothing but this module.
func TestGoExamplesCompile(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		for _, b := range blocks(read(t, page)) {
			if b.lang != "go" || !strings.HasPrefix(b.text, "package main") || strings.Contains(b.text, "github.com/") {
				continue
			}
			n++
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "build", "-trimpath", "-o", os.DevNull, file)
			cmd.Dir = ".."
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", page, b.line, err, out)
			}
		}
	}
	if n == 0 {
		t.Error("no program was found")
	}
}
