package app

// The harness of the whole-gateway tests: one bubble of virtual time holds fake upstreams behind pipe listeners, a
// gateway over the same fake network, and a strict client. A test that takes five minutes of stream takes no real time,
// and every goroutine that is left when it ends fails it.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/lab/wire"
	"spillway/internal/store"
)

// pipeNet is a network without sockets: addresses lead to listeners in this process.
type pipeNet struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
	broken    map[string]func(context.Context) error // dialling this address fails so
}

func newPipeNet() *pipeNet {
	return &pipeNet{listeners: map[string]*pipeListener{}, broken: map[string]func(context.Context) error{}}
}

// Dial implements the dial hooks of app and of the client's transport.
func (n *pipeNet) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l, fail := n.listeners[addr], n.broken[addr]
	n.mu.Unlock()
	if fail != nil {
		if err := fail(ctx); err != nil {
			return nil, err
		}
	}
	if l == nil {
		return nil, refusedDial(ctx)
	}
	return l.dial(ctx)
}

func refusedDial(context.Context) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

func unknownHost(context.Context) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "gone.test", IsNotFound: true}}
}

// silentDial never answers.
func silentDial(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Break makes dialling a host fail; nil mends it.
func (n *pipeNet) Break(host string, fail func(context.Context) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken[host+":80"] = fail
}

// Listen implements app.Options.Listen.
func (n *pipeNet) Listen(_, addr string) (net.Listener, error) {
	tcp := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} // of the hosts of a test; nothing here asks a resolver
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		tcp = net.TCPAddrFromAddrPort(ap)
	}
	l := &pipeListener{net: n, key: addr, addr: tcp, conns: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, syscall.EADDRINUSE
	}
	n.listeners[addr] = l
	return l, nil
}

type pipeListener struct {
	net   *pipeNet
	key   string
	addr  *net.TCPAddr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Addr() net.Addr { return l.addr }

func (l *pipeListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		delete(l.net.listeners, l.key)
	})
	return nil
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	c, s := net.Pipe()
	near, far := &pipeConn{Conn: c, addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000}}, &pipeConn{Conn: s, addr: l.addr}
	near.peer, far.peer = far, near
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, refusedDial(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeConn is one end of a pipe. It can be closed with a reset, as a TCP connection can with SetLinger(0).
type pipeConn struct {
	net.Conn
	addr *net.TCPAddr
	peer *pipeConn

	mu        sync.Mutex
	lingers   bool // close with a reset
	wasReset  bool // the peer closed with one
	onlyClose sync.Once
}

func (c *pipeConn) LocalAddr() net.Addr  { return c.addr }
func (c *pipeConn) RemoteAddr() net.Addr { return c.peer.addr }

// SetLinger makes Close send a reset.
func (c *pipeConn) SetLinger(int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lingers = true
	return nil
}

func (c *pipeConn) Close() error {
	c.onlyClose.Do(func() {
		c.mu.Lock()
		reset := c.lingers
		c.mu.Unlock()
		if reset {
			c.peer.mu.Lock()
			c.peer.wasReset = true
			c.peer.mu.Unlock()
		}
	})
	return c.Conn.Close()
}

func (c *pipeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.wasReset {
			err = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
		}
	}
	return n, err
}

// call is one request as an upstream saw it.
type call struct {
	key   string
	model string
	at    time.Time
	head  http.Header
}

// upstreamServer is one fake provider.
type upstreamServer struct {
	source *lab.Source // nil when a handler of the test's own answers

	mu      sync.Mutex
	calls   []call
	running int
}

// bubble is everything that one test in virtual time has.
type bubble struct {
	t       *testing.T
	net     *pipeNet
	app     *App
	store   store.Store
	config  []byte
	client  *client.Client
	http    *http.Client // the same network, for tests that look at bytes
	ups     map[string]*upstreamServer
	servers []*http.Server
	served  sync.WaitGroup
	hasty   map[string]bool // upstreams that look at a request before its body has come
	running group           // requests that run beside the test

	// lenient switches the comparison of the decision log with the upstreams' logs off, for tests in which attempts end
	// before they reach an upstream.
	lenient bool
}

// group counts what runs beside a test.
type group struct {
	sync.WaitGroup
	n int
}

func (g *group) Go(f func()) {
	g.n++
	g.WaitGroup.Go(f)
}

