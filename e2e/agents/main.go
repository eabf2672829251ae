//go:build agents

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "names of agents, with commas between; empty = all")
	keep := flag.Bool("keep", false, "leave the agents installed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	here, err := filepath.Abs("agents")
	if err == nil {
		dir := filepath.Join(here, ".run")
		if os.Getenv(inside) != "" {
			err = tryOne(ctx, dir, *only)
		} else {
			err = run(ctx, dir, *only, *keep)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

// errFailed tells that what was wrong has been printed.
var errFailed = errors.New("failed")

// run installs the agents one after the other and has each tried in the box.
func run(ctx context.Context, dir, only string, keep bool) error {
	bin, err := binary(ctx, dir)
	if err != nil {
		return err
	}
	if err := os.Setenv("E2E_SPILLWAY", bin); err != nil {
		return err
	}
	chosen := fleet
	if only != "" {
		if chosen, err = pick(strings.Split(only, ",")); err != nil {
			return err
		}
	}
	failed := 0
	for _, a := range chosen {
		if err := one(ctx, dir, a); err != nil {
			failed++
			if !errors.Is(err, errFailed) {
				fmt.Printf("%-12s %-9s FAILED\n\t%v\n", a.name, a.version, err)
			}
		}
		if !keep {
			if err := os.RemoveAll(filepath.Join(dir, a.name)); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d agents failed; transcripts are in %s", failed, len(chosen), filepath.Join(dir, "transcripts"))
	}
	return nil
}

// pick finds agents by name.
func pick(names []string) ([]agent, error) {
	var chosen []agent
	for _, name := range names {
		i := slices.IndexFunc(fleet, func(a agent) bool { return a.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no agent %q", name)
		}
		chosen = append(chosen, fleet[i])
	}
	return chosen, nil
}

// one installs an agent, with the network that there is, and has it tried by another process of this program in the box.
func one(ctx context.Context, dir string, a agent) error {
	if err := (&bench{dir: dir}).install(ctx, a); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := boxed(ctx, self, "-only", a.name)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it ends what it started
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return errFailed
	}
	if err != nil {
		return fmt.Errorf("run in a network of its own (needs root, or namespaces for users): %w", err)
	}
	return nil
}

// tryOne is what runs in the box.
func tryOne(ctx context.Context, dir, name string) error {
	chosen, err := pick([]string{name})
	if err != nil {
		return err
	}
	a := chosen[0]
	if err := loopback(); err != nil {
		return err
	}
	b, err := newBench(dir, os.Getenv("E2E_SPILLWAY"))
	if err != nil {
		return err
	}
	defer b.close()
	began := time.Now()
	bad := b.try(ctx, a)
	verdict := "ok"
	if len(bad) > 0 {
		verdict = "FAILED\n\t" + strings.Join(bad, "\n\t")
	}
	fmt.Printf("%-12s %-9s %6s  %s\n", a.name, a.version, time.Since(began).Round(100*time.Millisecond), verdict)
	if len(bad) > 0 {
		return fmt.Errorf("%s: %d things were wrong", a.name, len(bad))
	}
	return nil
}
