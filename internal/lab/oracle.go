package lab

import (
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// oracle knows the scripts. At the beginning of each call it says whether somebody who knows them too would get an
// answer within the client's patience: from a source that is not surely failing at some instant, and whose buckets,
// from which only the oracle itself drinks, have a token by then. What is left to chance does not stop it, since it
// would ask at the lucky instant. It is used by one goroutine at a time.
type oracle struct {
	s        *scenario.Scenario
	sources  []*Source
	accounts map[string]*fault.Bucket
	ips      map[string]*fault.Bucket
	success  int
	healthy  map[string][]sight
}

// sight is what the oracle saw of a source when a call began.
type sight struct {
	at time.Time
	ok bool
}

func newOracle(s *scenario.Scenario, srv *Server) *oracle {
	o := &oracle{s: s, sources: srv.Sources(), accounts: map[string]*fault.Bucket{}, ips: map[string]*fault.Bucket{}, healthy: map[string][]sight{}}
	for name, c := range s.Accounts {
		o.accounts[name] = fault.NewBucket(c)
	}
	for name, c := range s.IPs {
		o.ips[name] = fault.NewBucket(c)
	}
	return o
}

// look judges the call that begins now.
func (o *oracle) look(q question, now time.Time, patience time.Duration) {
	a := fault.Ask{Model: scenario.Model, Protocol: q.protocol, Stream: q.stream}
	answers := false
	for _, src := range o.sources {
		a.Key = src.cfg.KeyOf()
		_, fails := src.Peek(a, now)
		o.healthy[src.Name()] = append(o.healthy[src.Name()], sight{now, !fails})
		answers = answers || !fails && o.take(src, now, patience)
	}
	// Nobody answers now: an oracle would wait for the first who does.
	for d := time.Second; !answers && d < patience; d += time.Second {
		for _, src := range o.sources {
			a.Key = src.cfg.KeyOf()
			if _, fails := src.Peek(a, now.Add(d)); !fails {
				answers = true
				break
			}
		}
	}
	if answers {
		o.success++
	}
}

func (o *oracle) take(src *Source, now time.Time, patience time.Duration) bool {
	for _, b := range []*fault.Bucket{o.accounts[src.cfg.Account], o.ips[src.cfg.IP]} {
		if b == nil {
			continue
		}
		if wait, ok := b.Take(now); !ok && (wait == 0 || wait > patience) {
			return false
		}
	}
	return true
}

// outage is the longest time in which a source was healthy at the beginning of every call and was asked for nothing.
func (o *oracle) outage(name string, attempts []Attempt) time.Duration {
	var longest time.Duration
	var since time.Time // zero: not healthy
	next := 0
	for _, s := range o.healthy[name] {
		for next < len(attempts) && !attempts[next].At.After(s.at) {
			if !since.IsZero() {
				longest = max(longest, attempts[next].At.Sub(since))
				since = attempts[next].At
			}
			next++
		}
		switch {
		case !s.ok:
			since = time.Time{}
		case since.IsZero():
			since = s.at
		default:
			longest = max(longest, s.at.Sub(since))
		}
	}
	return longest
}
