// Command spillway is the gateway: serve, check, lab, simulate, key, explain, version. Flags, signals and exit codes live here,
// everything else in internal/app.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"spillway/internal/config"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for did not hold or did not work
	exitMisuse = 2 // the command line or the configuration is wrong
)

// cli is the command line. Every command has a complete --help.
type cli struct {
	Config string `short:"c" help:"Configuration file. Default: $SPILLWAY_CONFIG, else ./spillway.yaml when it exists." placeholder:"FILE"`

	Serve   serveCmd   `cmd:"" help:"Run the gateway. Without any provider configured it runs on the built-in lab."`
	Check   checkCmd   `cmd:"" help:"Check a configuration file and say what it means."`
	Lab     labCmd     `cmd:"" help:"Fake upstreams that fail by script, and the failover suite."`
	Key     keyCmd     `cmd:"" help:"Make and list client keys."`
	Explain explainCmd `cmd:"" help:"Show what was decided for one request, as a timeline."`
	Version versionCmd `cmd:"" help:"Print the version."`

	Simulate simulateCmd `cmd:"" help:"Play a scenario in virtual time, under one or several policies."`
}

// Out is where a command writes what it was asked for.
type out struct {
	io.Writer
	err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], out{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run parses and runs one command line and returns the exit code.
func run(ctx context.Context, args []string, o out) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c, kong.Name("spillway"), kong.Writers(o, o.err), kong.Exit(func(code int) { exit = code }),
		kong.Description("An AI gateway that keeps answering: it sends each request to one of many upstream accounts and fails over when keys, models, providers or networks do."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		fmt.Fprintln(o.err, "spillway:", err)
		return exitMisuse
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintf(o.err, "spillway: %s\nRun spillway --help, or spillway COMMAND --help.\n", err)
		return exitMisuse
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return exitCode(parsed.Run(&c, &o), o)
}

// exitCode prints an error for people and chooses the code.
func exitCode(err error, o out) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if m, ok := errors.AsType[misuse](err); ok {
		fmt.Fprintf(o.err, "spillway: %s\nRun spillway COMMAND --help.\n", m)
		return exitMisuse
	}
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		fmt.Fprintln(o.err, problems.Error())
		return exitMisuse
	}
	fmt.Fprintln(o.err, "spillway:", err)
	return exitFailed
}

// misuse is an error of the command line.
type misuse string

func (m misuse) Error() string { return string(m) }

// exitError is a result that was already told.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// logger writes JSON lines to stderr.
func logger(w io.Writer, level string) (*slog.Logger, *slog.LevelVar) {
	var v slog.LevelVar
	_ = v.UnmarshalText([]byte(level)) // configuration has checked it; unknown stays info
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: &v})), &v
}
