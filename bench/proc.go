package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// proc is a process under test.
type proc struct {
	name string
	addr string
	cmd  *exec.Cmd
	done chan struct{}
}

// startProc starts a process that prints its address on the first line that has one.
func startProc(ctx context.Context, name string, args ...string) (*proc, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	cmd.Stderr = io.Discard
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &proc{name: name, cmd: cmd, done: make(chan struct{})}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		if i := strings.Index(lines.Text(), "127.0.0.1:"); i >= 0 {
			p.addr = strings.Fields(lines.Text()[i:])[0]
			break
		}
	}
	if p.addr == "" {
		p.stop()
		return nil, fmt.Errorf("%s ended without telling its address", name)
	}
	go func() { // the pipe must be read, or a talkative process would block
		defer close(p.done)
		_, _ = io.Copy(io.Discard, pipe)
	}()
	return p, nil
}

func (p *proc) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	_ = p.cmd.Wait()
}

// cpu is the processor time that the process has used, user and system.
func (p *proc) cpu() (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/schedstat")
	if err == nil {
		return p.threads(b)
	}
	return p.stat()
}

// threads adds up the nanoseconds of all threads: /proc/PID/stat counts in ticks of 10 ms only.
func (p *proc) threads([]byte) (time.Duration, error) {
	dir := "/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/task"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, t := range tasks {
		b, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if err != nil {
			continue // the thread ended meanwhile
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	if sum == 0 {
		return p.stat()
	}
	return sum, nil
}

func (p *proc) stat() (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0, err
	}
	rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
	f := strings.Fields(rest)
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

// rss is the memory of the process in bytes.
func (p *proc) rss() (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
