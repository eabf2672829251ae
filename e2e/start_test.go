package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// reset begins the fault scripts anew and empties the log, so that the answers asked for beforehand do not count.
func (b *bench) reset() (string, error) {
	res, err := http.Post(b.lab["lab-a"]+"/lab/reset", "application/json", nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// newKey makes a client key with the binary and returns it with the lines for the configuration file, narrowed to one model.
func newKey(t *testing.T) (key, yaml string) {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), binary(t), "key", "new", "e2e")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("spillway key new: %v\n%s", err, stderr.String())
	}
	hash := regexp.MustCompile(`sha256:[0-9a-f]+`).FindString(stderr.String())
	if hash == "" {
		t.Fatalf("spillway key new told no hash:\n%s", stderr.String())
	}
	return strings.TrimSpace(stdout.String()), "keys:\n  - {name: e2e, hash: \"" + hash + "\", scopes: [inference], allowed_models: [smart]}\n"
}

var curlLine = regexp.MustCompile(`(?m)^\s*(curl .*)$`)

// TestKeylessStart starts the gateway with nothing: no file, no key in the environment. It must say that the lab answers,
// and the curl line that it prints must work as it stands.
func TestKeylessStart(t *testing.T) {
	p := start(t, "gateway", "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	line := p.expect(t, curlLine)[1]
	if !strings.Contains(p.out.String(), "NO PROVIDER IS CONFIGURED") {
		t.Errorf("it does not say loudly that the lab answers:\n%s", p.out.String())
	}
	ready(t, p.expect(t, listenLine)[1])
	say("executing: %s", line)
	cmd := exec.CommandContext(deadline(t), "sh", "-c", strings.Replace(line, "curl ", "curl --silent --show-error --include --fail-with-body ", 1))
	cmd.Env = append(plainEnv(), "NO_PROXY=*")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	head, body, ok := strings.Cut(string(out), "\r\n\r\n")
	var answer struct {
		Choices []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); !ok || err != nil {
		t.Fatalf("the answer is not JSON: %v\n%s", err, out)
	}
	if len(answer.Choices) != 1 || answer.Choices[0].Message.Content == "" || answer.Choices[0].FinishReason != "stop" {
		t.Errorf("not a whole answer: %s", body)
	}
	if !strings.Contains(strings.ToLower(head), "x-spillway-source: lab") {
		t.Errorf("the headers do not say that the lab answered:\n%s", head)
	}
}

// TestNeverCached opens a file that is younger than any cached result may be, so that go test runs this package each
// time: it cannot know that the gateway's sources have changed.
func TestNeverCached(t *testing.T) {
	binary(t) // makes the folder
	const file = ".run/young"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	if err := os.Chtimes(file, tomorrow, tomorrow); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
}
