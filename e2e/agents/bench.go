//go:build agents

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// bench is everything that an agent is run against: the lab's source that dies, the scripted upstream behind it, the
// gateway over both, and the proxy that sees everything else.
type bench struct {
	dir      string
	bin      string
	lab      string // root URL of the source that dies
	gateway  string // root URL
	door     *door  // before it
	upstream *upstream
	proxy    *proxy
	children []*exec.Cmd
	before   int // strays
}

const scenario = `name: dies
about: every answer is cut before its first token
load: {calls: 1}
sources:
  - {name: dies, faults: [{kind: cut}]}
`

// config has models under the names that the agents ask for. The first target is asked each time, however often it died.
const config = `providers:
  dies: {protocols: [openai, responses, anthropic, gemini], base_url: %[1]s/v1, class: apikey}
  script: {protocols: [openai, responses, anthropic, gemini], base_url: %[2]s/v1, class: apikey}
connections:
  - id: dies
    provider: dies
    key: k1
    models: [m]
    disable_cooling: true
    resilience: {breaker: {consec_threshold: 1000, rate_threshold: 0, evidence_mode: "off"}}
  - {id: script, provider: script, key: k2, models: [m]}
combos:
  - {name: mock, strategy: priority, targets: [dies/m, script/m]}
  - {name: gemini-2.5-flash, strategy: priority, targets: [dies/m, script/m]}
  - {name: gemini-2.5-flash-lite, strategy: priority, targets: [dies/m, script/m]}
`

// binary is the gateway's: what the environment names, or else the tree's, built into dir.
func binary(ctx context.Context, dir string) (string, error) {
	if bin := os.Getenv("E2E_SPILLWAY"); bin != "" {
		return bin, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "spillway")
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "1", "-o", bin, "./cmd/spillway")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/spillway: %w\n%s", err, out)
	}
	return bin, nil
}

func newBench(dir, bin string) (*bench, error) {
	b := &bench{dir: dir, bin: bin}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if b.upstream, err = newUpstream(); err != nil {
		return nil, err
	}
	if b.proxy, err = newProxy(); err != nil {
		return nil, err
	}
	if err := b.servers(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) servers() error {
	lab, conf := filepath.Join(b.dir, "dies.yaml"), filepath.Join(b.dir, "spillway.yaml")
	if err := os.WriteFile(lab, []byte(scenario), 0o600); err != nil {
		return err
	}
	var err error
	if b.lab, err = b.start(regexp.MustCompile(`^dies\s+(http://\S+)`), "lab", "serve", "--scenario", lab); err != nil {
		return err
	}
	if b.door, err = newDoor(b.lab); err != nil {
		return err
	}
	if err := os.WriteFile(conf, fmt.Appendf(nil, config, b.door.server.URL, b.upstream.url()), 0o600); err != nil {
		return err
	}
	data := filepath.Join(b.dir, "data")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	b.gateway, err = b.start(regexp.MustCompile(`listens on (http://\S+)`), "serve", "--config", conf, "--data", data, "--listen", "127.0.0.1:0")
	return err
}

// start runs the binary until the bench is closed and returns what the expression finds in its output.
func (b *bench) start(re *regexp.Regexp, args ...string) (string, error) {
	cmd := exec.Command(b.bin, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	b.children = append(b.children, cmd)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := re.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }() // it must not block on a full pipe
			return m[1], nil
		}
	}
	return "", errors.Join(fmt.Errorf("%v never printed %s", args, re), lines.Err())
}

func (b *bench) close() {
	for _, c := range b.children {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended already
		_ = c.Wait()
	}
	if b.door != nil {
		b.door.server.Close()
	}
	b.upstream.close()
	b.proxy.close()
}

// path leads to node 22, which the SDK tests have installed, before everything else.
func (b *bench) path() string {
	found, _ := filepath.Glob("js/node_modules/node-*/bin") // the pattern is good
	path := "/usr/local/bin:/usr/bin:/bin"
	if node, err := exec.LookPath("node"); err == nil {
		path = filepath.Dir(node) + ":" + path
	}
	for _, f := range found {
		if abs, err := filepath.Abs(f); err == nil {
			path = abs + ":" + path
		}
	}
	return path
}

// sight is what was seen while an agent ran.
type sight struct {
	answers []string // of the scripted upstream
	hosts   []string // that the proxy was asked for
	strays  int      // what was sent to other hosts past the proxy
	died    int      // attempts that the first upstream died under
	shown   int      // of these, how many held the second upstream's sealed reasoning
}

func (b *bench) begin() error {
	b.upstream.reset()
	b.proxy.reset()
	b.door.seen.Store(0)
	res, err := http.Post(b.lab+"/lab/reset", "application/json", nil)
	if err != nil {
		return err
	}
	res.Body.Close()
	b.before, err = strays()
	return err
}

func (b *bench) end(ctx context.Context) (*sight, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.lab+"/lab/log", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var log []struct{ Fault string }
	if err := json.NewDecoder(res.Body).Decode(&log); err != nil {
		return nil, err
	}
	now, err := strays()
	if err != nil {
		return nil, err
	}
	s := &sight{answers: b.upstream.log(), hosts: b.proxy.log(), strays: now - b.before, shown: int(b.door.seen.Load())}
	for _, a := range log {
		if a.Fault != "" {
			s.died++
		}
	}
	return s, nil
}
