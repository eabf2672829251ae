//go:build agents

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "names of agents, with commas between; empty = all")
	keep := flag.Bool("keep", false, "leave the agents installed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, keep bool) error {
	here, err := filepath.Abs("agents")
	if err != nil {
		return err
	}
	b, err := newBench(ctx, filepath.Join(here, ".run"))
	if err != nil {
		return err
	}
	defer b.close()
	failed, ran := 0, 0
	for _, a := range fleet {
		if only != "" && !slices.Contains(strings.Split(only, ","), a.name) {
			continue
		}
		ran++
		began := time.Now()
		bad := b.try(ctx, a)
		if !keep {
			if err := os.RemoveAll(b.folder(a)); err != nil {
				return err
			}
		}
		verdict := "ok"
		if len(bad) > 0 {
			failed++
			verdict = "FAILED\n\t" + strings.Join(bad, "\n\t")
		}
		fmt.Printf("%-12s %-9s %6s  %s\n", a.name, a.version, time.Since(began).Round(100*time.Millisecond), verdict)
	}
	if failed > 0 || ran == 0 {
		return fmt.Errorf("%d of %d agents failed; transcripts are in %s", failed, ran, filepath.Join(b.dir, "transcripts"))
	}
	return nil
}
