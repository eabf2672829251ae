package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// script runs the calls of a plan in another language and hands each report to saw.
func script(t *testing.T, dir string, p plan, saw func(seen), argv ...string) {
	t.Helper()
	data, err := p.json()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(deadline(t), argv[0], append(argv[1:], file)...)
	cmd.Dir = dir
	cmd.Env = plainEnv()
	var stderr lines
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := scan(out, func(line []byte) {
		var s seen
		if err := json.Unmarshal(line, &s); err != nil {
			t.Errorf("not a report: %v: %s", err, line)
			return
		}
		saw(s)
	}); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, stderr.tail(40))
	}
}

// plainEnv is the environment without what would steer an SDK: keys and base URLs of whoever runs this, and proxies.
func plainEnv() []string {
	var out []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(strings.ToUpper(kv), "=")
		if !strings.HasSuffix(name, "_PROXY") && !slices.ContainsFunc(steering, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out = append(out, kv)
		}
	}
	return out
}

// steering are the beginnings of the names of variables that the SDKs listen to.
var steering = []string{"OPENAI_", "ANTHROPIC_", "CLAUDE", "GEMINI_", "GOOGLE", "LITELLM_", "NODE_OPTIONS"}

// installed makes sure that a folder holds what its lock file says: install runs when the lock file has changed since it
// last went through. It is done once per run and folder.
func installed(t *testing.T, lock, folder string, install func(ctx context.Context) error) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	data, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	want, mark := hex.EncodeToString(sum[:]), filepath.Join(folder, ".e2e-installed")
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return
	}
	began := time.Now()
	say("installing what %s names (once; a minute or two)", lock)
	if err := install(deadline(t)); err != nil {
		t.Fatalf("install of %s: %v", lock, err)
	}
	say("installed in %s", time.Since(began).Round(time.Second))
	if err := os.WriteFile(mark, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

var installing sync.Mutex

// tell runs a client of a registry. Its own output is shown only when it fails.
func tell(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// node installs the JavaScript packages and returns a node of at least the wanted major version: the one on the path, or
// else the one that comes with the packages.
func node(t *testing.T, major int) string {
	t.Helper()
	installed(t, "js/package-lock.json", "js/node_modules", func(ctx context.Context) error {
		return tell(ctx, "js", "npm", "ci", "--no-progress", "--ignore-scripts")
	})
	list := []string{"node"}
	packaged, _ := filepath.Glob("js/node_modules/node-*/bin/node") // the pattern is good
	for _, p := range packaged {
		abs, err := filepath.Abs(p)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, abs)
	}
	var tried []string
	for _, n := range list {
		out, err := exec.Command(n, "--version").Output()
		if err != nil {
			tried = append(tried, fmt.Sprintf("%s: %v", n, err))
			continue
		}
		version := strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
		first, _, _ := strings.Cut(version, ".")
		if v, err := strconv.Atoi(first); err == nil && v >= major {
			say("node %s", version)
			return n
		}
		tried = append(tried, n+" is "+version)
	}
	t.Fatalf("node %d or newer is needed (%s)", major, strings.Join(tried, "; "))
	return ""
}

// python installs the packages that python/NAME.txt pins into a virtual environment and returns its interpreter. LiteLLM
// pins versions of the others' dependencies, so that it needs an environment of its own.
func python(t *testing.T, name string) string {
	t.Helper()
	venv, err := filepath.Abs("python/.venv-" + name)
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(venv, "bin", "python")
	installed(t, "python/"+name+".txt", venv, func(ctx context.Context) error {
		if err := tell(ctx, "python", "python3", "-m", "venv", "--clear", venv); err != nil {
			return err
		}
		return tell(ctx, "python", exe, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", name+".txt")
	})
	return exe
}

// program compiles one of the Go programs under golang/. The first time takes minutes: the SDKs are large.
func program(t *testing.T, name string) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	binary(t) // makes the folder
	exe, err := filepath.Abs(filepath.Join(".run", name))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := tell(deadline(t), ".", "go", "build", "-p", "1", "-o", exe, "./golang/"+name); err != nil {
		t.Fatal(err)
	}
	say("built %s in %s", name, time.Since(began).Round(time.Second))
	return exe
}
