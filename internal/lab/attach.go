package lab

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/local"
)

// Attach puts the sources on a network inside this process instead of on listeners, and starts their scripts. Answers
// then come in bundles of tokens, so that an hour of load is simulated in seconds. Close is not needed.
func (s *Server) Attach(n *local.Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.fronts() {
		host := fmt.Sprintf("source-%d.lab", i+1)
		n.Add(host, local.Host{Handler: f, Dial: f[0].dial})
		for _, src := range f {
			src.coarse = true
			s.urls[src.cfg.Name] = "http://" + host
		}
	}
	s.Reset(time.Now())
}

// dial plays the faults that belong to connections.
func (s *Source) dial(ctx context.Context, open int) error {
	for _, f := range s.script.Network() {
		switch f.Kind {
		case fault.DNSFailure:
			return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: s.cfg.Name + ".lab.invalid", IsNotFound: true}}
		case fault.Refused:
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
	}
	delay, limit := s.connFaults(time.Now())
	if limit > 0 && open > limit {
		return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	if delay > 0 && pause(ctx, delay) != nil {
		return context.Cause(ctx)
	}
	return nil
}
