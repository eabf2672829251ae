package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

func open(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fresh asks over a connection of its own.
func fresh(t *testing.T, url string, patience time.Duration) client.Result {
	t.Helper()
	c := client.New(nil)
	defer c.Close()
	return c.Call(t.Context(), client.Request{URL: url, Model: "m", Prompt: prompt, Stream: true, Patience: patience})
}

func TestServeConfigFailsInFiveWaysByTurns(t *testing.T) {
	cfg := ServeConfig()
	for i := range cfg.Sources {
		cfg.Sources[i].Port = 0
	}
	s := open(t, cfg)
	for range 12 {
		fresh(t, s.URL("lab-a"), time.Minute)
		if res := fresh(t, s.URL("lab-b"), time.Minute); res.End != client.Complete {
			t.Errorf("lab-b: %s %s", res.End, res.Note)
		}
	}
	var got []string
	for _, a := range s.Source("lab-a").Attempts(time.Now()) {
		got = append(got, a.Fault)
	}
	round := "status rate_limit reset_before_headers error_first cut "
	if want := strings.TrimSpace(round + round + "status rate_limit"); strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestDefaultIsHealthy(t *testing.T) {
	s := open(t, Default())
	if res := fresh(t, s.URL("lab"), time.Minute); res.End != client.Complete {
		t.Errorf("%+v", res)
	}
}

func TestNetworkFaults(t *testing.T) {
	s := open(t, Config{Sources: []SourceConfig{
		{Name: "nowhere", Faults: []Fault{{Kind: fault.DNSFailure}}},
		{Name: "refused", Faults: []Fault{{Kind: fault.Refused}}},
		{Name: "slow", TLS: true, Faults: []Fault{{Kind: fault.SlowTLS, Delay: 300 * ms}}},
		{Name: "narrow", Faults: []Fault{{Kind: fault.ConnectionLimit, Tokens: 1}}},
	}})
	if !strings.HasPrefix(s.URL("nowhere"), "http://nowhere.lab.invalid:") {
		t.Error(s.URL("nowhere"))
	}
	if res := fresh(t, s.URL("refused"), 5*time.Second); res.End != client.Broken || !strings.Contains(res.Note, "refused") {
		t.Errorf("refused: %s %s", res.End, res.Note)
	}

	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.CertPEM()) {
		t.Fatal("no certificate")
	}
	c := client.New(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}})
	res := c.Call(t.Context(), client.Request{URL: s.URL("slow"), Model: "m", Prompt: prompt, Stream: true})
	c.Close()
	if res.End != client.Complete || res.EndedAfter < 300*ms {
		t.Errorf("slow TLS: %s after %s (%s)", res.End, res.EndedAfter, res.Note)
	}

	idle, err := net.Dial("tcp", strings.TrimPrefix(s.URL("narrow"), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	idle.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	idle.Read(make([]byte, 1)) // the first connection is in
	if res := fresh(t, s.URL("narrow"), 5*time.Second); res.End != client.Broken {
		t.Errorf("above the limit: %s", res.End)
	}
	idle.Close()
	for range 100 {
		if res = fresh(t, s.URL("narrow"), 5*time.Second); res.End == client.Complete {
			return
		}
		time.Sleep(10 * ms) // the server learns of the close by reading it
	}
	t.Errorf("below the limit again: %s %s", res.End, res.Note)
}

func TestControlEndpoints(t *testing.T) {
	s := open(t, Config{Sources: []SourceConfig{{Name: "a"}, {Name: "b", Faults: []Fault{{Kind: fault.Status, Times: 1}}}}})
	fresh(t, s.URL("a"), time.Minute)
	fresh(t, s.URL("b"), time.Minute)
	get := func(method, path string, into any) {
		t.Helper()
		req, _ := http.NewRequest(method, s.URL("a")+path, nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	var log []Attempt
	get("GET", "/lab/log", &log)
	if len(log) != 2 || log[0].Source != "a" || !log[0].Whole || log[0].Tokens != 60 || log[1].Fault != "status" || log[1].Status != 500 {
		t.Errorf("%+v", log)
	}
	get("POST", "/lab/reset", &struct{}{})
	get("GET", "/lab/log", &log)
	if len(log) != 0 {
		t.Errorf("%d attempts after a reset", len(log))
	}
	if res := fresh(t, s.URL("b"), time.Minute); res.Status != 500 {
		t.Error("a reset begins the script anew")
	}
	var rows []map[string]any
	get("GET", "/lab/sources", &rows)
	if len(rows) != 2 || rows[1]["name"] != "b" {
		t.Errorf("%v", rows)
	}
}

func TestServeTellsWhereAndStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &lockedBuffer{}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := Serve(ctx, Config{Sources: []SourceConfig{{Name: "a", Faults: []Fault{{Kind: fault.Status, Status: 503}}}}}, out); err != nil {
			t.Error(err)
		}
	})
	for range 500 {
		if strings.Contains(out.String(), "/lab/reset") {
			break
		}
		time.Sleep(ms)
	}
	cancel()
	wg.Wait()
	if !strings.Contains(out.String(), "http://127.0.0.1:") || !strings.Contains(out.String(), "fails: status 503") {
		t.Errorf("%s", out.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func TestCloseEndsRequestsAndGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := NewServer(Config{Sources: []SourceConfig{{Name: "a", Faults: []Fault{{Kind: fault.Silence}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Open(t.Context()) == nil {
		t.Error("opened twice")
	}
	c := client.New(nil)
	var wg sync.WaitGroup
	wg.Go(func() { c.Call(context.Background(), client.Request{URL: s.URL("a"), Model: "m", Prompt: "p"}) })
	for s.Source("a").InFlight() == 0 {
		time.Sleep(ms)
	}
	s.Close()
	if n := s.Source("a").InFlight(); n != 0 {
		t.Errorf("%d requests run on", n)
	}
	wg.Wait()
	c.Close()
	goleak.VerifyNone(t, before)
}

func TestConfigProblemsNameTheField(t *testing.T) {
	err := Config{Sources: []SourceConfig{{Name: "a", Account: "x", Latency: scenario.Spread{}}, {Name: "a", Success: 2}},
		Accounts: map[string]fault.BucketConfig{"y": {}}}.Validate()
	for _, want := range []string{`sources[0].account: "x"`, "sources[1].success", `sources[1].name: "a" is used twice`, "accounts.y.rpm"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func TestIdleWorkersStopWhenTheCallsAreOut(t *testing.T) {
	s := small(t, `
name: early
sources: [{name: a}]
load: {calls: 3, workers: 1, steps: [{at: 1h, workers: 4}]}
`)
	began := time.Now()
	if r, err := RunScenario(t.Context(), RunOptions{Scenario: s, Start: firstOnly(t)}); err != nil || r.Calls != 3 || time.Since(began) > time.Minute {
		t.Errorf("%+v %v", r, err)
	}
}
