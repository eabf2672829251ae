package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command runs one command line and returns its exit code and what it wrote.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, out{&o, &e})
	return code, o.String(), e.String()
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "spillway.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const good = `providers:
  a: {protocols: [openai], base_url: http://127.0.0.1:9/v1}
connections:
  - {id: a1, provider: a, key: sk-one}
combos:
  - {name: smart, targets: [a/m]}
keys:
  - {name: dev, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
`

func TestCheckTellsWhatAFileMeans(t *testing.T) {
	code, stdout, _ := command(t, "check", "--config", file(t, good))
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"a1", "http://127.0.0.1:9/v1", "smart", "a/m", "no problem found"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "sk-one") {
		t.Error("a secret was printed")
	}
}

func TestCheckListsEveryProblemWithItsPlace(t *testing.T) {
	name := file(t, "lisen: x\nproviders:\n  a: {protocols: [opnai], base_url: 7}\n")
	code, _, stderr := command(t, "check", "--config", name)
	if code != exitMisuse || !strings.Contains(stderr, name+":1:") || !strings.Contains(stderr, name+":3:") {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
}

func TestSchemaIsPrinted(t *testing.T) {
	code, stdout, _ := command(t, "check", "--schema")
	if code != exitOK || !strings.Contains(stdout, `"$schema"`) {
		t.Fatalf("exit code %d: %.200s", code, stdout)
	}
}

func TestANewKeyIsShownOnceWithItsHash(t *testing.T) {
	code, stdout, stderr := command(t, "key", "new", "ci")
	key := strings.TrimSpace(stdout)
	if code != exitOK || !strings.HasPrefix(key, "sk-spw-") || strings.Contains(stderr, key) || !strings.Contains(stderr, hashKey(key)) {
		t.Fatalf("exit code %d: %q %q", code, stdout, stderr)
	}
	code, stdout, _ = command(t, "key", "list", "--config", file(t, good))
	if code != exitOK || !strings.Contains(stdout, "dev") {
		t.Fatalf("exit code %d: %q", code, stdout)
	}
}

func TestMisuseIsTold(t *testing.T) {
	for _, args := range [][]string{{"frobnicate"}, {"serve", "--nonsense"}, {"lab", "run"}, {"lab", "run", "--suite", "x"},
		{"lab", "run", "--suite", "failover", "--scenario", "flap"}, {"lab", "run", "--scenario", "nothing"}, {"key", "new"},
		{"serve", "--log-level", "loud"}, {"check", "--config", "nowhere.yaml"}} {
		code, _, stderr := command(t, args...)
		if code != exitMisuse || strings.TrimSpace(stderr) == "" {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestHelpIsComplete(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"check", "--help"}, {"lab", "--help"}, {"lab", "run", "--help"},
		{"lab", "serve", "--help"}, {"key", "--help"}, {"explain", "--help"}, {}} {
		code, stdout, _ := command(t, args...)
		if code != exitOK || !strings.Contains(stdout, "Usage: spillway") {
			t.Errorf("%v: exit code %d\n%s", args, code, stdout)
		}
	}
}

func TestLabListNamesTheScenarios(t *testing.T) {
	code, stdout, _ := command(t, "lab", "list")
	if code != exitOK || !strings.Contains(stdout, "p6") || !strings.Contains(stdout, "flap") {
		t.Fatalf("exit code %d: %s", code, stdout)
	}
}

// TestServeAndExplain: serve answers from the lab, explain shows the timeline of that request, and the process ends when
// it is told to.
func TestServeAndExplain(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	empty := file(t, "{}")
	data := t.TempDir()
	go func() {
		defer pw.Close()
		done <- run(ctx, []string{"serve", "--config", empty, "--data", data, "--listen", "127.0.0.1:0"}, out{pw, os.Stderr})
	}()
	base := address(t, pr)
	id := ask(t, base)
	code, stdout, stderr := command(t, "explain", id, "--url", base)
	if code != exitOK || !strings.Contains(stdout, id) || !strings.Contains(stdout, "lab/lab-model") {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ = command(t, "explain", id, "--url", base, "--json"); code != exitOK || !strings.HasPrefix(stdout, "{") {
		t.Fatalf("exit code %d:\n%s", code, stdout)
	}
	if code, _, stderr = command(t, "explain", "req_nothing", "--url", base); code != exitFailed || !strings.Contains(stderr, "no decision log is kept") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	stop()
	if code := <-done; code != exitOK {
		t.Fatalf("serve ended with %d", code)
	}
}
