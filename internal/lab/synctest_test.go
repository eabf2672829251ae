package lab

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// pipes is a network of net.Pipe connections, for a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c, s := net.Pipe()
	select {
	case p.conns <- s:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs f with a client of a source that is served over pipes in virtual time.
func bubble(t *testing.T, cfg SourceConfig, f func(t *testing.T, ask func(client.Request) client.Result, src *Source)) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Name = "s"
		src := NewSource(cfg)
		net := newPipes()
		srv := &http.Server{Handler: src, ErrorLog: quiet}
		var wg sync.WaitGroup
		wg.Go(func() { srv.Serve(net) })
		c := client.New(&http.Transport{DialContext: net.dial})
		f(t, func(q client.Request) client.Result {
			q.URL, q.Model, q.Prompt = "http://s", "m", prompt
			return c.Call(t.Context(), q)
		}, src)
		c.Close()
		srv.Close()
		net.Close()
		wg.Wait()
	})
}

func TestFaultsInVirtualTime(t *testing.T) {
	for name, c := range map[string]struct {
		f    fault.Fault
		want client.End
		took time.Duration
	}{
		"silence ends with the client":   {fault.Fault{Kind: fault.Silence}, client.Hung, 3 * time.Minute},
		"silence of two minutes":         {fault.Fault{Kind: fault.Silence, Delay: 2 * time.Minute}, client.Broken, 2 * time.Minute},
		"stall of 45 s":                  {fault.Fault{Kind: fault.Stall, Tokens: 40, Delay: 45 * time.Second}, client.Broken, 45 * time.Second},
		"first token after 20 s":         {fault.Fault{Kind: fault.SlowFirstToken}, client.Complete, 20 * time.Second},
		"a token per second from the 50": {fault.Fault{Kind: fault.Trickle, Tokens: 50}, client.Complete, 10 * time.Second},
		"heartbeats for a minute":        {fault.Fault{Kind: fault.Heartbeats, Delay: time.Minute}, client.Broken, time.Minute},
		"open for 15 s after the end":    {fault.Fault{Kind: fault.NoDone, Delay: 15 * time.Second}, client.Complete, 15 * time.Second},
		"reset before headers":           {fault.Fault{Kind: fault.ResetBeforeHeaders}, client.Broken, 0},
		"reset mid-stream":               {fault.Fault{Kind: fault.ResetMidStream, Tokens: 3}, client.Broken, 0},
		"cut":                            {fault.Fault{Kind: fault.Cut, Tokens: 3}, client.Broken, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, SourceConfig{Faults: []fault.Fault{c.f}}, func(t *testing.T, ask func(client.Request) client.Result, src *Source) {
				res := ask(client.Request{Stream: true})
				if res.End != c.want || res.EndedAfter != c.took {
					t.Errorf("%s after %s, want %s after %s (%s)", res.End, res.EndedAfter, c.want, c.took, res.Note)
				}
				synctest.Wait()
				if n := src.InFlight(); n != 0 {
					t.Errorf("%d requests still run", n)
				}
			})
		})
	}
}

func TestWindowsInVirtualTime(t *testing.T) {
	cfg := SourceConfig{Faults: []fault.Fault{
		{Kind: fault.Flap, After: 10 * time.Second, For: 5 * time.Second, Every: 20 * time.Second},
		{Kind: fault.Quota, After: 55 * time.Second, For: 25 * time.Second},
	}}
	bubble(t, cfg, func(t *testing.T, ask func(client.Request) client.Result, src *Source) {
		src.Reset(time.Now())
		want := map[int]int{0: 200, 5: 200, 10: 503, 14: 503, 15: 200, 29: 200, 30: 503, 35: 200, 50: 503, 60: 429, 79: 429, 80: 200}
		for second := range 81 {
			if status, ok := want[second]; ok {
				res := ask(client.Request{Protocol: gateway.Anthropic})
				if res.Status != status {
					t.Errorf("second %d: status %d, want %d", second, res.Status, status)
				}
				if second == 60 && res.Header.Get("Retry-After") != "20" {
					t.Errorf("the quota's end is not told: %q", res.Header.Get("Retry-After"))
				}
			}
			time.Sleep(time.Second)
		}
	})
}

func TestPaceInVirtualTime(t *testing.T) {
	cfg := SourceConfig{Latency: scenario.Between(time.Second, time.Second), Interval: scenario.Between(100*ms, 100*ms)}
	bubble(t, cfg, func(t *testing.T, ask func(client.Request) client.Result, _ *Source) {
		for _, stream := range []bool{true, false} {
			res := ask(client.Request{Stream: stream})
			if res.End != client.Complete || res.EndedAfter != time.Second+59*100*ms {
				t.Errorf("stream=%v: %s after %s", stream, res.End, res.EndedAfter)
			}
			if stream && res.FirstAfter != time.Second {
				t.Errorf("first content after %s", res.FirstAfter)
			}
		}
	})
}

func TestSharedBucketInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fault.NewBucket(fault.BucketConfig{RPM: 60, Burst: 2})
		one, two := NewSource(SourceConfig{Name: "one"}, b), NewSource(SourceConfig{Name: "two"}, b)
		ask := func(s *Source) client.Result {
			return client.New(handler{s}).Call(t.Context(), client.Request{URL: "http://lab", Model: "m", Prompt: prompt})
		}
		for i, want := range []int{200, 200, 429, 429} {
			if res := ask([]*Source{one, two}[i%2]); res.Status != want {
				t.Errorf("request %d: status %d, want %d", i, res.Status, want)
			}
		}
		time.Sleep(time.Second)
		if ask(two).Status != 200 || ask(one).Status != 429 {
			t.Error("one token per second for both together")
		}
	})
}