// gatewayURL is where the client finds the gateway.
const gatewayURL = "http://127.0.0.1:4000"

// inBubble runs a test in a bubble of its own and checks what must hold at the end of every test.
func inBubble(t *testing.T, test func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t, net: newPipeNet(), store: store.Memory(), ups: map[string]*upstreamServer{}, hasty: map[string]bool{}}
		transport := &http.Transport{DialContext: b.net.Dial, DisableCompression: true, MaxIdleConnsPerHost: 512}
		b.client, b.http = client.New(transport), &http.Client{Transport: transport}
		defer b.shutDown()
		test(t, b)
		b.running.Wait()
		b.invariants()
	})
}

// Source adds a lab source as provider `name`, at http://name.test.
func (b *bubble) Source(name string, faults ...lab.Fault) *lab.Source {
	return b.SourceOf(scenario.Source{Name: name, Faults: faults,
		Latency: scenario.Between(20*time.Millisecond, 20*time.Millisecond), Interval: scenario.Between(5*time.Millisecond, 5*time.Millisecond)})
}

// SourceOf adds a lab source by its whole description.
func (b *bubble) SourceOf(c scenario.Source) *lab.Source {
	b.t.Helper()
	if err := c.Validate(); err != nil {
		b.t.Fatal(err)
	}
	s := lab.NewSource(c)
	s.Reset(time.Now())
	b.serve(c.Name, s, s)
	return s
}

// Handle adds an upstream with a handler of the test's own.
func (b *bubble) Handle(name string, h http.HandlerFunc) { b.serve(name, h, nil) }

func (b *bubble) serve(name string, h http.Handler, source *lab.Source) {
	b.t.Helper()
	l, err := b.net.Listen("tcp", name+".test:80")
	if err != nil {
		b.t.Fatal(err)
	}
	u := &upstreamServer{source: source}
	b.ups[name] = u
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		body, restore := []byte(nil), func() {}
		if !b.hasty[name] {
			body, restore = peekBody(r)
		}
		u.mu.Lock()
		u.running++
		u.calls = append(u.calls, call{key: bearer(r), model: modelOf(r, body), at: time.Now(), head: r.Header.Clone()})
		u.mu.Unlock()
		defer func() {
			u.mu.Lock()
			u.running--
			u.mu.Unlock()
		}()
		restore()
		h.ServeHTTP(w, r)
	}), ErrorLog: quiet()}
	b.servers = append(b.servers, srv)
	b.served.Go(func() { _ = srv.Serve(l) })
}

// Calls are the requests that an upstream saw, in order.
func (b *bubble) Calls(name string) []call {
	u := b.ups[name]
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]call(nil), u.calls...)
}

// Open starts the gateway with a configuration.
func (b *bubble) Open(yaml string) {
	b.t.Helper()
	b.config = []byte(yaml)
	a, err := Open(b.t.Context(), Options{
		Source: config.Source{Bytes: b.config, Path: "test.yaml", Env: func(string) (string, bool) { return "", false }},
		Store:  b.store, Dial: b.net.Dial, Listen: b.net.Listen,
	})
	if err != nil {
		b.t.Fatalf("open: %v", err)
	}
	b.app = a
}

// Restart closes the gateway and opens it again over the same store; meanwhile `down` passes.
func (b *bubble) Restart(down time.Duration) {
	b.t.Helper()
	b.closeApp()
	time.Sleep(down)
	b.Open(string(b.config))
}

// Reload puts another configuration in force.
func (b *bubble) Reload(yaml string) {
	b.t.Helper()
	b.config = []byte(yaml)
	b.app.options.Source.Bytes = b.config
	if err := b.app.Reload(b.t.Context()); err != nil {
		b.t.Fatalf("reload: %v", err)
	}
}

func (b *bubble) closeApp() {
	b.t.Helper()
	b.client.Close()
	if err := b.app.Close(context.WithoutCancel(b.t.Context())); err != nil {
		b.t.Errorf("close: %v", err)
	}
	b.app = nil
}

func (b *bubble) shutDown() {
	b.running.Wait()
	b.client.Close()
	if b.app != nil {
		b.closeApp()
	}
	for _, s := range b.servers {
		_ = s.Close()
	}
	b.served.Wait()
}

// Ask makes one call with a strict client and reads it to its end.
func (b *bubble) Ask(q client.Request) client.Result { return b.AskCtx(b.t.Context(), q) }

