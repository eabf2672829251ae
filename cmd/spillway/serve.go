package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"spillway/internal/app"
	"spillway/internal/config"
)

type serveCmd struct {
	Listen   string `help:"Address to listen on. Default 127.0.0.1:4000; only loopback while no client keys are configured." placeholder:"HOST:PORT"`
	Data     string `help:"Directory of the database and the journal. Default ~/.local/share/spillway." placeholder:"DIR"`
	Database string `help:"Where durable objects live; this version knows sqlite, a file in the data directory." placeholder:"sqlite"`
	State    string `help:"Where run-time state lives; this version knows memory, kept over restarts." placeholder:"memory"`
	Profile  string `help:"Write a CPU profile of the whole run to this file, and allocations to FILE.allocs, for go tool pprof." placeholder:"FILE"`
	LogLevel string `help:"debug, info, warn or error. Default: log.level of the configuration, else info." enum:",debug,info,warn,error" default:""`
}

// gcPercent trades a few megabytes for processor time: the live heap of a gateway is small, so the collector's default
// would run it many times a second. GOGC overrides it.
const gcPercent = 150

// Run serves until the process is told to stop.
func (s *serveCmd) Run(ctx context.Context, c *cli, o *out) error {
	log, level := logger(o.err, s.LogLevel)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if s.Profile != "" {
		stop, err := profile(s.Profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	a, err := app.Open(ctx, app.Options{
		Source: config.Source{Path: c.Config, Flags: config.Flags{Listen: s.Listen, Data: s.Data, Database: s.Database, State: s.State}},
		Log:    log, Out: o, Watch: true, Level: func(name string) {
			if s.LogLevel == "" { // the flag outranks the file
				_ = level.UnmarshalText([]byte(name)) // configuration has checked it
			}
		},
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	log.Info("stopping", "why", context.Cause(ctx).Error())
	stop, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return a.Close(stop)
}

// profile records where CPU time goes until stop is called, and then, beside it, what was allocated.
func profile(file string) (stop func(), err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
		if m, err := os.Create(file + ".allocs"); err == nil {
			_ = pprof.Lookup("allocs").WriteTo(m, 0) // a profile that cannot be written is no reason to fail
			m.Close()
		}
	}, nil
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(o *out) error {
	_, err := fmt.Fprintln(o, "spillway", app.Version)
	return err
}
