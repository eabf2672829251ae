//go:build agents

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patience is how long an agent may take for one prompt.
const patience = 2 * time.Minute

func hasVerb(s string) bool { return strings.Contains(s, "%s") }

// folder is where an agent is installed.
func (b *bench) folder(a agent) string { return filepath.Join(b.dir, a.name) }

// install has npm put the agent into its folder.
func (b *bench) install(ctx context.Context, a agent) error {
	if err := b.npm(ctx, b.folder(a), a.bin, a.pkg+"@"+a.version); err != nil {
		return err
	}
	if a.extra == "" {
		return nil
	}
	name := a.extra[:strings.LastIndex(a.extra, "@")]
	return b.npm(ctx, filepath.Join(b.folder(a), "extra"), name, a.extra)
}

// npm installs a package into dir unless something that belongs to it is there.
func (b *bench) npm(ctx context.Context, dir, there, spec string) error {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", there)); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-progress", "--no-audit", "--no-fund", "--ignore-scripts", "--package-lock=true", "--save-exact", spec)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+b.path())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install %s: %w\n%s", spec, err, out)
	}
	return nil
}

// step is one prompt for an agent.
type step struct {
	name, prompt, want string
	tool               bool
}

// try runs an agent through both steps, writes the transcript and returns what was wrong.
func (b *bench) try(ctx context.Context, a agent) []string {
	var bad []string
	var transcript bytes.Buffer
	fmt.Fprintf(&transcript, "%s %s\n", a.pkg, a.version)
	for _, s := range []step{
		{name: "greeting", prompt: "hi", want: greeting},
		{name: "tool loop", prompt: "call the tool: read the file note.txt and say what it says", want: secret, tool: true},
	} {
		for _, wrong := range b.step(ctx, a, s, &transcript) {
			bad = append(bad, s.name+": "+wrong)
		}
	}
	for _, wrong := range bad {
		fmt.Fprintf(&transcript, "\nWRONG: %s\n", wrong)
	}
	file := filepath.Join(b.dir, "transcripts", a.name+".txt")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return append(bad, err.Error())
	}
	if err := os.WriteFile(file, transcript.Bytes(), 0o644); err != nil {
		return append(bad, err.Error())
	}
	return bad
}

func (b *bench) step(ctx context.Context, a agent, s step, transcript *bytes.Buffer) []string {
	cmd, err := b.command(ctx, a, s)
	if err != nil {
		return []string{err.Error()}
	}
	defer os.RemoveAll(filepath.Dir(cmd.Dir))
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := b.begin(); err != nil {
		return []string{err.Error()}
	}
	began := time.Now()
	failed := cmd.Run()
	took := time.Since(began)
	seen, err := b.end(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	fmt.Fprintf(transcript, "\n== %s (%.1f s)\n$ %s\n%s", s.name, took.Seconds(), strings.Join(append([]string{filepath.Base(cmd.Path)}, cmd.Args[1:]...), " "), out.String())
	if stderr.Len() > 0 {
		fmt.Fprintf(transcript, "-- stderr\n%s", stderr.String())
	}
	fmt.Fprintf(transcript, "-- the second upstream answered: %s\n-- the first upstream died under %d attempts\n-- other hosts: %s; sent past the proxy: %d\n",
		strings.Join(seen.answers, ", "), seen.died, orNone(seen.hosts), seen.strays)
	return seen.judge(a, s, failed, out.String())
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// judge says what was wrong with a step.
func (s *sight) judge(a agent, st step, failed error, out string) []string {
	var bad []string
	if failed != nil {
		bad = append(bad, failed.Error())
	}
	if !strings.Contains(out, st.want) {
		bad = append(bad, fmt.Sprintf("the output lacks %q", st.want))
	}
	if s.died == 0 || s.died < len(s.answers) {
		bad = append(bad, fmt.Sprintf("%d attempts met the upstream that dies, for %d answers", s.died, len(s.answers)))
	}
	if called := slices.ContainsFunc(s.answers, func(x string) bool { return strings.Contains(x, "tool call") }); called != st.tool {
		bad = append(bad, fmt.Sprintf("tool call made: %t, must be %t", called, st.tool))
	}
	if back := slices.ContainsFunc(s.answers, func(x string) bool { return strings.HasSuffix(x, cameBack) }); st.tool && a.seals && !back {
		bad = append(bad, "the sealed reasoning did not come back to the upstream that sealed it")
	}
	if s.shown > 0 {
		bad = append(bad, fmt.Sprintf("%d attempts at the upstream that dies held reasoning that the other account sealed", s.shown))
	}
	for _, h := range s.hosts {
		bad = append(bad, "it tried to reach "+h)
	}
	if s.strays > 0 {
		bad = append(bad, fmt.Sprintf("it tried to reach another host past the proxy (%d packets)", s.strays))
	}
	return bad
}

// lend puts the package that was installed ahead where the agent looks for it.
func (b *bench) lend(a agent, home string) error {
	if a.extra == "" {
		return nil
	}
	dir := filepath.Join(home, a.extraDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"package.json", "package-lock.json", "node_modules"} {
		if err := os.Symlink(filepath.Join(b.folder(a), "extra", name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// command is the agent with a prompt, an empty home and a working directory that holds one note.
func (b *bench) command(ctx context.Context, a agent, s step) (*exec.Cmd, error) {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return nil, err
	}
	home, work := filepath.Join(dir, "home"), filepath.Join(dir, "work")
	for _, d := range []string{home, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(work, "note.txt"), []byte(secret+"\n"), 0o644); err != nil {
		return nil, err
	}
	if err := write(home, b.gateway, a.files); err != nil {
		return nil, err
	}
	if err := write(work, b.gateway, a.project); err != nil {
		return nil, err
	}
	if err := b.lend(a, home); err != nil {
		return nil, err
	}
	b.upstream.note(filepath.Join(work, "note.txt"))
	ctx, cancel := context.WithTimeout(ctx, patience)
	context.AfterFunc(ctx, cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(b.folder(a), "node_modules", a.bin), append(slices.Clone(a.args), s.prompt)...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + b.path(), "HOME=" + home, "TMPDIR=" + dir, "TERM=dumb", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
		"HTTPS_PROXY=" + b.proxy.url(), "HTTP_PROXY=" + b.proxy.url(), "https_proxy=" + b.proxy.url(), "http_proxy=" + b.proxy.url()}
	if a.name == "codex" {
		cmd.Env = append(cmd.Env, "CODEX_HOME="+filepath.Join(home, ".codex"))
	}
	for _, kv := range a.env {
		cmd.Env = append(cmd.Env, at(kv, b.gateway))
	}
	return cmd, nil
}
