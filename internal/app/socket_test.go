package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/store"
)

// Faults below HTTP need real sockets: they run in real time, with short limits.

// socketGateway starts a lab with real listeners and a gateway in front of it; the first source is the primary.
func socketGateway(t *testing.T, sources ...lab.SourceConfig) (string, *App, *lab.Server) {
	t.Helper()
	server, err := lab.NewServer(lab.Config{Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	var p, c, targets bytes.Buffer
	for _, s := range sources {
		fmt.Fprintf(&p, "  %s: {protocols: [openai], base_url: '%s/v1', class: apikey}\n", s.Name, server.URL(s.Name))
		fmt.Fprintf(&c, "  - {id: %s, provider: %s, key: key-%s}\n", s.Name, s.Name, s.Name)
		fmt.Fprintf(&targets, "%s/m, ", s.Name)
	}
	yaml := fmt.Sprintf("listen: 127.0.0.1:0\nproviders:\n%sconnections:\n%scombos:\n  - {name: smart, strategy: priority, targets: [%s]}\ntimeouts: {connect: 400ms}\nlimits: {attempts: 3}\n",
		&p, &c, &targets)
	a, err := Open(t.Context(), Options{Store: store.Memory(), Source: config.Source{Bytes: []byte(yaml), Path: "test.yaml",
		Env: func(string) (string, bool) { return "", false }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := a.InFlight() + a.Buffered(); n != 0 {
			t.Errorf("%d requests or bytes are left", n)
		}
		if err := a.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return "http://" + a.Addr().String(), a, server
}

func TestFaultsBelowHTTP(t *testing.T) {
	good := lab.SourceConfig{Name: "good", Latency: scenario.Between(time.Millisecond, time.Millisecond)}
	for _, c := range []struct {
		name   string
		source lab.SourceConfig
		alone  int
		reason gateway.Reason
	}{
		{"refused", lab.SourceConfig{Faults: []lab.Fault{{Kind: fault.Refused}}}, 502, gateway.ConnectFailed},
		{"certificate that nobody knows", lab.SourceConfig{TLS: true}, 502, gateway.TLSFailed},
		{"slow TLS", lab.SourceConfig{TLS: true, Faults: []lab.Fault{{Kind: fault.SlowTLS, Delay: 20 * time.Second}}}, 502, gateway.TLSFailed},
		{"unknown host", lab.SourceConfig{Faults: []lab.Fault{{Kind: fault.DNSFailure}}}, 502, gateway.DNSFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // they wait for real clocks
			if c.reason == gateway.DNSFailed {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if _, err := net.DefaultResolver.LookupHost(ctx, "bad.lab.invalid"); ctx.Err() != nil {
					c.reason, c.alone = gateway.ConnectTimeout, 504 // no resolver answers here: then it is the clock
				} else if err == nil {
					t.Fatal("the resolver knows a name that cannot exist")
				}
			}
			c.source.Name = "bad"
			url, a, _ := socketGateway(t, c.source, good)
			ask := client.New(nil)
			defer ask.Close()
			r := ask.Call(t.Context(), client.Request{URL: url, Protocol: gateway.OpenAI, Model: "smart", Stream: true, Prompt: "why is the sky blue"})
			if why := wrong(r, "", 60); why != "" {
				t.Errorf("with a fallback: %s", why)
			}
			r = ask.Call(t.Context(), client.Request{URL: url, Protocol: gateway.OpenAI, Model: "bad/m", Prompt: "why is the sky blue"})
			if r.End != client.Failed || r.Status != c.alone {
				t.Errorf("alone: %s", describe(r))
			}
			list, _, err := a.ledger.Recent(t.Context(), store.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range list {
				if got := j.Attempts[0].Reason; got != c.reason {
					t.Errorf("the attempt ended by %s, want %s: %q", got, c.reason, j.Attempts[0].Message)
				}
			}
		})
	}
}

// A source that takes one connection at a time and closes the others is a source with resets: clients get answers.
func TestConnectionLimit(t *testing.T) {
	good := lab.SourceConfig{Name: "good"}
	url, _, _ := socketGateway(t, lab.SourceConfig{Name: "bad", Latency: scenario.Between(50*time.Millisecond, 50*time.Millisecond),
		Faults: []lab.Fault{{Kind: fault.ConnectionLimit, Tokens: 1}}}, good)
	ask := client.New(nil)
	defer ask.Close()
	results := make(chan client.Result)
	for range 20 {
		go func() {
			results <- ask.Call(t.Context(), client.Request{URL: url, Protocol: gateway.OpenAI, Model: "smart", Stream: true, Prompt: "why is the sky blue"})
		}()
	}
	for range 20 {
		if why := wrong(<-results, "", 60); why != "" {
			t.Error(why)
		}
	}
}
