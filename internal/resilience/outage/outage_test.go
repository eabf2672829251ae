package outage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

var t0 = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func conn(provider *gateway.Provider, id, account string) *gateway.Connection {
	return &gateway.Connection{ID: gateway.ConnectionID(id), Account: gateway.AccountID(account), Identity: id + "#1", Provider: provider}
}

func at(host string) *gateway.Provider {
	return &gateway.Provider{ID: gateway.ProviderID(host), BaseURL: "https://" + host + "/v1"}
}

// pool is n connections with an account each.
func pool(p *gateway.Provider, n int) []*gateway.Connection {
	var out []*gateway.Connection
	for i := range n {
		out = append(out, conn(p, fmt.Sprint(p.ID, i), fmt.Sprint("A", i)))
	}
	return out
}

func open(live ...*gateway.Connection) *Room {
	r := New(Default())
	r.Retain(live)
	return r
}

var (
	success = gateway.Outcome{Kind: gateway.Success, Status: 200, Content: true}
	broken  = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.UpstreamStatus, Status: 503}
	late    = gateway.Outcome{Kind: gateway.Timeout, Scope: gateway.ScopeProvider, Reason: gateway.FirstContentTimeout}
	refused = gateway.Outcome{Kind: gateway.AuthError, Scope: gateway.ScopeConnection, Reason: gateway.KeyRefused, Status: 401}
	noRoute = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.ConnectFailed, BelowHTTP: true}
	noName  = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.DNSFailed, BelowHTTP: true}
	slowSyn = gateway.Outcome{Kind: gateway.Timeout, Scope: gateway.ScopeProvider, Reason: gateway.ConnectTimeout, BelowHTTP: true}
	reset   = gateway.Outcome{Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.ConnectionReset, BelowHTTP: true}
)

// step is one outcome of a table: at which second, at which connection, and whether it ends up as Endpoint.
type step struct {
	second   float64
	conn     int
	o        gateway.Outcome
	endpoint bool
}

func TestEndpointFault(t *testing.T) {
	for _, tc := range []struct {
		name  string
		size  int
		steps []step
	}{
		{"three of many", 20, []step{{0, 0, broken, false}, {1, 1, broken, false}, {2, 2, broken, true}, {3, 0, broken, true}}},
		{"half of four", 4, []step{{0, 0, broken, false}, {1, 1, broken, true}}},
		{"two of five are not half", 5, []step{{0, 0, broken, false}, {1, 1, broken, false}}},
		{"one of one", 1, []step{{0, 0, broken, false}, {1, 0, broken, false}, {2, 0, broken, false}}},
		{"one of two is half but one", 2, []step{{0, 0, broken, false}, {1, 0, broken, false}, {2, 1, broken, true}}},
		{"one key thrice", 20, []step{{0, 0, broken, false}, {1, 0, broken, false}, {2, 0, broken, false}}},
		{"too far apart", 20, []step{{0, 0, broken, false}, {6, 1, broken, false}, {11, 2, broken, false}}},
		{"just within", 20, []step{{0, 0, broken, false}, {6, 1, broken, false}, {10, 2, broken, true}}},
		{"different kinds", 20, []step{{0, 0, broken, false}, {1, 1, late, false}, {2, 2, refused, false}}},
		{"timeouts", 4, []step{{0, 0, late, false}, {1, 1, late, true}}},
		{"refused keys need three, always", 2, []step{{0, 0, refused, false}, {1, 1, refused, false}}},
		{"three refused keys", 4, []step{{0, 0, refused, false}, {1, 1, refused, false}, {2, 2, refused, true}}},
		{"three refused, one served meanwhile", 20, []step{{0, 0, refused, false}, {1, 1, refused, false}, {1.5, 3, success, false}, {2, 2, refused, false}}},
		{"a 429 is nobody's endpoint", 4, []step{{0, 0, gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount}, false},
			{1, 1, gateway.Outcome{Kind: gateway.RateLimited, Scope: gateway.ScopeAccount}, false}}},
		{"a model's fault", 4, []step{{0, 0, model(broken), false}, {1, 1, model(broken), false}, {2, 2, model(broken), false}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := pool(at("a.example"), tc.size)
			r := open(append(all, pool(at("b.example"), 3)...)...)
			for _, s := range tc.steps {
				now := t0.Add(time.Duration(s.second * float64(time.Second)))
				got := r.Observe(gateway.Candidate{Connection: all[s.conn]}, s.o, now)
				if got.Endpoint != s.endpoint {
					t.Fatalf("second %v: endpoint %v, want %v", s.second, got.Endpoint, s.endpoint)
				}
				got.Endpoint = s.o.Endpoint
				if got != s.o {
					t.Fatalf("the outcome was changed: %+v", got)
				}
			}
		})
	}
}

