package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/lab/fault"
)

// faultyListener plays the faults that belong to connections: a late first read (which makes TLS slow) and a limit on
// connections.
type faultyListener struct {
	net.Listener
	source *Source
	closed <-chan struct{}
	open   atomic.Int64
}

// Accept implements net.Listener.
func (l *faultyListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		delay, limit := l.source.connFaults(time.Now())
		if limit > 0 && l.open.Load() >= int64(limit) {
			linger(c)
			c.Close()
			continue
		}
		l.open.Add(1)
		fc := &faultyConn{Conn: c, l: l, delay: delay, gone: make(chan struct{})}
		return fc, nil
	}
}

// connFaults says what happens to a connection that is accepted now.
func (s *Source) connFaults(now time.Time) (delay time.Duration, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var elapsed time.Duration
	if !s.began.IsZero() {
		elapsed = now.Sub(s.began)
	}
	for _, f := range s.script.Network() {
		if !f.Active(elapsed) {
			continue
		}
		switch f.Kind {
		case fault.SlowTLS:
			if delay = f.Delay; delay == 0 {
				delay = 5 * time.Second
			}
		case fault.ConnectionLimit:
			limit = max(f.Tokens, 1)
		}
	}
	return delay, limit
}

type faultyConn struct {
	net.Conn
	l     *faultyListener
	delay time.Duration
	first sync.Once
	done  sync.Once
	gone  chan struct{}
}

// Read implements net.Conn.
func (c *faultyConn) Read(b []byte) (int, error) {
	if c.delay > 0 {
		c.first.Do(func() {
			t := time.NewTimer(c.delay)
			defer t.Stop()
			select {
			case <-t.C:
			case <-c.gone:
			case <-c.l.closed:
			}
		})
	}
	return c.Conn.Read(b)
}

// Close implements net.Conn.
func (c *faultyConn) Close() error {
	c.done.Do(func() { close(c.gone); c.l.open.Add(-1) })
	return c.Conn.Close()
}

// SetLinger lets a reset through to the socket below.
func (c *faultyConn) SetLinger(sec int) error {
	if t, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return t.SetLinger(sec)
	}
	return nil
}

// certificate makes a key pair for the TLS sources, if there are any. The caller holds the lock.
func (s *Server) certificate() (*tls.Config, error) {
	wanted := false
	for _, src := range s.sources {
		wanted = wanted || src.cfg.TLS
	}
	if !wanted {
		return nil, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "spillway lab"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	if ip := net.ParseIP(s.cfg.Host); ip != nil {
		t.IPAddresses = append(t.IPAddresses, ip)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	s.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}
