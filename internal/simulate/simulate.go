// Package simulate answers one question: what would this gateway have done with this load? It plays scenarios of the lab
// in virtual time: the whole gateway and the lab's sources run in one testing/synctest bubble, over a network of function
// calls, and an hour of load takes seconds. It holds no model of the gateway, so it cannot disagree with it. It keys
// runs by policy: the same scenario under several settings. It never opens a socket or a file of the gateway's.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"spillway/internal/app"
	"spillway/internal/config"
	"spillway/internal/lab"
	"spillway/internal/lab/local"
	"spillway/internal/lab/scenario"
	"spillway/internal/store"
)

// Options say what to simulate.
type Options struct {
	Scenario scenario.Scenario
	Policies []Policy // in the order of the reports; empty = recommended
	Calls    int      // instead of the scenario's; 0 = the scenario's
	Workers  int      // likewise; only for loads by workers
	Duration time.Duration
	Seed     *uint64   // of everything left to chance; nil = the scenario's
	Short    bool      // the scenario's short form
	Progress io.Writer // a line per second of a long run; nil = none
}

// travel is how long each hop takes, as over loopback on a busy machine.
const travel = time.Millisecond

// gatewayHost is where the clients of a simulation find the gateway; it is loopback, so no client key is asked for.
const gatewayHost = "127.0.0.1:4000"

// Run simulates the scenario under each policy. When ctx ends, no further call begins, and the error is that of ctx.
func Run(ctx context.Context, o Options) ([]lab.RunReport, error) {
	if len(o.Policies) == 0 {
		o.Policies = []Policy{Recommended()}
	}
	var out []lab.RunReport
	for _, p := range o.Policies {
		s := o.Scenario
		if o.Short {
			s = s.Short()
		}
		if o.Duration > 0 {
			s.Load.Duration, s.Load.Calls = o.Duration, 0
		}
		if o.Seed != nil {
			s = s.Reseeded(*o.Seed)
		}
		r, err := o.one(ctx, p.Connections(p.Apply(s)), p.Name)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// one simulates one policy.
func (o *Options) one(ctx context.Context, s scenario.Scenario, policy string) (lab.RunReport, error) {
	var begun, elapsed atomic.Int64
	stop := o.report(policy, &begun, &elapsed)
	defer stop()
	var r lab.RunReport
	err := InVirtualTime(func() (err error) {
		net := local.New()
		net.Travel = travel
		defer func() { err = errors.Join(err, net.Wait()) }() // whatever happens, the network's goroutines must not stay
		from := time.Now()
		r, err = lab.RunScenario(context.Background(), lab.RunOptions{
			Scenario: s, Calls: o.Calls, Workers: o.Workers, Policy: policy, Net: net,
			Stopped: func() bool { return ctx.Err() != nil },
			Began:   func() { begun.Add(1); elapsed.Store(int64(time.Since(from))) },
			Start: func(ctx context.Context, yaml []byte) (string, func(), error) {
				return start(ctx, net, yaml)
			},
		})
		return err
	})
	return r, errors.Join(err, ctx.Err())
}

// start boots a gateway on the network, with nothing kept.
func start(ctx context.Context, net *local.Network, yaml []byte) (string, func(), error) {
	a, err := app.Open(ctx, app.Options{
		Source: config.Source{Path: "simulation.yaml", Bytes: yaml, Env: func(string) (string, bool) { return "", false }},
		Store:  store.Memory(), Transport: net, NoListener: true,
	})
	if err != nil {
		return "", nil, err
	}
	net.Add(gatewayHost, local.Host{Handler: a.Handler()})
	return "http://" + gatewayHost, func() { _ = a.Close(ctx) }, nil
}

// report writes a line per second of real time about a run, until it is stopped.
func (o *Options) report(policy string, begun, elapsed *atomic.Int64) (stop func()) {
	if o.Progress == nil {
		return func() {}
	}
	tick := time.NewTicker(time.Second)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(o.Progress, "policy %s: %s simulated, %d calls\n", policy,
					time.Duration(elapsed.Load()).Round(time.Second), begun.Load())
			case <-done:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(done)
		<-gone
	}
}
