package verdict

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"spillway/internal/gateway"
)

// byTransport judges an attempt that a socket ended. Where it struck decides more than the error's name: after content
// it is a truncated answer, before any header it is below HTTP.
func (e *Evidence) byTransport() gateway.Outcome {
	err := e.Transport
	if ours(err) {
		return outcome(gateway.LocalError, gateway.HostFault)
	}
	if errors.Is(err, context.DeadlineExceeded) && !e.dialing(err) { // a dialler's own time-out calls itself so, too
		return e.byDeadline()
	}
	if e.Content {
		return outcome(gateway.ServiceError, gateway.Truncated)
	}
	if e.Status == 0 {
		return e.belowHTTP(err)
	}
	if timedOut(err) {
		return outcome(gateway.Timeout, gateway.FirstContentTimeout)
	}
	return outcome(gateway.ServiceError, gateway.ConnectionReset)
}

func (e *Evidence) belowHTTP(err error) gateway.Outcome {
	var o gateway.Outcome
	_, dns := errors.AsType[*net.DNSError](err)
	dialing := e.dialing(err)
	switch {
	case dns:
		o = outcome(gateway.ServiceError, gateway.DNSFailed)
	case isTLS(err):
		o = outcome(gateway.ServiceError, gateway.TLSFailed)
	case timedOut(err) && dialing:
		o = outcome(gateway.Timeout, gateway.ConnectTimeout)
	case timedOut(err):
		o = outcome(gateway.Timeout, gateway.HeadersTimeout)
		return o // connected: the network below HTTP works
	case dialing, refused(err):
		o = outcome(gateway.ServiceError, gateway.ConnectFailed)
	default:
		o = outcome(gateway.ServiceError, gateway.ConnectionReset)
	}
	o.BelowHTTP = true
	return o
}

// dialing reports whether there was no connection yet.
func (e *Evidence) dialing(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return e.Phase == PhaseConnect || ok && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// ours reports an error that this process or its machine made: a cancelled context (whose cause nobody claimed) or a
// resource that ran out. The upstream had no part in it.
func ours(err error) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	for _, no := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return true
	}
	// The standard library makes its other handshake errors with errors.New; the prefix is all they have in common.
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "TLS handshake")
}