func model(o gateway.Outcome) gateway.Outcome { o.Scope = gateway.ScopeModel; return o }

func TestConnectionsOfOneCredentialAreOneRefusedKey(t *testing.T) {
	p := at("a.example")
	all := []*gateway.Connection{conn(p, "a", "A"), conn(p, "b", "A"), conn(p, "c", "A"), conn(p, "d", "D")}
	r := open(all...)
	for i, c := range all[:3] {
		if r.Observe(gateway.Candidate{Connection: c}, refused, t0.Add(time.Duration(i)*time.Second)).Endpoint {
			t.Fatal("a revoked credential was taken for an endpoint fault")
		}
	}
}

// When all keys of a provider are really revoked, the benefit of the doubt ends.
func TestRefusalsThatLastCountAgain(t *testing.T) {
	all := pool(at("a.example"), 3)
	r := open(all...)
	flagged, last := 0, true
	for i := range 300 {
		now := t0.Add(time.Duration(i) * time.Second)
		last = r.Observe(gateway.Candidate{Connection: all[i%3]}, refused, now).Endpoint
		if last {
			flagged++
		}
	}
	if last || flagged < 100 || flagged > 125 {
		t.Fatalf("flagged %d times, at last %v; want about two minutes", flagged, last)
	}
	r.Alive(gateway.Candidate{Connection: all[0]}, t0.Add(301*time.Second))
	for i := range 3 {
		last = r.Observe(gateway.Candidate{Connection: all[i]}, refused, t0.Add(400*time.Second)).Endpoint
	}
	if !last {
		t.Fatal("after a success it is a new fault")
	}
}

