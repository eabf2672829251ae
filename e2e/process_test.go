package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deadline is a context that ends early enough before the test's own deadline for children to be stopped: after a
// time-out of go test nobody would stop them. It outlives the test, so that cleanups can end children in order.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if d, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, d.Add(-15*time.Second), errors.New("the time of the test run is nearly over"))
		t.Cleanup(cancel)
	}
	return ctx
}

// built compiles the gateway once per run and returns the path of the binary. A binary that the variable E2E_SPILLWAY
// names is taken as it is.
var built = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(".run")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if given := os.Getenv("E2E_SPILLWAY"); given != "" {
		return given, nil
	}
	bin := filepath.Join(dir, "spillway")
	began := time.Now()
	say("building the gateway")
	cmd := exec.Command("go", "build", "-p", "1", "-o", bin, "./cmd/spillway")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/spillway: %w\n%s", err, out)
	}
	say("built in %s", time.Since(began).Round(time.Second))
	return bin, nil
})

func binary(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// say prints a line of progress; with go test -v it shows at once.
func say(format string, args ...any) {
	fmt.Printf("%s e2e: %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// process is a child that runs until the test ends. Its output is kept, to be shown when the test fails.
type process struct {
	name  string
	cmd   *exec.Cmd
	out   lines
	err   lines
	ended chan struct{} // closed when it has ended
	why   error         // how; read it when ended is closed
}

// start runs the spillway binary with an environment that holds nothing of the caller's, in a directory of its own.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	home := t.TempDir()
	p := &process{name: name, cmd: exec.CommandContext(deadline(t), binary(t), args...), ended: make(chan struct{})}
	p.cmd.Dir = home
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go func() {
		p.why = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.stop(t) })
	return p
}

// stop ends the child as an operator would. It must go by itself, with exit code 0.
func (p *process) stop(t *testing.T) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.ended:
		if p.why != nil {
			t.Errorf("%s did not end well: %v", p.name, p.why)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("%s did not stop within 20 s of SIGTERM", p.name)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	if t.Failed() {
		t.Logf("%s wrote on stderr, at the end:\n%s", p.name, p.err.tail(40))
	}
}

// expect waits until a line of standard output matches and returns its groups.
func (p *process) expect(t *testing.T, re *regexp.Regexp) []string {
	t.Helper()
	for until := time.After(30 * time.Second); ; {
		if m := re.FindStringSubmatch(p.out.String()); m != nil {
			return m
		}
		select {
		case <-p.ended:
		case <-until:
		case <-time.After(10 * time.Millisecond):
			continue
		}
		break
	}
	t.Fatalf("%s never printed %s; it printed:\n%s%s", p.name, re, p.out.String(), p.err.tail(20))
	return nil
}

// lines is output that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// tail is the last n lines.
func (l *lines) tail(n int) string {
	list := strings.SplitAfter(l.String(), "\n")
	return strings.Join(list[max(0, len(list)-n-1):], "")
}

// scan calls f for every line of r; lines may be long.
func scan(r io.Reader, f func(line []byte)) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		f(s.Bytes())
	}
	return s.Err()
}
