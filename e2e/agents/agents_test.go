//go:build agents

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The agents' verdicts are worth what the harness can see. Here agents of a known kind are run in the way that real ones
// are: one that behaves, and some that do not. The test's own binary is the agent, and it puts itself in the box.

const stubMode = "AGENT_STUB"

func TestMain(m *testing.M) {
	if mode := os.Getenv(stubMode); mode != "" {
		if err := stub(mode, os.Getenv("STUB_URL"), os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(inside) != "" {
		if err := loopback(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	os.Exit(outside())
}

// outside builds the gateway and runs the tests in the box.
func outside() int {
	dir, err := os.MkdirTemp("", "agents")
	if err == nil {
		defer os.RemoveAll(dir)
		err = inBox(dir)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func inBox(dir string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(".."); err != nil { // where make agents is run
		return err
	}
	bin, err := binary(context.Background(), dir)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chdir(here), os.Setenv("E2E_SPILLWAY", bin)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return boxed(context.Background(), self, os.Args[1:]...).Run()
}

func TestHarnessSeesWhatAnAgentDoes(t *testing.T) {
	dir := t.TempDir()
	b, err := newBench(dir, os.Getenv("E2E_SPILLWAY"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode string
		want []string // parts of what is wrong, each in both steps; none = nothing is
	}{
		{mode: "honest"},
		{mode: "proxied", want: []string{"it tried to reach elsewhere.example"}},
		{mode: "direct", want: []string{"it tried to reach another host past the proxy"}},
		{mode: "lookup", want: []string{"it tried to reach another host past the proxy"}},
		{mode: "idle", want: []string{"the output lacks", "0 attempts met the upstream that dies"}},
		{mode: "broken", want: []string{"exit status 1"}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			a := agent{name: c.mode, pkg: "stub", bin: "stub", env: []string{stubMode + "=" + c.mode, "STUB_URL=%s"}}
			bin := filepath.Join(b.folder(a), "node_modules", a.bin)
			if err := errors.Join(os.MkdirAll(filepath.Dir(bin), 0o755), os.Symlink(self, bin)); err != nil {
				t.Fatal(err)
			}
			bad := b.try(t.Context(), a)
			if len(c.want) == 0 && len(bad) > 0 {
				t.Errorf("wrong by the harness: %q", bad)
			}
			for _, want := range c.want {
				for _, step := range []string{"greeting: ", "tool loop: "} {
					if !strings.Contains(strings.Join(bad, "\n"), step+want) {
						t.Errorf("harness found %q, lacks %q", bad, step+want)
					}
				}
			}
		})
	}
}

func TestJudge(t *testing.T) {
	good := sight{answers: []string{"tool call read", "x" + cameBack}, died: 2}
	for _, c := range []struct {
		name   string
		change func(*sight)
		want   string // part of what is wrong; empty = nothing is
	}{
		{name: "good", change: func(*sight) {}},
		{name: "first upstream left out once", change: func(s *sight) { s.died = 1 }, want: "1 attempts met the upstream that dies, for 2 answers"},
		{name: "no tool", change: func(s *sight) { s.answers = s.answers[1:] }, want: "tool call made: false"},
		{name: "reasoning lost", change: func(s *sight) { s.answers = []string{"tool call read", "x"} }, want: "the sealed reasoning did not come back"},
		{name: "reasoning shown", change: func(s *sight) { s.shown = 1 }, want: "1 attempts at the upstream that dies held reasoning"},
		{name: "host", change: func(s *sight) { s.hosts = []string{"elsewhere.example"} }, want: "it tried to reach elsewhere.example"},
		{name: "stray", change: func(s *sight) { s.strays = 3 }, want: "past the proxy (3 packets)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good
			c.change(&s)
			bad := s.judge(agent{seals: true}, step{want: secret, tool: true}, nil, secret)
			if got := strings.Join(bad, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("judged %q, want %q", got, c.want)
			}
		})
	}
}

func TestDoorSeesSealedReasoning(t *testing.T) {
	d, err := newDoor("http://127.0.0.1:1") // nobody is there
	if err != nil {
		t.Fatal(err)
	}
	defer d.server.Close()
	for i, body := range []string{"{}", `{"signature":"` + sealed + `"}`} {
		if res, err := http.Post(d.server.URL, "application/json", strings.NewReader(body)); err == nil {
			res.Body.Close()
			t.Error("something answered")
		}
		if got := d.seen.Load(); got != int64(i) {
			t.Errorf("after body %d: %d seen, want %d", i, got, i)
		}
	}
}

// stub is an agent: it does the prompt's work through the gateway, and what its mode says beside it.
func stub(mode, root, prompt string) error {
	switch mode {
	case "idle":
		return nil
	case "proxied":
		if res, err := http.Get("https://elsewhere.example/"); err == nil {
			res.Body.Close()
			return errors.New("the proxy let it through")
		}
	case "direct":
		if c, err := net.DialTimeout("tcp", "192.0.2.1:443", time.Second); err == nil {
			c.Close()
			return errors.New("another host was reached")
		}
	case "lookup":
		if _, err := net.LookupHost("elsewhere.example"); err == nil {
			return errors.New("a name server was reached")
		}
	}
	if err := work(root, prompt); err != nil {
		return err
	}
	if mode == "broken" {
		return errors.New("broken")
	}
	return nil
}

// work asks the gateway and reads the file that it is told to read.
func work(root, prompt string) error {
	for range 3 {
		body := fmt.Sprintf(`{"model":"mock","messages":[{"role":"user","content":%q}],"tools":[{"type":"function","function":`+
			`{"name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]}`, prompt)
		res, err := http.Post(root+"/v1/chat/completions", "application/json", bytes.NewBufferString(body))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			return err
		}
		path := called(text)
		if path == "" {
			fmt.Printf("%s\n", text)
			return nil
		}
		note, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		prompt += " " + strings.TrimSpace(string(note))
	}
	return errors.New("no end of tool calls")
}

// called is the path in an answer's tool call.
func called(body []byte) string {
	var out struct {
		Choices []struct {
			Message struct {
				ToolCalls []struct {
					Function struct{ Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	var args struct{ Path string }
	if json.Unmarshal(body, &out) != nil || len(out.Choices) == 0 || len(out.Choices[0].Message.ToolCalls) == 0 ||
		json.Unmarshal([]byte(out.Choices[0].Message.ToolCalls[0].Function.Arguments), &args) != nil {
		return ""
	}
	return args.Path
}