func TestOwnNetwork(t *testing.T) {
	local := &gateway.Provider{ID: "ollama", BaseURL: "http://127.0.0.1:11434/v1"}
	behind := func(c *gateway.Connection, proxy string) *gateway.Connection { c.Proxy = proxy; return c }
	live := []*gateway.Connection{
		0: conn(at("a.example"), "a", "A"), 1: conn(at("b.example"), "b", "B"), 2: conn(at("A.example."), "a2", "A2"),
		3: conn(local, "l", "L"), 4: behind(conn(at("c.example"), "c", "C"), "http://proxy:3128"),
		5: behind(conn(at("d.example"), "d", "D"), "http://proxy:3128"),
	}
	for _, tc := range []struct {
		name  string
		live  []*gateway.Connection
		steps []step // endpoint = turned into a local error
	}{
		{"two hosts", live, []step{{0, 0, noRoute, false}, {1, 1, noName, true}, {2, 0, noRoute, true}}},
		{"connect timeouts too", live, []step{{0, 0, slowSyn, false}, {1, 1, slowSyn, true}}},
		{"one host", live, []step{{0, 0, noRoute, false}, {1, 2, noRoute, false}, {2, 0, noRoute, false}}},
		{"one host configured", live[:1], []step{{0, 0, noRoute, false}, {1, 1, noRoute, false}}},
		{"too far apart", live, []step{{0, 0, noRoute, false}, {5.5, 1, noRoute, false}}},
		{"just within", live, []step{{0, 0, noRoute, false}, {5, 1, noRoute, true}}},
		{"a success meanwhile", live, []step{{0, 0, noRoute, false}, {0.5, 1, success, false}, {1, 1, noRoute, false}}},
		{"an error answer meanwhile", live, []step{{0, 0, noRoute, false}, {0.5, 1, broken, false}, {1, 1, noRoute, false}}},
		{"a success, then two again", live, []step{{0, 0, noRoute, false}, {1, 1, noRoute, true}, {2, 0, success, false}, {3, 1, noRoute, false}, {4, 0, noRoute, true}}},
		{"after the connect", live, []step{{0, 0, late, false}, {1, 1, late, false}, {2, 0, reset, false}, {3, 1, reset, false}}},
		{"this machine is no network", live, []step{{0, 3, noRoute, false}, {1, 0, noRoute, false}, {1.5, 3, success, false}, {2, 1, noRoute, true}}},
		{"one proxy is one host", live, []step{{0, 4, noRoute, false}, {1, 5, noRoute, false}, {2, 0, noRoute, true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := open(tc.live...)
			for _, s := range tc.steps {
				now := t0.Add(time.Duration(s.second * float64(time.Second)))
				got := r.Observe(gateway.Candidate{Connection: live[s.conn]}, s.o, now)
				if own := got.Kind == gateway.LocalError; own != s.endpoint {
					t.Fatalf("second %v: local %v, want %v", s.second, own, s.endpoint)
				}
				if s.endpoint && (got.Reason != gateway.OwnNetwork || got.Failed() || !r.OwnNetworkDown(now)) {
					t.Fatalf("second %v: %+v, down %v", s.second, got, r.OwnNetworkDown(now))
				}
			}
		})
	}
}

func TestOwnNetworkComesBackByItself(t *testing.T) {
	a, b := conn(at("a.example"), "a", "A"), conn(at("b.example"), "b", "B")
	r := open(a, b)
	r.Observe(gateway.Candidate{Connection: a}, noRoute, t0)
	r.Observe(gateway.Candidate{Connection: b}, noRoute, t0)
	if !r.OwnNetworkDown(t0.Add(5*time.Second)) || r.OwnNetworkDown(t0.Add(5*time.Second+1)) {
		t.Fatal("it is down for as long as the window, and no longer")
	}
	r.Alive(gateway.Candidate{Connection: a}, t0.Add(time.Second))
	if r.OwnNetworkDown(t0.Add(time.Second)) {
		t.Fatal("first content proves the network")
	}
}

func TestRetainForgetsProviders(t *testing.T) {
	a, b := pool(at("a.example"), 3), pool(at("b.example"), 3)
	r := open(append(a, b...)...)
	r.Observe(gateway.Candidate{Connection: a[0]}, broken, t0)
	r.Observe(gateway.Candidate{Connection: a[1]}, broken, t0)
	r.Retain(b)
	r.Retain(append(a, b...))
	if r.Observe(gateway.Candidate{Connection: a[2]}, broken, t0).Endpoint {
		t.Fatal("a provider that was removed was remembered")
	}
}

// Only what the rules name is ever changed, and what is kept stays bounded.
func TestPropertyOnlyFailuresChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := append(pool(at("a.example"), 40), pool(at("b.example"), 100)...)
		r := open(all...)
		now := t0
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(rt, "pause")))
			o := gateway.Outcome{
				Kind:      gateway.Kind(rapid.IntRange(0, int(gateway.NumKinds)-1).Draw(rt, "kind")),
				Scope:     gateway.Scope(rapid.IntRange(0, int(gateway.ScopeProvider)).Draw(rt, "scope")),
				Reason:    rapid.SampledFrom([]gateway.Reason{gateway.ConnectFailed, gateway.DNSFailed, gateway.UpstreamStatus}).Draw(rt, "reason"),
				BelowHTTP: rapid.Bool().Draw(rt, "below"),
			}
			got := r.Observe(gateway.Candidate{Connection: rapid.SampledFrom(all).Draw(rt, "conn")}, o, now)
			switch {
			case got == o:
			case got.Endpoint && (o.Kind == gateway.ServiceError || o.Kind == gateway.Timeout || o.Kind == gateway.AuthError):
			case got.Kind == gateway.LocalError && got.Reason == gateway.OwnNetwork && o.BelowHTTP && o.Reason != gateway.UpstreamStatus:
			default:
				rt.Fatalf("%+v became %+v", o, got)
			}
		}
		for _, e := range r.providers {
			if len(e.failures) > maxFailures {
				rt.Fatalf("%d failures are kept", len(e.failures))
			}
		}
	})
}

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	err := Config{}.Validate()
	for _, field := range []string{"endpoint_window:", "endpoint_keys:", "network_window:", "network_hosts:"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+field) {
			t.Errorf("no complaint about %s in %v", field, err)
		}
	}
}

func BenchmarkObserveSuccess(b *testing.B) {
	all := pool(at("a.example"), 10)
	r := open(all...)
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(gateway.Candidate{Connection: all[0]}, success, t0)
	}
}
