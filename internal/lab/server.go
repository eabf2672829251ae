package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"spillway/internal/lab/fault"
)

// Server runs several sources, each on a listener of its own.
type Server struct {
	cfg     Config
	sources []*Source
	byName  map[string]*Source

	mu     sync.Mutex
	urls   map[string]string
	cert   []byte // PEM of the certificate of the TLS sources
	https  []*http.Server
	stop   context.CancelFunc
	served sync.WaitGroup // Serve loops
	busy   sync.WaitGroup // requests
}

// NewServer builds the sources; it listens nowhere until Open.
func NewServer(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	accounts, ips := map[string]*fault.Bucket{}, map[string]*fault.Bucket{}
	for name, b := range cfg.Accounts {
		accounts[name] = fault.NewBucket(b)
	}
	for name, b := range cfg.IPs {
		ips[name] = fault.NewBucket(b)
	}
	s := &Server{cfg: cfg, byName: map[string]*Source{}, urls: map[string]string{}}
	for _, c := range cfg.Sources {
		var buckets []*fault.Bucket
		if b := accounts[c.Account]; b != nil {
			buckets = append(buckets, b)
		}
		if b := ips[c.IP]; b != nil {
			buckets = append(buckets, b)
		}
		src := NewSource(c, buckets...)
		s.sources = append(s.sources, src)
		s.byName[c.Name] = src
	}
	for _, src := range s.sources {
		src.group = s.sources
	}
	return s, nil
}

// Source returns a source by name, nil when there is none.
func (s *Server) Source(name string) *Source { return s.byName[name] }

// Sources returns the sources in the order of the configuration.
func (s *Server) Sources() []*Source { return s.sources }

// URL is the root URL of a source, without a path; "" before Open. A protocol's base URL is this plus /v1 (openai,
// responses) or nothing (anthropic, gemini).
func (s *Server) URL(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.urls[name]
}

// CertPEM is the certificate of the TLS sources, for a client's pool; nil when there is none.
func (s *Server) CertPEM() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cert
}

// Open listens and serves. On error nothing is left open.
func (s *Server) Open(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return errors.New("lab: already open")
	}
	var listeners []net.Listener
	fronts := s.fronts()
	fail := func(err error) error {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	for _, f := range fronts {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(s.cfg.Host, strconv.Itoa(f[0].cfg.Port)))
		if err != nil {
			return fail(fmt.Errorf("lab: source %s: %w", f[0].cfg.Name, err))
		}
		listeners = append(listeners, l)
	}
	tlsConfig, err := s.certificate()
	if err != nil {
		return fail(err)
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.Reset(time.Now())
	for i, f := range fronts {
		s.serve(base, f, listeners[i], tlsConfig)
	}
	return nil
}

// fronts groups the sources by listener, in the order of the configuration.
func (s *Server) fronts() []front {
	var out []front
	at := map[string]int{}
	for _, src := range s.sources {
		g := src.cfg.Group()
		i, ok := at[g]
		if !ok {
			i = len(out)
			at[g] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], src)
	}
	return out
}

// serve starts one listener. The caller holds the lock.
func (s *Server) serve(base context.Context, f front, l net.Listener, tlsConfig *tls.Config) {
	src := f[0] // the network is that of the first
	scheme := "http"
	host := l.Addr().String()
	for _, nf := range src.script.Network() {
		_, port, _ := net.SplitHostPort(host)
		switch nf.Kind {
		case fault.DNSFailure:
			host = src.cfg.Name + ".lab.invalid:" + port // RFC 6761: the name never resolves
		case fault.Refused:
			host = net.JoinHostPort(s.cfg.Host, "1")
		}
	}
	l = &faultyListener{Listener: l, source: src, closed: base.Done()}
	if src.cfg.TLS {
		scheme = "https"
		l = tls.NewListener(l, tlsConfig)
	}
	for _, behind := range f {
		s.urls[behind.cfg.Name] = scheme + "://" + host
	}
	srv := &http.Server{
		Handler:     s.counted(f),
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    log.New(io.Discard, "", 0), // the faults make noise on purpose
	}
	s.https = append(s.https, srv)
	s.served.Go(func() { srv.Serve(l) })
}

func (s *Server) counted(f front) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			panic(http.ErrAbortHandler)
		}
		defer s.busy.Done()
		f.ServeHTTP(w, r)
	})
}

// enter counts a request in, unless the server is closing.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		return false
	}
	s.busy.Add(1)
	return true
}

// Close ends all listeners, connections and requests, and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	stop, servers := s.stop, s.https
	s.stop, s.https = nil, nil
	s.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	var errs []error
	for _, srv := range servers {
		errs = append(errs, srv.Close())
	}
	s.served.Wait()
	s.busy.Wait()
	return errors.Join(errs...)
}

// Reset starts the scripts of all sources anew.
func (s *Server) Reset(now time.Time) {
	for _, src := range s.sources {
		src.Reset(now)
	}
}

// Attempts is the log of all sources, by name.
func (s *Server) Attempts(now time.Time) map[string][]Attempt {
	out := map[string][]Attempt{}
	for _, src := range s.sources {
		out[src.cfg.Name] = src.Attempts(now)
	}
	return out
}

// Serve runs sources until ctx ends and tells on out where they are.
func Serve(ctx context.Context, cfg Config, out io.Writer) error {
	s, err := NewServer(cfg)
	if err != nil {
		return err
	}
	if err := s.Open(ctx); err != nil {
		return err
	}
	for _, src := range s.sources {
		fmt.Fprintf(out, "%-12s %s   %s\n", src.cfg.Name, s.URL(src.cfg.Name), describe(src.cfg))
	}
	fmt.Fprintf(out, "All speak openai, responses (base URL + /v1), anthropic and gemini (base URL), take any key and any model.\n"+
		"Log of attempts: GET %[1]s/lab/log   reset: POST %[1]s/lab/reset\n", s.URL(cfg.Sources[0].Name))
	<-ctx.Done()
	return s.Close()
}

func describe(c SourceConfig) string {
	if len(c.Faults) == 0 {
		return "healthy"
	}
	var text strings.Builder
	text.WriteString("fails: ")
	for i, f := range c.Faults {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(string(f.Kind))
		if f.Status > 0 {
			text.WriteString(" " + strconv.Itoa(f.Status))
		}
	}
	return text.String()
}