// AskCtx is Ask with a client that can hang up.
func (b *bubble) AskCtx(ctx context.Context, q client.Request) client.Result {
	q.URL = gatewayURL
	if q.Patience == 0 {
		q.Patience = 2 * time.Hour
	}
	if q.Prompt == "" {
		q.Prompt = "why is the sky blue"
	}
	return b.client.Call(ctx, q)
}

// Post sends a chat body and returns the open answer.
func (b *bubble) Post(path, body string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, gatewayURL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// Right fails the test unless the result is the whole right answer.
func (b *bubble) Right(r client.Result, prompt string) {
	b.t.Helper()
	if why := wrong(r, prompt, 60); why != "" {
		b.t.Errorf("not the right answer: %s", why)
	}
}

// wrong says why a result is not the whole answer of a source with default voice.
func wrong(r client.Result, prompt string, words int) string {
	if prompt == "" {
		prompt = "why is the sky blue"
	}
	want := wire.Text(prompt, 0, words)
	switch {
	case r.End != client.Complete:
		return describe(r)
	case r.Text != want:
		return fmt.Sprintf("%d bytes of text, want %d: %.60q", len(r.Text), len(want), r.Text)
	}
	return ""
}

func describe(r client.Result) string {
	return fmt.Sprintf("%s, status %d, note %q, error %q %q %.200q, in stream %t, %d bytes of text, after %s",
		r.End, r.Status, r.Note, r.ErrorType, r.ErrorCode, r.ErrorMessage, r.InStream, len(r.Text), r.EndedAfter)
}

// Journeys returns the decision logs of all requests so far, the last one to end first.
func (b *bubble) Journeys() []*gateway.Journey {
	b.t.Helper()
	var out []*gateway.Journey
	var cursor int64
	for {
		list, next, err := b.app.ledger.Recent(b.t.Context(), store.Filter{After: cursor, Limit: 500})
		if err != nil {
			b.t.Fatalf("decision log: %v", err)
		}
		out = append(out, list...)
		if next == 0 {
			return out
		}
		cursor = next
	}
}

// Story tells the decision log of the request that ended last, for failing tests.
func (b *bubble) Story() string {
	b.t.Helper()
	list := b.Journeys()
	if len(list) == 0 {
		return "no request"
	}
	j := list[0]
	var s strings.Builder
	fmt.Fprintf(&s, "%s stream=%t status %d %s %q\n", j.Model, j.Stream, j.Status, j.Code, j.Error)
	for _, w := range j.Waits {
		fmt.Fprintf(&s, "  %8s wait %s for %s\n", w.At.Sub(j.At).Round(time.Millisecond), w.Reason, w.For.Round(time.Millisecond))
	}
	for _, a := range j.Attempts {
		fmt.Fprintf(&s, "  %8s-%s %s (%s) why %s: %s/%s/%s %d %q retry %gs, breaker %s -> %s, probe %t\n", a.BeganAt.Sub(j.At).Round(time.Millisecond),
			a.EndedAt.Sub(j.At).Round(time.Millisecond), a.Target, a.Connection, a.Why, a.Kind, a.Reason, a.Scope, a.Status, a.Message,
			a.RetryAfter, a.Before, a.After, a.Probe)
	}
	return s.String()
}

// Out lists the breakers, cooldowns and lockouts that are in force, without counts of attempts in flight.
func (b *bubble) Out() []string {
	var out []string
	for _, s := range b.app.Status() {
		switch s.State {
		case "in_flight", "adaptive", "paced", "degraded", "active", "learned":
		default:
			out = append(out, fmt.Sprintf("%s %s %s (%s) until %s", s.Layer, s.Key, s.State, s.Reason, s.Until.Format(time.TimeOnly)))
		}
	}
	return out
}

// NothingOut fails the test when something is isolated.
func (b *bubble) NothingOut() {
	b.t.Helper()
	if out := b.Out(); len(out) > 0 {
		b.t.Errorf("nothing should be isolated, but: %s", strings.Join(out, "; "))
	}
}

// settle is how long the gateway has after the last client to let go of everything.
const letGo = 2 * time.Second

// invariants are what must hold after every test: whatever was taken has come back, each request has one end, and the
// decision log tells of exactly the attempts that the upstreams saw.
func (b *bubble) invariants() {
	b.t.Helper()
	time.Sleep(letGo)
	synctest.Wait()
	if b.app == nil {
		return
	}
	if n := b.app.InFlight(); n != 0 {
		b.t.Errorf("%d requests are still in flight", n)
	}
	if n := b.app.Buffered(); n != 0 {
		b.t.Errorf("%d bytes are still counted as buffered", n)
	}
	if n := b.app.rooms.queues.Len(); n != 0 {
		b.t.Errorf("%d requests still wait in line", n)
	}
	if n := b.app.ledger.Totals().Open; n != 0 {
		b.t.Errorf("%d requests are not settled", n)
	}
	for _, s := range b.app.Status() {
		if s.State == "in_flight" || s.Detail["probes"] != "" || s.Detail["under_way"] != "" {
			b.t.Errorf("not given back: %s %s %v", s.Layer, s.Key, s.Detail)
		}
	}
	seen := 0
	for name, u := range b.ups {
		u.mu.Lock()
		if u.running != 0 {
			b.t.Errorf("upstream %s still serves %d requests", name, u.running)
		}
		seen += len(u.calls)
		u.mu.Unlock()
		if u.source != nil && u.source.InFlight() != 0 {
			b.t.Errorf("source %s still serves %d requests", name, u.source.InFlight())
		}
	}
	b.accounts(seen)
}

// accounts compares the decision log with what the upstreams saw.
func (b *bubble) accounts(seen int) {
	b.t.Helper()
	logged := 0
	for _, j := range b.Journeys() {
		if j.EndedAt.IsZero() {
			b.t.Errorf("request %s has no end", j.ID)
		}
		for i, a := range j.Attempts {
			if a.EndedAt.IsZero() || a.EndedAt.Before(a.BeganAt) {
				b.t.Errorf("request %s, attempt %d: ended at %s, began at %s", j.ID, i+1, a.EndedAt, a.BeganAt)
			}
			if !belowHTTP(a.Reason) {
				logged++
			}
		}
	}
	if logged != seen && !b.lenient {
		b.t.Errorf("the decision log has %d attempts, the upstreams saw %d", logged, seen)
	}
}

// belowHTTP reports whether an attempt never reached an upstream.
func belowHTTP(r gateway.Reason) bool {
	switch r {
	case gateway.ConnectFailed, gateway.DNSFailed, gateway.TLSFailed, gateway.ConnectTimeout, gateway.OwnNetwork:
		return true
	}
	return false
}

// providers writes the provider and connection blocks of a configuration: one connection per provider, named like it.
func providers(names ...string) string {
	var p, c strings.Builder
	p.WriteString("providers:\n")
	c.WriteString("connections:\n")
	for _, n := range names {
		p.WriteString(provider(n))
		fmt.Fprintf(&c, "  - {id: %s, provider: %s, key: key-%s}\n", n, n, n)
	}
	return p.String() + c.String()
}

func provider(name string) string {
	return fmt.Sprintf("  %s: {protocols: [openai, responses, anthropic, gemini], base_url: 'http://%s.test/v1', class: apikey}\n", name, name)
}

// keyed writes one provider with n connections, key-1 to key-n, and then one connection for each other provider.
func keyed(name string, n int, others ...string) string {
	var p, c strings.Builder
	p.WriteString("providers:\n" + provider(name))
	c.WriteString("connections:\n")
	for i := range n {
		fmt.Fprintf(&c, "  - {id: %s-%d, provider: %s, key: key-%d}\n", name, i+1, name, i+1)
	}
	for _, o := range others {
		p.WriteString(provider(o))
		fmt.Fprintf(&c, "  - {id: %s, provider: %s, key: key-%s}\n", o, o, o)
	}
	return p.String() + c.String()
}

// combo writes a priority combo named smart over model m of the providers.
func combo(names ...string) string {
	var targets []string
	for _, n := range names {
		targets = append(targets, n+"/m")
	}
	return fmt.Sprintf("combos:\n  - {name: smart, strategy: priority, targets: [%s]}\n", strings.Join(targets, ", "))
}

// chat is a question over openai chat.
func chat(stream bool) client.Request {
	return client.Request{Protocol: gateway.OpenAI, Model: "smart", Stream: stream}
}

var errGaveUp = errors.New("the client hung up")

var always = func(k fault.Kind) lab.Fault { return lab.Fault{Kind: k} }
