package simulate

import (
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
)

// virtual runs functions in bubbles of virtual time. testing/synctest wants a *testing.T, which exists only inside a
// test function: so one test function is started, lazily and once per process, that never returns and works off jobs.
var virtual struct {
	once sync.Once
	jobs chan func(*testing.T)
	err  error
}

// InVirtualTime runs f in a testing/synctest bubble: time stands still while anything runs and jumps when everything
// waits. Nothing made outside may be waited for inside. It returns f's error; a panic of f, a deadlock, or goroutines
// that f leaves behind become errors too. Calls run one after the other.
func InVirtualTime(f func() error) error {
	virtual.once.Do(startVirtual)
	if virtual.err != nil {
		return virtual.err
	}
	done := make(chan error)
	virtual.jobs <- func(t *testing.T) { done <- bubble(t, f) }
	return <-done
}

func startVirtual() {
	virtual.jobs = make(chan func(*testing.T))
	run := []testing.InternalTest{{Name: "simulate", F: func(t *testing.T) {
		for job := range virtual.jobs {
			job(t)
		}
	}}}
	if testing.Testing() { // a test binary has begun all that Main would begin a second time
		skip := flag.Lookup("test.skip")
		go testing.RunTests(func(pattern, _ string) (bool, error) { return skip == nil || pattern != skip.Value.String(), nil }, run)
		return
	}
	testing.Init()
	if virtual.err = flag.CommandLine.Parse(nil); virtual.err == nil {
		go testing.Main(func(_, _ string) (bool, error) { return true, nil }, run, nil, nil)
	}
}

// bubble runs f in a bubble and turns what synctest panics with into an error.
func bubble(t *testing.T, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the simulation cannot go on: %v", p)
		}
	}()
	err = errors.New("the simulation did not run")
	synctest.Test(t, func(*testing.T) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the simulation panicked: %v\n%s", p, debug.Stack())
			}
		}()
		err = f()
	})
	return err
}
