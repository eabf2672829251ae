// Command bench measures Spillway against a bare httputil.ReverseProxy in one run, on one machine: CPU per call from
// /proc, calls per second, streams, first chunk, memory. Machines are noisy, so it reports ratios of interleaved rounds
// and their medians, never absolute speed alone. See bench/README.md for how to read it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

func main() {
	role := flag.String("role", "", "internal: upstream or bare")
	target := flag.String("target", "", "internal: address that the bare proxy forwards to")
	binary := flag.String("spillway", "bin/spillway", "the spillway binary to measure")
	rounds := flag.Int("rounds", 5, "interleaved rounds per measurement")
	quick := flag.Bool("quick", false, "a short run: fewer calls, two rounds")
	only := flag.String("only", "", "measurements to run, comma separated: calls,large,streams,steady,first,idle")
	failures := flag.Int("streams", 80000, "streams of the run that counts failed ones")
	asJSON := flag.Bool("json", false, "print the results as JSON")
	profile := flag.String("profile", "", "write a CPU profile of the measured gateway to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch *role {
	case "upstream":
		err = serveUpstream(ctx)
	case "bare":
		err = serveBare(ctx, *target)
	case "":
		b := &bench{binary: *binary, rounds: *rounds, quick: *quick, failures: *failures, json: *asJSON, profile: *profile}
		if *only != "" {
			b.only = strings.Split(*only, ",")
		}
		err = b.run(ctx)
	default:
		err = fmt.Errorf("unknown role %q", *role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
