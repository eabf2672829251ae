// Package lab answers two questions: how does a gateway behave when its upstreams fail, and did it behave well? It
// runs fake upstreams (sources) that speak all four protocols over real HTTP and fail by script, it drives load at a
// gateway, any gateway, through strict clients of its own, and it judges what came out by what the clients saw and by
// what the sources were asked. Sources are keyed by name. It never calls a real provider, never looks inside the
// gateway, and takes time from package time alone, so a source works in a testing/synctest bubble too.
//
// What a source does wrong is decided in lab/fault, how a protocol looks in lab/wire, what a client makes of an answer
// in lab/client, and scenario files are read in lab/scenario.
package lab

import (
	"errors"
	"fmt"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// Fault is one line of a fault script; see package fault.
type Fault = fault.Fault

// SourceConfig describes one fake upstream; see package scenario.
type SourceConfig = scenario.Source

// Config describes a set of sources.
type Config struct {
	Host     string // address to listen on; "" = 127.0.0.1
	Sources  []SourceConfig
	Accounts map[string]fault.BucketConfig // token buckets by account name
	IPs      map[string]fault.BucketConfig // token buckets by address name
}

// Ports of the sources of ServeConfig.
const (
	PortA = 18081
	PortB = 18082
)

// ServeConfig is what `spillway lab serve` runs without a scenario: lab-a, whose requests fail in five ways by turns,
// and lab-b, which is healthy.
func ServeConfig() Config {
	ways := []Fault{
		{Kind: fault.Status, Status: 500},
		{Kind: fault.RateLimit, RetryAfter: time.Second},
		{Kind: fault.ResetBeforeHeaders},
		{Kind: fault.ErrorFirst},
		{Kind: fault.Cut},
	}
	// The first line that ends a request wins and later lines do not see it, so each line counts only what the lines
	// before it let through: of five requests the first line takes the first, of the four left the second line takes
	// the first, and so on.
	for i := range ways {
		ways[i].Of = len(ways) - i
	}
	return Config{Sources: []SourceConfig{
		{Name: "lab-a", Port: PortA, Faults: ways},
		{Name: "lab-b", Port: PortB},
	}}
}

// Default is one healthy source on a free port: the provider of a gateway that was started without any key.
func Default() Config {
	return Config{Sources: []SourceConfig{{Name: "lab", Latency: scenario.Between(50*time.Millisecond, 120*time.Millisecond), Interval: scenario.Between(5*time.Millisecond, 15*time.Millisecond)}}}
}

// Validate reports every problem, each beginning with the field.
func (c Config) Validate() error {
	var errs []error
	names := map[string]bool{}
	for i, s := range c.Sources {
		at := fmt.Sprintf("sources[%d].", i)
		for _, e := range scenario.Split(s.Validate()) {
			errs = append(errs, fmt.Errorf("%s%w", at, e))
		}
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("%sname: %q is used twice", at, s.Name))
		}
		names[s.Name] = true
		if _, ok := c.Accounts[s.Account]; s.Account != "" && !ok {
			errs = append(errs, fmt.Errorf("%saccount: %q is not in accounts", at, s.Account))
		}
		if _, ok := c.IPs[s.IP]; s.IP != "" && !ok {
			errs = append(errs, fmt.Errorf("%sip: %q is not in ips", at, s.IP))
		}
	}
	if len(c.Sources) == 0 {
		errs = append(errs, errors.New("sources: at least one is needed"))
	}
	for name, b := range c.Accounts {
		for _, e := range scenario.Split(b.Validate()) {
			errs = append(errs, fmt.Errorf("accounts.%s.%w", name, e))
		}
	}
	for name, b := range c.IPs {
		for _, e := range scenario.Split(b.Validate()) {
			errs = append(errs, fmt.Errorf("ips.%s.%w", name, e))
		}
	}
	return errors.Join(errs...)
}
